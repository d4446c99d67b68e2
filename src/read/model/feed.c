/* Feed items into a model in time order. Each item is passed to the part of the model that handles it. */
#include "gwi_inner.h"

#include <stdio.h>
#include <string.h>

/* ---- facts among the events ---- */

/* Return the device with this index. Returns NULL if the index is too large for the model's array. */
static gw_device *device_at(gw_model *model, uint64_t index)
{
    return index < GW_MODEL_DEVICES_MAX ? &model->device[index] : NULL;
}

static void device_fact(gw_model *model, const gw_event *event)
{
    gw_device *device = device_at(model, event->arg[0]);
    if (device == NULL)
        return;
    if (!device->known)
        device->t_first_ns = event->t_ns;
    if (!device->known || device->bytes_free_first == UINT64_MAX) /* an earlier event may lack the free memory */
        device->bytes_free_first = event->arg[2];
    device->known = true;
    if (event->arg[1] != 0) {
        device->has_total = true;
        device->bytes_total = event->arg[1];
    }
    if (event->text != NULL && device->name == NULL)
        device->name = gwi_copy_bytes(model, event->text, event->text_bytes);
}

static void attribute_fact(gw_model *model, const gw_event *event)
{
    gw_device *device = device_at(model, event->arg[0]);
    if (device == NULL || event->arg[1] >= sizeof device->attribute / sizeof device->attribute[0])
        return;
    device->has_attribute[event->arg[1]] = true;
    device->attribute[event->arg[1]] = event->arg[2];
}

static void info_fact(gw_model *model, gwi_process *process, const gw_event *event)
{
    enum { INFOS_MAX = 1 << 16 };
    gw_memory_info info = {.t_ns = event->t_ns,
                           .bytes_free = event->arg[0],
                           .bytes_total = event->arg[1],
                           .pid = process->pid,
                           .device = gwi_device_place(event->arg[2]),
                           .after_result = (uint16_t)event->arg[3]};
    for (size_t i = 0; i < model->inner->holding_count; i++) {
        const gw_process *holder = &model->process[model->inner->holder[i]];
        const gw_usage *usage = &holder->usage[info.device];
        if (holder->exit_known)
            continue;
        info.ledger_bytes += usage->live_bytes;
        info.stream_count += usage->class_count[GW_CLASS_STREAM];
        info.context_count += usage->class_count[GW_CLASS_CONTEXT];
    }
    gw_device *device = device_at(model, event->arg[2]);
    if (device != NULL && !device->has_total && info.bytes_total != 0) {
        device->has_total = true;
        device->bytes_total = info.bytes_total;
    }
    gwi_failure_info(model, process, &info);
    if (model->info_count < INFOS_MAX &&
        gwi_room(model, &model->info, model->info_count, &model->inner->info_capacity, sizeof(gw_memory_info)))
        model->info[model->info_count++] = info;
}

static void note_fact(gw_model *model, gw_process *process, const gw_event *event)
{
    if (event->arg[0] == GW_NOTE_ADDRESS_LIMIT) {
        process->address_limit_bytes = event->arg[1];
        process->data_limit_bytes = event->arg[2];
    }
    if (event->arg[0] == GW_NOTE_QUIET && !process->is_quiet) {
        process->is_quiet = true;
        process->lost_events++;
        process->lost_failures++;
        process->t_lost_ns = UINT64_MAX;
    }
    if (event->arg[0] < GW_NOTE_COUNT)
        model->note_count[event->arg[0]]++;
    if (event->arg[0] == GW_NOTE_OBSERVER_ATTACHED) {
        unsigned major, minor;
        model->observer_attached = true;
        if (event->text != NULL && sscanf(event->text, "PyTorch %3u.%2u", &major, &minor) == 2) {
            model->torch_version = 100 * major + minor;
            (void)sscanf(event->text, "PyTorch %23[^; ]", process->torch_release);
        }
    }
}

static void site_fact(gw_model *model, const gw_event *event)
{
    if (!gw_sites_feed_event(model->sites, event))
        model->inner->nomem = true;
}

static void guard_fact(gw_model *model, gwi_process *process, const gw_event *event)
{
    gw_device *device = device_at(model, event->arg[3]);
    if (device != NULL) {
        device->has_limit = true;
        device->bytes_limit = event->arg[1];
    }
    gwi_failure_refused(model, process, event);
}

static void fork_fact(gw_model *model, gw_process *facts, const gw_event *event)
{
    facts->forked = true;
    facts->forked_after_init = facts->forked_after_init || event->arg[1] != 0;
    facts->t_fork_ns = event->t_ns;
    if (event->arg[2] != 0 && event->arg[2] <= UINT32_MAX)
        facts->fork_site = gw_sites_number(model->sites, (uint32_t)event->arg[0], (uint32_t)event->arg[2]);
    site_fact(model, event);
    facts->fork_parent_pid = (uint32_t)event->arg[0];
}

static GWI_RARE void fact_event(gw_model *model, gwi_process *process, const gw_event *event)
{
    gw_process *facts = &model->process[process->index];
    switch ((gw_event_kind)event->kind) {
    case GW_EV_DEVICE:
        device_fact(model, event);
        break;
    case GW_EV_DEVICE_ATTRIBUTE:
        attribute_fact(model, event);
        break;
    case GW_EV_MEMORY_INFO:
        info_fact(model, process, event);
        break;
    case GW_EV_POOL_STATE:
        gwi_failure_pool(model, process, event);
        break;
    case GW_EV_NOTE:
        note_fact(model, facts, event);
        break;
    case GW_EV_CRASH:
        gwi_crash_event(model, process, event);
        break;
    case GW_EV_DRIVER:
        facts->driver_api = (uint32_t)event->arg[0];
        break;
    case GW_EV_DRIVER_LOG:
        gwi_fault_log(model, event);
        break;
    case GW_EV_GUARD_REFUSED:
        guard_fact(model, process, event);
        break;
    case GW_EV_REHEARSAL:
        gwi_rehearsal_event(model, event);
        break;
    case GW_EV_FORK:
        fork_fact(model, facts, event);
        break;
    case GW_EV_PHASE:
        gwi_phase_event(model, process, event);
        break;
    case GW_EV_PYTHON_RAISED:
        gwi_raised_event(model, facts, event);
        break;
    case GW_EV_SITE:
    case GW_EV_SITE_FRAMES:
    case GW_EV_MAPPED:
    case GW_EV_PYTHON_CODE:
    case GW_EV_PYTHON_LINES:
        site_fact(model, event);
        break;
    case GW_EV_LAUNCH_SITE:
        gwi_launch_site(model, process, event);
        break;
    case GW_EV_INJECTED:
        gwi_injected_event(model, process, event);
        break;
    case GW_EV_FENCED:
        gwi_fence_event(model, event);
        break;
    case GW_EV_ORDER:
    case GW_EV_ORDER_RANGE:
        gwi_order_step(model, process, event);
        break;
    default:
        gwi_observer_event(model, process, event);
        break;
    }
}

/* True for a time before the start of the run, which is below 0 but stored without a sign. Only a damaged recording, or
 * one that a foreign program wrote, has one. The model moves it to the start. */
static inline bool is_before_start(uint64_t t_ns)
{
    return __builtin_expect(t_ns > INT64_MAX, 0);
}

static bool is_fact(uint8_t kind)
{
    return kind >= GW_EV_TEXT;
}

static GWI_RARE void initialised(gw_model *model, gw_process *facts, const gw_event *event)
{
    if (facts->init_ok)
        return;
    facts->init_ok = true;
    facts->t_init_ns = event->t_ns;
    facts->init_site = model->inner->event_site;
}

static GWI_RARE void event_at_start(gw_model *model, const gw_event *event)
{
    gw_event moved = *event;
    moved.t_ns = 0;
    gwi_model_event(model, &moved);
}

void gwi_model_event(gw_model *model, const gw_event *event)
{
    if (is_before_start(event->t_ns)) {
        event_at_start(model, event);
        return;
    }
    if (event->t_ns > model->inner->t_last_ns)
        model->inner->t_last_ns = event->t_ns;
    gwi_process *process = gwi_process_of(model, event->pid, event->t_ns);
    if (process == NULL)
        return;
    if (__builtin_expect(event->t_ns >= process->t_replaced_ns, 0))
        gwi_replaced_apply(model, process);
    model->event_count++;
    model->inner->t_event_ns = event->t_ns;
    model->inner->event_site = event->site == 0 ? 0 : gw_sites_number(model->sites, event->pid, event->site);
    gw_process *facts = &model->process[process->index];
    facts->t_last_event_ns = event->t_ns;
    if (is_fact(event->kind)) {
        fact_event(model, process, event);
        return;
    }
    if (facts->t_first_call_ns == 0)
        facts->t_first_call_ns = event->t_ns;
    if (!process->memory_calls.is_cut)
        gwi_memory_call(model, process, event);
    if (process->injection_plus_1 != 0)
        gwi_injected_call(model, process, event);
    if ((event->flags & GW_EVF_FENCED) != 0)
        gwi_fenced_call(model, event);
    if (event->result != 0) {
        gwi_failure_add(model, process, event);
        return;
    }
    if (event->kind == GW_EV_INIT)
        initialised(model, facts, event);
    if (gwi_order_matters(process, event->kind))
        gwi_order_call(model, process, event);
    if (model->rehearsal.card_count > 0 && gw_is_request(event->kind))
        gwi_rehearsal_request(model, event);
    if (!gwi_objects_apply(model, process, event))
        gwi_ledger_apply(model, process, event);
}

/* ---- the other items ---- */

/* A process that is described again has called exec(), with two exceptions: the description is of a process of another
 * pid namespace with the same pid, and both may be running; or a reader that continues from the recording to the live
 * buffers returns the same description twice. */
static void described_again(gw_model *model, gwi_process *process, const gw_item *item)
{
    gw_process *facts = &model->process[process->index];
    uint64_t space = item->process.pid_namespace, start_ns = item->process.start_realtime_ns;
    if (start_ns != 0 && start_ns == facts->start_realtime_ns)
        return;
    if (space != 0 && facts->pid_namespace != 0 && space != facts->pid_namespace)
        facts->is_several = true;
    /* If both buffers were found by the same drain, the description of the old program may come last. */
    if (!facts->is_several)
        gwi_replaced_seen(model, process, item->t_ns > facts->t_seen_ns ? item->t_ns : facts->t_seen_ns);
}

static void feed_process(gw_model *model, const gw_item *item)
{
    gwi_process *process = gwi_process_of(model, item->pid, item->t_ns);
    if (process != NULL && model->process[process->index].exit_known) /* a new process reused the pid */
        process = model->inner->last = gwi_process_add(model, item->pid, item->t_ns);
    if (process == NULL)
        return;
    gw_process *facts = &model->process[process->index];
    if (facts->is_described)
        described_again(model, process, item);
    if (!facts->is_described || item->t_ns > facts->t_seen_ns)
        facts->t_seen_ns = item->t_ns;
    facts->is_described = true;
    facts->parent_pid = item->process.parent_pid;
    facts->pid_namespace = item->process.pid_namespace;
    facts->start_realtime_ns = item->process.start_realtime_ns;
    if (facts->exe == NULL)
        facts->exe = gwi_copy_text(model, item->process.exe);
    if (facts->driver_path == NULL)
        facts->driver_path = gwi_copy_text(model, item->process.driver_path);
    if (facts->driver_build_id == NULL)
        facts->driver_build_id = gwi_copy_text(model, item->process.driver_build_id);
}

static void feed_counters(gw_model *model, const gw_item *item)
{
    size_t index = gwi_thread_of(model, item->pid, item->tid);
    gwi_process *process = gwi_process_of(model, item->pid, item->t_ns);
    if (index == SIZE_MAX || process == NULL)
        return;
    gw_thread *thread = &model->thread[index];
    gw_process *facts = &model->process[process->index];
    for (int i = 0; i < GW_COUNT_COUNT; i++) {
        facts->counter[i] += item->counters.counter[i] - thread->counter[i];
        thread->counter[i] = item->counters.counter[i];
    }
    thread->calls = item->counters.calls;
    uint64_t synced_at_ns = item->counters.synced_at_ns, inside_since_ns = item->counters.inside_since_ns;
    thread->synced_at_ns = is_before_start(synced_at_ns) ? 0 : synced_at_ns;
    thread->inside_since_ns = is_before_start(inside_since_ns) ? 0 : inside_since_ns;
    model->inner->inside_fn_plus_1[index] = item->counters.inside_fn_plus_1;
    if (item->counters.thread_name != NULL)
        snprintf(thread->name, sizeof thread->name, "%.15s", item->counters.thread_name);
    if (thread->synced_at_ns > facts->synced_at_ns)
        facts->synced_at_ns = thread->synced_at_ns;
    for (uint32_t i = 0; i < process->open_count; i++) {
        gw_failure *failure = &model->failure[process->open_failure[i]];
        if (failure->after.launches == UINT64_MAX) {
            failure->after.launches = gw_launches(facts->counter);
            failure->after.work = gwi_work_count(facts);
        }
    }
}

static void feed_ring(gw_model *model, const gw_item *item)
{
    size_t index = gwi_thread_of(model, item->pid, item->tid);
    if (index == SIZE_MAX)
        return;
    gwi_hot_ring *ring = &model->inner->ring[index];
    size_t bytes = item->ring.count * sizeof *ring->call;
    gw_hot_call *call = item->ring.count == 0 ? NULL : malloc(bytes);
    if (item->ring.count > 0 && call == NULL) {
        model->inner->nomem = true;
        return;
    }
    if (call != NULL)
        memcpy(call, item->ring.call, bytes);
    for (uint32_t i = 0; i < item->ring.count; i++)
        call[i].t_ns = is_before_start(call[i].t_ns) ? 0 : call[i].t_ns;
    free(ring->call);
    *ring = (gwi_hot_ring){call, item->ring.count, item->ring.total, item->ring.synced_total};
}

static bool is_after_own_stop(const gw_model *model, const gw_item *item)
{
    return model->inner->own_stop_ns != 0 && item->t_ns >= model->inner->own_stop_ns;
}

/* True if gpuwhy's own stop may have caused the item. The verdict is about the run until then, so such items are
 * skipped, but for exits: they are kept, as no evidence (gw_process.is_own_stop). */
static bool is_caused_by_own_stop(const gw_model *model, const gw_item *item)
{
    if (!is_after_own_stop(model, item))
        return false;
    return item->kind == GW_ITEM_EVENT || item->kind == GW_ITEM_STDERR ||
           (item->kind == GW_ITEM_SUPERVISOR && gw_fact_key_of(item->pair.key) == GW_FACT_HANG_OVER);
}

static void feed_exit(gw_model *model, const gw_item *item)
{
    gwi_process *process = gwi_process_of(model, item->exit.pid, item->t_ns);
    if (process == NULL)
        return;
    gw_process *facts = &model->process[process->index];
    facts->exit_known = true;
    gwi_replaced_apply(model, process);
    gwi_process_ended(model, process);
    facts->exit = item->exit;
    facts->t_exit_ns = item->t_ns;
    facts->is_own_stop = is_after_own_stop(model, item);
    if (item->exit.is_command) {
        facts->is_command = true;
        model->t_end_ns = item->t_ns;
    }
    int before = facts->end_snapshot, device = gwi_fullest_device(facts);
    uint64_t bytes = device < 0 ? 0 : facts->usage[device].live_bytes;
    if (bytes > 0 && (before < 0 || bytes >= model->snapshot[before].usage.live_bytes))
        gwi_snapshot_end(model, process, device, item->t_ns);
}

/* Add a copy of the item's key and value to a list. Returns NULL if the item has no key, if the list is full, or if
 * there is no memory. */
static gw_pair *pair_add(gw_model *model, gw_pair **list, size_t *count, size_t *capacity, const gw_item *item)
{
    enum { PAIRS_MAX = 1 << 14 };
    if (*count >= PAIRS_MAX || item->pair.key == NULL)
        return NULL;
    if (!gwi_room(model, list, *count, capacity, sizeof(gw_pair)))
        return NULL;
    gw_pair *pair = &(*list)[(*count)++];
    *pair = (gw_pair){.key = gwi_copy_text(model, item->pair.key),
                      .value = gwi_copy_text(model, item->pair.value == NULL ? "" : item->pair.value),
                      .t_ns = item->t_ns,
                      .pid = item->pid,
                      .tid = item->tid};
    return pair->key == NULL || pair->value == NULL ? NULL : pair;
}

static void process_fact(gw_model *model, gw_fact_key what, const gw_item *item)
{
    gwi_process *process = item->pid == 0 ? NULL : gwi_process_of(model, item->pid, item->t_ns);
    if (process == NULL)
        return;
    gw_process *facts = &model->process[process->index];
    gw_library library;
    gw_fact_rank rank;
    if (what == GW_FACT_LIBRARY && gw_library_from_line(item->pair.value, &library))
        (void)gw_libraries_add(&facts->libraries, &library);
    if (what == GW_FACT_PROCESS_RANK) {
        gw_fact_rank_read(gw_fact_text_of(item->pair.value), &rank);
        facts->has_rank = rank.has_rank;
        facts->rank = rank.rank;
        facts->has_world = rank.has_of;
        facts->world = rank.of;
        facts->has_restart = rank.has_restart;
        facts->restart = rank.restart;
    }
    facts->alive_at_end = facts->alive_at_end || what == GW_FACT_PROCESS_ALIVE;
}

/* A framework that is loaded after the first look at the process's files is only known by its package. If the files
 * showed another one, that is the framework that began to use the card. */
static void package_fact(gw_model *model, const char *package)
{
    static const char *const names[GW_FRAMEWORK_COUNT] = {
        [GW_FRAMEWORK_TORCH] = "torch ", [GW_FRAMEWORK_TENSORFLOW] = "tensorflow ", [GW_FRAMEWORK_JAX] = "jaxlib "};
    if (gw_model_framework(model) != GW_FRAMEWORK_RAW)
        return;
    for (size_t i = 0; i < GW_FRAMEWORK_COUNT; i++)
        model->framework_mapped[i] = names[i] != NULL && gw_begins(package, names[i]);
}

static void feed_fact(gw_model *model, const gw_item *item)
{
    const gw_fact_key what = gw_fact_key_of(item->pair.key);
    if (what == GW_FACT_NCCL_COMM || what == GW_FACT_NCCL_CALL ||
        what == GW_FACT_NCCL_LOST) { /* many, so they are not kept as text */
        if (item->pair.value != NULL)
            gwi_collective_fact(model, what, item);
        return;
    }
    gw_pair *kept = pair_add(model, &model->fact, &model->fact_count, &model->inner->fact_capacity, item);
    if (kept != NULL)
        kept->what = what;
    if (item->pair.value == NULL)
        return;
    switch (what) {
    case GW_FACT_PROCESS_RANK:
    case GW_FACT_PROCESS_ALIVE:
    case GW_FACT_LIBRARY:
        process_fact(model, what, item);
        break;
    case GW_FACT_PACKAGE:
        package_fact(model, item->pair.value);
        break;
    case GW_FACT_GPUCORE_FILE:
    case GW_FACT_GPUCORE_FAULT:
    case GW_FACT_BLAME:
        gwi_fault_fact(model, what, item);
        break;
    case GW_FACT_NVML_CARD:
        gwi_card_fact(model, item);
        break;
    case GW_FACT_CARD_HOLDER:
    case GW_FACT_CARD_HOLDER_UNMATCHED:
    case GW_FACT_DEVICE_HOLDER:
        gwi_holder_fact(model, kept);
        break;
    case GW_FACT_PCI_PEERS:
        gwi_peers_fact(model, kept);
        break;
    case GW_FACT_CUDNN_LOG:
        gwi_cudnn_fact(model, item);
        break;
    case GW_FACT_OWN_STOP:
        model->inner->own_stop_ns = model->inner->own_stop_ns != 0 ? model->inner->own_stop_ns : item->t_ns;
        break;
    default: /* all other facts stay in the list until gw_model_finish() or a verdict looks them up */
        break;
    }
}

static void feed_map(gw_model *model, const char *path)
{
    static const struct {
        const char *part;
        gw_framework framework;
    } libraries[] = {{"libtorch_cuda", GW_FRAMEWORK_TORCH},
                     {"libtorch.so", GW_FRAMEWORK_TORCH},
                     {"libtensorflow", GW_FRAMEWORK_TENSORFLOW},
                     {"tensorflow/python", GW_FRAMEWORK_TENSORFLOW},
                     {"jaxlib", GW_FRAMEWORK_JAX},
                     {"xla_cuda", GW_FRAMEWORK_JAX}};
    if (path == NULL)
        return;
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
        if (strstr(path, libraries[i].part) != NULL)
            model->framework_mapped[libraries[i].framework] = true;
    }
    if (strstr(path, "libcudnn") != NULL)
        model->cudnn_mapped = true;
}

static void site_item(gw_model *model, const gw_item *item)
{
    if (!gw_sites_feed(model->sites, item))
        model->inner->nomem = true;
}

static void feed_lost(gw_model *model, const gw_item *item)
{
    const gwi_process *process = gwi_process_of(model, item->pid, item->t_ns);
    if (process == NULL)
        return;
    gw_process *facts = &model->process[process->index];
    if (item->lost.events > facts->lost_events && !facts->is_quiet)
        facts->t_lost_ns = item->t_ns;
    facts->lost_events = item->lost.events + facts->is_quiet;
    facts->lost_failures = item->lost.failures + facts->is_quiet;
    facts->lost_threads = item->lost.threads;
}

static GWI_RARE gw_status feed_at_start(gw_model *model, const gw_item *item, gw_error *err)
{
    gw_item moved = *item;
    moved.t_ns = 0;
    return gw_model_feed(model, &moved, err);
}

gw_status gw_model_feed(gw_model *model, const gw_item *item, gw_error *err)
{
    gwi_model *inner = model->inner;
    if (is_before_start(item->t_ns))
        return feed_at_start(model, item, err);
    if (item->t_ns > inner->t_last_ns)
        inner->t_last_ns = item->t_ns;
    if (is_caused_by_own_stop(model, item))
        return GW_OK;
    switch (item->kind) {
    case GW_ITEM_EVENT:
        gwi_model_event(model, &item->event);
        break;
    case GW_ITEM_META:
        (void)pair_add(model, &model->meta, &model->meta_count, &inner->meta_capacity, item);
        site_item(model, item);
        break;
    case GW_ITEM_SUPERVISOR:
        feed_fact(model, item);
        break;
    case GW_ITEM_PROCESS:
        feed_process(model, item);
        site_item(model, item);
        break;
    case GW_ITEM_COUNTERS:
        feed_counters(model, item);
        break;
    case GW_ITEM_RING:
        feed_ring(model, item);
        break;
    case GW_ITEM_LOST:
        feed_lost(model, item);
        break;
    case GW_ITEM_STDERR:
        gwi_stderr_part(model, item->t_ns, item->stderr_part.bytes, item->stderr_part.count);
        break;
    case GW_ITEM_EXIT:
        feed_exit(model, item);
        break;
    case GW_ITEM_MAPS:
        feed_map(model, item->pair.key);
        break;
    case GW_ITEM_SYMBOL:
        site_item(model, item);
        break;
    case GW_ITEM_SAMPLE:
        gwi_machine_sample(model, item);
        break;
    case GW_ITEM_MACHINE:
        gwi_machine_event(model, item);
        break;
    case GW_ITEM_TRUNCATED:
        model->truncated = true;
        break;
    case GW_ITEM_DRAINED: /* written by the drain for the recording's writer; a reader never returns it */
    case GW_ITEM_COUNT:
        break;
    }
    return inner->nomem ? gw_fail(err, GW_NOMEM, "the model of the run") : GW_OK;
}

gw_status gw_model_name_fns(gw_model *model, const char *const *names, uint32_t count, gw_error *err)
{
    gwi_texts *known = &model->inner->fn_names;
    for (uint32_t i = (uint32_t)known->count; i < count; i++) {
        char *name = gwi_copy_text(model, names[i] == NULL ? "?" : names[i]);
        if (name == NULL || !gwi_room(model, &known->item, known->count, &known->capacity, sizeof(char *)))
            return gw_fail(err, GW_NOMEM, "the names of the functions");
        known->item[known->count++] = name;
    }
    return GW_OK;
}

/* ---- one phase alone ---- */

static const gw_phase *last_of_name(const gw_model *model, const char *name)
{
    const gw_phase *last = NULL;
    for (size_t i = 0; i < model->phase_count; i++) {
        const gw_phase *phase = &model->phase[i];
        if (phase->name != NULL && strcmp(phase->name, name) == 0 && (last == NULL || phase->t_ns >= last->t_ns))
            last = phase;
    }
    return last;
}

gw_status gw_model_end_phase(gw_model *model, const char *name, const char *traceback, size_t bytes, gw_error *err)
{
    gwi_phases_sort(model);
    const gw_phase *phase = last_of_name(model, name);
    if (phase == NULL)
        return gw_fail(err, GW_MISSING, "the recording has no phase named %.200s", name);
    model->asked_phase = phase;
    const gw_process *process = gw_model_process(model, phase->pid);
    if (bytes == 0 || process == NULL || process->exit_known)
        return GW_OK;
    gw_item item = {.kind = GW_ITEM_STDERR, .t_ns = model->inner->t_last_ns, .pid = phase->pid};
    item.stderr_part.bytes = traceback;
    item.stderr_part.count = (uint32_t)bytes;
    gw_status st = gw_model_feed(model, &item, err);
    item = (gw_item){.kind = GW_ITEM_EXIT, .t_ns = model->inner->t_last_ns, .pid = phase->pid};
    item.exit = (gw_exit_fact){.pid = phase->pid, .is_command = true, .status_known = true, .exit_code = 1};
    return st == GW_OK ? gw_model_feed(model, &item, err) : st;
}
