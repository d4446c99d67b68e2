/* Reads the recordings of a job one by one, and judges them together (job.c).
 *
 * A job may have ten thousand recordings. Many of them are judged by worker processes, one for each processor. Of each
 * recording only a brief is kept, so the memory depends little on their number and not on their size. A recording that
 * cannot be read, or at which a worker dies, is counted and named; the others are judged. */
#ifndef GWI_JOB_H
#define GWI_JOB_H

#include "gw_place.h"
#include "gwi_judge.h"

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

/* Finds the recordings of a job of Slurm (job.c). */

#define GWI_SLURM_PREFIX "slurm:"

/* Make the folder of "slurm:JOBID" or "slurm:JOBID.STEP" the working folder, and store its path in `out`. Without a
 * step, it is the last one that has recordings; if there are several, a line on stderr says which. The link <state
 * folder>/slurm/JOBID.STEP leads to the folder; the first task of the step wrote it (src/apps/slurm_plugin/task.c).
 *
 * GW_USAGE: the word is wrong. GW_MISSING: there is no link. GW_IO: it leads to no folder. GW_UNSUPPORTED: another user
 * owns the folder by now, or may write to it. The working folder may change on failure, too. */
GW_MUST_CHECK gw_status gwi_slurm_enter(const char *word, gw_path out, gw_error *err);

#endif
