/* Finds the kernel that is proved to be at fault, and the proof: a GPU core dump, a second run, or the launch
 * itself. */
#ifndef GWI_CULPRIT_H
#define GWI_CULPRIT_H

#include "gwi_cause.h"

static inline bool gwi_is_launch_failure(const gw_failure *failure)
{
    return failure->kind == GW_EV_LAUNCH || failure->kind == GW_EV_GRAPH_LAUNCH;
}
/* Return the fault of the judged process from a GPU core dump. Returns NULL if there is none. */
const gw_gpu_fault *gwi_gpu_fault(const gwi_case *c);
/* Return the mangled name of the kernel at fault, or NULL without proof. These are proofs:
 * - the dump
 * - the second run (--blame)
 * - a launch that returned the fault itself, while the driver waited for each launch */
const char *gwi_kernel_at_fault(const gwi_case *c, const gw_failure *sticky);
/* True if CUDA_LAUNCH_BLOCKING is set, so that the driver waits for each launch. */
bool gwi_launches_block(const gwi_case *c);
/* True if the driver waited for every launch, and a launch returned this failure. Then the kernel of this launch is at
 * fault. */
bool gwi_is_own_report(const gwi_case *c, const gw_failure *sticky);
/* Return the launch of the second run (--blame) that itself returned the error of `sticky`. Returns NULL if no launch
 * returned this error. */
const gw_blame *gwi_blamed_launch(const gwi_case *c, const gw_failure *sticky);
/* True if the driver ended the process with SIGABRT after it had written a GPU core dump. Then the SIGABRT is not a
 * crash of host code. */
bool gwi_ended_by_dump(const gwi_case *c);

#endif
