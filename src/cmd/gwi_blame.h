/* The second run of `gpuwhy run --blame`, and what its result says about the first run's fault. */
#ifndef GWI_BLAME_H
#define GWI_BLAME_H

#include "gw_supervisor.h"
#include "gw_verdict.h"

typedef struct gwi_blame {
    const char *not_run;   /* why there was no second run; NULL if there was one */
    const char *recording; /* recording of the second run */
    bool is_kept;          /* the recording is kept after the run */
    int status;            /* a status of waitpid() */
} gwi_blame;

/* True if a second run can help: the run ended with a fault that only a later call or a core dump reported. */
bool gwi_blame_wanted(const gw_verdict *verdict);
/* Write the fact "blame" into the first run's recording. */
void gwi_blame_record(gw_supervisor *run, const gwi_blame *second);

#endif
