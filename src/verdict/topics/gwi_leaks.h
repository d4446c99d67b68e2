/* What a run that ended well never gave back although it should have: docs/json-schema.md, `leaks`. What is made once,
 * or for as long as the program runs, is left to process exit and is no leak. */
#ifndef GWI_LEAKS_H
#define GWI_LEAKS_H

#include "gwi_cause.h"

/* Fill the verdict's `leaks`, and say the largest of them and what was left to process exit among its advice. False: no
 * memory. */
bool gwi_fill_leaks(const gwi_case *c, gw_verdict *verdict);
void gwi_leaks_free(gw_verdict *verdict);

#endif
