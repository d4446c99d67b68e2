/* Combines the verdicts on several recordings of one job: those of several machines, or of several ranks with a
 * supervisor each.
 *
 * A job may have ten thousand recordings. So each is judged alone, one after the other, and only a brief of its verdict
 * is kept. The run whose trouble began first is the root. The faults of the others are its consequences. Only the
 * root's verdict is needed in full.
 *
 * Ranks that wait for each other in NCCL are compared by the numbers of their calls, which needs no clock: if they show
 * the rank at fault, its recording is the root, unless another rank failed by itself.
 *
 * The clocks of two machines may differ. The verdict claims an order only if the troubles are further apart than the
 * clocks' possible error. Within one boot there is no such error. */
#ifndef GW_TOGETHER_H
#define GW_TOGETHER_H

#include "gw_verdict.h"

/* What is kept of the verdict on one recording. */
typedef struct gw_brief {
    gw_verdict_run run; /* owned texts */
    gw_verdict_status status;
    const char *cause; /* static id; NULL: none */
    double seconds;
    bool is_unseen;             /* part of the run was not observed */
    char *headline, *recording; /* owned; `recording` may be NULL */
    gw_ranks ranks;             /* owned; what its ranks did last with NCCL */
} gw_brief;

/* Make a brief of a verdict. Free it with gw_brief_free(), also after a failure. Errors: GW_NOMEM. */
GW_MUST_CHECK gw_status gw_brief_of(const gw_verdict *verdict, gw_brief *ret_brief, gw_error *err);
void gw_brief_free(gw_brief *brief); /* resets it to {0} */

/* The recordings of a job. */
typedef struct gw_job {
    const gw_brief *brief;        /* borrowed */
    size_t count;                 /* at least 1 */
    const gw_string_list *unread; /* recordings that could not be read, "path: reason"; NULL: none */
} gw_job;

/* Check that the recordings can belong to one job. Errors: GW_UNSUPPORTED if two of them, which `err` names, did not
 * overlap in time, or belong to different jobs of a scheduler; GW_NOMEM. */
GW_MUST_CHECK gw_status gw_job_check(const gw_job *job, gw_error *err);

/* Find the recording whose verdict gw_judge_together() needs in full. Errors: GW_NOMEM. */
GW_MUST_CHECK gw_status gw_job_first(const gw_job *job, size_t *ret_index, gw_error *err);

/* Combine the verdicts. `first` is the verdict on the recording that gw_job_first() found. The caller still owns all
 * arguments. Errors: GW_NOMEM. */
GW_MUST_CHECK gw_status gw_judge_together(const gw_job *job, const gw_verdict *first, gw_verdict **ret_verdict,
                                          gw_error *err);

#endif
