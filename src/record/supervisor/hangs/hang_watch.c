/* Detects processes that make no progress, by comparing their threads' slots in the buffers over time. */
#include "gw_hang_watch.h"

#include "gw_stacks.h"

#include <string.h>

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
