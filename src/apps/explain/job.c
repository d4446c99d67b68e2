/* Reads the recordings of a job, and judges them together. */
#include "gwi_job.h"
#include "gwi_workers.h"

#include "gw_array.h"

#include <stdlib.h>
#include <string.h>

/* While the files are read, the results are in the order of the files. */
typedef struct reading {
    gwi_worker_result *result; /* owned; one for each file */
} reading;

static gw_status keep(void *user, int index, gwi_worker_result *result, gw_error *err)
{
    (void)err;
    reading *all = user;
    all->result[index] = *result;
    return GW_OK;
}

static gw_status read_few(char *const *files, int count, reading *all, gw_error *err)
{
    const gwi_judge_how how = {.no_history = true};
    gw_status st = GW_OK;
    for (int i = 0; i < count && st == GW_OK; i++)
        st = gwi_worker_read(files[i], &how, &all->result[i], err);
    return st;
}

static gw_status read_many(char *const *files, int count, reading *all, gw_error *err)
{
    gwi_run_list runs;
    gw_status st = gwi_run_list_read(&runs, err);
    const gwi_judge_how how = {.no_history = true, .is_quick = true, .runs = &runs};
    if (st == GW_OK)
        st = gwi_workers_read(files, count, &how, keep, all, err);
    gwi_run_list_free(&runs);
    return st;
}

static bool add_unread(gw_string_list *list, char *text)
{
    if (!gw_array_more(&list->item, list->count, sizeof *list->item))
        return false;
    list->item[list->count++] = text;
    return true;
}

/* Move the results of the readable files to the job, and the reasons of the others to job->unread. */
static gw_status sort_out(reading *all, int count, gwi_job *job, gw_error *err)
{
    job->brief = calloc((size_t)count, sizeof *job->brief);
    job->file = calloc((size_t)count, sizeof *job->file);
    bool good = job->brief != NULL && job->file != NULL;
    for (int i = 0; i < count && good; i++) {
        gwi_worker_result *result = &all->result[i];
        if (result->unread != NULL) {
            good = add_unread(&job->unread, result->unread);
            if (good)
                result->unread = NULL;
            continue;
        }
        job->brief[job->count] = result->brief;
        job->file[job->count++] = i;
        job->running = job->running || result->running;
        result->brief = (gw_brief){0};
    }
    if (!good)
        return gw_fail(err, GW_NOMEM, "judge %d recordings", count);
    return job->count > 0 ? GW_OK : gw_fail(err, GW_MISSING, "%s", job->unread.item[0]);
}

gw_status gwi_job_read(char *const *files, int count, gwi_job *ret_job, gw_error *err)
{
    *ret_job = (gwi_job){0};
    reading all = {calloc((size_t)count, sizeof *all.result)};
    if (all.result == NULL)
        return gw_fail(err, GW_NOMEM, "judge %d recordings", count);
    gw_status st = count <= GWI_JOB_FEW ? read_few(files, count, &all, err) : read_many(files, count, &all, err);
    if (st == GW_OK)
        st = sort_out(&all, count, ret_job, err);
    for (int i = 0; i < count; i++) {
        free(all.result[i].unread);
        gw_brief_free(&all.result[i].brief);
    }
    free(all.result);
    return st;
}

gw_status gwi_job_judge(const gwi_job *job, char *const *files, bool no_history, gw_verdict **ret_verdict,
                        gw_error *err)
{
    const gw_job them = {.brief = job->brief, .count = job->count, .unread = &job->unread};
    gwi_judged first;
    size_t index = 0;
    gw_status st = gw_job_check(&them, err);
    if (st == GW_OK)
        st = gw_job_first(&them, &index, err);
    if (st == GW_OK)
        st = gwi_judge_file(files[job->file[index]], &(gwi_judge_how){.no_history = no_history}, &first, err);
    if (st != GW_OK)
        return st;
    st = gw_judge_together(&them, first.verdict, ret_verdict, err);
    gwi_judged_free(&first);
    return st;
}

void gwi_job_free(gwi_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        gw_brief_free(&job->brief[i]);
    for (size_t i = 0; i < job->unread.count; i++)
        free(job->unread.item[i]);
    free(job->brief);
    free(job->file);
    free(job->unread.item);
    *job = (gwi_job){0};
}
