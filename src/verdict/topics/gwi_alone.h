/* Reports streams with work that nothing has waited for, in a run that was ended from outside or is still running. */
#ifndef GWI_VERDICT_ALONE_H
#define GWI_VERDICT_ALONE_H

#include "gwi_cause.h"

/* True if streams with such work may explain the end of the run: it was ended from outside, and no driver call failed.
 * Also true while the run has not ended. False if it ended well or printed why it failed. */
bool gwi_alone_matters(const gwi_case *c);
/* Return the stream number `index`, from 0, of the judged process that nothing has waited for during a long time.
 * Certain cases come first. Returns NULL if there are no more. */
const gw_alone *gwi_alone(const gwi_case *c, size_t index);
/* True if it is certain that nothing has waited for at least one of the streams. */
bool gwi_is_any_alone(const gwi_case *c);
/* Report the streams as evidence, if gwi_alone_matters(). */
void gwi_say_alone(const gwi_case *c, gwi_finding *finding);
/* Report that a thread waits for work whose launch is no longer in the rings. */
void gwi_say_off_record(const gwi_case *c, gwi_finding *finding);
/* Fill the verdict's list `left_alone`, one sentence per stream. False: no memory. */
bool gwi_fill_alone(const gwi_case *c, gw_verdict *verdict);

#endif
