/* Work on streams that nothing has waited for, in a run that was ended from outside or is still running. */
#ifndef GWI_VERDICT_ALONE_H
#define GWI_VERDICT_ALONE_H

#include "gwi_cause.h"

/* True if such work may be the reason for the end of the run, or if the run has not ended: it was ended from outside,
 * and no driver call failed. False for a run that ended well or printed why it failed. */
bool gwi_alone_matters(const gwi_case *c);
/* The stream number `index`, from 0, of the judged process that nothing waited for during a long time. The certain ones
 * come first. NULL: no more. */
const gw_alone *gwi_alone(const gwi_case *c, size_t index);
/* True if this is certain for at least one stream. */
bool gwi_is_any_alone(const gwi_case *c);
/* Report these streams as evidence if they matter. */
void gwi_say_alone(const gwi_case *c, gwi_finding *finding);
/* Report that a thread waits for work whose launch the rings no longer contain. */
void gwi_say_off_record(const gwi_case *c, gwi_finding *finding);
/* Fill the verdict's list `left_alone`, one sentence per stream. False: no memory. */
bool gwi_fill_alone(const gwi_case *c, gw_verdict *verdict);

#endif
