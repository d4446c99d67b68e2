/* Makes the second run of `gpuwhy run --blame`, and records its evidence about the first run's fault. */
#ifndef GWI_BLAME_H
#define GWI_BLAME_H

#include "gw_supervisor.h"
#include "gw_verdict.h"

typedef struct gwi_blame {
    const char *not_run;   /* static: why there was no second run; NULL if there was one */
    const char *recording; /* recording of the second run */
    bool is_kept;          /* the second run's recording is kept, like the first run's */
    int status;            /* status of the second run, as from waitpid() */
} gwi_blame;

/* True if the cause is a fault in a kernel, so that a second run may find the faulting launch. In the first run, often
 * only a later call reports such a fault. */
bool gwi_blame_wanted(const gw_verdict *verdict);
/* Write the fact "blame" into the first run's recording. */
void gwi_blame_record(gw_supervisor *run, const gwi_blame *second);

#endif
