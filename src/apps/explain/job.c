/* Reads the recordings of a job, and judges them together. */
#include "gw_own.h"
#include "gw_say.h"
#include "gwi_job.h"

#include "gw_array.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Finds the recordings of a job of Slurm by the links in the state folder. */

/* Read digits, which end at `end`. Returns NULL if they are wrong. */
static const char *read_number(const char *text, const char *end, uint32_t *ret_number)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 9 || strchr(end, text[digits]) == NULL)
        return NULL;
    *ret_number = (uint32_t)strtoul(text, NULL, 10);
    return text + digits;
}

/* Find the last step of the job that has a link in the working folder. */
static size_t find_steps(uint32_t job, uint32_t *ret_step)
{
    DIR *folder = opendir(".");
    size_t count = 0;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        uint32_t number, step;
        const char *at = read_number(entry->d_name, ".", &number);
        if (at == NULL || *at != '.' || number != job || read_number(at + 1, "", &step) == NULL)
            continue;
        if (count++ == 0 || step > *ret_step)
            *ret_step = step;
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}

/* Make one of our own folders the working folder. Whatever its path leads to later, names are then looked up in the
 * folder that was checked. */
static gw_status enter(const char *path, gw_error *err)
{
    int fd;
    gw_status st = gw_own_folder_open(path, &fd, err);
    if (st != GW_OK)
        return st;
    st = fchdir(fd) == 0 ? GW_OK : gw_fail(err, GW_IO, "%s: %s", path, strerror(errno));
    close(fd);
    return st;
}

gw_status gwi_slurm_enter(const char *word, gw_path out, gw_error *err)
{
    gw_path links;
    char name[32];
    uint32_t job = 0, step = 0;
    const char *at = read_number(word + strlen(GWI_SLURM_PREFIX), ".", &job);
    bool has_step = at != NULL && *at == '.';
    if (at == NULL || (has_step && read_number(at + 1, "", &step) == NULL))
        return gw_fail(err, GW_USAGE, "%s: expected slurm:JOBID or slurm:JOBID.STEP", word);
    gw_status st = gw_state_folder(out, err);
    if (st == GW_OK)
        st = gw_path_format(links, err, "%s/slurm", out);
    if (st != GW_OK || (st = enter(links, err)) == GW_UNSUPPORTED)
        return st;
    size_t count = st != GW_OK || has_step ? 1 : find_steps(job, &step);
    if (count > 1)
        gw_say("explain: %zu steps of job %" PRIu32 " have recordings; this is slurm:%" PRIu32 ".%" PRIu32, count, job,
               job, step);
    snprintf(name, sizeof name, "%" PRIu32 ".%" PRIu32, job, step);
    ssize_t bytes = st == GW_OK ? readlink(name, out, PATH_MAX - 1) : -1;
    if (bytes <= 0)
        return gw_fail(err, GW_MISSING, "%s: no recordings are known; if the job's folder is elsewhere, name it", word);
    out[bytes] = '\0';
    st = enter(out, err);
    if (st != GW_OK)
        gw_wrap(err, "%s", word);
    return st;
}

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
