/* The answer of a rehearsal (rehearsal.c). */
#ifndef GWI_REHEARSAL_H
#define GWI_REHEARSAL_H

#include "gwi_cause.h"

/* True if the run was a rehearsal that gpuwhy ended because it knew enough. Its end is then no failure. */
bool gwi_rehearsal_was_ended(const gw_model *model);
/* Set verdict->rehearsal if the run was a rehearsal. The verdict's status and cause must be final. False: no memory. */
bool gwi_fill_rehearsal(const gwi_case *c, gw_verdict *verdict);

#endif
