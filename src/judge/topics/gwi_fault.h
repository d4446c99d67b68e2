/* Reports a kernel's fault: the call that returned the error, GPU core dumps, a second run with blocking launches, and
 * the driver's log. */
#ifndef GWI_FAULT_H
#define GWI_FAULT_H

#include "gwi_culprit.h"

/* Format "kernel scribble", or "a kernel" if the kernel is not known. */
enum { GWI_CULPRIT_MAX = GWI_KERNEL_TEXT_MAX + 16 };
char *gwi_culprit_text(char out[GWI_CULPRIT_MAX], const gwi_case *c, const gw_failure *sticky);
/* Format the end of a headline: when and by which call the fault was reported. Example: "; the error surfaced at 1.20 s
 * in a later call that is not at fault". */
enum { GWI_SURFACED_MAX = 320 };
char *gwi_surfaced_text(char out[GWI_SURFACED_MAX], const gwi_case *c, const gw_failure *sticky);

/* Report the call that returned the error as evidence. If the driver ended the process before any call could return it,
 * report that instead. `what` is the meaning of the error code. */
void gwi_say_report(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky, const char *what);
/* Report details of the fault from dumps, the second run (--blame) and the driver's log as evidence, and add the next
 * steps. */
void gwi_say_fault_details(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky);

#endif
