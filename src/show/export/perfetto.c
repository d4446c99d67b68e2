/* Writes a recording as a trace for Perfetto's viewer (ui.perfetto.dev).
 *
 * A process is a group of tracks: its threads with their calls, its streams with what was launched into them, its
 * phases, and a counter for each kind of memory. Cards have counters, and the machine has a track with its events. The
 * viewer sorts packets by time, so they are written in the order of the recording. */
#include "gw_hash.h"
#include "gw_recording.h"
#include "gwi_curve.h"
#include "gwi_perfetto.h"

#include "gw_data.h"
#include "gw_names.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { GWI_KERNELS_MAX = 1 << 15 };

typedef struct gwi_kernel {
    uint64_t handle;
    uint32_t pid;
    char *name;    /* owned; NULL: a free place */
    uint64_t t_ns; /* when the handle first had this name; 0: it never had another one */
} gwi_kernel;

typedef struct gwi_kernels {
    gwi_kernel *item; /* owned; a hash table; NULL until the first kernel */
    size_t count;
} gwi_kernels;

/* Names of kernels. */

enum {
    PLACES = GWI_KERNELS_MAX * 2,
    ERROR_NS = 1000 /* times of calls in rings are less exact than those of events */
};

/* Return the place of the handle, or the free place where it belongs. */
static gwi_kernel *place_of(const gwi_kernels *kernels, uint32_t pid, uint64_t handle)
{
    size_t at = (size_t)gw_hash_mix(pid, handle) & (PLACES - 1);
    while (kernels->item[at].name != NULL && (kernels->item[at].pid != pid || kernels->item[at].handle != handle))
        at = (at + 1) & (PLACES - 1);
    return &kernels->item[at];
}

/* Return the name that the handle had at a time, or NULL if it is unknown. Valid until the next call of
 * kernels_add(). */
static const char *kernels_find(const gwi_kernels *kernels, uint32_t pid, uint64_t handle, uint64_t t_ns)
{
    const gwi_kernel *kernel = kernels->item == NULL ? NULL : place_of(kernels, pid, handle);
    bool is_later = kernel != NULL && kernel->t_ns > ERROR_NS && t_ns < kernel->t_ns - ERROR_NS;
    return kernel == NULL || is_later ? NULL : kernel->name;
}

/* Return the name in the event or, for a function that was made from a CUkernel, that of the CUkernel; NULL: none. */
static const char *name_in(const gwi_kernels *kernels, const gw_event *event)
{
    if (event->result != 0 || event->arg[2] == GW_OWNER_GLOBAL)
        return NULL;
    if (event->text != NULL && event->text[0] != '\0')
        return event->text;
    return event->arg[2] == GW_OWNER_KERNEL ? kernels_find(kernels, event->pid, event->arg[1], event->t_ns) : NULL;
}

/* Remember the name of a function, if the event (of kind FUNCTION) has one. The newest name of a handle counts, because
 * the driver uses handles of unloaded modules again. Returns false if there is no memory. */
static bool kernels_add(gwi_kernels *kernels, const gw_event *event)
{
    const char *name = name_in(kernels, event);
    if (name == NULL)
        return true;
    if (kernels->item == NULL && (kernels->item = calloc(PLACES, sizeof *kernels->item)) == NULL)
        return false;
    gwi_kernel *place = place_of(kernels, event->pid, event->arg[0]);
    if (place->name == NULL && kernels->count == GWI_KERNELS_MAX)
        return true;
    if (place->name != NULL && strcmp(place->name, name) == 0)
        return true;
    char *copy = strdup(name);
    if (copy == NULL)
        return false;
    bool is_new = place->name == NULL;
    kernels->count += is_new;
    free(place->name);
    *place = (gwi_kernel){event->arg[0], event->pid, copy, is_new ? 0 : event->t_ns};
    return true;
}

static void kernels_free(gwi_kernels *kernels)
{
    for (size_t i = 0; kernels->item != NULL && i < PLACES; i++)
        free(kernels->item[i].name);
    free(kernels->item);
}

typedef struct perfetto {
    gwi_trace trace;
    gwi_curve *memory; /* owned */
    gwi_kernels kernels;
    const gw_export_to *to;
    uint64_t t_last_ns; /* time of the last item, for damaged blocks */
} perfetto;

static const char call[] = "call", memory_call[] = "memory", launch[] = "launch", failure[] = "failure",
                  fact[] = "fact", machine[] = "machine";

static gwi_track *machine_track(perfetto *p)
{
    return gwi_trace_track(&p->trace, GWI_TRACK_MACHINE, 0, 0, "machine and recording");
}

/* A track of a process. The process's own track is made first, because it is the parent. */
static gwi_track *process_track(perfetto *p, gwi_track_kind kind, uint32_t pid, uint64_t b)
{
    (void)gwi_trace_track(&p->trace, GWI_TRACK_PROCESS, pid, 0, NULL);
    return gwi_trace_track(&p->trace, kind, pid, b, NULL);
}

/* ---- annotations ---- */

/* True for arguments that are printed in hexadecimal. */
static bool is_address(const char *name)
{
    static const char *const names[] = {"address", "destination", "source", "stream", "context", "function", "pool",
                                        "event",   "graph",       "exec",   "module", "library", "object",   "node",
                                        "handle",  "external",    "owner",  "p0",     "p1",      "p2",       "p3"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static void note_arguments(perfetto *p, const gw_event *event)
{
    for (unsigned i = 0; i < 4; i++) {
        const char *name = gw_event_arg_name(event->kind, i);
        if (name[0] == '\0')
            continue;
        if (is_address(name))
            gwi_trace_note_address(&p->trace, name, event->arg[i]);
        else
            gwi_trace_note_number(&p->trace, name, event->arg[i]);
    }
    if (event->site != 0)
        gwi_trace_note_number(&p->trace, "site", event->site);
    if (event->text != NULL && event->text[0] != '\0')
        gwi_trace_note_text(&p->trace, "text", event->text);
}

static void note_result(perfetto *p, const gw_event *event)
{
    if (event->result == 0)
        return;
    gwi_trace_note_number(&p->trace, "result", event->result);
    if (event->flags & GW_EVF_GUARD)
        gwi_trace_note_text(&p->trace, "refused by", "the guard (--memory)");
    if (event->flags & GW_EVF_INJECTED)
        gwi_trace_note_text(&p->trace, "refused by", "--inject");
    if (event->flags & GW_EVF_FENCED)
        gwi_trace_note_text(&p->trace, "refused by", "the fence (--fence)");
}

/* ---- calls ---- */

static const char *category_of(const gw_event *event)
{
    if (event->kind == GW_EV_LAUNCH || event->kind == GW_EV_GRAPH_LAUNCH)
        return launch;
    gw_thing thing = gw_event_kind_traits(event->kind)->thing;
    return thing == GW_THING_MEMORY || thing == GW_THING_VMM_MEMORY ? memory_call : call;
}

/* Find begin and end of a call. The event has the time after the call, or before it if the call ended an object. Slices
 * of a track must not overlap, and a damaged recording may have any times, so the begin is never before the end of the
 * last slice, and the end never before the begin. */
static void find_times(const gw_event *event, const gwi_track *track, uint64_t *ret_begin_ns, uint64_t *ret_end_ns)
{
    uint64_t took_ns = (uint64_t)event->took_us * 1000, begin_ns = event->t_ns, end_ns = event->t_ns;
    gw_effect effect = gw_event_kind_traits(event->kind)->effect;
    bool is_before = event->result == 0 && (effect == GW_EFFECT_ENDS || effect == GW_EFFECT_ENDS_PRIMARY);
    if (is_before)
        end_ns = begin_ns > UINT64_MAX - took_ns ? UINT64_MAX : begin_ns + took_ns;
    else
        begin_ns = end_ns > took_ns ? end_ns - took_ns : 0;
    *ret_begin_ns = begin_ns > track->t_busy_ns ? begin_ns : track->t_busy_ns;
    *ret_end_ns = end_ns > *ret_begin_ns ? end_ns : *ret_begin_ns;
}

static void put_slice(perfetto *p, const gw_event *event, const char *fn_name)
{
    uint64_t begin_ns, end_ns;
    gwi_track *track = process_track(p, GWI_TRACK_THREAD, event->pid, event->tid);
    find_times(event, track, &begin_ns, &end_ns);
    bool is_slice = end_ns > begin_ns;
    gwi_trace_begin(&p->trace, track, is_slice ? PF_TYPE_SLICE_BEGIN : PF_TYPE_INSTANT, fn_name, category_of(event));
    note_arguments(p, event);
    note_result(p, event);
    gwi_trace_end(&p->trace, begin_ns);
    if (is_slice) {
        gwi_trace_begin(&p->trace, track, PF_TYPE_SLICE_END, NULL, NULL);
        gwi_trace_end(&p->trace, end_ns);
        track->t_busy_ns = end_ns;
    }
}

static void put_failure(perfetto *p, const gw_event *event, const char *fn_name)
{
    char number[32];
    const gw_cuda_error *error = gw_data_cuda_error(event->result);
    const char *name = error == NULL ? NULL : error->driver_name;
    snprintf(number, sizeof number, "error %u", event->result);
    gwi_trace_begin(&p->trace, process_track(p, GWI_TRACK_THREAD, event->pid, event->tid), PF_TYPE_INSTANT,
                    name == NULL ? number : name, failure);
    gwi_trace_note_text(&p->trace, "call", fn_name);
    note_arguments(p, event);
    note_result(p, event);
    gwi_trace_end(&p->trace, event->t_ns);
}

/* Return the index of the argument that is a stream, or -1. */
static int stream_argument(unsigned kind)
{
    for (int i = 0; i < 4; i++)
        if (strcmp(gw_event_arg_name(kind, (unsigned)i), "stream") == 0)
            return kind == GW_EV_STREAM_CREATE || kind == GW_EV_STREAM_DESTROY ? -1 : i;
    return -1;
}

/* Annotate with the first argument of a call, which depends on the call. In rings, that of a copy or fill is its size.
 */
static void note_what(perfetto *p, const char *fn_name, uint64_t what, const char *kernel)
{
    bool is_bytes = gw_begins(fn_name, "cuMemcpy") || gw_begins(fn_name, "cuMemset") || gw_begins(fn_name, "cuMemPre");
    if (kernel != NULL)
        gwi_trace_note_text(&p->trace, "kernel", kernel);
    if (is_bytes)
        gwi_trace_note_number(&p->trace, "bytes", what);
    else
        gwi_trace_note_address(&p->trace, "what", what);
}

/* An instant on the stream, with the name of the kernel if it is a launch and the name is known. */
static void put_on_stream(perfetto *p, uint32_t pid, uint32_t tid, uint64_t stream, uint64_t t_ns, const char *fn_name,
                          uint64_t what, const char *kernel)
{
    gwi_trace_begin(&p->trace, process_track(p, GWI_TRACK_STREAM, pid, stream), PF_TYPE_INSTANT,
                    kernel != NULL ? kernel : fn_name, launch);
    gwi_trace_note_number(&p->trace, "tid", tid);
    note_what(p, fn_name, what, NULL);
    gwi_trace_end(&p->trace, t_ns);
}

static void put_call(perfetto *p, const gw_event *event)
{
    const char *fn_name = gw_reader_fn_name(p->to->reader, event->fn);
    int stream = stream_argument(event->kind);
    put_slice(p, event, fn_name);
    if (event->result != 0)
        put_failure(p, event, fn_name);
    else if (stream >= 0)
        put_on_stream(p, event->pid, event->tid, event->arg[stream], event->t_ns, fn_name, event->arg[0], NULL);
}

/* Successful calls that are frequent are only in the rings. A ring that is recorded again has old calls, too: each call
 * has a number, and is exported once. After exec() the numbers begin again, so an old call also has an old time. */
static void put_ring(perfetto *p, const gw_item *item)
{
    gwi_track *thread = process_track(p, GWI_TRACK_THREAD, item->pid, item->tid);
    uint64_t total = item->ring.total, first = total > item->ring.count ? total - item->ring.count : 0;
    uint64_t next = thread->ring_next, t_old_ns = thread->t_ring_ns;
    thread->ring_next = total > next ? total : next;
    if (item->ring.count > 0 && item->ring.call[item->ring.count - 1].t_ns > t_old_ns)
        thread->t_ring_ns = item->ring.call[item->ring.count - 1].t_ns;
    for (uint32_t i = 0; i < item->ring.count; i++) {
        const gw_hot_call *hot = &item->ring.call[i];
        const char *fn_name = gw_reader_fn_name(p->to->reader, hot->fn);
        if (first + i < next && hot->t_ns <= t_old_ns)
            continue;
        const char *kernel =
            gw_begins(fn_name, "cuLaunch") ? kernels_find(&p->kernels, item->pid, hot->what, hot->t_ns) : NULL;
        gwi_trace_begin(&p->trace, process_track(p, GWI_TRACK_THREAD, item->pid, item->tid), PF_TYPE_INSTANT, fn_name,
                        launch);
        note_what(p, fn_name, hot->what, kernel);
        gwi_trace_note_address(&p->trace, "stream", hot->stream);
        gwi_trace_end(&p->trace, hot->t_ns);
        put_on_stream(p, item->pid, item->tid, hot->stream, hot->t_ns, fn_name, hot->what, kernel);
    }
}

/* ---- facts ---- */

/* True for facts that somebody would look for in a timeline. */
static bool is_shown(unsigned kind)
{
    switch (kind) {
    case GW_EV_NOTE:
    case GW_EV_GUARD_REFUSED:
    case GW_EV_DRIVER_LOG:
    case GW_EV_FORK:
    case GW_EV_ALLOCATOR_OOM:
    case GW_EV_ARRAYS_OOM:
    case GW_EV_CRASH:
    case GW_EV_PYTHON_RAISED:
    case GW_EV_INJECTED:
    case GW_EV_FENCED:
        return true;
    default:
        return false;
    }
}

/* A phase lasts until the process's next one begins. */
static void put_phase(perfetto *p, const gw_event *event)
{
    gwi_track *track = process_track(p, GWI_TRACK_PHASES, event->pid, 0);
    uint64_t begin_ns = event->t_ns > event->arg[0] ? event->t_ns - event->arg[0] : 0;
    if (begin_ns < track->t_busy_ns)
        begin_ns = track->t_busy_ns;
    track->t_busy_ns = begin_ns;
    if (track->is_open) {
        gwi_trace_begin(&p->trace, track, PF_TYPE_SLICE_END, NULL, NULL);
        gwi_trace_end(&p->trace, begin_ns);
    }
    track->is_open = event->text != NULL && event->text[0] != '\0';
    if (track->is_open) {
        gwi_trace_begin_named(&p->trace, track, PF_TYPE_SLICE_BEGIN, event->text);
        gwi_trace_end(&p->trace, begin_ns);
    }
}

static void put_fact(perfetto *p, const gw_event *event)
{
    if (event->kind == GW_EV_PHASE)
        put_phase(p, event);
    if (!is_shown(event->kind))
        return;
    gwi_trace_begin(&p->trace, process_track(p, GWI_TRACK_THREAD, event->pid, event->tid), PF_TYPE_INSTANT,
                    gw_event_kind_name(event->kind), fact);
    note_arguments(p, event);
    gwi_trace_end(&p->trace, event->t_ns);
}

/* ---- other items ---- */

static gw_status put_memory(void *user, const gwi_curve_value *value, gw_error *err)
{
    perfetto *p = user;
    (void)err;
    uint64_t which = (uint64_t)value->what | (uint64_t)value->device << 8;
    gwi_track *track = value->what == GWI_CURVE_CARD_USED ? gwi_trace_track(&p->trace, GWI_TRACK_MEMORY, 0, which, NULL)
                                                          : process_track(p, GWI_TRACK_MEMORY, value->pid, which);
    gwi_trace_count(&p->trace, track, value->t_ns, value->bytes);
    return GW_OK;
}

/* What a card does: power, temperature, clocks, utilisation. Its memory is one of the memory counters. */
static void put_sample(perfetto *p, const gw_item *item)
{
    if (item->sample.device == GW_NO_DEVICE)
        return;
    for (uint32_t i = 0; i < item->sample.count; i++) {
        const gw_sample_value *value = &item->sample.value[i];
        const gw_metric_info *metric = gw_metric_find(value->metric);
        if (value->state != GW_SAMPLE_KNOWN || metric == NULL || metric->kind != GW_METRIC_GAUGE ||
            value->metric == GW_METRIC_CARD_MEMORY_USED)
            continue;
        gwi_track *track = gwi_trace_track(&p->trace, GWI_TRACK_METRIC, item->sample.device, value->metric, NULL);
        gwi_trace_count(&p->trace, track, item->t_ns, value->value);
    }
}

static void put_machine(perfetto *p, const gw_item *item)
{
    gwi_trace_begin(&p->trace, machine_track(p), PF_TYPE_INSTANT, gw_machine_event_text(item->machine.kind), machine);
    gwi_trace_note_text(&p->trace, "source", gw_source_text(item->machine.source));
    if (item->machine.device != GW_NO_DEVICE)
        gwi_trace_note_number(&p->trace, "card", item->machine.device);
    gwi_trace_note_number(&p->trace, "code", item->machine.code);
    gwi_trace_note_text(&p->trace, "text", item->machine.text);
    gwi_trace_end(&p->trace, item->t_ns);
}

static void put_exit(perfetto *p, const gw_item *item)
{
    const gw_exit_fact *exit_fact = &item->exit;
    gwi_track *phases = process_track(p, GWI_TRACK_PHASES, exit_fact->pid, 0);
    if (phases->is_open) {
        uint64_t end_ns = item->t_ns > phases->t_busy_ns ? item->t_ns : phases->t_busy_ns;
        gwi_trace_begin(&p->trace, phases, PF_TYPE_SLICE_END, NULL, NULL);
        gwi_trace_end(&p->trace, end_ns);
        phases->is_open = false;
        phases->t_busy_ns = end_ns;
    }
    gwi_trace_begin(&p->trace, process_track(p, GWI_TRACK_PROCESS, exit_fact->pid, 0), PF_TYPE_INSTANT, "exit", fact);
    if (exit_fact->status_known && exit_fact->signal != 0)
        gwi_trace_note_number(&p->trace, "signal", (uint64_t)(int64_t)exit_fact->signal);
    else if (exit_fact->status_known)
        gwi_trace_note_number(&p->trace, "exit status", (uint64_t)(int64_t)exit_fact->exit_code);
    gwi_trace_end(&p->trace, item->t_ns);
}

static void name_process(perfetto *p, const gw_item *item)
{
    const char *exe = item->process.exe;
    const char *name = exe == NULL || exe[0] == '\0' ? NULL : gw_path_last(exe);
    (void)gwi_trace_track(&p->trace, GWI_TRACK_PROCESS, item->pid, 0, name);
}

static void name_thread(perfetto *p, const gw_item *item)
{
    const char *name = item->counters.thread_name;
    (void)gwi_trace_track(&p->trace, GWI_TRACK_PROCESS, item->pid, 0, NULL);
    (void)gwi_trace_track(&p->trace, GWI_TRACK_THREAD, item->pid, item->tid,
                          name == NULL || name[0] == '\0' ? NULL : name);
}

/* ---- the format ---- */

static gw_status check(perfetto *p, gw_error *err)
{
    return p->trace.failed ? gw_fail(err, GW_NOMEM, "no memory for the export") : GW_OK;
}

static gw_status begin(gw_export_to *to, gw_error *err)
{
    perfetto *p = calloc(1, sizeof *p);
    if (p == NULL)
        return gw_fail(err, GW_NOMEM, "no memory for the export");
    to->state = p;
    p->to = to;
    p->trace.file = to->file;
    gw_status st = gwi_curve_new(&p->memory, err);
    if (st == GW_OK)
        (void)machine_track(p);
    return st == GW_OK ? check(p, err) : st;
}

static gw_status put_item(gw_export_to *to, const gw_item *item, gw_error *err)
{
    perfetto *p = to->state;
    p->t_last_ns = item->t_ns;
    gw_status st = gwi_curve_feed(p->memory, item, put_memory, p, err);
    if (st != GW_OK)
        return st;
    switch (item->kind) {
    case GW_ITEM_EVENT:
        if (item->event.kind == GW_EV_FUNCTION && !kernels_add(&p->kernels, &item->event))
            return gw_fail(err, GW_NOMEM, "no memory for the export");
        if (gw_event_kind_traits(item->event.kind)->price == GW_PRICE_FACT)
            put_fact(p, &item->event);
        else
            put_call(p, &item->event);
        break;
    case GW_ITEM_PROCESS:
        name_process(p, item);
        break;
    case GW_ITEM_COUNTERS:
        name_thread(p, item);
        break;
    case GW_ITEM_RING:
        put_ring(p, item);
        break;
    case GW_ITEM_SAMPLE:
        put_sample(p, item);
        break;
    case GW_ITEM_MACHINE:
        put_machine(p, item);
        break;
    case GW_ITEM_EXIT:
        put_exit(p, item);
        break;
    default:
        break;
    }
    return check(p, err);
}

static gw_status put_fault(gw_export_to *to, const char *reason, gw_error *err)
{
    perfetto *p = to->state;
    gwi_trace_begin(&p->trace, machine_track(p), PF_TYPE_INSTANT, "damaged block", machine);
    gwi_trace_note_text(&p->trace, "reason", reason);
    gwi_trace_end(&p->trace, p->t_last_ns);
    return check(p, err);
}

static void close_trace(gw_export_to *to)
{
    perfetto *p = to->state;
    if (p == NULL)
        return;
    gwi_trace_free(&p->trace);
    kernels_free(&p->kernels);
    gwi_curve_free(p->memory);
    free(p);
}

const gw_export_format gwi_export_perfetto = {
    .name = "perfetto",
    .about = "a trace for Perfetto's viewer: memory, calls, launches and failures, by thread and by stream",
    .begin = begin,
    .item = put_item,
    .fault = put_fault,
    .close = close_trace,
};
