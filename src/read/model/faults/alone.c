/* Find streams with work that nothing waited for, while the program waited for other work.
 *
 * If a kernel on stream B never ends, a program that waits for stream A continues, so no hang is reported. A kernel
 * that is meant to run that long looks the same. So the result is an observation, not a fault.
 *
 * A ring contains the last 2,048 calls of a thread: a few seconds of a slow loop, a tenth of a second of a fast one.
 * The rings prove that nothing waited for a launch only if all of them reach back to it. For older launches (stored by
 * launches.c), the stream must have no later call in the rings, and no later wait.
 *
 * A stream can have about 1,020 outstanding launches. If the rings show more without a wait, the older ones have
 * ended.
 *
 * Nothing is reported for a destroyed stream, or for the default streams of a process with several contexts. A query by
 * the program that returns "not ready" is no wait; one that succeeds is. */
#include "gwi_find.h"

#include "gw_text.h"

#include <stdlib.h>
#include <string.h>

enum { LEGACY = 1, DEFAULT_STREAMS_MAX = 2, ALONE_MAX = 64, OUTSTANDING_MAX = 1024 };

typedef struct search {
    gw_model *model;
    const gwi_process *process;
    uint32_t pid;
    gw_alone *found; /* array of ALONE_MAX elements */
    uint64_t key[ALONE_MAX];
    size_t begin, count; /* found[begin] to found[count - 1] belong to this process */
} search;

static gw_alone *alone_of(search *it, uint64_t key)
{
    for (size_t i = it->begin; i < it->count; i++)
        if (it->key[i] == key)
            return &it->found[i];
    if (it->count == ALONE_MAX)
        return NULL;
    it->key[it->count] = key;
    it->found[it->count] = (gw_alone){.pid = it->pid, .on_record = true, .t_ns = UINT64_MAX};
    return &it->found[it->count++];
}

static void take_launch(search *it, const gw_thread *thread, const gw_ring_call *call)
{
    gw_alone *alone = alone_of(it, gwi_ring_stream(call, thread->tid));
    if (alone == NULL)
        return;
    alone->launches++;
    if (call->t_ns >= alone->t_ns)
        return;
    alone->t_ns = call->t_ns;
    alone->tid = thread->tid;
    alone->stream = call->stream;
    alone->kernel = call->kernel;
    alone->is_graph_launch = call->is_graph_launch;
}

static uint64_t waits_after(const search *it, uint64_t t_ns)
{
    uint64_t count = 0;
    const gw_thread *thread = gw_model_first_thread(it->model, it->pid);
    for (; thread != NULL; thread = gw_model_next_thread(it->model, thread)) {
        for (size_t k = thread->ring_count; k-- > 0 && thread->ring[k].t_ns >= t_ns;)
            count += thread->ring[k].is_sync;
    }
    return count;
}

/* ---- launches that are still in the rings ---- */

/* Set the call site, if all noted launches of the kernel on the stream came from the same site. */
static void find_site(const search *it, gw_alone *alone)
{
    for (size_t i = 0; i < it->model->launch_site_count && alone->kernel != NULL; i++) {
        const gw_launch_site *launch = &it->model->launch_site[i];
        if (launch->pid != it->pid || launch->stream != alone->stream || launch->kernel == NULL ||
            strcmp(launch->kernel, alone->kernel) != 0)
            continue;
        bool is_other = alone->site != 0 && alone->site != launch->site;
        alone->site = is_other ? 0 : launch->site;
        if (is_other)
            return;
    }
}

static void find_on_record(search *it)
{
    const gw_thread *thread = gw_model_first_thread(it->model, it->pid);
    for (; thread != NULL; thread = gw_model_next_thread(it->model, thread)) {
        for (size_t k = 0; k < thread->ring_count; k++)
            if (gw_is_outstanding(&thread->ring[k]))
                take_launch(it, thread, &thread->ring[k]);
    }
    for (size_t i = it->count; i-- > it->begin;) {
        it->found[i].waits_after = waits_after(it, it->found[i].t_ns);
        if (it->found[i].waits_after > 0 && it->found[i].launches <= OUTSTANDING_MAX) {
            find_site(it, &it->found[i]);
            continue;
        }
        it->count--;
        it->found[i] = it->found[it->count];
        it->key[i] = it->key[it->count];
    }
}

/* ---- launches that are no longer in the rings ---- */

static const gw_thread *thread_of(const gw_model *model, uint32_t pid, uint32_t tid)
{
    const gw_thread *thread = gw_model_first_thread(model, pid);
    while (thread != NULL && thread->tid != tid)
        thread = gw_model_next_thread(model, thread);
    return thread;
}

static bool is_maybe_over(const gw_ring_call *call)
{
    return gw_is_any_launch(call) && call->maybe_waited && !call->waited;
}

/* True if the rings have a later call on the stream, or a later wait that includes the stream. */
static bool is_touched(const search *it, uint64_t stream, uint64_t t_ns, bool is_blocking)
{
    const gw_thread *thread = gw_model_first_thread(it->model, it->pid);
    for (; thread != NULL; thread = gw_model_next_thread(it->model, thread)) {
        for (size_t k = 0; k < thread->ring_count; k++) {
            const gw_ring_call *call = &thread->ring[k];
            uint64_t of = gwi_ring_stream(call, thread->tid);
            if (call->t_ns < t_ns || is_maybe_over(call))
                continue;
            if (of == stream || gw_begins(call->fn_name, "cuCtxSynchronize") ||
                (is_blocking && of == LEGACY && (call->is_sync || call->is_copy)))
                return true;
        }
    }
    return false;
}

/* True if the rings show whether something waited for the launch: they reach back to it. */
static bool is_known(const gw_launch_site *launch, const gw_thread *thread)
{
    bool in_reach = thread != NULL && thread->ring_count > 0 &&
                    (thread->ring_total <= thread->ring_count || thread->ring[0].t_ns <= launch->t_ns);
    for (size_t k = in_reach ? thread->ring_count : 0; k-- > 0;)
        if (gw_is_any_launch(&thread->ring[k]) && thread->ring[k].stream == launch->stream)
            return !is_maybe_over(&thread->ring[k]);
    return in_reach;
}

/* True if a launch that is no longer in a ring may still be running. All of this must be true:
 * - the rings do not show whether something waited for it;
 * - they contain no later call on its stream, and no later wait that includes the stream;
 * - no later call waited for the whole device, and the stream still exists. */
static bool has_left_record(const search *it, const gw_launch_site *launch)
{
    uint32_t index;
    if (is_known(launch, thread_of(it->model, it->pid, launch->tid)) || launch->t_ns < it->process->t_waited_ns ||
        !gwi_object_find(it->process, GWI_SPACE_STREAM, launch->stream, &index))
        return false;
    const gwi_object *stream = &it->process->object[index];
    return stream->t_ns <= launch->t_ns && !is_touched(it, launch->stream, launch->t_ns, stream->kind == 0);
}

static void take_noted(search *it, const gw_launch_site *launch)
{
    uint64_t waits = has_left_record(it, launch) ? waits_after(it, launch->t_ns) : 0;
    if (waits > 0 && it->count < ALONE_MAX)
        it->found[it->count++] = (gw_alone){.pid = it->pid,
                                            .tid = launch->tid,
                                            .stream = launch->stream,
                                            .t_ns = launch->t_ns,
                                            .kernel = launch->kernel,
                                            .site = launch->site,
                                            .waits_after = waits};
}

/* Check only the last noted launch of each stream. If it has ended, all earlier launches on the stream have ended,
 * too. */
static void find_off_record(search *it)
{
    uint64_t seen[ALONE_MAX];
    size_t seen_count = 0;
    for (size_t i = it->model->launch_site_count; i-- > 0 && seen_count < ALONE_MAX;) {
        const gw_launch_site *launch = &it->model->launch_site[i];
        bool is_seen = false;
        for (size_t k = 0; k < seen_count; k++)
            is_seen = is_seen || seen[k] == launch->stream;
        if (launch->pid != it->pid || is_seen || launch->stream <= DEFAULT_STREAMS_MAX ||
            gwi_was_captured(it->process, launch->tid, launch->t_ns))
            continue;
        seen[seen_count++] = launch->stream;
        take_noted(it, launch);
    }
}

void gwi_alone_finish(gw_model *model)
{
    search it = {.model = model, .found = calloc(ALONE_MAX, sizeof *it.found)};
    if (it.found == NULL) {
        model->inner->nomem = true;
        return;
    }
    for (size_t i = 0; i < model->process_count; i++) {
        it.process = model->inner->process[i];
        it.pid = model->process[i].pid;
        it.begin = it.count;
        find_on_record(&it);
        find_off_record(&it);
    }
    model->alone = it.found;
    model->alone_count = it.count;
}
