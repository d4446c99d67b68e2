/* Finds memory that was freed while a copy or fill may still have used it.
 *
 * The hook reports the calls that order work on the GPU, before each event that frees memory. It numbers these steps
 * over all threads (gw_order_step). For each copy or fill, this file stores:
 * - the streams whose later work runs after the copy
 * - the CUDA events that were recorded after the copy
 *
 * A stream that waits for such an event is added to the streams.
 *
 * A copy has ended when:
 * - the host has waited for such an event or stream
 * - a query reported it done
 * - a host function was queued behind the copy
 *
 * A block is reported if it is freed in a stream that is not ordered after the copy. It is also reported if the host
 * frees it before the copy has ended.
 *
 * If anything is unknown, the copy is dropped, to avoid false reports. Examples: a gap in the numbers, captured work, a
 * wait that is not tracked. Implicit waits for the device (freeing plain memory, unloading a module) are waits, too.
 *
 * Launches are not steps, but may have ordered the copy and the free. At the end, this file counts the launches between
 * them in the threads' rings, for the verdict. */
#include "gwi_find.h"

#include "gw_text.h"

#include <stdlib.h>
#include <string.h>

enum { COPIES_MAX = 64, EVENTS_MAX = 8, KNOWN_EVENTS = 256, STREAM_LEGACY = 1, STREAM_PER_THREAD = 2 };

typedef struct copy {
    uint64_t t_ns, to, from, bytes, made_on;
    uint32_t tid;
    uint16_t fn;
    bool is_fill;
    bool on_blocking;  /* one of the streams in `stream` is a blocking stream or the default stream */
    bool all_blocking; /* later work in the default stream and in all blocking streams runs after the copy */
    uint64_t stream[GW_ORDER_STREAMS_MAX];
    uint32_t stream_count;
    uint64_t event[EVENTS_MAX];
    uint32_t event_count;
    uint64_t later_count;
} copy;

typedef struct gwi_order {
    uint32_t last;  /* number of the last step that was read */
    bool range_due; /* the next event must be ORDER_RANGE, with the addresses of the newest copy, `due` */
    copy due;
    copy item[COPIES_MAX]; /* oldest first */
    uint32_t count;
    uint64_t known_event[KNOWN_EVENTS]; /* ring buffer: the newest CUDA events recorded so far */
    uint32_t known_count;
    uint64_t looked; /* number of objects that is_asynchronous() has examined so far */
} gwi_order;

/* ---- streams ---- */

static bool is_legacy(uint64_t stream)
{
    return stream == 0 || stream == STREAM_LEGACY;
}

/* True if the stream is the default stream, or a blocking stream, which the driver orders with the default stream. */
static bool is_blocking(const gwi_process *process, uint64_t stream)
{
    uint32_t index;
    if (is_legacy(stream) || (stream & 7) == STREAM_PER_THREAD)
        return true;
    return !gwi_object_find(process, GWI_SPACE_STREAM, stream, &index) || process->object[index].kind == 0;
}

static bool has_stream(const copy *it, uint64_t stream)
{
    for (uint32_t i = 0; i < it->stream_count; i++)
        if (it->stream[i] == stream)
            return true;
    return false;
}

/* True if work that is queued in `stream` from now on runs after the copy. */
static bool is_after(const gwi_process *process, const copy *it, uint64_t stream)
{
    return has_stream(it, stream) || (it->all_blocking && is_blocking(process, stream)) ||
           (it->on_blocking && is_legacy(stream));
}

static void forget(gwi_order *order, uint32_t index)
{
    memmove(&order->item[index], &order->item[index + 1], (order->count - index - 1) * sizeof order->item[0]);
    order->count--;
}

/* Note that later work in `stream` runs after the copy. Returns false if the copy's list of streams is full; the caller
 * then drops the copy. */
static bool add_stream(const gwi_process *process, copy *it, uint64_t stream)
{
    if (has_stream(it, stream))
        return true;
    if (it->stream_count == GW_ORDER_STREAMS_MAX)
        return false;
    it->stream[it->stream_count++] = stream;
    it->on_blocking |= is_blocking(process, stream);
    it->all_blocking |= is_legacy(stream);
    return true;
}

/* Note that work was queued in a stream. Work in the default stream runs after earlier work in all blocking streams,
 * and before their later work. */
static void note_work(gwi_process *process, uint64_t stream)
{
    gwi_order *order = process->order;
    for (uint32_t i = 0; i < order->count; i++) {
        copy *it = &order->item[i];
        if (is_legacy(stream))
            it->all_blocking |= it->on_blocking;
        it->later_count += is_after(process, it, stream);
    }
}

/* ---- steps ---- */

static bool is_known(const gwi_order *order, uint64_t event)
{
    uint32_t count = order->known_count < KNOWN_EVENTS ? order->known_count : KNOWN_EVENTS;
    for (uint32_t i = 0; i < count; i++)
        if (order->known_event[i] == event)
            return true;
    return false;
}

static bool has_event(const copy *it, uint64_t event)
{
    for (uint32_t i = 0; i < it->event_count; i++)
        if (it->event[i] == event)
            return true;
    return false;
}

/* Note that a CUDA event was recorded in a stream. Copies that were linked to an older record of the event stay linked.
 * A copy may then seem to end too early, but this never causes a false report. */
static void record(gwi_process *process, uint64_t event, uint64_t stream)
{
    gwi_order *order = process->order;
    if (!is_known(order, event))
        order->known_event[order->known_count++ % KNOWN_EVENTS] = event;
    for (uint32_t i = order->count; i-- > 0;) {
        copy *it = &order->item[i];
        if (!is_after(process, it, stream) || has_event(it, event))
            continue;
        if (it->event_count == EVENTS_MAX)
            forget(order, i);
        else
            it->event[it->event_count++] = event;
    }
}

static void wait_for(gwi_process *process, uint64_t event, uint64_t stream)
{
    gwi_order *order = process->order;
    bool known = is_known(order, event);
    for (uint32_t i = order->count; i-- > 0;) {
        copy *it = &order->item[i];
        if ((!known || has_event(it, event)) && !add_stream(process, it, stream))
            forget(order, i);
    }
}

static void stream_is_done(gwi_process *process, uint64_t stream)
{
    gwi_order *order = process->order;
    for (uint32_t i = order->count; i-- > 0;)
        if (is_after(process, &order->item[i], stream))
            forget(order, i);
}

static void event_is_done(gwi_process *process, uint64_t event)
{
    gwi_order *order = process->order;
    bool known = is_known(order, event);
    for (uint32_t i = order->count; i-- > 0;)
        if (!known || has_event(&order->item[i], event))
            forget(order, i);
}

/* Store a new copy. Drop an older copy with the same stream, addresses and size: work that runs after the new copy also
 * runs after the older one. */
static void add_copy(gwi_order *order, const copy *it)
{
    for (uint32_t i = order->count; i-- > 0;) {
        const copy *older = &order->item[i];
        if (older->made_on == it->made_on && older->to == it->to && older->from == it->from &&
            older->bytes == it->bytes)
            forget(order, i);
    }
    if (order->count == COPIES_MAX)
        forget(order, 0);
    order->item[order->count++] = *it;
}

static void take_range(gwi_process *process, const gw_event *event)
{
    gwi_order *order = process->order;
    if (!order->range_due || event->extra != order->last)
        return;
    order->range_due = false;
    order->due.to = event->arg[0];
    order->due.from = event->arg[1];
    order->due.bytes = event->arg[2];
    if (order->due.made_on == UINT64_MAX) /* the host may have waited for the copy, so there is nothing to track */
        return;
    add_copy(order, &order->due);
}

static void begin_copy(gwi_process *process, const gw_event *event, gw_order_step step)
{
    gwi_order *order = process->order;
    uint64_t stream = event->arg[2], age_ns = event->arg[3];
    order->range_due = true;
    order->due = (copy){.t_ns = event->t_ns > age_ns ? event->t_ns - age_ns : 0,
                        .made_on = stream,
                        .tid = (uint32_t)(event->arg[0] >> 8),
                        .fn = event->fn,
                        .is_fill = step == GW_ORDER_FILL};
    if (step == GW_ORDER_COPY_WAITED) {
        stream_is_done(process, stream);
        order->due.made_on = UINT64_MAX;
        return;
    }
    note_work(process, stream);
    (void)add_stream(process, &order->due, stream); /* the first stream always fits */
}

static void take_step(gwi_process *process, const gw_event *event)
{
    gwi_order *order = process->order;
    gw_order_step step = (gw_order_step)(event->arg[0] & 0xff);
    uint64_t object = event->arg[1], stream = event->arg[2];
    switch (step) {
    case GW_ORDER_COPY:
    case GW_ORDER_COPY_WAITED:
    case GW_ORDER_FILL:
        begin_copy(process, event, step);
        break;
    case GW_ORDER_RECORD:
        note_work(process, stream);
        record(process, object, stream);
        break;
    case GW_ORDER_WAIT:
        wait_for(process, object, stream);
        note_work(process, stream);
        break;
    case GW_ORDER_HOST_FUNC:
    case GW_ORDER_STREAM_DONE:
        stream_is_done(process, step == GW_ORDER_HOST_FUNC ? stream : object);
        break;
    case GW_ORDER_EVENT_DONE:
        event_is_done(process, object);
        break;
    default: /* CONTEXT_DONE, UNKNOWN and steps of later versions: all copies count as ended */
        order->count = 0;
        break;
    }
}

void gwi_order_step(gw_model *model, gwi_process *process, const gw_event *event)
{
    if (process->order == NULL)
        process->order = calloc(1, sizeof *process->order);
    if (process->order == NULL) {
        model->inner->nomem = true;
        return;
    }
    gwi_order *order = process->order;
    if (event->kind == GW_EV_ORDER_RANGE) {
        take_range(process, event);
        return;
    }
    if (event->extra != order->last + 1 || order->range_due)
        order->count = 0;
    order->range_due = false;
    order->last = event->extra;
    take_step(process, event);
}

/* ---- freed memory ---- */

static bool touches(const copy *it, uint64_t at, uint64_t bytes)
{
    if (it->bytes == 0)
        return false;
    return (it->to < at + bytes && it->to + it->bytes > at) ||
           (!it->is_fill && it->from < at + bytes && it->from + it->bytes > at);
}

/* True if `at` is in live memory of the process: host memory if `host`, else device memory. */
static bool is_inside(const gwi_process *process, uint64_t at, bool host)
{
    for (uint32_t i = 0; i < process->object_count; i++) {
        const gwi_object *object = &process->object[i];
        bool fits = host ? object->space == GWI_SPACE_HOST
                         : object->space == GWI_SPACE_MEMORY || object->space == GWI_SPACE_MAPPING;
        if (fits && gwi_is_alive(object) && at >= object->key && at - object->key < object->bytes)
            return true;
    }
    return false;
}

/* True if both ends of the copy are known to be device memory or page-locked memory. With pageable memory, the driver
 * itself waits for the copy. Unknown memory is treated as pageable. Always false once about 270 million objects were
 * examined: searching a large ledger takes time. */
static bool is_asynchronous(const gwi_process *process, const copy *it)
{
    const uint64_t side[] = {it->to, it->is_fill ? it->to : it->from}, looked_max = UINT64_C(1) << 28;
    process->order->looked += process->object_count;
    if (process->order->looked > looked_max)
        return false;
    for (int i = 0; i < 2; i++)
        if (!is_inside(process, side[i], true) && !is_inside(process, side[i], false))
            return false;
    return true;
}

static void add_unordered(gw_model *model, const gwi_process *process, const gw_event *event, const copy *it,
                          const gwi_object *block, gw_unordered_kind kind)
{
    if (model->unordered == NULL)
        model->unordered = calloc(GW_UNORDERED_MAX, sizeof *model->unordered);
    if (model->unordered == NULL) {
        model->inner->nomem = true;
        return;
    }
    model->unordered_total++;
    if (model->unordered_count == GW_UNORDERED_MAX) { /* if full, drop the oldest of the second half */
        size_t half = GW_UNORDERED_MAX / 2;
        memmove(&model->unordered[half], &model->unordered[half + 1], (half - 1) * sizeof *model->unordered);
        model->unordered_count--;
    }
    gw_unordered *found = &model->unordered[model->unordered_count++];
    *found = (gw_unordered){.kind = kind,
                            .pid = process->pid,
                            .copy_tid = it->tid,
                            .free_tid = event->tid,
                            .free_site = model->inner->event_site,
                            .block_site = model->group[block->group].site,
                            .copy_fn_id = it->fn,
                            .free_fn_id = event->fn,
                            .t_copy_ns = it->t_ns,
                            .t_free_ns = event->t_ns,
                            .t_block_ns = block->t_ns,
                            .address = block->key,
                            .block_bytes = block->bytes,
                            .copy_bytes = it->bytes,
                            .is_fill = it->is_fill,
                            .copy_stream = it->made_on,
                            .free_stream = event->arg[3],
                            .by_free = event->kind == GW_EV_FREE,
                            .stream_count = it->stream_count,
                            .on_blocking = it->on_blocking,
                            .recorded = it->event_count > 0,
                            .later_count = it->later_count};
    memcpy(found->stream, it->stream, sizeof found->stream);
    found->to_host = is_inside(process, it->to, true);
    found->from_host = !it->is_fill && is_inside(process, it->from, true);
}

static uint64_t free_stream(const gw_event *event)
{
    uint64_t stream = event->arg[3];
    if (stream == STREAM_PER_THREAD || (stream == 0 && (event->flags & GW_EVF_PER_THREAD) != 0))
        return (uint64_t)event->tid << 8 | STREAM_PER_THREAD;
    return stream;
}

/* True if the copy used this block and may still have run when the block was freed. Before its allocation or after its
 * free, another block may have had its address. A copy that began before the last wait for the device has ended. */
static bool is_of_its_time(const gwi_process *process, const copy *it, const gwi_object *block, const gw_event *event)
{
    return it->t_ns >= block->t_ns && it->t_ns < event->t_ns && it->t_ns > process->t_waited_ns;
}

static void pool_free(gw_model *model, gwi_process *process, const gw_event *event)
{
    gwi_order *order = process->order;
    uint32_t index;
    if (!gwi_object_find(process, GWI_SPACE_MEMORY, event->arg[0], &index) ||
        process->object[index].cls != GW_CLASS_POOL)
        return;
    const gwi_object *block = &process->object[index];
    uint64_t stream = free_stream(event);
    for (uint32_t i = 0; i < order->count; i++) {
        copy *it = &order->item[i];
        it->all_blocking |= it->on_blocking && it->t_ns <= process->t_default_ns;
        if (!touches(it, block->key, block->bytes) || !is_of_its_time(process, it, block, event))
            continue;
        if ((event->kind == GW_EV_FREE || !is_after(process, it, stream)) && is_asynchronous(process, it))
            add_unordered(model, process, event, it, block, GW_UNORDERED_FREE);
    }
}

static void host_free(gw_model *model, gwi_process *process, const gw_event *event)
{
    const gwi_order *order = process->order;
    uint32_t index;
    if (!gwi_object_find(process, GWI_SPACE_HOST, event->arg[0], &index))
        return;
    const gwi_object *block = &process->object[index];
    for (uint32_t i = 0; i < order->count; i++) {
        const copy *it = &order->item[i];
        if (!it->is_fill && it->to >= block->key && it->to - block->key < block->bytes && it->t_ns >= block->t_ns &&
            it->t_ns < event->t_ns)
            add_unordered(model, process, event, it, block, GW_UNORDERED_HOST_FREE);
    }
}

void gwi_order_call(gw_model *model, gwi_process *process, const gw_event *event)
{
    const gwi_order *order = process->order;
    bool known = order != NULL && order->count > 0 && event->extra != 0 && event->extra == order->last &&
                 !order->range_due && (event->flags & GW_EVF_CAPTURING) == 0;
    switch ((gw_event_kind)event->kind) {
    case GW_EV_FREE_ASYNC:
    case GW_EV_FREE:
        if (known)
            pool_free(model, process, event);
        break; /* cuMemFree waits for the device unless the memory is stream-ordered: see the ledger */
    case GW_EV_HOST_FREE:
    case GW_EV_HOST_UNREGISTER:
        if (known)
            host_free(model, process, event);
        process->t_waited_ns = event->t_ns;
        break;
    case GW_EV_ALLOC_ASYNC:
        break;
    default:
        process->t_waited_ns = event->t_ns;
        break;
    }
    if ((event->kind == GW_EV_ALLOC_ASYNC || event->kind == GW_EV_FREE_ASYNC) && is_legacy(event->arg[3]))
        process->t_default_ns = event->t_ns;
}

/* ---- the end: evidence from the rings ---- */

/* Find the first call in the thread's ring that may have been made after `t_ns`. Returns false if the ring may lack
 * such calls.
 *
 * A thread reads the clock only once for up to eight calls, so a call may be later than its recorded time. If `t_ns` is
 * the time of another thread, the result therefore includes the calls with the last recorded time before `t_ns`. */
static bool find_first(const gw_thread *thread, uint64_t t_ns, bool same_thread, size_t *ret_first)
{
    size_t first = 0;
    while (first < thread->ring_count && thread->ring[first].t_ns < t_ns)
        first++;
    size_t shared = first;
    while (!same_thread && shared > 0 && thread->ring[shared - 1].t_ns == thread->ring[first - 1].t_ns)
        shared--;
    *ret_first = shared;
    return shared > 0 || thread->ring_total <= thread->ring_count;
}

static bool is_default(uint64_t stream)
{
    return (stream & ~UINT64_C(7)) == 0;
}

static bool is_stream_of(const gw_unordered *it, uint64_t stream)
{
    for (uint32_t i = 0; i < it->stream_count; i++)
        if (it->stream[i] == stream)
            return true;
    return false;
}

static void look_at_thread(gw_unordered *it, const gw_thread *thread)
{
    uint64_t work = gw_launches(thread->counter) + thread->counter[GW_COUNT_FILL];
    size_t first;
    if (work == 0)
        return;
    if (thread->ring_count == 0 || !find_first(thread, it->t_copy_ns, thread->tid == it->copy_tid, &first)) {
        it->launches_known = false;
        return;
    }
    for (size_t i = first; i < thread->ring_count && thread->ring[i].t_ns <= it->t_free_ns; i++) {
        const gw_ring_call *call = &thread->ring[i];
        if (call->is_graph_launch)
            it->graph_count++;
        /* A fill in the legacy default stream orders work as a launch does. In a program without memory pools, the hook
         * records no step for it, so count it here. */
        if (call->is_launch || gw_begins(call->fn_name, "cuMemset"))
            it->default_count += is_legacy(call->stream);
        if (call->is_launch)
            it->launch_count += is_stream_of(it, call->stream) || is_default(call->stream);
    }
}

static void look_at_rings(gw_model *model, gw_unordered *it)
{
    it->copy_fn = gw_model_fn_name(model, it->copy_fn_id);
    it->free_fn = gw_model_fn_name(model, it->free_fn_id);
    it->launches_known = true;
    const gw_thread *thread = gw_model_first_thread(model, it->pid);
    for (; thread != NULL; thread = gw_model_next_thread(model, thread))
        look_at_thread(it, thread);
}

static bool ends_waiting(const gw_ring_call *call)
{
    return call->is_sync || strstr(call->fn_name, "Query") != NULL || strstr(call->fn_name, "HostFunc") != NULL ||
           strstr(call->fn_name, "AddCallback") != NULL || (call->is_copy && strstr(call->fn_name, "Async") == NULL);
}

/* Return the time of the process's last call in which the host may have waited for GPU work. 0: none. */
static uint64_t last_wait(const gw_model *model, uint32_t pid)
{
    uint64_t t_ns = 0;
    const gw_thread *thread = gw_model_first_thread(model, pid);
    for (; thread != NULL; thread = gw_model_next_thread(model, thread)) {
        if (thread->synced_at_ns > t_ns)
            t_ns = thread->synced_at_ns;
        for (size_t k = 0; k < thread->ring_count; k++)
            if (ends_waiting(&thread->ring[k]) && thread->ring[k].t_ns > t_ns)
                t_ns = thread->ring[k].t_ns;
    }
    return t_ns;
}

/* True if a page-locked block of at least `bytes` bytes was never freed. The copy may have written to it. The block was
 * alive at the end of the run, or when a context ended at or after `t_ns`. */
static bool has_host_block(const gw_model *model, const gwi_process *process, uint64_t bytes, uint64_t t_ns)
{
    for (size_t i = 0; i < model->teardown_count; i++) {
        const gw_teardown *teardown = &model->teardown[i];
        for (size_t k = 0; teardown->pid == process->pid && teardown->t_ns >= t_ns && k < teardown->buried_count; k++)
            if (teardown->buried[k].cls == GW_CLASS_HOST && teardown->buried[k].bytes >= bytes)
                return true;
    }
    for (uint32_t i = 0; i < process->object_count; i++) {
        const gwi_object *object = &process->object[i];
        if (gwi_is_alive(object) && object->space == GWI_SPACE_HOST && object->bytes >= bytes)
            return true;
    }
    return false;
}

static bool is_copy_to_host(const gw_ring_call *call)
{
    return !call->captured &&
           (strstr(call->fn_name, "DtoHAsync") != NULL || strstr(call->fn_name, "AtoHAsync") != NULL);
}

static void find_unwaited(gw_model *model, const gwi_process *process)
{
    uint64_t waited_ns = last_wait(model, process->pid);
    gw_unwaited found = {.pid = process->pid};
    const gw_thread *thread = gw_model_first_thread(model, process->pid);
    for (; thread != NULL; thread = gw_model_next_thread(model, thread)) {
        for (size_t k = 0; k < thread->ring_count; k++) {
            const gw_ring_call *call = &thread->ring[k];
            if (!is_copy_to_host(call) || call->t_ns <= waited_ns ||
                !has_host_block(model, process, call->what, call->t_ns))
                continue;
            uint64_t count = found.count + 1;
            if (call->t_ns >= found.t_ns)
                found = (gw_unwaited){process->pid, thread->tid,  call->fn_name, call->t_ns,
                                      call->what,   call->stream, count};
            found.count = count;
        }
    }
    if (found.count > 0 &&
        gwi_room(model, &model->unwaited, model->unwaited_count, &model->inner->unwaited_capacity, sizeof found))
        model->unwaited[model->unwaited_count++] = found;
}

void gwi_order_finish(gw_model *model)
{
    for (size_t i = 0; i < model->unordered_count; i++)
        look_at_rings(model, &model->unordered[i]);
    for (size_t i = 0; i < model->process_count; i++)
        if (model->process[i].exit_known)
            find_unwaited(model, model->inner->process[i]);
}
