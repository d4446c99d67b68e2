/* Reports streams whose work the program never waited for, in a run that was ended from outside or is still running. */
#ifndef GWI_VERDICT_ALONE_H
#define GWI_VERDICT_ALONE_H

#include "gwi_cause.h"

/* True if a signal that others send ended the program, or its exit status stands for one, or for timeout(1). */
bool gwi_was_ended_from_outside(const gwi_case *c);
/* True if a stream that the program never waited for may explain the end. The run has not ended, or it was ended
 * from outside without a failed driver call. */
bool gwi_alone_matters(const gwi_case *c);
/* Return stream number `index` (0-based) of those that apparently nothing waited for, or NULL if there are no more.
 * Certain cases come first. Each stream has work that was launched at least 5 s before the judged process ended, or
 * before now if it still runs. */
const gw_alone *gwi_alone(const gwi_case *c, size_t index);
/* True if gwi_alone_matters() is true, and at least one stream of gwi_alone() was certainly never waited for. */
bool gwi_is_any_alone(const gwi_case *c);
/* Report the first three streams of gwi_alone() as evidence, if gwi_alone_matters(). */
void gwi_say_alone(const gwi_case *c, gwi_finding *finding);
/* Report at most three streams that a hanging thread may be waiting for. Used if the rings no longer have the
 * launch of the awaited work. */
void gwi_say_off_record(const gwi_case *c, gwi_finding *finding);
/* Fill in the verdict's `left_alone`: one sentence for each stream that gwi_say_alone() reports. False: no memory. */
bool gwi_fill_alone(const gwi_case *c, gw_verdict *verdict);

#endif
