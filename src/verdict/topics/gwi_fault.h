/* What is known of a kernel's fault besides the call that reported it: GPU core dumps, a second run with blocking
 * launches, the driver's log. */
#ifndef GWI_FAULT_H
#define GWI_FAULT_H

#include "gwi_cause.h"

/* The dump's word on the fault of the judged process; NULL: there is none. */
const gw_gpu_fault *gwi_gpu_fault(const gwi_case *c);
/* The kernel at fault, as far as it is proved: by the dump, by a launch that reported the fault while launches were
 * waited for, or by the second run. NULL: not known. Mangled. */
const char *gwi_kernel_at_fault(const gwi_case *c, const gw_failure *sticky);
/* CUDA_LAUNCH_BLOCKING: the driver waits for each launch. */
bool gwi_launches_block(const gwi_case *c);
/* Every launch was waited for, and this failure is a launch: it has committed the fault that it reports. */
bool gwi_is_own_report(const gwi_case *c, const gw_failure *sticky);

/* "kernel scribble", or "a kernel" where it is not known. */
enum { GWI_CULPRIT_MAX = GWI_KERNEL_TEXT_MAX + 16 };
char *gwi_culprit_text(char out[GWI_CULPRIT_MAX], const gwi_case *c, const gw_failure *sticky);
/* How the fault came to light, the end of a headline: "; the error surfaced at 1.20 s in an innocent call". */
enum { GWI_SURFACED_MAX = 320 };
char *gwi_surfaced_text(char out[GWI_SURFACED_MAX], const gwi_case *c, const gw_failure *sticky);

/* Evidence: the call that reported it, or that none could; `what`: what its result means. */
void gwi_say_report(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky, const char *what);
/* Evidence: what dumps, the second run and the driver's log add. */
void gwi_say_fault_details(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky);
/* The driver ended the process itself after it had written a dump: its SIGABRT is no crash of host code. */
bool gwi_ended_by_dump(const gwi_case *c);

#endif
