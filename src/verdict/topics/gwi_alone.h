/* Reports streams whose work the program never waited for, in a run that was ended from outside or is still running. */
#ifndef GWI_VERDICT_ALONE_H
#define GWI_VERDICT_ALONE_H

#include "gwi_cause.h"

/* True if a stream whose work the program never waited for may explain the end of the run: the run was ended from
 * outside, and no driver call failed. Also true while the run has not ended. False if the program exited by itself. */
bool gwi_alone_matters(const gwi_case *c);
/* Return one of the streams of the judged process whose work nothing has waited for during at least 5 s, up to the end
 * of the process or up to now: the one with this index, from 0. Streams for which this is certain come first. Returns
 * NULL if there are no more. */
const gw_alone *gwi_alone(const gwi_case *c, size_t index);
/* True if gwi_alone_matters(), and it is certain that nothing has waited for at least one stream of gwi_alone(). */
bool gwi_is_any_alone(const gwi_case *c);
/* Report the first three streams of gwi_alone() as evidence, if gwi_alone_matters(). */
void gwi_say_alone(const gwi_case *c, gwi_finding *finding);
/* For a hang in which a thread waits for work whose launch is no longer in the rings: report at most three streams that
 * may have that work. */
void gwi_say_off_record(const gwi_case *c, gwi_finding *finding);
/* Fill in the verdict's `left_alone`: one sentence for each stream that gwi_say_alone() reports. False: no memory. */
bool gwi_fill_alone(const gwi_case *c, gw_verdict *verdict);

#endif
