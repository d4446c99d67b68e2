/* Finds what a successful run should have freed but never did (`leaks` in docs/json-schema.md). Objects that are
 * created once, or kept until the exit, are not leaks, unless the run had `--leaks strict`: then all device memory that
 * was not freed is a leak. */
#ifndef GWI_LEAKS_H
#define GWI_LEAKS_H

#include "gwi_cause.h"

/* Fill in the verdict's `leaks`. Add advice about the largest leaks, and about other memory that was never freed.
 * Returns false if memory runs out. */
bool gwi_fill_leaks(const gwi_case *c, gw_verdict *verdict);
/* Fill in the verdict's `unfreed`. `incomplete` and `rehearsal` must be final. With `--leaks strict`, add advice about
 * turns that kept memory. Returns false if memory runs out. */
bool gwi_fill_unfreed(const gwi_case *c, gw_verdict *verdict);

#endif
