/* Stream order in real time.
 *
 * Times are computed on an ideal timeline. A command starts at the latest of these times, and ends after its duration:
 * - its submission
 * - the end of the previous command of its stream
 * - the end of everything that it waits for
 * Its effects (copies, fills, faults) happen at its end. Thread scheduling matters only for the order of submission.
 *
 * The thread that holds the lock advances the timeline up to now (gwi_advance). A waiting thread sleeps until the
 * next command is due. For programs that never query, a thread of the driver advances the timeline. It starts with
 * the first command that cannot be completed at once. It runs host functions without the lock. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "gwi_virt.h"

enum { PENDING_MAX = 1020 };
#define NEVER UINT64_MAX

/* --- work ----------------------------------------------------------------------------------------------- */

static void run_copy(const gwi_work *work)
{
    const gwi_side *to = &work->copy.to;
    const gwi_side *from = &work->copy.from;
    if (work->copy.depth > 0 && work->copy.height > 0)
        gwi_host_need(to->base,
                      ((work->copy.depth - 1) * to->height + work->copy.height - 1) * to->pitch + work->copy.width);
    for (size_t z = 0; z < work->copy.depth; z++)
        for (size_t y = 0; y < work->copy.height; y++)
            memmove(to->base + (z * to->height + y) * to->pitch, from->base + (z * from->height + y) * from->pitch,
                    work->copy.width);
}

/* Fill memory of a GPU's shadow with zeros by returning its whole pages to the host. Returns false if this is
 * impossible. */
static bool fill_with_nothing(char *at, uint64_t bytes)
{
    const uintptr_t page = 4096;
    bool ours = false;
    for (unsigned d = 0; d < gwi.spec.device_count; d++) {
        const gwi_device *card = &gwi.devices[d];
        ours |=
            card->arena.base != 0 && at >= card->arena.shadow && at + bytes <= card->arena.shadow + card->arena.bytes;
    }
    if (!ours || bytes < 1 << 20)
        return false;
    uintptr_t begin = ((uintptr_t)at + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)at + bytes) / page * page;
    /* Memory that is shared with another process would keep its content. */
    if (gwi.shares_memory || madvise((void *)begin, end - begin, MADV_DONTNEED) != 0)
        return false;
    memset(at, 0, begin - (uintptr_t)at);
    memset((char *)end, 0, (uintptr_t)at + bytes - end);
    return true;
}

static void run_fill(const gwi_work *work)
{
    uint64_t flat_bytes = work->fill.width * work->fill.element_bytes;
    if (work->fill.value == 0 && work->fill.height == 1 && fill_with_nothing(work->fill.to, flat_bytes))
        return;
    if (work->fill.height > 0)
        gwi_host_need(work->fill.to, (work->fill.height - 1) * work->fill.pitch + flat_bytes);
    for (size_t y = 0; y < work->fill.height; y++) {
        char *row = work->fill.to + y * work->fill.pitch;
        size_t count = work->fill.width;
        if (work->fill.element_bytes == 1) {
            memset(row, (int)work->fill.value, count);
            continue;
        }
        for (size_t x = 0; x < count; x++)
            memcpy(row + x * work->fill.element_bytes, &work->fill.value, work->fill.element_bytes);
    }
}

static void run_free(const gwi_work *work)
{
    gwi_block *block = gwi_block_at(work->memory.address);
    if (block != NULL && block->range.base == work->memory.address)
        gwi_pool_freed(block);
}

static void run(gwi_command *command)
{
    switch (command->work.kind) {
    case GWI_WORK_COPY:
        run_copy(&command->work);
        break;
    case GWI_WORK_FILL:
        run_fill(&command->work);
        break;
    case GWI_WORK_FREE:
        run_free(&command->work);
        break;
    case GWI_WORK_WRITE_VALUE:
        memcpy(command->work.value.at, &command->work.value.value, (size_t)command->work.value.bytes);
        break;
    default:
        break;
    }
}

/* --- the timeline -------------------------------------------------------------------------------------------- */

/* A kernel has reached its fault: report it as a driver does, and make the context unusable. */
static void fault(gwi_command *command)
{
    gwi_context *context = command->stream->context;
    int code = gwi_fault_code(command->fault);
    if (code == CUDA_ERROR_ASSERT)
        gwi_kernel_print_assert(&command->work);
    gwi_kernel_dump(&command->work, context, code);
    if (context->fault == 0)
        context->fault = code;
    gwi_fault_tell(command->fault, context);
    gwi_abandon(context);
}

static bool value_reached(const gwi_work *work)
{
    uint64_t value = 0;
    memcpy(&value, work->value.at, (size_t)work->value.bytes);
    uint64_t wanted = work->value.value;
    switch (work->value.flags & 3) {
    case 0:
        return work->value.bytes == 4 ? (int32_t)((uint32_t)value - (uint32_t)wanted) >= 0
                                      : (int64_t)(value - wanted) >= 0;
    case 1:
        return value == wanted;
    case 2:
        return (value & wanted) != 0;
    default:
        return ~(value | wanted) != 0;
    }
}

static void start(gwi_command *command, uint64_t start_ns)
{
    command->started = true;
    command->start_ns = start_ns;
    command->due_ns = start_ns;
    const gwi_device *device = command->stream->context->device;
    if (command->work.kind == GWI_WORK_COPY)
        command->due_ns += gwi_card_copy_ns(device, &command->work);
    if (command->work.kind != GWI_WORK_KERNEL)
        return;
    uint64_t duration_ns = gwi_card_slowed_ns(device, gwi_kernel_duration_ns(&command->work));
    command->fault = gwi_kernel_fault(&command->work);
    if (command->fault != 0)
        duration_ns += duration_ns < NEVER / 2 ? 20000000 : 0; /* a real GPU reports a fault later, here by 20 ms */
    command->due_ns = duration_ns > NEVER - start_ns ? NEVER : start_ns + duration_ns;
    command->meeting = gwi_kernel_meeting(&command->work);
    for (uint64_t i = 0; command->meeting != NULL && i < command->meeting->count; i++)
        __atomic_fetch_add(&command->meeting->cell[i]->arrived, 1, __ATOMIC_ACQ_REL);
    gwi_busy_add(gwi.shared, gwi.shared_slot, device->index, start_ns, command->due_ns);
}

/* True if the command waits for memory that any thread or process can change without a call. */
static bool watches_memory(const gwi_command *command)
{
    return command->work.kind == GWI_WORK_WAIT_VALUE || command->meeting != NULL;
}

static bool memory_reached(const gwi_command *command)
{
    return command->meeting != NULL ? gwi_kernel_met(command->meeting) : value_reached(&command->work);
}

/* Advance the first command of a stream. Returns true if the command ended. */
static bool step(gwi_stream *stream, uint64_t now_ns)
{
    gwi_command *command = stream->head;
    if (!command->started) {
        uint64_t start_ns = command->submitted_ns;
        for (size_t i = 0; i < command->wait_count; i++) {
            if (!command->waits_for[i]->done)
                return false;
            if (command->waits_for[i]->end_ns > start_ns)
                start_ns = command->waits_for[i]->end_ns;
        }
        start(command, start_ns);
    }
    if (command->due_ns > now_ns || command->running || command->work.kind == GWI_WORK_HOST)
        return false;
    if (watches_memory(command) && !memory_reached(command))
        return false;
    if (command->fault != 0) {
        fault(command);
        return true;
    }
    run(command);
    gwi_command_finish(command, watches_memory(command) ? now_ns : command->due_ns);
    return true;
}

void gwi_advance(void)
{
    if (gwi.active == NULL)
        return;
    gwi_cards_look();
    uint64_t now_ns = gwi_now_ns();
    bool ended = false;
    bool again = true;
    while (again) {
        again = false;
        gwi_stream *next = NULL;
        for (gwi_stream *stream = gwi.active; stream != NULL; stream = next) {
            next = stream->active_next;
            if (!step(stream, now_ns))
                continue;
            /* The list of streams may have changed, so start again. */
            again = ended = true;
            break;
        }
    }
    if (ended)
        pthread_cond_broadcast(&gwi.changed);
}

/* Return the time when the next command is due without any action by the program. */
static uint64_t next_due_ns(void)
{
    uint64_t due_ns = NEVER;
    for (const gwi_stream *stream = gwi.active; stream != NULL; stream = stream->active_next) {
        const gwi_command *command = stream->head;
        uint64_t at = command->started && !command->running ? command->due_ns : NEVER;
        if (command->started && watches_memory(command))
            at = gwi_now_ns() + 100000; /* check often */
        if (at < due_ns)
            due_ns = at;
    }
    /* Wake up every 20 ms, because a GPU may fail at a specified time or because of another process. */
    const uint64_t look_every_ns = 20000000;
    if (gwi.cards_fail && gwi.active != NULL && due_ns > gwi_now_ns() + look_every_ns)
        due_ns = gwi_now_ns() + look_every_ns;
    return due_ns;
}

static void sleep_until(uint64_t due_ns)
{
    if (due_ns == NEVER) {
        pthread_cond_wait(&gwi.changed, &gwi.lock);
        return;
    }
    struct timespec when = {.tv_sec = (time_t)(due_ns / 1000000000u), .tv_nsec = (long)(due_ns % 1000000000u)};
    pthread_cond_timedwait(&gwi.changed, &gwi.lock, &when);
}

/* --- the driver's thread -------------------------------------------------------------------------------- */

/* Run one host function that is due. Returns true if there was one. */
static bool run_host(void)
{
    uint64_t now_ns = gwi_now_ns();
    for (gwi_stream *stream = gwi.active; stream != NULL; stream = stream->active_next) {
        gwi_command *command = stream->head;
        if (command->work.kind != GWI_WORK_HOST || !command->started || command->running || command->due_ns > now_ns)
            continue;
        gwi_work work = command->work;
        command->running = true;
        int result = stream->context->fault;
        gwi_unlock();
        if (work.host.function != NULL)
            work.host.function(work.host.argument);
        else
            work.host.callback(work.host.stream, (CUresult)result, work.host.argument);
        gwi_lock();
        command->running = false;
        gwi_command_finish(command, gwi_now_ns());
        pthread_cond_broadcast(&gwi.changed);
        return true;
    }
    return false;
}

static void *engine(void *nothing)
{
    gwi_lock();
    for (;;) {
        gwi_advance();
        if (run_host())
            continue;
        uint64_t due_ns = next_due_ns();
        gwi.engine_wake_ns = due_ns;
        sleep_until(due_ns);
    }
    return NULL;
}

static bool engine_start(void)
{
    if (gwi.engine_started)
        return true;
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals must not be delivered to this thread */
    gwi.engine_started = pthread_create(&thread, NULL, engine, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (gwi.engine_started)
        pthread_detach(thread);
    return gwi.engine_started;
}

/* --- streams -------------------------------------------------------------------------------------------- */

/* A context's own memory has room for a few streams. For more streams, the context takes pages from the GPU, and keeps
 * them. */
static bool stream_charge(gwi_context *context)
{
    const uint64_t own_bytes = 1100000;
    uint64_t used = (uint64_t)(context->stream_count + 1) * gwi.spec.card.stream_bytes;
    uint64_t wanted = used > own_bytes ? (used - own_bytes + GW_PAGE_BYTES - 1) / GW_PAGE_BYTES * GW_PAGE_BYTES : 0;
    if (wanted > context->stream_held_bytes) {
        if (!gwi_device_take(context->device, wanted - context->stream_held_bytes))
            return false;
        context->stream_held_bytes = wanted;
    }
    context->stream_count++;
    return true;
}

gwi_stream *gwi_stream_make(gwi_context *context, unsigned flags, int priority)
{
    gwi_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL)
        return NULL;
    stream->context = context;
    stream->generation = context->generation;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = gwi.next_id++;
    gwi_object_add(&stream->object, GWI_STREAM);
    return stream;
}

static void stream_end(gwi_stream *stream)
{
    gwi_capture_end(stream);
    gwi_object_remove(&stream->object);
    if (stream->pending_count > 0)
        stream->destroyed = true;
    else
        gwi_stream_free(stream);
}

static gwi_stream *own_stream(gwi_context *context)
{
    unsigned free_slot = 8;
    for (unsigned i = 0; i < 8; i++) {
        gwi_context *of = gwi_self.own_streams[i].context;
        if (of == context && gwi_self.own_streams[i].generation == context->generation)
            return gwi_self.own_streams[i].stream;
        if (of == NULL || !of->alive || of->generation != gwi_self.own_streams[i].generation)
            free_slot = i;
    }
    if (free_slot == 8)
        return context->legacy;
    gwi_stream *stream = gwi_stream_make(context, 0, 0);
    if (stream == NULL)
        return context->legacy;
    stream->is_default = true;
    gwi_self.own_streams[free_slot].context = context;
    gwi_self.own_streams[free_slot].generation = context->generation;
    gwi_self.own_streams[free_slot].stream = stream;
    return stream;
}

gwi_stream *gwi_stream_find(CUstream handle)
{
    gwi_context *context = gwi_current();
    if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        if (context == NULL || !context->alive)
            return NULL;
        bool own = handle == CU_STREAM_PER_THREAD || (handle == NULL && gwi_self.per_thread_stream);
        return own ? own_stream(context) : context->legacy;
    }
    gwi_stream *stream = gwi_object_find(handle, GWI_STREAM);
    if (stream == NULL || !gwi_context_is(stream->context, stream->generation))
        gwi_crash(handle);
    return stream;
}

/* --- submitting ----------------------------------------------------------------------------------------- */

/* Order the command relative to the legacy default stream. Commands of the default stream wait for all blocking
 * streams of the context. Commands of a blocking stream wait for the default stream. */
static bool default_order(gwi_command *command)
{
    gwi_stream *stream = command->stream;
    if (stream->flags & CU_STREAM_NON_BLOCKING)
        return true;
    if (!stream->is_legacy)
        return gwi_command_wait_for(command, stream->context->legacy->last);
    for (gwi_stream *other = gwi.active; other != NULL; other = other->active_next)
        if (other != stream && other->context == stream->context && !(other->flags & CU_STREAM_NON_BLOCKING) &&
            !gwi_command_wait_for(command, other->last))
            return false;
    return true;
}

static void append(gwi_stream *stream, gwi_command *command)
{
    if (stream->tail != NULL)
        stream->tail->next = command;
    else
        stream->head = command;
    stream->tail = command;
    stream->pending_count++;
    gwi_command_drop(stream->last);
    stream->last = gwi_command_keep(command);
    gwi_stream_activate(stream);
}

static void wait_for_room(gwi_stream *stream)
{
    while (stream->pending_count >= PENDING_MAX) {
        sleep_until(next_due_ns());
        gwi_advance();
    }
}

/* Like gwi_submit(), for a stream that is not being captured. */
static int submit_now(gwi_stream *stream, const gwi_work *work, gwi_command *wait_for, gwi_command **ret_command)
{
    gwi_command *command = calloc(1, sizeof *command);
    if (command == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    gwi_advance();
    wait_for_room(stream);
    command->references = 1;
    command->stream = stream;
    command->submitted_ns = gwi_now_ns();
    /* The new command cannot start before the stream's previous command ends, so wait for that command, too. */
    if (!gwi_command_wait_for(command, stream->last) || !gwi_command_wait_for(command, wait_for) ||
        !default_order(command)) {
        gwi_command_drop(command);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    command->work = *work;
    if (ret_command != NULL)
        *ret_command = gwi_command_keep(command);
    append(stream, command);
    gwi_advance();
    /* If the system refuses the engine's thread, the work goes on only during the program's calls. */
    if (gwi.active != NULL && engine_start() && (next_due_ns() <= gwi.engine_wake_ns || gwi.engine_wake_ns == 0))
        pthread_cond_broadcast(&gwi.changed);
    return 0;
}

int gwi_submit(gwi_stream *stream, const gwi_work *work, gwi_command *wait_for, gwi_command **ret_command)
{
    if (stream->capture == NULL && stream->capture_owner == NULL)
        return submit_now(stream, work, wait_for, ret_command);
    if (ret_command != NULL)
        *ret_command = NULL;
    return gwi_capture_add(stream, work, NULL, NULL);
}

/* --- waiting -------------------------------------------------------------------------------------------- */

void gwi_wait_command(gwi_command *command)
{
    gwi_advance();
    while (!command->done) {
        sleep_until(next_due_ns());
        gwi_advance();
    }
}

void gwi_wait_stream(gwi_stream *stream)
{
    if (stream->last == NULL)
        return;
    gwi_command *last = gwi_command_keep(stream->last);
    gwi_wait_command(last);
    gwi_command_drop(last);
}

static void wait_all(gwi_context *context, gwi_device *device)
{
    gwi_advance();
    for (;;) {
        gwi_stream *found = NULL;
        for (gwi_stream *stream = gwi.active; stream != NULL && found == NULL; stream = stream->active_next)
            if (context != NULL ? stream->context == context : stream->context->device == device)
                found = stream;
        if (found == NULL)
            return;
        gwi_command *last = gwi_command_keep(found->last);
        gwi_wait_command(last);
        gwi_command_drop(last);
    }
}

void gwi_wait_context(gwi_context *context)
{
    wait_all(context, NULL);
}

void gwi_wait_device(gwi_device *device)
{
    wait_all(NULL, device);
}

/* --- entry points: streams ------------------------------------------------------------------------------ */

GWI_API(cuStreamCreateWithPriority)(CUstream *phStream, unsigned int flags, int priority)
{
    if (phStream == NULL || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    gwi_context *context = gwi_current();
    if (!stream_charge(context))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (priority < -5)
        priority = -5;
    else if (priority > 0)
        priority = 0;
    gwi_stream *stream = gwi_stream_make(context, flags, priority);
    if (stream == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *phStream = (CUstream)stream;
    return 0;
}

GWI_RETURN(cuStreamCreate, (CUstream * phStream, unsigned int flags),
           gwi_virt_cuStreamCreateWithPriority(phStream, flags, 0))

GWI_API(cuStreamDestroy_v2)(CUstream hStream)
{
    if (hStream == NULL || hStream == CU_STREAM_LEGACY || hStream == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    gwi_stream *stream = gwi_stream_find(hStream);
    stream->context->stream_count--;
    stream_end(stream);
    return 0;
}
GWI_ALIAS(cuStreamDestroy, cuStreamDestroy_v2);

/* Check a call that is forbidden during a capture. If `stream` is captured, or if it is the legacy default stream
 * and a capture forbids its use, break the capture and return an error. Otherwise return 0. */
static int capture_touched(gwi_stream *stream)
{
    gwi_stream *owner = stream->capture != NULL ? stream : stream->capture_owner;
    if (owner != NULL) {
        owner->capture_broken = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return stream->is_legacy ? gwi_capture_forbids() : 0;
}

GWI_API(cuStreamQuery)(CUstream hStream)
{
    gwi_stream *stream = gwi_stream_find(hStream);
    int result = capture_touched(stream);
    if (result == 0) {
        gwi_advance();
        result = gwi_see_fault(stream->context);
    }
    bool pending = stream->pending_count > 0;
    /* The legacy default stream is only ready if all blocking streams of the context are. */
    if (stream->is_legacy)
        for (const gwi_stream *other = gwi.active; other != NULL; other = other->active_next)
            pending |= other->context == stream->context && !(other->flags & CU_STREAM_NON_BLOCKING);
    if (result == 0 && pending)
        result = CUDA_ERROR_NOT_READY;
    return result;
}

/* With CUDA_LAUNCH_BLOCKING=1, wait for each launch and return its error. Do not wait for captured launches. */
int gwi_block_after_launch(gwi_stream *stream)
{
    static int blocks = -1; /* -1: not read yet; read only once, like in a real driver */
    if (blocks < 0) {
        const char *value = getenv("CUDA_LAUNCH_BLOCKING");
        blocks = value != NULL && atoi(value) != 0;
    }
    if (!blocks || stream->capture != NULL || stream->capture_owner != NULL)
        return 0;
    if (stream->is_legacy) {
        gwi_work work = {.kind = GWI_WORK_EMPTY};
        submit_now(stream, &work, NULL, NULL);
    }
    gwi_context *context = stream->context;
    gwi_wait_stream(stream);
    return gwi_see_fault(context);
}

GWI_API(cuStreamSynchronize)(CUstream hStream)
{
    gwi_stream *stream = gwi_stream_find(hStream);
    gwi_context *context = stream->context;
    int result = capture_touched(stream);
    if (result != 0)
        return result;
    if (stream->is_legacy) {
        gwi_work work = {.kind = GWI_WORK_EMPTY};
        submit_now(stream, &work, NULL, NULL);
    }
    gwi_wait_stream(stream);
    gwi_pools_trim(context->device);
    return gwi_see_fault(context);
}

GWI_API(cuCtxSynchronize)(void)
{
    gwi_context *context = gwi_current();
    gwi_wait_context(context);
    gwi_pools_trim(context->device);
    return gwi_see_fault(context);
}

GWI_API(cuCtxSynchronize_v2)(CUcontext ctx)
{
    gwi_context *context = ctx != NULL ? gwi_object_find(ctx, GWI_CONTEXT) : gwi_current();
    if (context == NULL && ctx != NULL)
        gwi_crash(ctx);
    if (context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    gwi_wait_context(context);
    gwi_pools_trim(context->device);
    return gwi_see_fault(context);
}

GWI_API(cuStreamWaitEvent)(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    gwi_stream *stream = gwi_stream_find(hStream);
    gwi_event *event = gwi_object_find(hEvent, GWI_EVENT);
    if (hEvent == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (event == NULL)
        gwi_crash(hEvent);
    if (!gwi_context_is(event->context, event->generation))
        return CUDA_ERROR_INVALID_CONTEXT;
    gwi_work work = {.kind = GWI_WORK_EMPTY};
    if (event->capture_node != NULL)
        return gwi_capture_add(stream, &work, event->capture_node, NULL);
    if (event->record == NULL)
        return 0;
    return gwi_submit(stream, &work, event->record, NULL);
}

GWI_API(cuLaunchHostFunc)(CUstream hStream, CUhostFn fn, void *userData)
{
    gwi_stream *stream = gwi_stream_find(hStream);
    if (fn == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    gwi_work work = {.kind = GWI_WORK_HOST, .host = {.function = fn, .argument = userData, .stream = hStream}};
    return gwi_submit(stream, &work, NULL, NULL);
}

GWI_API(cuStreamAddCallback)(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags)
{
    gwi_stream *stream = gwi_stream_find(hStream);
    if (callback == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    gwi_work work = {.kind = GWI_WORK_HOST, .host = {.callback = callback, .argument = userData, .stream = hStream}};
    return gwi_submit(stream, &work, NULL, NULL);
}

static int value_work(CUstream handle, CUdeviceptr address, uint64_t value, unsigned flags, int bytes,
                      gwi_work_kind kind)
{
    gwi_stream *stream = gwi_stream_find(handle);
    char *at = gwi_storage(address, (uint64_t)bytes);
    if (at == NULL || address % (unsigned)bytes != 0)
        return CUDA_ERROR_INVALID_VALUE;
    gwi_work work = {.kind = kind, .value = {.at = at, .value = value, .flags = flags, .bytes = bytes}};
    return gwi_submit(stream, &work, NULL, NULL);
}

#define VALUE(symbol, type, kind)                                                                                      \
    GWI_API(symbol##_v2)(CUstream stream, CUdeviceptr addr, type value, unsigned int flags)                            \
    {                                                                                                                  \
        return value_work(stream, addr, value, flags, sizeof value, kind);                                             \
    }                                                                                                                  \
    GWI_ALIAS(symbol, symbol##_v2);

VALUE(cuStreamWriteValue32, cuuint32_t, GWI_WORK_WRITE_VALUE)
VALUE(cuStreamWriteValue64, cuuint64_t, GWI_WORK_WRITE_VALUE)
VALUE(cuStreamWaitValue32, cuuint32_t, GWI_WORK_WAIT_VALUE)
VALUE(cuStreamWaitValue64, cuuint64_t, GWI_WORK_WAIT_VALUE)

GWI_ANSWER(cuStreamGetFlags, (CUstream hStream, unsigned int *flags), flags, gwi_stream_find(hStream)->flags)
GWI_ANSWER(cuStreamGetPriority, (CUstream hStream, int *priority), priority, gwi_stream_find(hStream)->priority)
GWI_ANSWER(cuStreamGetId, (CUstream hStream, unsigned long long *streamId), streamId, gwi_stream_find(hStream)->id)
GWI_ANSWER(cuStreamGetCtx, (CUstream hStream, CUcontext *pctx), pctx, (CUcontext)gwi_stream_find(hStream)->context)

GWI_API(cuStreamGetCtx_v2)(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
    if (pGreenCtx != NULL)
        *pGreenCtx = NULL;
    return gwi_virt_cuStreamGetCtx(hStream, pCtx);
}

GWI_ANSWER(cuStreamGetDevice, (CUstream hStream, CUdevice *device), device,
           (CUdevice)gwi_stream_find(hStream)->context->device->index)

/* Do nothing: stream attributes control caches and scheduling, which the virtual GPU does not have. */
GWI_API(cuStreamCopyAttributes)(CUstream dst, CUstream src)
{
    gwi_stream_find(dst);
    gwi_stream_find(src);
    return 0;
}

GWI_API(cuStreamSetAttribute)(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
    gwi_stream_find(hStream);
    return value == NULL ? CUDA_ERROR_INVALID_VALUE : 0;
}

GWI_API(cuStreamAttachMemAsync)(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags)
{
    gwi_stream_find(hStream);
    const gwi_block *block = gwi_block_at(dptr);
    return block != NULL && block->kind == GWI_BLOCK_MANAGED ? 0 : CUDA_ERROR_INVALID_VALUE;
}

/* --- entry points: events ------------------------------------------------------------------------------- */

/* Find an event. Returns 201 if a reset of the context destroyed the event, 400 if the handle is NULL. Crashes if
 * the program destroyed the event. */
static int event_find(CUevent handle, gwi_event **ret_event)
{
    gwi_event *event = gwi_object_find(handle, GWI_EVENT);
    if (handle == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (event == NULL)
        gwi_crash(handle);
    if (!gwi_context_is(event->context, event->generation))
        return CUDA_ERROR_INVALID_CONTEXT;
    *ret_event = event;
    return 0;
}

GWI_API(cuEventCreate)(CUevent *phEvent, unsigned int Flags)
{
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    if (phEvent == NULL || (Flags & ~known) != 0 ||
        ((Flags & CU_EVENT_INTERPROCESS) && !(Flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    gwi_event *event = calloc(1, sizeof *event);
    if (event == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    event->context = gwi_current();
    event->generation = event->context->generation;
    event->flags = Flags;
    gwi_object_add(&event->object, GWI_EVENT);
    *phEvent = (CUevent)event;
    return 0;
}

GWI_API(cuEventDestroy_v2)(CUevent hEvent)
{
    gwi_event *event = NULL;
    int result = event_find(hEvent, &event);
    if (result != 0)
        return result;
    gwi_object_remove(&event->object);
    gwi_command_drop(event->record);
    free(event);
    return 0;
}
GWI_ALIAS(cuEventDestroy, cuEventDestroy_v2);

static int event_record(CUevent handle, CUstream stream_handle)
{
    gwi_event *event = NULL;
    int result = event_find(handle, &event);
    if (result != 0)
        return result;
    gwi_stream *stream = gwi_stream_find(stream_handle);
    if (stream->context != event->context)
        return CUDA_ERROR_INVALID_HANDLE;
    gwi_work work = {.kind = GWI_WORK_EMPTY};
    if (stream->capture != NULL || stream->capture_owner != NULL) {
        event->capture_owner = stream->capture != NULL ? stream : stream->capture_owner;
        return gwi_capture_add(stream, &work, NULL, &event->capture_node);
    }
    gwi_command *command = NULL;
    result = gwi_submit(stream, &work, NULL, &command);
    if (result != 0)
        return result;
    gwi_command_drop(event->record);
    event->record = command;
    event->capture_node = NULL;
    event->capture_owner = NULL;
    return 0;
}

GWI_RETURN(cuEventRecord, (CUevent hEvent, CUstream hStream), event_record(hEvent, hStream))
GWI_RETURN(cuEventRecordWithFlags, (CUevent hEvent, CUstream hStream, unsigned int flags),
           event_record(hEvent, hStream))

GWI_API(cuEventQuery)(CUevent hEvent)
{
    gwi_event *event = NULL;
    int result = event_find(hEvent, &event);
    if (result != 0)
        return result;
    if (event->capture_node != NULL)
        return CUDA_ERROR_CAPTURED_EVENT;
    gwi_advance();
    result = gwi_see_fault(event->context);
    if (result == 0 && event->record != NULL && !event->record->done)
        result = CUDA_ERROR_NOT_READY;
    return result;
}

GWI_API(cuEventSynchronize)(CUevent hEvent)
{
    gwi_event *event = NULL;
    int result = event_find(hEvent, &event);
    if (result != 0)
        return result;
    if (event->capture_node != NULL)
        return CUDA_ERROR_CAPTURED_EVENT;
    gwi_context *context = event->context;
    if (event->record != NULL) {
        gwi_command *record = gwi_command_keep(event->record);
        gwi_wait_command(record);
        gwi_command_drop(record);
    }
    gwi_pools_trim(context->device);
    return gwi_see_fault(context);
}

GWI_API(cuEventElapsedTime)(float *ret_ms, CUevent from_handle, CUevent to_handle)
{
    gwi_event *from = NULL;
    gwi_event *to = NULL;
    if (ret_ms == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    int result = event_find(from_handle, &from);
    if (result == 0)
        result = event_find(to_handle, &to);
    if (result != 0)
        return result;
    if (((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING) || from->record == NULL || to->record == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    gwi_advance();
    result = gwi_see_fault(from->context);
    if (result != 0)
        return result;
    if (!from->record->done || !to->record->done)
        return CUDA_ERROR_NOT_READY;
    *ret_ms = (float)((double)(int64_t)(to->record->end_ns - from->record->end_ns) / 1e6);
    return 0;
}
GWI_ALIAS(cuEventElapsedTime_v2, cuEventElapsedTime);
