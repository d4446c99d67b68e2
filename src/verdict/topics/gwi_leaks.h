/* Finds memory and objects that a successful run should have freed but never did: see `leaks` in docs/json-schema.md.
 * Objects that a program creates once, or keeps until it exits, are not leaks. */
#ifndef GWI_LEAKS_H
#define GWI_LEAKS_H

#include "gwi_cause.h"

/* Fill in the verdict's `leaks`. Add advice about the largest leaks, and about other memory that was never freed.
 * False: no memory. */
bool gwi_fill_leaks(const gwi_case *c, gw_verdict *verdict);

#endif
