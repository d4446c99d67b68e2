/* Detects processes that make no progress, by comparing their threads' slots in the buffers over time. */
#include "gw_fact.h"
#include "gw_hang_watch.h"
#include "gw_say.h"
#include "gwi_run.h"

#include "gw_stacks.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void gw_hang_watch_begin(gw_hang_watch *watch, uint64_t now_ns)
{
    watch->now_ns = now_ns;
    for (size_t i = 0; i < watch->process_count; i++) {
        watch->process[i].seen = watch->process[i].moved = false;
        watch->process[i].progress_now = 0;
    }
    for (size_t i = 0; i < watch->thread_count; i++)
        watch->thread[i].seen = false;
}

static gw_watched_process *process_of(gw_hang_watch *watch, uint32_t pid)
{
    for (size_t i = 0; i < watch->process_count; i++) {
        if (watch->process[i].pid == pid)
            return &watch->process[i];
    }
    if (watch->process_count == GW_HANG_PROCESSES_MAX)
        return NULL;
    gw_watched_process *process = &watch->process[watch->process_count++];
    *process = (gw_watched_process){.pid = pid, .progress = UINT64_MAX};
    return process;
}

static gw_watched_thread *thread_of(gw_hang_watch *watch, uint32_t pid, uint32_t tid)
{
    for (size_t i = 0; i < watch->thread_count; i++) {
        if (watch->thread[i].pid == pid && watch->thread[i].tid == tid)
            return &watch->thread[i];
    }
    if (watch->thread_count == GW_HANG_THREADS_MAX)
        return NULL;
    gw_watched_thread *thread = &watch->thread[watch->thread_count++];
    *thread = (gw_watched_thread){.pid = pid, .tid = tid, .calls = UINT64_MAX};
    return thread;
}

void gw_hang_watch_see(void *user, const gw_thread_look *look)
{
    gw_hang_watch *watch = user;
    gw_watched_process *process = process_of(watch, look->pid);
    gw_watched_thread *thread = thread_of(watch, look->pid, look->tid);
    if (process == NULL || thread == NULL)
        return; /* the table of processes or threads is full: ignore this thread */
    process->seen = true;
    /* +1 for each thread, so that starting or ending a thread counts as progress */
    process->progress_now += look->progress + 1;
    if (thread->calls != look->calls || thread->inside_fn_plus_1 != look->inside_fn_plus_1)
        thread->inside_since_ns = watch->now_ns;
    /* If the thread has made calls and none of them was a query or a wait, the program is working. This also holds if
     * `progress` is unchanged. */
    process->moved = process->moved || (thread->calls != look->calls && thread->questions == look->questions);
    thread->calls = look->calls;
    thread->progress = look->progress;
    thread->questions = look->questions;
    thread->not_ready_at_ns = thread->not_ready == look->not_ready ? thread->not_ready_at_ns : watch->now_ns;
    thread->not_ready = look->not_ready;
    thread->inside_fn_plus_1 = look->inside_fn_plus_1;
    thread->is_in_nccl = look->is_in_nccl;
    thread->seen = true;
}

static void went_on(gw_hang_watch *watch, gw_watched_process *process)
{
    process->progress = process->progress_now;
    process->since_ns = watch->now_ns;
    process->looked_at_ns = 0;
    process->cpu_known = gw_stacks_cpu_ms(process->pid, &process->cpu_ms);
    for (size_t i = 0; i < watch->thread_count; i++) {
        if (watch->thread[i].pid != process->pid)
            continue;
        watch->thread[i].questions_before = watch->thread[i].questions;
        watch->thread[i].not_ready_before = watch->thread[i].not_ready;
    }
}

void gw_hang_watch_end(gw_hang_watch *watch)
{
    for (size_t i = watch->thread_count; i-- > 0;) {
        if (!watch->thread[i].seen)
            watch->thread[i] = watch->thread[--watch->thread_count];
    }
    for (size_t i = watch->process_count; i-- > 0;) {
        gw_watched_process *process = &watch->process[i];
        if (!process->seen)
            *process = watch->process[--watch->process_count];
        else if (process->moved || process->progress != process->progress_now)
            went_on(watch, process);
    }
}

/* `gpuwhy run --hang-after`: detects hangs, records each one, reports the first, and ends the program if requested. */

static const uint64_t look_every_ns = 1000000000u;

gw_status gwi_hangs_begin(gwi_hangs *hangs, const gw_run_options *options, gw_error *err)
{
    const char *text = options->hang_after;
    *hangs = (gwi_hangs){0};
    /* the default is "off" at a terminal, where the user can see that the program hangs */
    if (text == NULL || strcmp(text, "auto") == 0)
        text = options->kill_on_hang || !isatty(STDERR_FILENO) ? "300" : "off";
    if (strcmp(text, "off") == 0) {
        return options->kill_on_hang ? gw_fail(err, GW_USAGE, "--kill-on-hang cannot be combined with --hang-after off")
                                     : GW_OK;
    }
    char *end = NULL;
    double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds >= 0.1 && seconds <= 1e6))
        return gw_fail(err, GW_USAGE,
                       "--hang-after %s: must be `auto`, `off` or a number of seconds from 0.1 to 1000000", text);
    hangs->kill = options->kill_on_hang;
    hangs->no_ras = options->no_ras;
    hangs->after_ns = (uint64_t)(seconds * 1e9);
    return GW_OK;
}

static void put_item(void *user, const gw_item *item)
{
    gwi_record_put(user, item);
}

static gw_status put_from_drain(void *user, const gw_item *item, gw_error *err)
{
    (void)err;
    gwi_record_put(user, item);
    return GW_OK;
}

static void tell_over(gwi_record *record, gw_watched_process *process)
{
    gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = gwi_record_now_ns(record), .pid = process->pid};
    item.pair.key = gw_fact_key_text(GW_FACT_HANG_OVER);
    item.pair.value = "";
    gwi_record_put(record, &item);
    process->told = process->is_undecided = false;
    process->looks = 0;
}

/* True if nothing has happened in the process for long enough, and it was not looked at for long enough. The time
 * between two looks at a process that is undecided doubles, up to 64 times --hang-after. */
static bool is_due(const gwi_hangs *hangs, const gw_watched_process *process)
{
    /* limits, so that a program with long kernels or long rests does not fill its recording with hangs */
    enum { TOLD_MAX = 8, LOOKS_MAX = 32, DOUBLED_MAX = 6 };
    uint64_t now = hangs->watch.now_ns, between_ns = hangs->after_ns;
    uint64_t looked = process->looked_at_ns > process->since_ns ? process->looked_at_ns : process->since_ns;
    if (process->told && (!process->is_undecided || process->looks >= LOOKS_MAX))
        return false;
    if (!process->told && process->told_count >= TOLD_MAX)
        return false;
    if (process->told)
        between_ns <<= process->looks - 1 < DOUBLED_MAX ? process->looks - 1 : DOUBLED_MAX;
    return now - process->since_ns >= hangs->after_ns && now - looked >= between_ns;
}

/* Record a new hang of the process, and the end of a recorded one. Returns true if a hang was recorded. */
static bool note_hang(gwi_hangs *hangs, gwi_record *record, gw_watched_process *process)
{
    uint64_t now = hangs->watch.now_ns;
    if (process->told && process->since_ns == now)
        tell_over(record, process);
    if (!is_due(hangs, process))
        return false;
    process->looked_at_ns = now;
    if (!gw_hang_tell(&hangs->watch, process, false, put_item, record))
        return false;
    process->told_count += !process->told;
    process->looks++;
    process->told = true;
    process->is_undecided = false;
    return true;
}

/* One process hangs. Record the stacks of another one that has stood still for nearly as long, because it may show why:
 * a rank that does not join a collective. This is no hang of its own, so the recorded duration is 0. */
static void note_beside(gwi_hangs *hangs, gwi_record *record, gw_watched_process *process)
{
    enum { BESIDE_MAX = 4 };
    gw_watched_process as_seen = *process;
    as_seen.since_ns = hangs->watch.now_ns;
    if (!process->told && process->beside_count < BESIDE_MAX &&
        hangs->watch.now_ns - process->since_ns >= hangs->after_ns / 2 &&
        gw_hang_tell(&hangs->watch, &as_seen, true, put_item, record))
        process->beside_count++;
}

/* Look again later at the processes that were looked at now: one verdict has judged them all, and found no hang. */
static void leave_undecided(gwi_hangs *hangs)
{
    for (size_t i = 0; i < hangs->watch.process_count; i++) {
        gw_watched_process *process = &hangs->watch.process[i];
        if (process->told && process->looked_at_ns == hangs->watch.now_ns)
            process->is_undecided = true;
    }
    gwi_still_job *job = &hangs->job;
    job->is_undecided = job->told;
    if (job->told)
        job->next_ns = hangs->watch.now_ns + (hangs->watch.now_ns - job->since_ns);
}

static void say_hang(gwi_hangs *hangs, gwi_record *record, gwi_stderr *capture, const char *run_folder, pid_t child)
{
    if (!hangs->no_ras)
        gwi_ras_ask(hangs, record);
    gwi_record_stderr(record, capture);
    gwi_record_drain(record, false);
    if (run_folder[0] == '\0')
        return;
    if (!hangs->judge(hangs->user, run_folder)) {
        leave_undecided(hangs);
        return;
    }
    hangs->told = true;
    if (hangs->kill) {
        gw_say("--kill-on-hang: SIGTERM to pid %d", (int)child);
        hangs->killed_at_ns = gwi_record_now_ns(record);
        gwi_record_fact(record, gw_fact_key_text(GW_FACT_OWN_STOP), "--kill-on-hang: gpuwhy sent SIGTERM to pid %d",
                        (int)child);
        kill(child, SIGTERM);
    }
}

/* Send a signal, or 0 to send none, to every recorded process and every rank that hangs. Returns how many there are. */
static size_t signal_all(const gwi_hangs *hangs, const gwi_record *record, int signal)
{
    size_t count = gwi_record_signal(record, 0, signal);
    for (size_t i = 0; i < hangs->job.process_count; i++) {
        const gwi_still_process *process = &hangs->job.process[i];
        count += process->has_rank && gwi_still_is_there(process) && kill(process->pid, signal) == 0;
    }
    return count;
}

/* Kill the command and all others, because a hanging process does not end with its parent. */
static void kill_all(const gwi_hangs *hangs, const gwi_record *record, pid_t child)
{
    gw_say("--kill-on-hang: SIGKILL to pid %d and to every recorded process", (int)child);
    kill(child, SIGKILL);
    (void)signal_all(hangs, record, SIGKILL);
}

/* ---- a job whose ranks all stand still ---- */

static void put_of_rank(gwi_record *record, const gwi_still_rank *rank, gw_fact_key key, const char *value)
{
    gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = gwi_record_now_ns(record), .pid = (uint32_t)rank->pid};
    item.pair.key = gw_fact_key_text(key);
    item.pair.value = value;
    gwi_record_put(record, &item);
}

/* Record the ranks in hangs->told_rank, and what their threads do. `meets`: only the stacks show whether it is a hang.
 */
static void tell_job(gwi_hangs *hangs, gwi_record *record, uint64_t since_ns, bool meets)
{
    for (size_t i = 0; i < hangs->told_rank_count; i++) {
        const gwi_still_rank *rank = &hangs->told_rank[i];
        const gw_watched_process as_seen = {.pid = (uint32_t)rank->pid,
                                            .since_ns = since_ns,
                                            .cpu_known = true,
                                            .cpu_ms = rank->cpu_ms,
                                            .meets = meets};
        const gw_fact_rank fact = {GW_FACT_SET(rank, rank->rank), GW_FACT_SET(of, rank->of)};
        gw_text text = {0};
        gw_fact_rank_write(&fact, &text);
        put_of_rank(record, rank, GW_FACT_HANG_RANK, gw_text_str(&text));
        gw_text_free(&text);
        (void)gw_hang_tell(&hangs->watch, &as_seen, true, put_item, record);
    }
}

enum { JOB_TOLD_MAX = 8 };

static void tell_job_over(const gwi_hangs *hangs, gwi_record *record)
{
    for (size_t i = 0; i < hangs->told_rank_count; i++)
        put_of_rank(record, &hangs->told_rank[i], GW_FACT_HANG_OVER, "");
}

/* Record ranks that may wait for all to come, and the end of such a wait. */
static bool note_meeting(gwi_hangs *hangs, gwi_record *record, uint64_t driver_ns)
{
    gwi_still_job *job = &hangs->job;
    uint64_t now = hangs->watch.now_ns;
    if (gwi_meeting_look(job, now, driver_ns))
        tell_job_over(hangs, record);
    /* If the judge found no hang, look again later: the stacks of one look may be incomplete. */
    bool is_again = !hangs->told && now - job->meeting.told_at_ns >= hangs->after_ns << job->meeting.told_count;
    if ((job->told && !job->is_undecided) || (job->meeting.told && !is_again) ||
        job->meeting.told_count >= JOB_TOLD_MAX)
        return false;
    size_t count = gwi_meeting_ranks(job, now, hangs->after_ns, hangs->told_rank);
    if (count == 0)
        return false;
    hangs->told_rank_count = count;
    tell_job(hangs, record, job->meeting.since_ns, true);
    job->meeting.told = true;
    job->meeting.told_at_ns = now;
    job->meeting.told_count++;
    return true;
}

/* Record a hang of the job, and the end of a recorded one. Returns true if a hang was recorded. */
static bool note_job(gwi_hangs *hangs, gwi_record *record, pid_t child)
{
    enum { LOOKS = 8 };
    static const uint64_t every_ns_max = 5000000000u;
    gwi_still_job *job = &hangs->job;
    uint64_t now = hangs->watch.now_ns, driver_ns = 0, every_ns = hangs->after_ns / LOOKS;
    every_ns = every_ns < every_ns_max ? every_ns : every_ns_max;
    /* When the launcher has been killed, its ranks are no longer below it: keep the list, to end them. */
    if (hangs->killed_at_ns != 0 || (job->looked_at_ns != 0 && now - job->looked_at_ns < every_ns))
        return false;
    for (size_t i = 0; i < hangs->watch.process_count; i++)
        driver_ns = hangs->watch.process[i].since_ns > driver_ns ? hangs->watch.process[i].since_ns : driver_ns;
    if (gwi_still_look(job, child, now, driver_ns))
        tell_job_over(hangs, record);
    bool may_tell = (!job->told || job->is_undecided) && job->told_count < JOB_TOLD_MAX;
    size_t count = may_tell ? gwi_still_ranks(job, now, hangs->after_ns, hangs->told_rank) : 0;
    if (count == 0)
        return note_meeting(hangs, record, driver_ns);
    hangs->told_rank_count = count;
    tell_job(hangs, record, job->since_ns, false);
    job->told = true;
    job->is_undecided = false;
    job->told_count++;
    return true;
}

size_t gwi_hangs_signal(const gwi_hangs *hangs, const gwi_record *record, int signal)
{
    return hangs->killed_at_ns == 0 ? 0 : signal_all(hangs, record, signal);
}

void gwi_hangs_close(gwi_hangs *hangs)
{
    gwi_still_free(&hangs->job);
}

void gwi_hangs_look(gwi_hangs *hangs, gwi_record *record, gwi_stderr *capture, const char *run_folder, pid_t child)
{
    uint64_t now = gwi_record_now_ns(record), every_ns = hangs->after_ns / 10;
    gw_stacks_let_go();
    if (hangs->after_ns == 0 || record->drain == NULL)
        return;
    if (hangs->killed_at_ns != 0 && now - hangs->killed_at_ns > GWI_KILL_AFTER_NS) {
        hangs->killed_at_ns = now;
        kill_all(hangs, record, child);
    }
    every_ns = every_ns > look_every_ns ? look_every_ns : every_ns;
    if (now - hangs->looked_at_ns < every_ns)
        return;
    hangs->looked_at_ns = now;
    gw_hang_watch_begin(&hangs->watch, now);
    gw_drain_look(record->drain, gw_hang_watch_see, &hangs->watch);
    gw_hang_watch_end(&hangs->watch);
    bool any = false;
    for (size_t i = 0; i < hangs->watch.process_count; i++)
        any = note_hang(hangs, record, &hangs->watch.process[i]) || any;
    for (size_t i = 0; any && !hangs->told && i < hangs->watch.process_count; i++)
        note_beside(hangs, record, &hangs->watch.process[i]);
    any = note_job(hangs, record, child) || any;
    /* all ranks, because the one that does not join a collective does not hang in it */
    if (any) {
        gwi_record_drain(record, false);
        (void)!gw_drain_tell_nccl(record->drain, put_from_drain, record, NULL);
    }
    if (any && !hangs->told)
        say_hang(hangs, record, capture, run_folder, child);
}
