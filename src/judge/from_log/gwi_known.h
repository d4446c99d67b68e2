/* Known problems of the libraries that a program used (data/regressions.tsv). Only for use inside src/judge.
 *
 * A row whose conditions hold is a hypothesis. It is supported if a printed line or the name of a launched kernel also
 * shows that the program used what is broken. It is never established, and it never decides the cause. */
#ifndef GWI_KNOWN_H
#define GWI_KNOWN_H

#include "gw_regressions.h"
#include "gwi_cause.h"

/* Store in the verdict the known problems that fit its failure, add their cures to verdict->next, and remove the advice
 * that they contradict. Call it when all else is in the verdict. Returns false if there is no memory. */
GW_MUST_CHECK bool gwi_fill_known(const gwi_case *c, gw_verdict *verdict);
/* Add advice, for the cause with this id, about the first problem that makes the numbers of every program wrong that
 * uses the library on such a card. Nothing in a run shows such a problem, so only versions and cards decide. Returns
 * false if there is no memory. */
GW_MUST_CHECK bool gwi_advise_known(const gwi_case *c, const char *cause, gw_string_list *advice);

#endif
