/* Evidence about a kernel's fault from more than the call that reported it: GPU core dumps, a second run with blocking
 * launches, and the driver's log. */
#ifndef GWI_FAULT_H
#define GWI_FAULT_H

#include "gwi_cause.h"

/* Return the fault of the judged process from a GPU core dump. Returns NULL if there is none. */
const gw_gpu_fault *gwi_gpu_fault(const gwi_case *c);
/* Return the mangled name of the kernel at fault, if it is proved by the dump, by the second run, or by a launch that
 * reported the fault while the driver waited for each launch. Returns NULL if it is not proved. */
const char *gwi_kernel_at_fault(const gwi_case *c, const gw_failure *sticky);
/* True if CUDA_LAUNCH_BLOCKING is set, so that the driver waits for each launch. */
bool gwi_launches_block(const gwi_case *c);
/* True if the driver waited for every launch and this failure is a launch. Then the launch reports its own fault. */
bool gwi_is_own_report(const gwi_case *c, const gw_failure *sticky);

/* Format "kernel scribble", or "a kernel" if the kernel is not known. */
enum { GWI_CULPRIT_MAX = GWI_KERNEL_TEXT_MAX + 16 };
char *gwi_culprit_text(char out[GWI_CULPRIT_MAX], const gwi_case *c, const gw_failure *sticky);
/* Format the end of a headline, which states how the fault was reported: "; the error surfaced at 1.20 s in a later
 * call that is not at fault". */
enum { GWI_SURFACED_MAX = 320 };
char *gwi_surfaced_text(char out[GWI_SURFACED_MAX], const gwi_case *c, const gw_failure *sticky);

/* Report the call that returned the error as evidence, or report that no call could return it. `what` is the meaning of
 * the result. */
void gwi_say_report(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky, const char *what);
/* Report details from dumps, the second run and the driver's log as evidence. */
void gwi_say_fault_details(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky);
/* True if the driver itself ended the process after it wrote a dump. Then the SIGABRT is not a crash of host code. */
bool gwi_ended_by_dump(const gwi_case *c);

#endif
