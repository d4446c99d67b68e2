/* Information about a kernel's fault beyond the call that reported it: GPU core dumps, a second run with blocking
 * launches, the driver's log. */
#ifndef GWI_FAULT_H
#define GWI_FAULT_H

#include "gwi_cause.h"

/* The fault of the judged process from a GPU core dump; NULL: there is none. */
const gw_gpu_fault *gwi_gpu_fault(const gwi_case *c);
/* The mangled name of the kernel at fault, if it is proved by the dump, by a launch that reported the fault while the
 * driver waited for each launch, or by the second run. NULL: not known. */
const char *gwi_kernel_at_fault(const gwi_case *c, const gw_failure *sticky);
/* True if CUDA_LAUNCH_BLOCKING is set, so that the driver waits for each launch. */
bool gwi_launches_block(const gwi_case *c);
/* True if the driver waited for every launch and this failure is a launch. It then reports its own fault. */
bool gwi_is_own_report(const gwi_case *c, const gw_failure *sticky);

/* "kernel scribble", or "a kernel" if it is not known. */
enum { GWI_CULPRIT_MAX = GWI_KERNEL_TEXT_MAX + 16 };
char *gwi_culprit_text(char out[GWI_CULPRIT_MAX], const gwi_case *c, const gw_failure *sticky);
/* The end of a headline, which tells how the fault surfaced: "; the error surfaced at 1.20 s in a later call that is
 * not at fault". */
enum { GWI_SURFACED_MAX = 320 };
char *gwi_surfaced_text(char out[GWI_SURFACED_MAX], const gwi_case *c, const gw_failure *sticky);

/* Add evidence: the call that reported the fault, or that no call could. `what`: the meaning of its result. */
void gwi_say_report(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky, const char *what);
/* Add evidence from dumps, the second run and the driver's log. */
void gwi_say_fault_details(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky);
/* True if the driver itself ended the process after writing a dump. Its SIGABRT is then not a crash of host code. */
bool gwi_ended_by_dump(const gwi_case *c);

#endif
