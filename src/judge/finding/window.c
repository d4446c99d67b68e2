/* Reports when a sticky fault happened, and which launches may have caused it. The window is from the last good
 * synchronisation to the report of the fault. */
#include "gwi_cause.h"

#include <inttypes.h>
#include <string.h>

typedef struct launch_list {
    const gw_ring_call *last;    /* the newest launch, whether it has ended or not; NULL: none */
    const gw_ring_call *call[8]; /* the newest launches that may still be running, oldest first */
    size_t count;
    uint64_t open_count;   /* number of all launches that may still be running */
    uint64_t before_count; /* part of open_count: launches before the last good synchronisation */
} launch_list;

bool gwi_is_open_launch(const gw_ring_call *call, uint64_t t_ns)
{
    return gw_is_any_launch(call) && !call->captured && call->t_ns <= t_ns && !call->waited;
}

/* True if this thread performed the process's last good synchronisation. Both times were converted from clock ticks, at
 * different moments. So they may differ slightly for the same synchronisation. */
static bool is_own_sync(const gw_thread *thread, uint64_t synced_ns)
{
    enum { CLOCK_SLACK_NS = 10000 };
    uint64_t apart =
        synced_ns > thread->synced_at_ns ? synced_ns - thread->synced_at_ns : thread->synced_at_ns - synced_ns;
    return synced_ns != 0 && thread->synced_at_ns != 0 && apart <= CLOCK_SLACK_NS;
}

/* True if call `at` of the ring was made after the last good synchronisation. Calls in quick succession may have the
 * same time stamp. So for the thread that synchronised, compare call numbers instead. */
static bool is_after_sync(const gw_thread *thread, size_t at, uint64_t synced_ns)
{
    if (is_own_sync(thread, synced_ns) && thread->ring_synced_total != 0)
        return thread->ring_total - thread->ring_count + at >= thread->ring_synced_total;
    return thread->ring[at].t_ns > synced_ns;
}

static void keep_launch(launch_list *list, const gw_ring_call *call)
{
    const size_t room = sizeof list->call / sizeof list->call[0];
    if (list->count == room) {
        if (call->t_ns < list->call[0]->t_ns)
            return;
        memmove(&list->call[0], &list->call[1], --list->count * sizeof list->call[0]);
    }
    size_t at = list->count++;
    for (; at > 0 && list->call[at - 1]->t_ns > call->t_ns; at--)
        list->call[at] = list->call[at - 1];
    list->call[at] = call;
}

static launch_list launches_before(const gwi_case *c, uint64_t t_ns, uint64_t synced_ns)
{
    launch_list list = {0};
    for (size_t i = 0; i < c->model->thread_count; i++) {
        const gw_thread *thread = &c->model->thread[i];
        if (c->process == NULL || thread->pid != c->process->pid)
            continue;
        for (size_t k = 0; k < thread->ring_count; k++) {
            const gw_ring_call *call = &thread->ring[k];
            if ((!call->is_launch && !call->is_graph_launch) || call->captured || call->t_ns > t_ns)
                continue;
            list.last = list.last == NULL || call->t_ns >= list.last->t_ns ? call : list.last;
            if (!gwi_is_open_launch(call, t_ns))
                continue;
            list.open_count++;
            list.before_count += synced_ns != 0 && !is_after_sync(thread, k, synced_ns);
            keep_launch(&list, call);
        }
    }
    return list;
}

/* Count the process's calls between `from_ns` and the failure `until`. This includes only failures and the calls that
 * are still in the rings. */
static uint64_t calls_between(const gw_model *model, const gw_failure *until, uint64_t from_ns)
{
    uint64_t count = 0;
    for (size_t i = 0; i < model->thread_count; i++) {
        const gw_thread *thread = &model->thread[i];
        for (size_t k = 0; thread->pid == until->pid && k < thread->ring_count; k++)
            count += thread->ring[k].t_ns > from_ns && thread->ring[k].t_ns < until->t_ns;
    }
    for (size_t i = 0; i < model->failure_count; i++)
        count += model->failure[i].pid == until->pid && model->failure[i].t_ns > from_ns &&
                 model->failure[i].t_ns < until->t_ns;
    return count;
}

bool gwi_window_is_whole(const gwi_case *c, uint64_t synced_ns)
{
    if (c->model->note_count[GW_NOTE_SLOTS_FULL] > 0 || c->process->lost_threads > 0)
        return false;
    for (size_t i = 0; i < c->model->thread_count; i++) {
        const gw_thread *thread = &c->model->thread[i];
        if (thread->pid == c->process->pid && thread->ring_count == 0 && gw_launches(thread->counter) > 0)
            return false; /* this thread launched kernels, but has no record of them */
        if (thread->pid != c->process->pid || thread->ring_count == 0 || thread->ring_total <= thread->ring_count)
            continue;
        bool own = is_own_sync(thread, synced_ns) && thread->ring_synced_total != 0;
        if (own ? thread->ring_synced_total < thread->ring_total - thread->ring_count
                : thread->ring[0].t_ns > synced_ns)
            return false;
    }
    return true;
}

/* Report that some calls after the last good synchronisation are unknown, because a ring contains only the most recent
 * calls of a thread. */
static void say_before_ring(const gwi_case *c, gwi_finding *finding, uint64_t synced_ns)
{
    for (size_t i = 0; i < c->model->thread_count; i++) {
        const gw_thread *thread = &c->model->thread[i];
        if (thread->pid != c->process->pid || thread->ring_count == 0 || thread->ring_total <= thread->ring_count)
            continue;
        uint64_t begin = thread->ring_total - thread->ring_count; /* number of older calls, which the ring has lost */
        bool own = is_own_sync(thread, synced_ns);
        uint64_t unknown = own && thread->ring_synced_total < begin ? begin - thread->ring_synced_total : 0;
        if (unknown > 0)
            gwi_measure(finding, GWI_NO_TIME, "driver", (double)unknown, "calls",
                        "the recording does not contain the first %" PRIu64
                        " call%s that thread %u made after that synchronisation",
                        unknown, GWI_PLURAL(unknown), thread->tid);
        else if (!own && thread->ring[0].t_ns > synced_ns)
            gwi_evidence(finding, GWI_NO_TIME, "driver",
                         "the recording contains the calls of thread %u only from %.3f s on", thread->tid,
                         (double)thread->ring[0].t_ns / 1e9);
    }
}

static void say_distance(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky, const launch_list *list)
{
    const gw_ring_call *last = list->last;
    uint64_t between = calls_between(c->model, sticky, last->t_ns);
    double ms = (double)(sticky->t_ns - last->t_ns) / 1e6;
    if (sticky->by_dump)
        gwi_measure(finding, sticky->t_ns, "driver", ms, "ms", "the dump was complete %.2f ms after the last launch",
                    ms);
    else if (sticky->kind == GW_EV_LAUNCH || sticky->kind == GW_EV_GRAPH_LAUNCH)
        gwi_measure(finding, sticky->t_ns, "driver", ms, "ms",
                    "the error was reported %.2f ms and %" PRIu64
                    " other call%s after the last launch that succeeded: a launch returns the error of an earlier "
                    "launch, unless the program waits for each launch (CUDA_LAUNCH_BLOCKING=1)",
                    ms, between, GWI_PLURAL(between));
    else
        gwi_measure(finding, sticky->t_ns, "driver", ms, "ms",
                    "the error was reported %.2f ms and %" PRIu64
                    " other call%s after the last launch: the call that reports it is not the one at fault",
                    ms, between, GWI_PLURAL(between));
}

void gwi_say_window(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky)
{
    uint64_t synced = c->process->synced_at_ns;
    launch_list list = launches_before(c, sticky->t_ns, synced);
    double ms = (double)(sticky->t_ns - synced) / 1e6;
    if (synced != 0 && synced < sticky->t_ns && list.before_count > 0)
        gwi_measure(finding, synced, "driver", ms, "ms",
                    "last good synchronisation, %.2f ms before the report, but not of all streams: %" PRIu64
                    " launch%s may still have been running, %" PRIu64 " of them from before it",
                    ms, list.open_count, list.open_count == 1 ? "" : "es", list.before_count);
    else if (synced != 0 && synced < sticky->t_ns)
        gwi_measure(finding, synced, "driver", ms, "ms",
                    "last good synchronisation: the fault happened in the %.2f ms (%" PRIu64
                    " launch%s) between it and the report",
                    ms, list.open_count, list.open_count == 1 ? "" : "es");
    else if (synced == 0 && list.last != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "driver",
                     "no synchronisation had succeeded so far: any earlier launch may be the cause");
    say_before_ring(c, finding, synced);
    if (list.last != NULL)
        say_distance(c, finding, sticky, &list);
}
