/* Memory held at the failure, by phase: docs/json-schema.md, `kept` and `failure`. Reports nothing for programs that
 * name no phases. */
#ifndef GWI_KEPT_H
#define GWI_KEPT_H

#include "gwi_cause.h"

/* Report one line per phase, for the four largest. */
void gwi_say_kept(const gwi_case *c, gwi_finding *finding);

/* Fill the verdict's `kept` and `failure`; false: no memory. */
bool gwi_fill_kept(const gwi_case *c, gw_verdict *verdict);
bool gwi_fill_failure(const gwi_case *c, gw_verdict *verdict);
void gwi_kept_free(gw_verdict *verdict);

#endif
