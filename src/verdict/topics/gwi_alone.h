/* Work on streams that nothing has waited for, in a run that somebody ended or that goes on. */
#ifndef GWI_VERDICT_ALONE_H
#define GWI_VERDICT_ALONE_H

#include "gwi_cause.h"

/* Did the run end in a way that such work may be the reason of, or is it not over: somebody ended it, and no driver
 * call failed? A run that ended well, or said why it failed, is not asked. */
bool gwi_alone_matters(const gwi_case *c);
/* The streams of the judged process that were left alone for long, those first that surely nothing waited for; NULL:
 * there are no more. `index` counts from 0. */
const gw_alone *gwi_alone(const gwi_case *c, size_t index);
/* Is there one of which that is sure? */
bool gwi_is_any_alone(const gwi_case *c);
/* The same as evidence, where it matters. */
void gwi_say_alone(const gwi_case *c, gwi_finding *finding);
/* What was launched before the rings begin, for a wait of which they do not hold the launch. */
void gwi_say_off_record(const gwi_case *c, gwi_finding *finding);
/* The verdict's own list, one sentence each. False: no memory. */
bool gwi_fill_alone(const gwi_case *c, gw_verdict *verdict);

#endif
