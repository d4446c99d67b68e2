/* The second run of `--blame`, and what it says of the first one's fault. */
#ifndef GWI_BLAME_H
#define GWI_BLAME_H

#include "gw_supervisor.h"
#include "gw_verdict.h"

typedef struct gwi_blame {
    const char *not_run;   /* why there was none; NULL: there was */
    const char *recording; /* its recording */
    bool is_kept;          /* which stays */
    int status;            /* as waitpid() gives it */
} gwi_blame;

/* Did the run end with a fault that a call reported later, or a dump? */
bool gwi_blame_wanted(const gw_verdict *verdict);
/* The fact "blame", into the first run's recording. */
void gwi_blame_record(gw_supervisor *run, const gwi_blame *second);

#endif
