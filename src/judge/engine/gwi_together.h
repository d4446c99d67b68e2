/* The parts of gw_judge_together(): which run of a job failed first (first.c), and the sentences about the others
 * (together_say.c). */
#ifndef GWI_TOGETHER_H
#define GWI_TOGETHER_H

#include "gw_together.h"
#include "gwi_cause.h"

/* ---- clocks ---- */

/* Return the possible error of the run's realtime clock, in ns. */
uint64_t gwi_clock_error_ns(const gw_verdict_run *run);
bool gwi_same_boot(const gw_verdict_run *a, const gw_verdict_run *b);
/* Return by how many seconds the clocks of two runs may differ. */
double gwi_uncertainty_s(const gw_verdict_run *a, const gw_verdict_run *b);
/* Return the seconds from the start of run `a` to the start of run `b`. */
double gwi_start_gap_s(const gw_verdict_run *a, const gw_verdict_run *b);
/* Return the seconds from the trouble of run `a` to that of run `b`. */
double gwi_trouble_gap_s(const gw_verdict_run *a, const gw_verdict_run *b);

/* ---- the first ---- */

/* How the runs of a job failed. */
typedef struct gwi_first {
    size_t index;        /* the run that failed first, or another one if none failed */
    bool is_lost;        /* it did not fail: its machine, or gpuwhy there, was lost */
    bool is_lost_unsure; /* by the clocks, the other runs may have been ended from outside before */
    size_t *rival;       /* owned; the first runs of other machines that may have failed before; not if is_lost */
    size_t rival_count;
    /* Runs whose recording stops without an end, and that may have been lost before the first failure. If is_lost, the
     * others on the lost machine. */
    size_t *lost; /* owned */
    size_t lost_count;
    /* Why the ranks wait for each other in NCCL. If its kind is not NONE, `index` has the rank at fault, and there are
     * neither rivals nor lost runs. `ranks` are those of all recordings: the array is owned, their parts are borrowed.
     */
    gwi_stall stall;
    gw_ranks ranks;
} gwi_first;

/* Returns false if there is no memory. Free the result in any case. */
bool gwi_first_find(const gw_job *job, gwi_first *ret_first);
void gwi_first_free(gwi_first *first);

/* ---- sentences ---- */

/* Write "host, rank 3 (pid 12)", as far as it is known. */
enum { GWI_RUN_TEXT_MAX = 96 };
const char *gwi_run_text(char out[GWI_RUN_TEXT_MAX], const gw_verdict_run *run);

/* Add what is known of the other runs to the finding. *ret_is_sure is false if another run may have failed first. */
void gwi_say_job(const gw_job *job, const gwi_first *first, const gw_verdict_job *about, gwi_finding *finding,
                 bool *ret_is_sure);

#endif
