/* Classifies a hang by what each thread waits for.
 *
 * kernel: launches are outstanding, and a thread was inside one driver call all the time or polled the GPU. Slow work
 * looks the same, so the verdict is at most supported. The launch is unknown if later calls have overwritten it in the
 * ring.
 *
 * peer: like kernel, but the newest outstanding launch is an NCCL collective. Other ranks have not joined it.
 *
 * deadlock: one of these is true:
 * - Threads wait in a circle for each other's locks.
 * - A thread waits for a lock whose owner has ended.
 * - No thread is in the driver, no work of the GPU is outstanding, and every thread waits without a time limit, for
 *   something that only another thread of this process can provide. */
#include "gwi_alone.h"
#include "gwi_hang.h"
#include "gwi_pools.h"
#include "gwi_suspects.h"

#include "gw_sites.h"
#include "gw_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const gw_hang_thread *gwi_hang_thread(const gw_hang *hang, uint32_t tid)
{
    for (size_t i = 0; i < hang->thread_count; i++) {
        if (hang->thread[i].tid == tid)
            return &hang->thread[i];
    }
    return NULL;
}

static bool waits_by(const gw_hang_thread *thread, const char *word)
{
    return strcmp(thread->wait, word) == 0;
}

/* ---- the GPU ---- */

static bool was_inside_all_the_time(const gw_hang *hang, const gw_hang_thread *thread)
{
    return thread->inside_fn[0] != '\0' && thread->inside_ns >= hang->for_ns / 10 * 9;
}

static const gw_hang_thread *find_waiting(const gw_hang *hang)
{
    for (size_t i = 0; i < hang->thread_count; i++) {
        if (was_inside_all_the_time(hang, &hang->thread[i]))
            return &hang->thread[i];
    }
    for (size_t i = 0; i < hang->thread_count; i++) {
        if (hang->thread[i].questions > 0)
            return &hang->thread[i];
    }
    return NULL;
}

typedef struct outstanding {
    const gw_ring_call *newest[4]; /* sorted by time, newest first */
    size_t count;
    uint64_t total;
} outstanding;

/* The list is full: return the entry that `call` replaces, the first of these:
 * - the oldest entry whose stream has a newer launch in the list
 * - the entry of the stream of `call`
 * - the oldest entry
 * Returns SIZE_MAX if `call` is older than that entry. */
static size_t who_goes(const outstanding *found, const gw_ring_call *call)
{
    size_t same = SIZE_MAX;
    for (size_t i = found->count; i-- > 0;) {
        same = found->newest[i]->stream == call->stream ? i : same;
        for (size_t k = 0; k < i; k++)
            if (found->newest[k]->stream == found->newest[i]->stream)
                return same != SIZE_MAX && found->newest[i]->t_ns >= call->t_ns ? SIZE_MAX : i;
    }
    size_t last = same == SIZE_MAX ? found->count - 1 : same;
    return found->newest[last]->t_ns >= call->t_ns ? SIZE_MAX : last;
}

static void keep_newest(outstanding *found, const gw_ring_call *call)
{
    const size_t room = sizeof found->newest / sizeof found->newest[0];
    size_t at = found->count;
    if (at == room) {
        at = who_goes(found, call);
        if (at == SIZE_MAX)
            return;
        found->count--;
        memmove(&found->newest[at], &found->newest[at + 1], (found->count - at) * sizeof found->newest[0]);
        at = found->count;
    }
    for (; at > 0 && found->newest[at - 1]->t_ns < call->t_ns; at--)
        found->newest[at] = found->newest[at - 1];
    found->newest[at] = call;
    found->count++;
}

static outstanding launches_outstanding(const gw_model *model, uint32_t pid)
{
    outstanding found = {0};
    const gw_thread *thread = gw_model_first_thread(model, pid);
    for (; thread != NULL; thread = gw_model_next_thread(model, thread)) {
        for (size_t k = thread->ring_count; k-- > 0;) {
            const gw_ring_call *call = &thread->ring[k];
            if (!gw_is_outstanding(call))
                continue;
            found.total++;
            keep_newest(&found, call);
        }
    }
    return found;
}

/* True if the launch of the awaited work is probably no longer in a ring. Both of these must be true:
 * - Later calls have overwritten entries of a ring.
 * - The GPU reports unfinished work, or a synchronisation does not return.
 * The caller has checked that all launches in the rings have ended. */
static bool waits_off_record(const gw_model *model, const gw_hang *hang, const gw_hang_thread *waiting)
{
    bool gone_round = false;
    const gw_thread *thread = gw_model_first_thread(model, hang->pid);
    for (; thread != NULL && !gone_round; thread = gw_model_next_thread(model, thread))
        gone_round = thread->ring_count > 0 && thread->ring_total > thread->ring_count;
    bool is_wait = was_inside_all_the_time(hang, waiting) && strstr(waiting->inside_fn, "Synchronize") != NULL;
    return gone_round && hang->for_ns > 0 && (is_wait || waiting->not_ready > 0);
}

static bool is_collective(const gw_ring_call *call)
{
    return call->kernel != NULL && strstr(call->kernel, "nccl") != NULL;
}

/* True if the kernel's name is unknown, and the process has made a call of NCCL that is not known to have ended, or has
 * captured one into a graph and waits for a graph. */
static bool may_be_collective(const gw_model *model, uint32_t pid, const gw_ring_call *call)
{
    const gw_process *process = gw_model_process(model, pid);
    for (size_t i = 0; process != NULL && call->kernel == NULL && i < process->communicator_count; i++) {
        const gw_communicator *it = &process->communicator[i];
        if (it->last_count > 0 && it->last[it->last_count - 1].state < GW_COLLECTIVE_COMPLETED)
            return true;
        for (size_t k = 0; k < it->last_count && call->is_graph_launch; k++)
            if (it->last[k].state == GW_COLLECTIVE_CAPTURED)
                return true;
    }
    return false;
}

bool gwi_has_nccl_work(const gw_model *model, uint32_t pid)
{
    const gw_thread *thread = gw_model_first_thread(model, pid);
    for (; thread != NULL; thread = gw_model_next_thread(model, thread))
        for (size_t k = thread->ring_count; k-- > 0;)
            if (gw_is_outstanding(&thread->ring[k]) && is_collective(&thread->ring[k]))
                return true;
    return false;
}

/* ---- locks ---- */

/* True if `start` waits for a lock that is never released. Its owner has ended (*ret_owner_ended), or the owners
 * wait for each other in a circle with `start`. */
static bool is_stuck_for_ever(const gw_hang *hang, const gw_hang_thread *start, bool *ret_owner_ended)
{
    const gw_hang_thread *at = start;
    *ret_owner_ended = false;
    for (size_t steps = 0; steps <= hang->thread_count && at != NULL; steps++) {
        if (!waits_by(at, "lock") || at->owner_tid == 0)
            return false;
        if (at->owner_ended) {
            *ret_owner_ended = at == start;
            return at == start;
        }
        at = gwi_hang_thread(hang, at->owner_tid);
        if (at == start)
            return true;
    }
    return false;
}

/* True for a helper thread of the driver. Such threads always wait for events of the kernel driver, and hold no locks
 * of the program. */
static bool is_of_driver(const gw_hang_thread *thread)
{
    return gw_begins(thread->name, "cuda-Evt") || gw_begins(thread->name, "cuda0000");
}

static bool all_wait_for_each_other(const gw_hang *hang)
{
    size_t locks = 0;
    for (size_t i = 0; i < hang->thread_count; i++) {
        const gw_hang_thread *thread = &hang->thread[i];
        if (waits_by(thread, "lock"))
            locks++;
        else if (!waits_by(thread, "join") && !is_of_driver(thread))
            return false;
    }
    return locks > 0;
}

static bool used_no_cpu(const gw_hang *hang)
{
    /* At most 2 % of one processor's time: this is what a thread that only polls may use. */
    return hang->cpu_known && hang->cpu_ms * 50 <= hang->for_ns / 1000000u;
}

/* ---- classification ---- */

/* `of_ended`: also count a lock whose owner has ended. */
static bool has_circle(const gw_hang *hang, bool of_ended)
{
    bool owner_ended;
    for (size_t i = 0; i < hang->thread_count; i++)
        if (is_stuck_for_ever(hang, &hang->thread[i], &owner_ended) && (of_ended || !owner_ended))
            return true;
    return false;
}

/* found->waiting waits for the GPU, or has queried it since the program last made progress. Find out whether the GPU
 * has work for it. */
static void judge_waiting(const gw_model *model, gwi_hang *found)
{
    outstanding launches = launches_outstanding(model, found->hang->pid);
    found->is_off_record = launches.total == 0 && waits_off_record(model, found->hang, found->waiting);
    if (found->is_off_record)
        found->kind = GWI_HANG_KERNEL;
    else if (launches.total > 0)
        found->kind =
            is_collective(launches.newest[0]) || may_be_collective(model, found->hang->pid, launches.newest[0])
                ? GWI_HANG_PEER
                : GWI_HANG_KERNEL;
}

gwi_hang gwi_hang_of(const gw_model *model, uint32_t pid)
{
    gwi_hang found = {0};
    for (size_t i = model->hang_count; i-- > 0 && found.hang == NULL;) {
        if (model->hang[i].pid == pid)
            found.hang = &model->hang[i];
    }
    /* `for_ns` 0: `gpuwhy poke` inspected a process that does not hang. `meets`: only the job together shows a hang. */
    if (found.hang == NULL || found.hang->over || found.hang->for_ns == 0 || found.hang->meets)
        return (gwi_hang){0};
    found.waiting = find_waiting(found.hang);
    /* Threads that name each other as owners are certain, whatever another thread does. One owner that is not there may
     * also be a number in a lock of another kind. */
    if (has_circle(found.hang, found.waiting == NULL)) {
        found.kind = GWI_HANG_DEADLOCK;
        found.in_circle = true;
        found.waiting = NULL;
        return found;
    }
    if (found.waiting != NULL)
        judge_waiting(model, &found);
    bool is_inside = found.waiting != NULL && was_inside_all_the_time(found.hang, found.waiting);
    if (found.kind == GWI_HANG_NONE && !is_inside && used_no_cpu(found.hang) && all_wait_for_each_other(found.hang)) {
        found.kind = GWI_HANG_DEADLOCK;
        found.waiting = NULL;
    }
    return found;
}

/* ---- frames as text ---- */

static bool is_foreign_frame(const char *frame)
{
    static const char *const files[] = {" in libcuda.so", " in libgpuwhy", " in libc.so", " in ld-linux",
                                        " in libpthread", " in libnccl",   "0x"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        const char *at = strstr(frame, files[i]);
        if (at != NULL && (files[i][0] == ' ' || at == frame))
            return true;
    }
    return false;
}

enum { SHOWN_FRAMES_MAX = 5 };

/* Append at most five frames of the site, innermost first. Skips the driver, the C library and the interpreter.
 * Returns the number of appended frames. */
static size_t add_frames(const gwi_case *c, uint32_t site, gw_text *line)
{
    char text[GW_PLACE_TEXT_MAX];
    const gw_stack *stack = gw_sites_stack(c->model->sites, site);
    size_t shown = 0;
    for (size_t i = 0; stack != NULL && i < stack->count && shown < SHOWN_FRAMES_MAX; i++) {
        if (stack->frame[i].whose < GW_WHOSE_RUNTIME)
            gw_text_addf(line, "%s%s", shown++ == 0 ? "" : " <- ",
                         gw_frame_text(c->model->sites, &stack->frame[i], text));
    }
    return shown;
}

size_t gwi_count_stand(const gwi_case *c, const gw_hang_thread *thread)
{
    const gw_stack *stack = gw_sites_stack(c->model->sites, thread->site);
    size_t count = 0;
    for (size_t i = 0; stack != NULL && i < stack->count; i++)
        count += stack->frame[i].whose < GW_WHOSE_RUNTIME;
    return count;
}

bool gwi_waits_in_own_line(const gwi_case *c, const gw_hang_thread *thread)
{
    const gw_stack *stack = gw_sites_stack(c->model->sites, thread->site);
    if (stack == NULL || stack->user == stack->count)
        return false;
    for (size_t i = 0; i < stack->user; i++)
        if (stack->frame[i].python)
            return false;
    return true;
}

void gwi_say_stand(const gwi_case *c, gwi_finding *finding, const gw_hang_thread *thread)
{
    gw_text line = {0};
    size_t shown = add_frames(c, thread->site, &line);
    for (size_t i = 0; i < thread->frame_count && shown < SHOWN_FRAMES_MAX; i++) {
        if (is_foreign_frame(thread->frame[i]))
            continue;
        gw_text_addf(&line, "%s%s", shown == 0 ? "" : " <- ", thread->frame[i]);
        shown++;
    }
    if (shown > 0)
        gwi_evidence(finding, c->hang.hang->t_ns, "host", "thread %" PRIu32 " (%s) is in %s", thread->tid, thread->name,
                     gw_text_str(&line));
    gw_text_free(&line);
}

static const char *stream_text(char out[32], uint64_t stream)
{
    if (stream > 2)
        snprintf(out, 32, "stream 0x%" PRIx64, stream);
    else
        snprintf(out, 32, "%s", stream == 2 ? "the per-thread stream" : "the default stream");
    return out;
}

void gwi_say_waiting(const gwi_case *c, gwi_finding *finding)
{
    const gw_hang *hang = c->hang.hang;
    const gw_hang_thread *thread = c->hang.waiting;
    char call[GWI_CALL_TEXT_MAX], kernel[GWI_KERNEL_TEXT_MAX], stream[32], launched[GWI_LAUNCHED_TEXT_MAX];
    double ms = (double)hang->for_ns / 1e6;
    if (thread->inside_fn[0] != '\0')
        gwi_measure(finding, hang->t_ns, "driver", ms, "ms", "thread %" PRIu32 " (%s) had been inside %s for %.1f s",
                    thread->tid, thread->name, gwi_call_text(call, thread->inside_fn), (double)thread->inside_ns / 1e9);
    else
        gwi_measure(finding, hang->t_ns, "driver", ms, "ms",
                    "thread %" PRIu32 " (%s) had queried the GPU, or waited for finished work, %" PRIu64
                    " times in %.1f s and had done nothing else",
                    thread->tid, thread->name, thread->questions, (double)hang->for_ns / 1e9);
    outstanding launches = launches_outstanding(c->model, hang->pid);
    for (size_t i = 0; i < launches.count; i++) {
        const gw_ring_call *launch = launches.newest[i];
        bool is_last = i == 0 && launches.count > 1;
        gwi_launched_text(launched, c, hang->pid, launch->kernel);
        gwi_evidence(finding, launch->t_ns, "driver", "%s%s%s%s on %s, and nothing has waited for it since%s%s",
                     is_last ? "last launch: " : "",
                     launch->kernel != NULL ? gwi_kernel_text(kernel, launch->kernel) : "an unnamed kernel",
                     is_last ? "" : " was launched", launch->is_graph_launch ? " from a graph" : "",
                     stream_text(stream, launch->stream), launched[0] == '\0' ? "" : "; ", launched);
    }
    if (launches.total > launches.count)
        gwi_evidence(finding, GWI_NO_TIME, "driver", "and %" PRIu64 " earlier launch%s",
                     launches.total - launches.count, launches.total - launches.count == 1 ? "" : "es");
    if (c->hang.is_off_record) {
        gwi_evidence(finding, GWI_NO_TIME, "driver",
                     "the work that it waits for is older than the last %d calls of each thread, and the recording "
                     "contains no earlier calls",
                     GW_RING_ENTRIES);
        gwi_say_off_record(c, finding);
    }
    gwi_say_stand(c, finding, thread);
    gwi_where(finding, thread->site, "the program waits for the GPU here");
}

void gwi_say_threads(const gwi_case *c, gwi_finding *finding)
{
    enum { SHOWN_MAX = 8 };
    const gw_hang *hang = c->hang.hang;
    size_t shown = 0, more = 0;
    for (size_t i = 0; i < hang->thread_count; i++) {
        const gw_hang_thread *thread = &hang->thread[i];
        char call[GWI_CALL_TEXT_MAX], doing[GW_DOING_TEXT_MAX];
        if (gwi_idle_worker_of(c, thread) != NULL)
            continue;
        if (shown == SHOWN_MAX) {
            more++;
            continue;
        }
        shown++;
        if (thread->inside_fn[0] != '\0')
            gwi_evidence(finding, hang->t_ns, "driver", "thread %" PRIu32 " (%s) is inside %s", thread->tid,
                         thread->name, gwi_call_text(call, thread->inside_fn));
        else
            gwi_evidence(finding, hang->t_ns, "host", "thread %" PRIu32 " (%s) is %s", thread->tid, thread->name,
                         gw_doing_text(doing, thread));
        gwi_say_stand(c, finding, thread);
    }
    if (more > 0)
        gwi_evidence(finding, GWI_NO_TIME, "host", "and %zu more thread%s", more, GWI_PLURAL(more));
    gwi_say_idle_workers(c, finding, hang);
}

static bool is_in_collective(const gw_model *model, uint32_t pid)
{
    gwi_hang hang = gwi_hang_of(model, pid);
    if (hang.kind == GWI_HANG_PEER)
        return true;
    outstanding launches = launches_outstanding(model, pid);
    return launches.count > 0 && is_collective(launches.newest[0]);
}

/* Return the main thread of another process, as it was looked at when the judged one hung. NULL: it was not looked at,
 * or was inside the driver. */
static const gw_hang_thread *standing(const gwi_case *c, uint32_t pid)
{
    const uint64_t together_ns = 2000000000u;
    for (size_t i = c->model->hang_count; i-- > 0;) {
        const gw_hang *hang = &c->model->hang[i];
        uint64_t t_ns = c->hang.hang->t_ns, apart_ns = hang->t_ns > t_ns ? hang->t_ns - t_ns : t_ns - hang->t_ns;
        const gw_hang_thread *main_thread =
            hang->pid == pid && apart_ns < together_ns ? gwi_hang_thread(hang, pid) : NULL;
        if (main_thread != NULL)
            return hang->over || main_thread->inside_fn[0] != '\0' ? NULL : main_thread;
    }
    return NULL;
}

static bool is_missing(const gwi_case *c, const gw_process *process)
{
    return process != c->process && process->has_rank && !is_in_collective(c->model, process->pid);
}

bool gwi_a_rank_stands(const gwi_case *c)
{
    char at[GWI_PLACE_TEXT_MAX];
    for (size_t i = 0; i < c->model->process_count; i++) {
        const gw_process *process = &c->model->process[i];
        const gw_hang_thread *thread = is_missing(c, process) ? standing(c, process->pid) : NULL;
        if (thread != NULL && gwi_at(c, thread->site, at)[0] != '\0')
            return true;
    }
    return false;
}

size_t gwi_say_missing_ranks(const gwi_case *c, gwi_finding *finding)
{
    const gw_model *model = c->model;
    size_t missing = 0;
    for (size_t i = 0; i < model->process_count; i++) {
        const gw_process *process = &model->process[i];
        char who[GWI_WHO_TEXT_MAX], doing[GW_DOING_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
        if (!is_missing(c, process))
            continue;
        missing++;
        const gw_hang_thread *thread = standing(c, process->pid);
        gwi_who_text(who, process);
        if (process->exit_known && process->t_exit_ns <= c->hang.hang->t_ns)
            gwi_evidence(finding, process->t_exit_ns, "exit", "%s is missing: it ended", who);
        else if (thread != NULL && gwi_at(c, thread->site, at)[0] != '\0') {
            gwi_evidence(finding, c->hang.hang->t_ns, "host", "%s is missing: its main thread is %s%s", who,
                         gw_doing_text(doing, thread), at);
            gwi_where(finding, thread->site, "a rank stands here and has not joined the collective");
        } else
            gwi_evidence(finding, c->hang.hang->t_ns, "driver", "%s is missing: its last launch is not a collective",
                         who);
    }
    if (c->process != NULL && c->process->has_world && c->process->world > model->process_count)
        gwi_evidence(finding, GWI_NO_TIME, "host", "the job has %" PRIu32 " ranks; the others were not recorded here",
                     c->process->world);
    return missing;
}
