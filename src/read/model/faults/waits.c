/* Finds the GPU work that had certainly ended when a process was last drained.
 *
 * A wait for one stream shows nothing about another stream. So the calls of the rings are processed from the newest to
 * the oldest. `walk` contains the streams and CUDA events whose older work has ended, because a later call waited for
 * it. Each kind of call (left) proves that this work has ended:
 *
 *     cuStreamSynchronize(s), a query of s that succeeded     all older work of s
 *     the same for the legacy default stream                  also all older work of all blocking streams
 *     cuEventSynchronize(e), a query of e that succeeded      all work of the stream before the last record of e
 *     cuStreamWaitEvent(s, e) before work that has ended      all work of the stream before the last record of e
 *     cuCtxSynchronize                                        everything
 *     a blocking copy between host and card                   all older work of the default stream that it uses
 *     work of a blocking stream that has ended                all older work of the legacy default stream
 *     work of the legacy default stream that has ended        all older work of all blocking streams
 *
 * All streams without CU_STREAM_NON_BLOCKING are blocking, including the per-thread default streams.
 *
 * These cases cannot be decided, so the work may have ended:
 * - a stream whose creation was not recorded
 * - several contexts with a default stream each
 * - a copy between unknown kinds of memory
 * - calls of another thread that its ring no longer contains
 *
 * The result has three values: the work has ended (`waited`), may have ended (`maybe_waited`), or neither. The window
 * of an asynchronous fault takes all launches that have not certainly ended. A kernel that never ends and a stream left
 * alone take only launches that are certainly outstanding. For work after a refused request, launches, copies and fills
 * count that have ended. */
#include "gwi_find.h"

#include "gw_text.h"

#include <stdlib.h>
#include <string.h>

enum { LEGACY = 1, PER_THREAD = 2 };

typedef enum over { OVER_NOT, OVER_MAYBE, OVER_SURELY } over;
typedef enum blocking { BLOCKING_NOT, BLOCKING_MAYBE, BLOCKING_SURELY } blocking;

typedef struct entry {
    gw_ring_call *call;
    uint64_t stream;
    uint32_t tid, at; /* `at`: index of the call in the thread's ring */
    bool captured;
} entry;

/* Shows whether the older work of a stream has ended, or the work before the last record of a CUDA event. `key` is the
 * handle of the stream or event. */
typedef struct mark {
    uint64_t key;
    over over;
    blocking blocking;
} mark;

typedef struct walk {
    const gwi_process *process;
    bool many_contexts;
    entry *entry; /* oldest first */
    size_t entry_count;
    mark *stream, *event; /* sorted by key */
    size_t stream_count, event_count;
    over all, all_blocking;
} walk;

static over most(over a, over b)
{
    return a > b ? a : b;
}

static over least(over a, over b)
{
    return a < b ? a : b;
}

/* ---- marks ---- */

static int by_key(const void *a, const void *b)
{
    const mark *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key;
}

static size_t unique(mark *list, size_t count)
{
    size_t kept = 0;
    qsort(list, count, sizeof *list, by_key);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || list[kept - 1].key != list[i].key)
            list[kept++] = list[i];
    return kept;
}

static mark *find(mark *list, size_t count, uint64_t key)
{
    const mark wanted = {.key = key};
    return count == 0 ? NULL : bsearch(&wanted, list, count, sizeof *list, by_key);
}

static blocking blocking_of(const gwi_process *process, uint64_t stream)
{
    uint32_t index;
    if (stream == LEGACY)
        return BLOCKING_NOT; /* only other streams can be blocking, which means that they wait for the legacy stream */
    if ((stream & 7) == PER_THREAD)
        return BLOCKING_SURELY;
    if (!gwi_object_find(process, GWI_SPACE_STREAM, stream, &index))
        return BLOCKING_MAYBE;
    return process->object[index].kind == 0 ? BLOCKING_SURELY : BLOCKING_NOT;
}

/* Return `level`, but at most OVER_MAYBE for a default stream if there are several contexts. Each context has its own
 * default streams. The recording of a hot call does not contain the current context. */
static over limited(const walk *w, uint64_t stream, over level)
{
    bool is_default = stream == LEGACY || (stream & 7) == PER_THREAD;
    return w->many_contexts && is_default ? least(level, OVER_MAYBE) : level;
}

static over level_of(const walk *w, const mark *stream)
{
    over level = most(w->all, stream->over);
    if (stream->blocking == BLOCKING_SURELY)
        level = most(level, w->all_blocking);
    else if (stream->blocking == BLOCKING_MAYBE)
        level = most(level, least(w->all_blocking, OVER_MAYBE));
    return level;
}

static void mark_stream(walk *w, uint64_t stream, over level)
{
    mark *it = find(w->stream, w->stream_count, stream);
    level = limited(w, stream, level);
    if (it != NULL)
        it->over = most(it->over, level);
    if (stream == LEGACY)
        w->all_blocking = most(w->all_blocking, level);
}

/* ---- processing the calls ---- */

/* Return whether the host certainly, maybe or never waits for this copy, and so for all older work in its stream. */
static over copy_waits(const char *name)
{
    bool async = strstr(name, "Async") != NULL;
    if (!async && (gw_begins(name, "cuMemcpyHtoD") || gw_begins(name, "cuMemcpyDtoH")))
        return OVER_SURELY;
    if (async && !gw_begins(name, "cuMemcpyDtoH"))
        /* among asynchronous copies, only those to the host may wait: they do if the memory is pageable */
        return OVER_NOT;
    return gw_begins(name, "cuMemcpyDtoD") ? OVER_NOT : OVER_MAYBE;
}

static void take_event(walk *w, uint64_t event, over level)
{
    mark *it = find(w->event, w->event_count, event);
    if (it != NULL)
        it->over = most(it->over, level);
}

/* Find out whether the work of this call has ended. If it has, mark the earlier work that it proves to have ended.
 * `stream` is the mark of the call's own stream. */
static void take_work(walk *w, const entry *at, const mark *stream)
{
    const char *name = at->call->fn_name;
    over level = level_of(w, stream);
    at->call->waited = level == OVER_SURELY;
    at->call->maybe_waited = level != OVER_NOT;
    bool is_record = gw_begins(name, "cuEventRecord");
    /* it is uncertain whether the record of an event waits for other streams */
    over shown = is_record ? least(level, OVER_MAYBE) : level;
    if (stream->blocking != BLOCKING_NOT)
        mark_stream(w, LEGACY, stream->blocking == BLOCKING_SURELY ? shown : least(shown, OVER_MAYBE));
    else if (at->stream == LEGACY)
        w->all_blocking = most(w->all_blocking, limited(w, LEGACY, shown));
    if (gw_begins(name, "cuStreamWaitEvent"))
        take_event(w, at->call->what, level);
    if (!is_record)
        return;
    mark *event = find(w->event, w->event_count, at->call->what);
    if (event == NULL || event->over == OVER_NOT)
        return;
    mark_stream(w, at->stream, event->over);
    event->over = OVER_NOT; /* a wait covers only the last cuEventRecord() before it, so older records of this event
                               prove nothing */
}

static void take(walk *w, const entry *at)
{
    const char *name = at->call->fn_name;
    if (gw_begins(name, "cuCtxSynchronize")) {
        w->all = most(w->all, w->many_contexts ? OVER_MAYBE : OVER_SURELY);
    } else if (gw_begins(name, "cuStreamSynchronize") || gw_begins(name, "cuStreamQuery")) {
        mark_stream(w, at->stream, OVER_SURELY);
    } else if (gw_begins(name, "cuEventSynchronize") || gw_begins(name, "cuEventQuery")) {
        take_event(w, at->call->what, OVER_SURELY);
    } else if (!at->captured) {
        const mark *stream = find(w->stream, w->stream_count, at->stream);
        over waits = at->call->is_copy ? copy_waits(name) : OVER_NOT;
        if (waits != OVER_NOT)
            mark_stream(w, at->stream, waits);
        if (stream != NULL)
            take_work(w, at, stream);
    }
}

/* ---- the calls of a process ---- */

static bool is_per_thread_call(const char *name)
{
    size_t bytes = strlen(name);
    return bytes > 5 && (strcmp(name + bytes - 5, "_ptsz") == 0 || strcmp(name + bytes - 5, "_ptds") == 0);
}

uint64_t gwi_ring_stream(const gw_ring_call *call, uint32_t tid)
{
    bool about = gw_begins(call->fn_name, "cuStreamSynchronize") || gw_begins(call->fn_name, "cuStreamQuery");
    uint64_t stream = about ? call->what : call->stream;
    if (stream == PER_THREAD || (stream == 0 && is_per_thread_call(call->fn_name)))
        return (uint64_t)tid << 8 | PER_THREAD;
    return stream == 0 ? LEGACY : stream;
}

static bool is_about_event(const char *name)
{
    return gw_begins(name, "cuEvent") || gw_begins(name, "cuStreamWaitEvent");
}

static int by_time(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->call->t_ns != y->call->t_ns)
        return x->call->t_ns < y->call->t_ns ? -1 : 1;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static void gather(walk *w, const gw_thread *thread, const gwi_process *process)
{
    for (uint32_t k = 0; k < thread->ring_count; k++) {
        gw_ring_call *call = &thread->ring[k];
        entry *at = &w->entry[w->entry_count++];
        *at = (entry){.call = call, .stream = gwi_ring_stream(call, thread->tid), .tid = thread->tid, .at = k};
        at->captured = call->captured || gwi_was_captured(process, thread->tid, call->t_ns);
        w->stream[w->stream_count++] = (mark){.key = at->stream, .blocking = blocking_of(process, at->stream)};
        if (is_about_event(call->fn_name))
            w->event[w->event_count++] = (mark){.key = call->what};
    }
}

/* The latest times at which threads may have waited in calls that their rings no longer contain. */
typedef struct beyond {
    uint64_t latest_ns, second_ns; /* the two latest times of all threads; 0: no such thread */
    const gw_thread *latest;       /* the thread of latest_ns */
} beyond;

/* Return the latest time at which the thread may have waited in a call that its ring no longer contains. Returns 0 if
 * there is no such call. */
static uint64_t beyond_of(const gw_thread *thread)
{
    if (thread->ring_count == 0)
        return thread->synced_at_ns;
    if (thread->ring_total <= thread->ring_count)
        return 0;
    return thread->synced_at_ns < thread->ring[0].t_ns ? thread->synced_at_ns : thread->ring[0].t_ns;
}

static beyond find_beyond(const gw_model *model, uint32_t pid)
{
    beyond found = {0};
    const gw_thread *thread = gw_model_first_thread(model, pid);
    for (; thread != NULL; thread = gw_model_next_thread(model, thread)) {
        uint64_t t_ns = beyond_of(thread);
        if (found.latest == NULL || t_ns > found.latest_ns) {
            found = (beyond){t_ns, found.latest_ns, thread};
        } else if (t_ns > found.second_ns) {
            found.second_ns = t_ns;
        }
    }
    return found;
}

static void look_beyond(gw_model *model, const gwi_process *process)
{
    beyond others = find_beyond(model, process->pid);
    const gw_thread *thread = gw_model_first_thread(model, process->pid);
    for (; thread != NULL; thread = gw_model_next_thread(model, thread)) {
        uint64_t other_ns = thread == others.latest ? others.second_ns : others.latest_ns;
        for (size_t k = 0; k < thread->ring_count; k++) {
            gw_ring_call *call = &thread->ring[k];
            if (!call->waited && !call->maybe_waited)
                call->maybe_waited = call->t_ns < process->t_waited_ns || call->t_ns < other_ns;
        }
    }
}

static bool has_many_contexts(const gw_process *facts)
{
    uint64_t count = 0;
    for (int device = 0; device < GW_MODEL_DEVICE_PLACES; device++)
        count += facts->usage[device].class_count_peak[GW_CLASS_CONTEXT];
    return count > 1;
}

static void find_waited(gw_model *model, const gwi_process *process)
{
    size_t room = 0;
    const gw_thread *first = gw_model_first_thread(model, process->pid);
    for (const gw_thread *thread = first; thread != NULL; thread = gw_model_next_thread(model, thread))
        room += thread->ring_count;
    if (room == 0)
        return;
    walk w = {.process = process, .many_contexts = has_many_contexts(&model->process[process->index])};
    w.entry = calloc(room, sizeof *w.entry);
    w.stream = calloc(room + 1, sizeof *w.stream);
    w.event = calloc(room, sizeof *w.event);
    model->inner->nomem = model->inner->nomem || w.entry == NULL || w.stream == NULL || w.event == NULL;
    if (!model->inner->nomem) {
        w.stream[w.stream_count++] = (mark){.key = LEGACY, .blocking = BLOCKING_NOT};
        for (const gw_thread *thread = first; thread != NULL; thread = gw_model_next_thread(model, thread))
            gather(&w, thread, process);
        w.stream_count = unique(w.stream, w.stream_count);
        w.event_count = unique(w.event, w.event_count);
        qsort(w.entry, w.entry_count, sizeof *w.entry, by_time);
        for (size_t i = w.entry_count; i-- > 0;)
            take(&w, &w.entry[i]);
        look_beyond(model, process);
    }
    free(w.entry);
    free(w.stream);
    free(w.event);
}

void gwi_waits_finish(gw_model *model)
{
    for (size_t i = 0; i < model->process_count && !model->inner->nomem; i++)
        find_waited(model, model->inner->process[i]);
}
