/* Makes the second run of `gpuwhy run --blame`, and records its evidence about the first run's fault. */
#ifndef GWI_BLAME_H
#define GWI_BLAME_H

#include "gw_supervisor.h"
#include "gw_text.h"
#include "gw_verdict.h"
#include "gwi_output.h"

#include <stdint.h>

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

/* Names the lines of a running program whose memory grows (`gpuwhy run --alarm-at`). */

/* A gw_run_lines: see gw_run_options.h. */
void gwi_growing_lines(const char *folder, uint64_t since_ns, gw_text *text);

/* --message FILE: writes the verdict on a failed run as a short text, for Kubernetes' /dev/termination-log (message.c).
 */

/* Write the verdict to the output if the run failed: `verdict` is a fault, or the status of the program (as from
 * waitpid()) is not 0. The file then has at most 4096 bytes. If the program itself has written to the file during the
 * run, its text stays, and the verdict follows it. On an error, print one sentence to stderr. */
void gwi_message_write(const gwi_output *output, const gw_verdict *verdict, int status);

#endif
