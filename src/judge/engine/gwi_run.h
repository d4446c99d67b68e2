/* Sets the verdict's gw_verdict_run: where and when the run took place, and which ranks of which job it has. */
#ifndef GWI_VERDICT_RUN_H
#define GWI_VERDICT_RUN_H

#include "gwi_cause.h"

/* Set verdict->run. The verdict's status and cause must be set before. Returns false if there is no memory. */
bool gwi_fill_run(const gwi_case *c, gw_verdict *verdict);

#endif
