/* The fault of host code that ended the judged process: where in memory it was. */
#ifndef GWI_VERDICT_CRASH_H
#define GWI_VERDICT_CRASH_H

#include "cause.h"

/* NULL: the process did not end with a fault, or nobody told where. A handler of the program's may have ended it; then
 * no driver call came after the fault. */
const gw_crash *gwi_crash_of(const gwi_case *c);
bool gwi_died_of(const gwi_case *c, const gw_crash *crash); /* by the signal itself */
/* The root is a refused allocation, and the address is what using its NULL gives. */
bool gwi_is_null_of_root(const gwi_case *c, const gw_crash *crash);
/* A handler, a core dump or the kernel's log as a source of evidence. */
const char *gwi_crash_source(const gw_crash *crash);
/* That crash as a consequence of the root, where it is one. */
void gwi_say_null_used(const gwi_case *c, gwi_finding *finding);

#endif
