/* Classifies failed calls:
 * - whether the result is an error or only an answer;
 * - whether an earlier failure caused it;
 * - whether the program recovered from it.
 *
 * The program recovered from a refused request if:
 *
 * - a later request of at least that size succeeded,
 * - it freed memory, or requested less at the same line, and then waited successfully for new work,
 * - at least 64 launches, copies and fills followed and were waited for, or
 * - 1,000 later requests succeeded.
 *
 * It did not if its NULL pointer was used. root.c says what else counts, depending on what ended the run. */
#include "gw_cuda_results.h"
#include "gw_text.h"
#include "gwi_find.h"

#include <string.h>

enum { RETREAT_PART = 64 }; /* a request below 1/64 of the refused size is no second try */

/* True if the result is only an answer, such as 600 (not ready) from cuStreamQuery(). Call this at the end of the
 * recording, when the names of functions are known. */
static bool is_probe(const gw_failure *failure)
{
    static const char *const questions[] = {"Get",        "Query",       "IsCapturing", "CanAccess", "Occupancy",
                                            "EnablePeer", "DisablePeer", "Logs",        "Profiler"};
    switch (failure->result) {
    case 4: /* the driver is shutting down: calls in exit handlers return this */
    case 500:
    case 600:
    case 704:
    case 705:
    case 801:
        return true;
    default:
        break;
    }
    /* NCCL looks kernels of other cards up at every start: https://github.com/NVIDIA/nccl, ncclInitKernelsForDevice()
     */
    static const char *const of_nccl[] = {"ncclSymk", "ncclDevKernel", "ncclKernel"};
    if (gw_is_kernel_lookup(failure) && failure->text != NULL && GW_HAS_ONE_OF(failure->text, of_nccl))
        return true;
    enum { NOT_PERMITTED = 800 };
    if (failure->kind == GW_EV_VMM_CREATE && failure->result == NOT_PERMITTED)
        return true; /* at start, allocators create shareable memory to test whether this is permitted */
    if (failure->is_sticky || failure->is_allocation || failure->kind != GW_EV_CALL)
        return failure->kind == GW_EV_QUERY && !failure->is_sticky;
    return GW_HAS_ONE_OF(failure->fn_name, questions);
}

/* True if the process died within five seconds after the failure, by a signal or with a status other than 0. HUP, INT,
 * KILL and TERM are ignored, because usually another process sends them. */
static bool died_soon_after(const gw_process *process, const gw_failure *failure)
{
    enum { HUP = 1, INT = 2, KILL = 9, TERM = 15 };
    const uint64_t soon_ns = 5000000000u;
    int signal = process->exit.signal;
    return gw_died_badly(process) && process->t_exit_ns <= failure->t_last_ns + soon_ns && signal != HUP &&
           signal != INT && signal != KILL && signal != TERM;
}

/* True if the call failed because the process was forked after cuInit. A query may be the only failed call, because
 * cudaMalloc() then only calls cuCtxGetCurrent(). False if the run ended well, unless the child died soon after the
 * failure. */
static bool is_refused_fork(const gw_model *model, const gw_failure *failure)
{
    enum { NOT_INITIALIZED = 3 };
    const gw_process *process = failure->result == NOT_INITIALIZED ? gw_model_process(model, failure->pid) : NULL;
    return process != NULL && process->forked_after_init &&
           (!gw_run_ended_well(model) || died_soon_after(process, failure));
}

static bool is_device_allocation(const gw_event *event)
{
    if (event->result != 2 || event->kind == GW_EV_INIT || gw_is_pinning(event->kind))
        return false;
    return event->kind != GW_EV_VMM_CREATE || event->arg[3] <= 1;
}

static uint64_t wanted_of(const gw_event *event)
{
    return gw_is_request(event->kind) || gw_is_pinning(event->kind) ? event->arg[1] : 0;
}

static int device_of(gwi_process *process, const gw_event *event)
{
    switch ((gw_event_kind)event->kind) {
    case GW_EV_VMM_CREATE:
    case GW_EV_CTX_CREATE:
    case GW_EV_CTX_RELEASE:
    case GW_EV_CTX_RESET:
        return gwi_device_place(event->arg[2]);
    default:
        return event->context == 0 ? -1 : gwi_device_of(process, event->context);
    }
}

static bool is_same(const gw_failure *failure, const gw_event *event)
{
    return failure->pid == event->pid && failure->tid == event->tid && failure->fn == event->fn &&
           failure->result == event->result && failure->kind == event->kind &&
           failure->injected == ((event->flags & GW_EVF_INJECTED) != 0) &&
           memcmp(failure->arg, event->arg, sizeof failure->arg) == 0;
}

/* Record how much memory all processes have on the device of the failure, and on which devices no process has a
 * context. */
static void look_around(const gw_model *model, gw_failure *failure)
{
    uint32_t taken = 0;
    failure->around = (gw_around){0};
    int device = failure->device < 0 ? 0 : failure->device;
    for (size_t i = 0; i < model->inner->holding_count; i++) {
        const gw_process *process = &model->process[model->inner->holder[i]];
        if (process->exit_known)
            continue;
        for (int k = 0; k < GW_MODEL_DEVICES_MAX; k++)
            taken |= process->usage[k].class_count[GW_CLASS_CONTEXT] > 0 ? 1u << k : 0;
        const gw_usage *usage = &process->usage[device];
        failure->around.ledger_bytes += usage->live_bytes;
        failure->around.process_count += usage->class_count[GW_CLASS_CONTEXT] > 0;
        if (process->pid == failure->pid)
            continue;
        failure->around.other_bytes_total += usage->live_bytes;
        if (usage->live_bytes > failure->around.other_bytes) {
            failure->around.other_bytes = usage->live_bytes;
            failure->around.other_pid = process->pid;
        }
    }
    for (int k = 0; k < GW_MODEL_DEVICES_MAX; k++)
        failure->around.devices_idle |= model->device[k].known && (taken >> k & 1) == 0 ? 1u << k : 0;
}

/* True for a COPY or FILL with a NULL address. The program probably used a pointer that a failed allocation left
 * NULL. */
static bool names_null(const gw_event *event)
{
    if (event->kind == GW_EV_COPY)
        return event->arg[2] != 0 && (event->arg[0] == 0 || event->arg[1] == 0);
    return event->kind == GW_EV_FILL && event->arg[0] == 0;
}

static void take_refusal(gwi_process *process, gw_failure *failure)
{
    failure->guard = true;
    failure->has_limit = true;
    failure->bytes_limit = process->refusal[1];
    failure->bytes_used = process->refusal[2];
    failure->device = gwi_device_place(process->refusal[3]);
    process->has_refusal = false;
}

/* Set open_bytes_min: a successful request of at least this size must be compared with the open failures. That request
 * may show a recovery, or be the thread's first success after a failure. */
static void settle_open(const gw_model *model, gwi_process *process)
{
    process->open_bytes_min = UINT64_MAX;
    for (uint32_t i = 0; i < process->open_count; i++) {
        const gw_failure *failure = &model->failure[process->open_failure[i]];
        uint64_t from = failure->t_recovered_ns == 0 ? failure->bytes_wanted / RETREAT_PART : failure->bytes_wanted;
        from = failure->next.known ? from : 0;
        process->open_bytes_min = from < process->open_bytes_min ? from : process->open_bytes_min;
    }
}

static void open_add(gwi_process *process, uint32_t index)
{
    uint32_t room = sizeof process->open_failure / sizeof process->open_failure[0];
    if (process->open_count == room) { /* the list is full: drop the oldest failure of its newer half */
        memmove(&process->open_failure[room / 2], &process->open_failure[room / 2 + 1],
                (room / 2 - 1) * sizeof process->open_failure[0]);
        process->open_count--;
    }
    process->open_failure[process->open_count++] = index;
    process->open_bytes_min = 0;
}

/* ---- dropping failures when there are too many ---- */

static bool may_forget(const gw_failure *failure, bool open_ones)
{
    if (failure->is_sticky || failure->allocator >= 0 || failure->kind == GW_EV_COPY || failure->kind == GW_EV_FILL)
        return false; /* a verdict may still need this failure */
    return open_ones || failure->recovery == GW_RECOVERED_BY_SIZE;
}

/* Update all stored indexes of failures after some failures were dropped. `now` has the new index of each failure,
 * or -1 for a dropped failure. */
static void renumber(gw_model *model, const int *now)
{
    for (size_t i = 0; i < model->process_count; i++) {
        gwi_process *process = model->inner->process[i];
        uint32_t kept = 0;
        if (process->last_failure >= 0)
            process->last_failure = now[process->last_failure];
        for (uint32_t k = 0; k < process->open_count; k++) {
            if (now[process->open_failure[k]] >= 0)
                process->open_failure[kept++] = (uint32_t)now[process->open_failure[k]];
        }
        process->open_count = kept;
        settle_open(model, process);
    }
    for (size_t i = 0; i < model->failure_count; i++) {
        uint64_t *use = &model->failure[i].after.null_used_at;
        *use = *use == 0 ? 0 : (uint64_t)(now[*use - 1] + 1);
    }
}

/* Drop the failures from index `first` to `last` - 1, except those that a verdict may need. Unless `open_ones`, drop
 * only those with a later success of at least the same size. */
static void forget(gw_model *model, size_t first, size_t last, bool open_ones)
{
    int *now = malloc(model->failure_count * sizeof *now);
    size_t kept = 0;
    for (size_t i = 0; now != NULL && i < model->failure_count; i++) {
        gw_failure *failure = &model->failure[i];
        if (i < first || i >= last || !may_forget(failure, open_ones)) {
            now[i] = (int)kept;
            model->failure[kept++] = *failure;
            continue;
        }
        now[i] = -1;
        gwi_snapshot_release(model, failure->snapshot, failure->recovery == GW_RECOVERED_NOT);
        free(failure->text);
        model->failures_dropped++;
    }
    if (now == NULL)
        return;
    model->failure_count = kept;
    renumber(model, now);
    free(now);
}

/* Drop failures to make room. Keep the oldest and the newest, which show how the run began and ended. Drop recovered
 * ones first. */
static void make_way(gw_model *model)
{
    enum { FIRST = GWI_FAILURES_MAX / 4, NEWER = GWI_FAILURES_MAX / 2, WORTH_IT = GWI_FAILURES_MAX / 8 };
    gwi_model *inner = model->inner;
    if (inner->failures_stay)
        return;
    if (inner->failures_recovered >= WORTH_IT)
        forget(model, FIRST, GWI_FAILURES_MAX - FIRST, false);
    if (model->failure_count >= GWI_FAILURES_MAX)
        forget(model, NEWER, NEWER + WORTH_IT, true);
    inner->failures_recovered = 0;
    inner->failures_stay = model->failure_count + WORTH_IT / 2 > GWI_FAILURES_MAX;
}

gwi_asker *gwi_asker_find(gwi_process *process, uint32_t tid)
{
    for (uint32_t i = 0; i < GWI_ASKERS_MAX; i++) {
        gwi_asker *asker = &process->asker[(tid + i) % GWI_ASKERS_MAX];
        if (asker->count == 0)
            asker->tid = tid;
        if (asker->tid == tid)
            return asker;
    }
    return NULL;
}

/* Store how many requests have succeeded so far, in the process and in the thread. settle_counts() subtracts them from
 * the final totals. */
static void count_granted(const gw_model *model, gwi_process *process, gw_failure *failure)
{
    const gwi_asker *asker = gwi_asker_find(process, failure->tid);
    failure->after.allocs = model->process[process->index].alloc_order;
    failure->after.own_allocs = asker == NULL ? 0 : asker->count;
}

/* Without a recovery, the same request was refused again. From now on, count only what succeeds after this refusal. */
static void refused_again(gw_model *model, gwi_process *process, gw_failure *failure)
{
    failure->after.frees = model->process[process->index].free_order;
    count_granted(model, process, failure);
    failure->after.launches = UINT64_MAX;
    failure->t_recovered_ns = 0;
    process->open_bytes_min = 0;
    failure->has_info = false;
    failure->pools = (gw_pool_state){0};
    look_around(model, failure);
    if (gwi_snapshot_is_now(model, process, failure->snapshot))
        return;
    gwi_snapshot_release(model, failure->snapshot, true);
    failure->snapshot = gwi_snapshot_take(model, process, failure->device, failure->t_last_ns, GW_SNAPSHOT_FAILURE);
}

/* After a recovery, the same request was refused again. Mark the failure as not recovered, and count only what succeeds
 * from now on. */
static void refused_anew(gw_model *model, gwi_process *process, uint32_t index)
{
    gw_failure *failure = &model->failure[index];
    failure->recovery = GW_RECOVERED_NOT;
    failure->next.known = failure->next.is_retry = false;
    model->inner->failures_recovered -= model->inner->failures_recovered > 0;
    gwi_snapshot_release(model, failure->snapshot, false); /* false: the list was dropped when the program recovered */
    failure->snapshot = -1;
    open_add(process, index);
    refused_again(model, process, failure);
}

/* Record the classes of the live objects whose handle or address is an argument of the failed call. The program may
 * have meant others, because the driver reuses handles and addresses. */
static void look_up_named(gwi_process *process, gw_failure *failure)
{
    if (process->named_left == 0)
        return;
    process->named_left--;
    uint32_t index;
    failure->named.known = true;
    failure->named.context_lives = gwi_object_find(process, GWI_SPACE_CONTEXT, failure->context, &index);
    for (uint32_t i = 0; i < process->object_count; i++) {
        const gwi_object *object = &process->object[i];
        /* a function that was destroyed with its context stays in the table, so that its name is still found */
        bool gone = object->cls == GW_CLASS_FUNCTION && object->t_ns <= process->t_teardown_ns;
        if (!gwi_is_alive(object) || gone)
            continue;
        uint64_t bytes = gw_class_has_addresses((gw_class)object->cls) ? object->bytes : 0;
        for (int k = 0; k < 4; k++) {
            if (failure->arg[k] == object->key || failure->arg[k] - object->key < bytes)
                failure->named.classes[k] |= 1u << object->cls;
        }
    }
}

/* Find the earlier failure of the same request. Returns its index, or -1. An allocator that frees its cache and tries
 * again causes only one failure, even if a query failed in between. */
static int asked_before(const gw_model *model, const gwi_process *process, const gw_event *event)
{
    for (uint32_t i = process->open_count; i-- > 0;) {
        uint32_t index = process->open_failure[i];
        const gw_failure *failure = &model->failure[index];
        if (!is_same(failure, event) || failure->next.known)
            continue;
        for (size_t later = index + 1; later < model->failure_count; later++) {
            const gw_failure *between = &model->failure[later];
            if (between->pid == event->pid && (between->is_allocation || between->is_sticky))
                return -1;
        }
        return (int)index;
    }
    return -1;
}

static void fill(const gw_model *model, gwi_process *process, const gw_event *event, gw_failure *failure)
{
    *failure = (gw_failure){.t_ns = event->t_ns,
                            .t_last_ns = event->t_ns,
                            .pid = event->pid,
                            .tid = event->tid,
                            .fn = event->fn,
                            .result = event->result,
                            .kind = event->kind,
                            .flags = event->flags,
                            .took_us = event->took_us,
                            .extra = event->extra,
                            .context = event->context,
                            .repeat_count = 1,
                            .fn_name = "?",
                            .device = device_of(process, event),
                            .is_allocation = is_device_allocation(event),
                            .is_sticky = gw_cuda_is_sticky(event->result),
                            .is_echo = process->sticky,
                            .bytes_wanted = wanted_of(event),
                            .site = model->inner->event_site,
                            .injected = (event->flags & GW_EVF_INJECTED) != 0,
                            .fenced = (event->flags & GW_EVF_FENCED) != 0,
                            .guard = (event->flags & GW_EVF_GUARD) != 0,
                            .snapshot = -1,
                            .allocator = -1};
    memcpy(failure->arg, event->arg, sizeof failure->arg);
    if (event->text != NULL && event->text_bytes > 0) {
        failure->text = malloc(event->text_bytes + 1);
        if (failure->text != NULL) {
            memcpy(failure->text, event->text, event->text_bytes);
            failure->text[event->text_bytes] = '\0';
        }
    }
}

/* If the event repeats an earlier failure, count the repetition and return true. */
static bool is_repeated(gw_model *model, gwi_process *process, const gw_event *event)
{
    bool parted = process->last_failure < 0; /* no failure since the current phase began */
    int before = !parted && is_device_allocation(event) ? asked_before(model, process, event) : -1;
    if (before >= 0)
        process->last_failure = before;
    if (process->last_failure < 0 || !is_same(&model->failure[process->last_failure], event))
        return false;
    gw_failure *same = &model->failure[process->last_failure];
    same->repeat_count++;
    same->t_last_ns = event->t_ns;
    if (same->is_allocation && !same->is_echo && same->recovery == GW_RECOVERED_NOT)
        refused_again(model, process, same);
    else if (same->is_allocation && !same->is_echo)
        refused_anew(model, process, (uint32_t)process->last_failure);
    return true;
}

void gwi_failure_add(gw_model *model, gwi_process *process, const gw_event *event)
{
    enum { TARGETS_MAX = 64 }; /* each search reads a long list */
    if (gw_is_request(event->kind))
        gwi_work_add(process, event->extra);
    if (is_repeated(model, process, event))
        return;
    if (model->failure_count >= GWI_FAILURES_MAX)
        make_way(model);
    if (names_null(event)) {
        for (uint32_t i = 0; i < process->open_count; i++) {
            if (model->failure[process->open_failure[i]].after.null_used_at == 0)
                model->failure[process->open_failure[i]].after.null_used_at = model->failure_count + 1;
        }
    }
    bool sticky = gw_cuda_is_sticky(event->result);
    if (model->failure_count >= GWI_FAILURES_MAX && (process->sticky || !sticky)) {
        model->failures_dropped++;
        return;
    }
    if (!gwi_room(model, &model->failure, model->failure_count, &model->inner->failure_capacity, sizeof(gw_failure)))
        return;
    uint32_t index = (uint32_t)model->failure_count++;
    gw_failure *failure = &model->failure[index];
    fill(model, process, event, failure);
    look_up_named(process, failure);
    gwi_elsewhere_find(model, process, failure);
    if (index < TARGETS_MAX)
        gwi_target_find(model, process, failure);
    process->last_failure = (int)index;
    process->sticky = process->sticky || sticky;
    if (!failure->is_allocation || failure->is_echo)
        return;
    if (failure->guard && process->has_refusal)
        take_refusal(process, failure);
    failure->after.frees =
        model->process[process->index].free_order; /* count so far; settle_counts() computes the difference */
    failure->after.launches = UINT64_MAX;          /* unknown until the counters are read after the failure */
    count_granted(model, process, failure);
    look_around(model, failure);
    failure->snapshot = gwi_snapshot_take(model, process, failure->device, event->t_ns, GW_SNAPSHOT_FAILURE);
    open_add(process, index);
}

void gwi_failure_allocated(gw_model *model, gwi_process *process, const gw_event *event, uint64_t bytes)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < process->open_count; i++) {
        gw_failure *failure = &model->failure[process->open_failure[i]];
        bool object = failure->bytes_wanted == 0;
        if (!failure->next.known && failure->tid == event->tid && bytes > 0) {
            failure->next.known = true;
            failure->next.is_retry = bytes == failure->bytes_wanted;
            failure->next.bytes = bytes;
            failure->next.t_ns = event->t_ns;
            failure->next.site = model->inner->event_site;
        }
        if (object ? failure->kind == event->kind : bytes >= failure->bytes_wanted) {
            failure->recovery = GW_RECOVERED_BY_SIZE;
            model->inner->failures_recovered++;
            failure->t_recovered_ns = event->t_ns;
            gwi_snapshot_unneed(model, failure->snapshot);
            continue;
        }
        if (!object && bytes > 0 && model->process[process->index].free_order > failure->after.frees &&
            failure->t_recovered_ns == 0 && bytes >= failure->bytes_wanted / RETREAT_PART)
            /* counts as a recovery if later work succeeds: see settle_allocation() */
            failure->t_recovered_ns = event->t_ns;
        process->open_failure[kept++] = process->open_failure[i];
    }
    process->open_count = kept;
    settle_open(model, process);
}

void gwi_failure_info(gw_model *model, gwi_process *process, const gw_memory_info *info)
{
    if (process->last_failure < 0)
        return;
    gw_failure *failure = &model->failure[process->last_failure];
    if (!failure->is_allocation || failure->has_info || info->t_ns - failure->t_last_ns > 1000000000u)
        return;
    failure->has_info = true;
    failure->info = *info;
    failure->pools = (gw_pool_state){0};
    if (failure->device < 0)
        failure->device = info->device;
}

void gwi_failure_pool(gw_model *model, gwi_process *process, const gw_event *event)
{
    gw_failure *failure = process->last_failure < 0 ? NULL : &model->failure[process->last_failure];
    uint64_t reserved = event->arg[1], used = event->arg[2];
    if (failure == NULL || !failure->is_allocation || !failure->has_info || reserved < used ||
        gwi_device_place(event->arg[3] & UINT32_MAX) != failure->info.device ||
        event->t_ns - failure->t_last_ns > 1000000000u)
        return;
    gw_pool_state *pools = &failure->pools;
    pools->count++;
    pools->bytes_reserved += reserved;
    pools->bytes_used += used;
    if (reserved - used < pools->idle_bytes_most)
        return;
    pools->idle_bytes_most = reserved - used;
    pools->pool = event->arg[0];
    pools->is_default = event->arg[3] >> 32 != 0;
    pools->has_threshold = process->threshold_bytes != 0 && process->threshold_pool == pools->pool;
    pools->threshold_bytes = pools->has_threshold ? process->threshold_bytes : 0;
}

void gwi_failure_refused(gw_model *model, gwi_process *process, const gw_event *event)
{
    memcpy(process->refusal, event->arg, sizeof process->refusal);
    process->has_refusal = true;
    if (process->last_failure < 0)
        return;
    gw_failure *failure = &model->failure[process->last_failure];
    if (failure->guard && !failure->has_limit && failure->t_last_ns == event->t_ns)
        take_refusal(process, failure);
}

/* ---- at the end ---- */

uint64_t gwi_work_count(const gw_process *process)
{
    return gw_launches(process->counter) + process->counter[GW_COUNT_COPY] + process->counter[GW_COUNT_FILL];
}

/* Calls that a process made after a failure, counted in the rings. */
typedef struct later {
    uint64_t launches, work; /* work: launches, copies and fills */
    uint64_t good_work;      /* work that the host later waited for; without copies to the host */
    uint64_t own_work;       /* work of the thread whose request was refused; without copies to the host */
    uint64_t own_waits;      /* waits of this thread, and its copies to the host */
} later;

static void count_later(const gw_ring_call *call, uint64_t synced_ns, bool is_own, later *found)
{
    bool launch = gw_is_any_launch(call) && !call->captured;
    bool fill = gw_begins(call->fn_name, "cuMemset");
    bool to_host = gw_begins(call->fn_name, "cuMemcpyDtoH");
    found->launches += launch;
    found->work += launch || fill || call->is_copy;
    bool is_new = launch || fill || (call->is_copy && !to_host);
    found->good_work += is_new && (call->waited || (call->maybe_waited && synced_ns > call->t_ns));
    found->own_work += is_new && is_own;
    found->own_waits += is_own && !is_new && (call->is_copy || call->is_sync);
}

static later rings_after(const gw_model *model, const gw_failure *failure, uint64_t synced_ns)
{
    later found = {0};
    const gw_thread *thread = gw_model_first_thread(model, failure->pid);
    for (; thread != NULL; thread = gw_model_next_thread(model, thread)) {
        for (size_t k = thread->ring_count; k-- > 0 && thread->ring[k].t_ns > failure->t_last_ns;)
            count_later(&thread->ring[k], synced_ns, thread->tid == failure->tid, &found);
    }
    return found;
}

bool gw_model_asked_for_less(const gw_failure *failure)
{
    return failure->next.known && failure->next.bytes < failure->bytes_wanted &&
           failure->next.bytes >= failure->bytes_wanted / RETREAT_PART && failure->site != 0 &&
           failure->next.site == failure->site;
}

/* True if the program continued with less memory. Either of:
 * - a smaller request succeeded after memory was freed;
 * - the thread's next success was smaller and from the same call site. */
static bool is_retreat(const gw_failure *failure)
{
    return failure->t_recovered_ns != 0 || gw_model_asked_for_less(failure);
}

/* Count what succeeded after the failure. Launches and work are the larger of two numbers, which can both be too low:
 * the growth of the counters since they were first read after the failure, and the calls in the rings. */
static void settle_counts(const gw_model *model, gw_failure *failure)
{
    const gw_process *process = gw_model_process(model, failure->pid);
    gwi_process *inner = process == NULL ? NULL : model->inner->process[process - model->process];
    later found = rings_after(model, failure, process == NULL ? 0 : process->synced_at_ns);
    uint64_t launches = 0, work = 0;
    if (failure->after.launches != UINT64_MAX && process != NULL) {
        launches = gw_launches(process->counter) - failure->after.launches;
        work = gwi_work_count(process) - failure->after.work;
    }
    failure->after.launches = launches > found.launches ? launches : found.launches;
    failure->after.work = work > found.work ? work : found.work;
    failure->after.frees = process == NULL ? 0 : process->free_order - failure->after.frees;
    uint64_t first_later = failure->after.allocs + 1;
    failure->after.allocs = process == NULL ? 0 : process->alloc_order - failure->after.allocs;
    const gwi_asker *asker = inner == NULL ? NULL : gwi_asker_find(inner, failure->tid);
    failure->after.own_allocs = asker == NULL ? 0 : asker->count - failure->after.own_allocs;
    failure->after.own_work = found.own_work;
    failure->after.own_waits = found.own_waits;
    failure->after.turns = inner == NULL ? 0 : gwi_requests_turns(inner, first_later);
    failure->after.synced = process != NULL && process->synced_at_ns > failure->t_last_ns;
    bool beyond_rings = failure->after.synced && launches > found.launches;
    failure->after.worked = found.good_work > 0 || beyond_rings;
}

/* Count what succeeded after a failure that is not a refused allocation. No counters were stored for it, so only the
 * newest calls, which are in the rings, are counted. */
static void settle_other(const gw_model *model, gw_failure *failure)
{
    const gw_process *process = gw_model_process(model, failure->pid);
    later found = rings_after(model, failure, process == NULL ? 0 : process->synced_at_ns);
    failure->after.launches = found.launches;
    failure->after.work = found.work;
    failure->after.own_work = found.own_work;
    failure->after.synced = process != NULL && process->synced_at_ns > failure->t_last_ns;
    failure->after.worked = found.good_work > 0;
}

/* True if the program looked a kernel up that the binary does not have for this GPU, or requested memory of size 0, and
 * then worked without it. NCCL looks such kernels up at every start. A launch of another thread, or one that nothing
 * waited for, does not show this. */
static bool is_answered_question(const gw_model *model, const gw_failure *failure)
{
    enum { INVALID_VALUE = 1 };
    const gw_process *process = gw_model_process(model, failure->pid);
    bool is_empty = failure->result == INVALID_VALUE && gw_is_request(failure->kind) && failure->arg[1] == 0;
    if ((!is_empty && !gw_is_kernel_lookup(failure)) || failure->after.launches == 0)
        return false;
    bool is_own = failure->after.own_work > 0 || failure->after.work >= GW_WORK_MUCH;
    return (is_own && failure->after.worked) || (process != NULL && gw_ended_well(process));
}

/* Derive the free memory at the failure: what the driver last reported as free, minus the memory allocated since. After
 * the first 64 refusals, the hook queries the free memory at most ten times a second. */
static void derive_info(const gw_model *model, gw_failure *failure)
{
    enum { SOON_NS = 1000000000 };
    const gw_memory_info *before = NULL;
    for (size_t i = 0; i < model->info_count && model->info[i].t_ns <= failure->t_last_ns; i++)
        if (model->info[i].pid == failure->pid && (failure->device < 0 || model->info[i].device == failure->device))
            before = &model->info[i];
    const gw_process *process = gw_model_process(model, failure->pid);
    if (failure->has_info || failure->guard || before == NULL || process == NULL ||
        failure->t_last_ns - before->t_ns > SOON_NS ||
        /* the driver reserves more for a pool than the program allocates from it */
        process->usage[before->device].class_count_peak[GW_CLASS_POOL] > 0)
        return;
    uint64_t then = before->ledger_bytes, now = failure->around.ledger_bytes, was_free = before->bytes_free;
    if (now > then && now - then > was_free)
        return; /* more was allocated than had been free: another process freed memory, or blocks are on the host */
    failure->info = *before;
    failure->info.t_ns = failure->t_last_ns;
    failure->info.ledger_bytes = now;
    failure->info.bytes_free = was_free + then - now;
    failure->has_info = failure->info.bytes_free <= before->bytes_total;
    failure->device = failure->device < 0 ? before->device : failure->device;
}

/* Decide whether the program recovered from a refused allocation. A program that used the NULL pointer did not, even if
 * other work succeeded. */
static void settle_allocation(const gw_model *model, gw_failure *failure)
{
    enum { REQUESTS_MANY = 1000 };
    settle_counts(model, failure);
    derive_info(model, failure);
    if (failure->recovery != GW_RECOVERED_NOT)
        return;
    if (failure->after.null_used_at != 0)
        failure->t_recovered_ns = 0;
    else if (is_retreat(failure) && failure->after.worked)
        failure->recovery = GW_RECOVERED_BY_SMALLER;
    else if (failure->after.worked && failure->after.work >= GW_WORK_MUCH)
        failure->recovery = GW_RECOVERED_BY_WORK;
    else if (failure->after.allocs >= REQUESTS_MANY)
        failure->recovery = GW_RECOVERED_BY_REQUESTS;
    else
        failure->t_recovered_ns = 0;
}

/* Mark a refusal as recovered if a smaller request was refused later at the same call site. A loop may try smaller and
 * smaller sizes until one fits. */
static void settle_retreats(gw_model *model)
{
    const gw_failure *next = NULL;
    for (size_t i = model->failure_count; i-- > 0;) {
        gw_failure *failure = &model->failure[i];
        if (!failure->is_allocation || failure->is_echo || failure->site == 0 || failure->bytes_wanted == 0)
            continue;
        bool same = next != NULL && next->pid == failure->pid && next->tid == failure->tid && next->fn == failure->fn &&
                    next->site == failure->site;
        if (same && failure->recovery == GW_RECOVERED_NOT && failure->after.null_used_at == 0 &&
            next->bytes_wanted < failure->bytes_wanted &&
            (gw_model_asked_for_less(failure) || next->next.t_ns == failure->next.t_ns))
            failure->recovery = GW_RECOVERED_BY_SMALLER;
        next = failure;
    }
}

void gwi_failures_finish(gw_model *model)
{
    for (size_t i = 0; i < model->failure_count; i++) {
        gw_failure *failure = &model->failure[i];
        failure->fn_name = gw_model_fn_name(model, failure->fn);
        /* the event of a batch has the addresses of its first copy, and the bytes of all */
        if (strstr(failure->fn_name, "Batch") != NULL)
            failure->target = (gw_target){0};
        failure->is_probe = is_probe(failure) && !is_refused_fork(model, failure);
        if (failure->is_allocation && !failure->is_echo)
            settle_allocation(model, failure);
        else if (!failure->is_echo && !failure->is_sticky)
            settle_other(model, failure);
        failure->is_probe = failure->is_probe || is_answered_question(model, failure);
        failure->is_earlier =
            model->asked_phase != NULL && !failure->is_sticky && failure->t_last_ns < model->asked_phase->t_ns;
    }
    settle_retreats(model);
}

void gwi_failures_link(gw_model *model)
{
    for (size_t i = 0; i < model->failure_count; i++) {
        gwi_pid *entry = gwi_pid_find(model, model->failure[i].pid);
        uint32_t plus_1 = (uint32_t)i + 1;
        if (entry == NULL)
            continue;
        if (entry->failure_plus_1 == 0)
            entry->failure_plus_1 = plus_1;
        else
            model->failure[entry->failure_last_plus_1 - 1].next_plus_1 = plus_1;
        entry->failure_last_plus_1 = plus_1;
    }
}
