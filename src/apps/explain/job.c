/* Reads the recordings of a job, and judges them together. */
#include "gw_own.h"
#include "gw_say.h"
#include "gw_text.h"
#include "gwi_job.h"
#include "gwi_progress.h"

#include "gw_array.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct gwi_worker_result {
    gw_brief brief; /* owned by the receiver; only if `unread` is NULL */
    char *unread;   /* owned by the receiver: why the file cannot be read, with its path; NULL: it was read */
    bool running;   /* the program is still running */
} gwi_worker_result;

/* Receives the result for the file `index`. In any order, each index once. */
typedef gw_status gwi_worker_sink(void *user, int index, gwi_worker_result *result, gw_error *err);

/* Worker processes that judge the recordings of a job.
 *
 * The workers are forks of this process. They take the next file from a counter in shared memory, and write a packet
 * for each file to a pipe of their own: the head below, then the texts that it announces. The packets need no fixed
 * format, because reader and writer are the same program. */

enum { WORKERS_MAX = 16, TEXT_COUNT = 6, NO_FILE = -1 };

/* ---- one file ---- */

/* Read one file in this process. Sets ret->unread for an unreadable file. GW_NOMEM: out of memory. */
GW_MUST_CHECK
static gw_status worker_read(const char *file, const gwi_judge_how *how, gwi_worker_result *ret, gw_error *err)
{
    gw_error why = {""};
    gwi_judged judged;
    *ret = (gwi_worker_result){0};
    gw_status st = gwi_judge_file(file, how, &judged, &why);
    if (st == GW_NOMEM)
        return gw_fail(err, st, "%s", why.text);
    if (st != GW_OK) {
        ret->unread = strdup(why.text);
        return ret->unread == NULL ? gw_fail(err, GW_NOMEM, "%s", file) : GW_OK;
    }
    ret->running = judged.running;
    st = gw_brief_of(judged.verdict, &ret->brief, err);
    gwi_judged_free(&judged);
    if (st != GW_OK)
        gw_brief_free(&ret->brief);
    return st;
}

/* ---- packets ---- */

/* The head of a packet. The ranks' digest (gw_ranks_pack()) is its last part. The pointers in `brief` are not valid,
 * apart from those to static texts: the worker is a fork.
 */
typedef struct packet {
    size_t bytes; /* of the whole packet */
    int index;
    bool running;
    bool has[TEXT_COUNT];
    size_t text_bytes[TEXT_COUNT], digest_bytes;
    gw_brief brief;
} packet;

static void texts_of(gwi_worker_result *result, char **ret_text[TEXT_COUNT])
{
    gw_brief *brief = &result->brief;
    char **const text[TEXT_COUNT] = {&result->unread,  &brief->headline,    &brief->recording,
                                     &brief->run.host, &brief->run.boot_id, &brief->run.job};
    memcpy(ret_text, text, sizeof text);
}

static void pack(int index, gwi_worker_result *result, gw_text *out)
{
    char **text[TEXT_COUNT];
    packet head = {.index = index, .running = result->running, .brief = result->brief};
    size_t rank_bytes = head.brief.run.rank_count * sizeof *head.brief.run.ranks;
    head.bytes = sizeof head + rank_bytes;
    texts_of(result, text);
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        head.has[i] = *text[i] != NULL;
        head.text_bytes[i] = head.has[i] ? strlen(*text[i]) : 0;
        head.bytes += head.text_bytes[i];
    }
    gw_text digest = {0};
    if (result->unread == NULL)
        gw_ranks_pack(&result->brief.ranks, &digest);
    head.digest_bytes = digest.bytes;
    head.bytes += digest.bytes;
    gw_text_clear(out);
    gw_text_add(out, (const char *)&head, sizeof head);
    if (rank_bytes > 0)
        gw_text_add(out, (const char *)head.brief.run.ranks, rank_bytes);
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        if (head.has[i])
            gw_text_add(out, *text[i], head.text_bytes[i]);
    }
    if (digest.bytes > 0)
        gw_text_add(out, digest.data, digest.bytes);
    out->failed = out->failed || digest.failed;
    gw_text_free(&digest);
}

/* Unpack a whole packet. Returns false if there is no memory. */
static bool unpack(const char *data, int *ret_index, gwi_worker_result *ret)
{
    packet head;
    char **text[TEXT_COUNT];
    bool good = true;
    memcpy(&head, data, sizeof head);
    data += sizeof head;
    *ret_index = head.index;
    *ret = (gwi_worker_result){.running = head.running, .brief = head.brief};
    texts_of(ret, text);
    for (size_t i = 0; i < TEXT_COUNT; i++)
        *text[i] = NULL;
    ret->brief.ranks = (gw_ranks){0};
    gw_verdict_run *run = &ret->brief.run;
    run->cwd = NULL;
    run->ranks = NULL;
    run->rank_count = 0;
    if (head.brief.run.rank_count > 0) {
        size_t bytes = head.brief.run.rank_count * sizeof *run->ranks;
        run->ranks = malloc(bytes);
        good = run->ranks != NULL;
        if (good) {
            memcpy(run->ranks, data, bytes);
            run->rank_count = head.brief.run.rank_count;
        }
        data += bytes;
    }
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        *text[i] = good && head.has[i] ? strndup(data, head.text_bytes[i]) : NULL;
        good = good && (!head.has[i] || *text[i] != NULL);
        data += head.text_bytes[i];
    }
    return good && (head.digest_bytes == 0 || gw_ranks_unpack(data, head.digest_bytes, &ret->brief.ranks));
}

/* ---- a worker ---- */

/* In memory that all workers share. */
typedef struct board {
    _Atomic int next;                 /* the next file */
    _Atomic int current[WORKERS_MAX]; /* the file that a worker reads; NO_FILE: none */
} board;

typedef struct worker {
    pid_t pid;
    int fd;       /* -1: the worker has ended */
    gw_text read; /* bytes of packets that are not complete */
} worker;

typedef struct pool {
    char *const *files;
    int count, done;
    bool *given; /* owned; the files whose results the sink has */
    const gwi_judge_how *how;
    board *board;
    worker worker[WORKERS_MAX];
    int worker_count;
    gwi_worker_sink *sink;
    void *user;
    gwi_progress *progress;
} pool;

static bool write_all(int fd, const gw_text *text)
{
    for (size_t at = 0; at < text->bytes && !text->failed;) {
        ssize_t written = write(fd, text->data + at, text->bytes - at);
        if (written < 0 && errno != EINTR)
            return false;
        at += written > 0 ? (size_t)written : 0;
    }
    return !text->failed;
}

static _Noreturn void work(const pool *all, int place, int fd)
{
    gw_text text = {0};
    board *shared = all->board;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        gwi_worker_result result;
        int index = atomic_fetch_add(&shared->next, 1);
        if (index >= all->count)
            _exit(0);
        atomic_store(&shared->current[place], index);
        if (worker_read(all->files[index], all->how, &result, NULL) != GW_OK)
            _exit(1); /* out of memory: the file counts as unreadable */
        pack(index, &result, &text);
        free(result.unread);
        gw_brief_free(&result.brief);
        if (!write_all(fd, &text))
            _exit(1);
        atomic_store(&shared->current[place], NO_FILE);
    }
}

/* ---- all workers ---- */

static int workers_wanted(int count)
{
    cpu_set_t set;
    int processors = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    int wanted = processors < WORKERS_MAX ? processors : WORKERS_MAX;
    return wanted < count ? wanted : count;
}

static gw_status start(pool *all, int place, gw_error *err)
{
    int ends[2];
    worker *one = &all->worker[place];
    one->fd = -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return gw_fail(err, GW_IO, "start a process that reads recordings: %s", strerror(errno));
    atomic_store(&all->board->current[place], NO_FILE);
    one->pid = fork();
    if (one->pid == 0) {
        close(ends[0]);
        work(all, place, ends[1]);
    }
    int code = errno;
    close(ends[1]);
    if (one->pid < 0) {
        close(ends[0]);
        return gw_fail(err, GW_IO, "start a process that reads recordings: %s", strerror(code));
    }
    one->fd = ends[0];
    return GW_OK;
}

/* Give a result to the sink. A worker may die right after it has delivered one: the first result of a file counts. */
static gw_status give(pool *all, int index, gwi_worker_result *result, gw_error *err)
{
    if (all->given[index]) {
        free(result->unread);
        gw_brief_free(&result->brief);
        return GW_OK;
    }
    all->given[index] = true;
    gwi_progress_step(all->progress, (uint64_t)++all->done, (uint64_t)all->count);
    return all->sink(all->user, index, result, err);
}

/* Report a file that was not read, and why. */
static gw_status give_unread(pool *all, int index, const char *why, gw_error *err)
{
    gw_text text = {0};
    gwi_worker_result result = {0};
    gw_text_addf(&text, "%s: %s", all->files[index], why);
    result.unread = text.failed ? NULL : strdup(gw_text_str(&text));
    gw_text_free(&text);
    return result.unread == NULL ? gw_fail(err, GW_NOMEM, "judge the recordings") : give(all, index, &result, err);
}

/* Report the file at which a worker died. */
static gw_status give_up(pool *all, int index, int status, gw_error *err)
{
    char why[80] = "not enough memory to read this file";
    if (WIFSIGNALED(status))
        snprintf(why, sizeof why, "gpuwhy was ended by signal %d while it read this file", WTERMSIG(status));
    return give_unread(all, index, why, err);
}

/* Report the files without a result: a worker that took one may have died before it began to read it. */
static gw_status give_up_rest(pool *all, gw_error *err)
{
    gw_status st = GW_OK;
    for (int i = 0; i < all->count && st == GW_OK; i++) {
        if (!all->given[i])
            st = give_unread(all, i, "gpuwhy was ended before it read this file", err);
    }
    return st;
}

/* Take the complete packets from what a worker has written. */
static gw_status take_packets(pool *all, worker *one, gw_error *err)
{
    size_t at = 0, bytes;
    gw_status st = GW_OK;
    while (st == GW_OK && one->read.bytes - at >= sizeof bytes) {
        gwi_worker_result result;
        int index;
        memcpy(&bytes, one->read.data + at, sizeof bytes);
        if (one->read.bytes - at < bytes)
            break;
        bool good = unpack(one->read.data + at, &index, &result);
        st = good ? give(all, index, &result, err) : gw_fail(err, GW_NOMEM, "judge the recordings");
        at += bytes;
    }
    if (at > 0) {
        memmove(one->read.data, one->read.data + at, one->read.bytes - at);
        one->read.bytes -= at;
    }
    return st;
}

/* A worker has ended. If it died, report its file and start another one. */
static gw_status replace(pool *all, int place, gw_error *err)
{
    int status = 0;
    worker *one = &all->worker[place];
    close(one->fd);
    one->fd = -1;
    while (waitpid(one->pid, &status, 0) < 0 && errno == EINTR)
        ;
    one->pid = 0;
    one->read.bytes = 0;
    int index = atomic_load(&all->board->current[place]);
    gw_status st = index == NO_FILE || status == 0 ? GW_OK : give_up(all, index, status, err);
    if (st == GW_OK && status != 0 && atomic_load(&all->board->next) < all->count)
        st = start(all, place, err);
    return st;
}

static gw_status read_some(pool *all, int place, gw_error *err)
{
    char data[16384];
    worker *one = &all->worker[place];
    ssize_t bytes = read(one->fd, data, sizeof data);
    if (bytes < 0)
        return errno == EINTR ? GW_OK : gw_fail(err, GW_IO, "read from a worker: %s", strerror(errno));
    if (bytes == 0)
        return replace(all, place, err);
    gw_text_add(&one->read, data, (size_t)bytes);
    return one->read.failed ? gw_fail(err, GW_NOMEM, "judge the recordings") : take_packets(all, one, err);
}

static gw_status collect(pool *all, gw_error *err)
{
    gw_status st = GW_OK;
    for (int open = 1; open > 0 && st == GW_OK;) {
        struct pollfd wait[WORKERS_MAX];
        open = 0;
        for (int i = 0; i < all->worker_count; i++) {
            wait[i] = (struct pollfd){.fd = all->worker[i].fd, .events = POLLIN};
            open += all->worker[i].fd >= 0;
        }
        if (open == 0 || (poll(wait, (nfds_t)all->worker_count, -1) < 0 && errno == EINTR))
            continue;
        for (int i = 0; i < all->worker_count && st == GW_OK; i++) {
            if (all->worker[i].fd >= 0 && wait[i].revents != 0)
                st = read_some(all, i, err);
        }
    }
    return st;
}

static void stop(pool *all)
{
    for (int i = 0; i < all->worker_count; i++) {
        if (all->worker[i].fd >= 0)
            close(all->worker[i].fd);
        if (all->worker[i].pid > 0) {
            kill(all->worker[i].pid, SIGKILL);
            while (waitpid(all->worker[i].pid, NULL, 0) < 0 && errno == EINTR)
                ;
        }
        gw_text_free(&all->worker[i].read);
    }
}

/* Read all files with worker processes. If a worker dies, its file counts as unreadable, and another worker goes on.
 * Errors: GW_IO if no worker can be started; GW_NOMEM; those of `sink`. */
GW_MUST_CHECK
static gw_status workers_read(char *const *files, int count, const gwi_judge_how *how, gwi_worker_sink *sink,
                              void *user, gw_error *err)
{
    pool all = {.files = files, .count = count, .how = how, .sink = sink, .user = user};
    all.board = mmap(NULL, sizeof *all.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all.board == MAP_FAILED)
        return gw_fail(err, GW_NOMEM, "judge the recordings: %s", strerror(errno));
    all.given = calloc((size_t)count, sizeof *all.given);
    gw_status st = all.given != NULL ? GW_OK : gw_fail(err, GW_NOMEM, "judge the recordings");
    fflush(NULL); /* a fork must not print this process's pending output again */
    for (int wanted = workers_wanted(count); all.worker_count < wanted && st == GW_OK;)
        st = start(&all, all.worker_count++, err);
    all.progress = gwi_progress_begin("reading the recordings");
    if (st == GW_OK)
        st = collect(&all, err);
    if (st == GW_OK)
        st = give_up_rest(&all, err);
    gwi_progress_end(all.progress);
    stop(&all);
    munmap(all.board, sizeof *all.board);
    free(all.given);
    return st;
}

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

/* The results are in the order of the files. */
static gw_status keep(void *user, int index, gwi_worker_result *result, gw_error *err)
{
    (void)err;
    ((gwi_worker_result *)user)[index] = *result;
    return GW_OK;
}

static gw_status read_few(char *const *files, int count, gwi_worker_result *all, gw_error *err)
{
    const gwi_judge_how how = {.no_history = true};
    gw_status st = GW_OK;
    for (int i = 0; i < count && st == GW_OK; i++)
        st = worker_read(files[i], &how, &all[i], err);
    return st;
}

static gw_status read_many(char *const *files, int count, gwi_worker_result *all, gw_error *err)
{
    gwi_run_list runs;
    gw_status st = gwi_run_list_read(&runs, err);
    const gwi_judge_how how = {.no_history = true, .is_quick = true, .runs = &runs};
    if (st == GW_OK)
        st = workers_read(files, count, &how, keep, all, err);
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
static gw_status sort_out(gwi_worker_result *all, int count, gwi_job *job, gw_error *err)
{
    job->brief = calloc((size_t)count, sizeof *job->brief);
    job->file = calloc((size_t)count, sizeof *job->file);
    bool good = job->brief != NULL && job->file != NULL;
    for (int i = 0; i < count && good; i++) {
        gwi_worker_result *result = &all[i];
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
    gwi_worker_result *all = calloc((size_t)count, sizeof *all);
    if (all == NULL)
        return gw_fail(err, GW_NOMEM, "judge %d recordings", count);
    gw_status st = count <= GWI_JOB_FEW ? read_few(files, count, all, err) : read_many(files, count, all, err);
    if (st == GW_OK)
        st = sort_out(all, count, ret_job, err);
    for (int i = 0; i < count; i++) {
        free(all[i].unread);
        gw_brief_free(&all[i].brief);
    }
    free(all);
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
