/* Reports the memory that was live at the failure, grouped by phase (`kept` and `failure` in docs/json-schema.md).
 * Reports nothing if the program names no phases. */
#ifndef GWI_KEPT_H
#define GWI_KEPT_H

#include "gwi_cause.h"

/* Report the phases that allocated most of the live memory, at most four, one line each. */
void gwi_say_kept(const gwi_case *c, gwi_finding *finding);

/* Fill in the verdict's `kept`, and the fields about the failure. False: no memory. */
bool gwi_fill_kept(const gwi_case *c, gw_verdict *verdict);
bool gwi_fill_failure(const gwi_case *c, gw_verdict *verdict);

#endif
