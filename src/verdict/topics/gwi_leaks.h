/* Memory and objects that a successful run should have freed but never did: docs/json-schema.md, `leaks`. Objects that
 * are made once, or for the lifetime of the program, are left to process exit and are not leaks. */
#ifndef GWI_LEAKS_H
#define GWI_LEAKS_H

#include "gwi_cause.h"

/* Fill the verdict's `leaks`. Add the largest of them, and the memory left to process exit, to its advice. False: no
 * memory. */
bool gwi_fill_leaks(const gwi_case *c, gw_verdict *verdict);
void gwi_leaks_free(gw_verdict *verdict);

#endif
