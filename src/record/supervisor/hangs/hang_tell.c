/* Describes a hang as facts: each thread's driver call, what it waits for, and its stack. The data comes from the Linux
 * kernel and the process's memory, without driver calls. A thread is stopped only briefly, if it cannot notice this. */

#include "gw_api.h"
#include "gw_fact.h"
#include "gw_hang_watch.h"
#include "gw_stacks.h"
#include "gw_text.h"

#include <string.h>

/* The stacks of one process, and where to record them. */
typedef struct gwi_hang_stacks {
    gw_stacks_writer writer;
    gw_hang_watch *watch;
    uint64_t for_ns; /* time since the process last made progress */
} gwi_hang_stacks;

enum { THREADS_TOLD_MAX = 64 };

static const gw_watched_thread *watched(const gw_hang_watch *watch, uint32_t pid, uint32_t tid)
{
    for (size_t i = 0; i < watch->thread_count; i++) {
        if (watch->thread[i].pid == pid && watch->thread[i].tid == tid)
            return &watch->thread[i];
    }
    return NULL;
}

static bool uses_driver(const gw_watched_thread *thread)
{
    return thread != NULL &&
           (thread->inside_fn_plus_1 != 0 || thread->is_in_nccl || thread->questions > thread->questions_before);
}

/* Return true if the threads look like those of a hanging process:
 * - one is in a call of the driver or of NCCL, or polls the GPU;
 * - all wait for locks or for the end of other threads; or
 * - one waits for a lock with a known owner.
 *
 * Otherwise, the program may just be waiting for input. */
static bool looks_like_a_hang(const gw_hang_watch *watch, uint32_t pid, const gw_stack_process *threads)
{
    bool all_wait = threads->thread_count > 0, owner_known = false;
    for (size_t i = 0; i < threads->thread_count; i++) {
        const gw_stack_thread *thread = &threads->thread[i];
        if (uses_driver(watched(watch, pid, thread->tid)))
            return true;
        /* ignored: the driver's helper threads always wait for events */
        bool of_driver = gw_begins(thread->name, "cuda");
        all_wait = all_wait && (of_driver || thread->wait == GW_WAIT_LOCK || thread->wait == GW_WAIT_JOIN);
        owner_known = owner_known || (thread->wait == GW_WAIT_LOCK && thread->owner_tid != 0);
    }
    return all_wait || owner_known;
}

static void put_fact(gw_hang_sink put, void *user, const gw_item *like, gw_fact_key key, const char *value)
{
    gw_item item = *like;
    item.kind = GW_ITEM_SUPERVISOR;
    item.pair.key = gw_fact_key_text(key);
    item.pair.value = value;
    put(user, &item);
}

static bool has_ended(const gw_stack_process *threads, uint32_t tid)
{
    for (size_t i = 0; i < threads->thread_count; i++) {
        if (threads->thread[i].tid == tid)
            return false;
    }
    return threads->threads_left_out == 0;
}

/* Return how many queries of this thread have found the GPU busy since the process last made progress. 0 if the last
 * one is old: the work may be done, and the thread may sleep. */
static uint64_t answers_not_ready(const gwi_hang_stacks *stacks, const gw_watched_thread *seen)
{
    if (seen == NULL || stacks->watch->now_ns - seen->not_ready_at_ns > stacks->for_ns / 10)
        return 0;
    return seen->not_ready - seen->not_ready_before;
}

static void tell_thread(gwi_hang_stacks *stacks, const gw_stack_thread *thread)
{
    gw_text text = {0};
    const gw_hang_watch *watch = stacks->watch;
    const gw_stack_process *threads = stacks->writer.process;
    gw_item item = *stacks->writer.like;
    item.tid = thread->tid;
    const gw_watched_thread *seen = watched(watch, item.pid, thread->tid);
    uint16_t inside = seen == NULL ? 0 : seen->inside_fn_plus_1;
    const char *fn = inside == 0 || inside > GW_FN_COUNT ? "" : gw_api_fns[inside - 1].symbol;
    uint64_t inside_ms = inside == 0 ? 0 : (watch->now_ns - seen->inside_since_ns) / 1000000u;
    const char *wait = thread->wait == GW_WAIT_UNKNOWN ? "" : gw_wait_word(thread->wait);
    const gw_fact_hang_thread fact = {
        GW_FACT_SET(wait, gw_fact_text_of(wait)),
        GW_FACT_SET(owner, thread->owner_tid),
        GW_FACT_SET(owner_ended, thread->owner_tid != 0 && has_ended(threads, thread->owner_tid)),
        GW_FACT_SET(fn, gw_fact_text_of(fn)),
        GW_FACT_SET(in_ms, inside_ms),
        GW_FACT_SET(questions, seen == NULL ? 0 : seen->questions - seen->questions_before),
        GW_FACT_SET(not_ready, answers_not_ready(stacks, seen)),
        GW_FACT_SET(site, gw_stacks_write(&stacks->writer, thread)),
        GW_FACT_SET(where, gw_fact_text_of(thread->where)),
        GW_FACT_SET(name, gw_fact_text_of(thread->name)),
    };
    gw_fact_hang_thread_write(&fact, &text);
    put_fact(stacks->writer.put, stacks->writer.user, &item, GW_FACT_HANG_THREAD, gw_text_str(&text));
    gw_text_free(&text);
}

bool gw_hang_tell(gw_hang_watch *watch, const gw_watched_process *process, bool whatever, gw_hang_sink put, void *user)
{
    gw_stack_process *threads = NULL;
    gw_error err;
    if (gw_stacks_look(process->pid, false, &threads, &err) != GW_OK)
        return false;
    bool told = whatever || looks_like_a_hang(watch, process->pid, threads);
    gw_stack_process_free(threads);
    threads = NULL;
    if (!told || gw_stacks_look(process->pid, true, &threads, &err) != GW_OK)
        return false;
    gw_text text = {0};
    uint64_t cpu_ms = 0;
    gw_item item = {.t_ns = watch->now_ns, .pid = process->pid};
    bool cpu_known = process->cpu_known && gw_stacks_cpu_ms(process->pid, &cpu_ms);
    const gw_fact_hang fact = {GW_FACT_SET(for_ms, (watch->now_ns - process->since_ns) / 1000000u),
                               .has_cpu_ms = cpu_known, .has_meets = process->meets, .meets = process->meets,
                               .cpu_ms = cpu_ms > process->cpu_ms ? cpu_ms - process->cpu_ms : 0};
    gw_fact_hang_write(&fact, &text);
    put_fact(put, user, &item, GW_FACT_HANG, gw_text_str(&text));
    gw_text_free(&text);
    if (threads->no_waits[0] != '\0')
        put_fact(put, user, &item, GW_FACT_HANG_NO_WAITS, threads->no_waits);
    if (threads->no_stacks[0] != '\0')
        put_fact(put, user, &item, GW_FACT_HANG_NO_STACKS, threads->no_stacks);
    if (threads->no_python[0] != '\0')
        put_fact(put, user, &item, GW_FACT_HANG_NO_PYTHON, threads->no_python);
    gwi_hang_stacks stacks = {.writer = {.process = threads,
                                         .like = &item,
                                         .put = put,
                                         .user = user,
                                         .sites_told = &watch->sites_told,
                                         .codes_told = &watch->codes_told},
                              .watch = watch,
                              .for_ns = watch->now_ns - process->since_ns};
    gw_stacks_write_begin(&stacks.writer);
    size_t count = 0;
    /* Record the threads that use the driver first, because they explain the most. */
    for (int driver = 1; driver >= 0; driver--) {
        for (size_t i = 0; i < threads->thread_count && count < THREADS_TOLD_MAX; i++) {
            const gw_stack_thread *thread = &threads->thread[i];
            if (uses_driver(watched(watch, process->pid, thread->tid)) != (driver == 1))
                continue;
            tell_thread(&stacks, thread);
            count++;
        }
    }
    gw_stack_process_free(threads);
    return true;
}
