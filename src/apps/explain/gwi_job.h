/* Reads the recordings of a job one by one, and judges them together (job.c).
 *
 * A job may have ten thousand recordings. Many of them are judged by worker processes, one for each processor. Of each
 * recording only a brief is kept, so the memory depends little on their number and not on their size. A recording that
 * cannot be read, or at which a worker dies, is counted and named; the others are judged. */
#ifndef GWI_JOB_H
#define GWI_JOB_H

#include "gwi_judged.h"

#include "gw_together.h"

typedef struct gwi_job {
    gw_brief *brief; /* owned; one for each readable recording */
    int *file;       /* owned; the index of its file */
    size_t count;
    gw_string_list unread; /* owned; "path: reason" */
    bool running;          /* a program of the job is still running */
} gwi_job;

/* Up to this number of files are read without worker processes. */
enum { GWI_JOB_FEW = 8 };

/* Read `count` >= 1 files. Call gwi_job_free() after any result. Errors: GW_NOMEM, GW_IO; if no file could be read,
 * the error of the first one. */
GW_MUST_CHECK gw_status gwi_job_read(char *const *files, int count, gwi_job *ret_job, gw_error *err);
/* Judge the recordings together. Errors: GW_UNSUPPORTED if they are not of one job, GW_NOMEM; others if the recording
 * that failed first can no longer be read. */
GW_MUST_CHECK gw_status gwi_job_judge(const gwi_job *job, char *const *files, bool no_history, gw_verdict **ret_verdict,
                                      gw_error *err);
void gwi_job_free(gwi_job *job);

#endif
