/* Known problems of the libraries that a program used (data/regressions.tsv). Only for use inside src/judge.
 *
 * A row whose conditions hold is a hypothesis. It is supported if a printed line or the name of a launched kernel also
 * shows that the program used what is broken. It is never established, and it never decides the cause. */
#ifndef GWI_KNOWN_H
#define GWI_KNOWN_H

#include "gw_regressions.h"
#include "gwi_cause.h"

/* Collect the versions that are known of the judged process, or those that a text log names. */
void gwi_software_of(const gwi_case *c, gw_software *ret_software);
/* Store in the verdict the known problems that fit its failure, add their cures to verdict->next, and remove the advice
 * that they contradict. Call it when all else is in the verdict. Returns false if there is no memory. */
GW_MUST_CHECK bool gwi_fill_known(const gwi_case *c, gw_verdict *verdict);

#endif
