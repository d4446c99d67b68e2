/* The model: takes items in order of time, hands each to the part that it concerns, and settles at the end what can
 * only be known then. */
#include "gwi_inner.h"

#include "gw_array.h"
#include "gw_text.h"

#include <stdio.h>
#include <string.h>

bool gwi_room(gw_model *model, void *array_pointer, size_t count, size_t *capacity, size_t element_bytes)
{
    bool good = gw_array_room(array_pointer, count, capacity, element_bytes);
    if (!good)
        model->inner->nomem = true;
    return good;
}

char *gwi_copy_text(gw_model *model, const char *text)
{
    if (text == NULL)
        return NULL;
    char *copy = strdup(text);
    if (copy == NULL)
        model->inner->nomem = true;
    return copy;
}

char *gwi_copy_fact_text(gw_model *model, gw_fact_text text)
{
    char *copy = text.bytes == 0 ? NULL : strndup(text.data, text.bytes);
    if (text.bytes > 0 && copy == NULL)
        model->inner->nomem = true;
    return copy;
}

static const char *const class_texts[] = {
#define GW_X(name, text) text,
    GW_CLASSES(GW_X)
#undef GW_X
};
_Static_assert(sizeof class_texts / sizeof class_texts[0] == GW_CLASS_COUNT, "one text a class");

const char *gw_class_text(gw_class cls)
{
    return (unsigned)cls < GW_CLASS_COUNT ? class_texts[cls] : "memory";
}

bool gw_class_has_addresses(gw_class cls)
{
    switch (cls) {
    case GW_CLASS_PLAIN:
    case GW_CLASS_PITCHED:
    case GW_CLASS_POOL:
    case GW_CLASS_MANAGED:
    case GW_CLASS_IMPORT:
    case GW_CLASS_MAPPING:
        return true;
    default:
        return false;
    }
}

gw_status gw_model_new(gw_model **ret_model, gw_error *err)
{
    gw_model *model = calloc(1, sizeof *model);
    if (model == NULL)
        return gw_fail(err, GW_NOMEM, "make a model");
    model->inner = calloc(1, sizeof *model->inner);
    model->sites = gw_sites_new();
    if (model->inner == NULL || model->sites == NULL || !gwi_groups_start(model)) {
        gw_model_free(model);
        return gw_fail(err, GW_NOMEM, "make a model");
    }
    *ret_model = model;
    return GW_OK;
}

static void free_pairs(gw_pair *pair, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(pair[i].key);
        free(pair[i].value);
    }
    free(pair);
}

static void free_pool(gwi_string_pool *pool)
{
    for (size_t i = 0; i < pool->count; i++)
        free(pool->item[i]);
    free(pool->item);
}

static void free_inner(gw_model *model)
{
    gwi_model *inner = model->inner;
    if (inner == NULL)
        return;
    for (size_t i = 0; i < model->process_count; i++)
        gwi_process_free(inner->process[i]);
    for (size_t i = 0; inner->ring != NULL && i < model->thread_count; i++)
        free(inner->ring[i].call);
    free(inner->process);
    free(inner->ring);
    free(inner->inside_fn_plus_1);
    gwi_table_free(&inner->group_table);
    free(inner->picture);
    free_pool(&inner->fn_names);
    free_pool(&inner->names);
    free(inner->line);
    free(inner);
}

void gw_model_free(gw_model *model)
{
    if (model == NULL)
        return;
    free_inner(model);
    gwi_phases_free(model);
    gwi_faults_free(model);
    free(model->launch_site);
    free(model->alone);
    gwi_machine_free(model);
    gwi_cudnn_free(model);
    free(model->stderr_facts.text);
    for (size_t i = 0; i < model->process_count; i++) {
        free(model->process[i].exe);
        free(model->process[i].driver_path);
        free(model->process[i].raised);
        free(model->process[i].driver_build_id);
        gw_libraries_free(&model->process[i].libraries);
    }
    for (size_t i = 0; i < model->thread_count; i++)
        free(model->thread[i].ring);
    for (size_t i = 0; i < GW_MODEL_DEVICES_MAX; i++)
        free(model->device[i].name);
    for (size_t i = 0; i < model->failure_count; i++)
        free(model->failure[i].text);
    for (size_t i = 0; i < model->snapshot_count; i++)
        free(model->snapshot[i].live);
    for (size_t i = 0; i < model->teardown_count; i++)
        free(model->teardown[i].buried);
    for (size_t i = 0; i < model->allocator_count; i++) {
        free(model->allocator[i].live);
        free(model->allocator[i].request);
    }
    free(model->process);
    free(model->thread);
    free(model->failure);
    free(model->snapshot);
    free(model->teardown);
    gw_sites_free(model->sites);
    free(model->group);
    free(model->info);
    free(model->allocator);
    gwi_hangs_free(model);
    free(model->unordered);
    free(model->unwaited);
    free_pairs(model->meta, model->meta_count);
    free_pairs(model->fact, model->fact_count);
    free(model);
}

/* ---- processes and threads ---- */

static GWI_RARE gwi_process *process_add(gw_model *model, uint32_t pid, uint64_t t_ns)
{
    gwi_model *inner = model->inner;
    size_t capacity = inner->process_capacity;
    if (!gwi_room(model, &inner->process, model->process_count, &inner->process_capacity, sizeof(gwi_process *)))
        return NULL;
    if (!gwi_room(model, &model->process, model->process_count, &capacity, sizeof(gw_process)))
        return NULL;
    gwi_process *process = calloc(1, sizeof *process);
    if (process == NULL) {
        inner->nomem = true;
        return NULL;
    }
    process->pid = pid;
    process->index = (uint32_t)model->process_count;
    process->last_failure = -1;
    process->allocator_now = -1;
    model->process[model->process_count] = (gw_process){.pid = pid, .t_seen_ns = t_ns, .end_snapshot = -1};
    inner->process[model->process_count++] = process;
    return process;
}

static GWI_RARE gwi_process *process_find(gw_model *model, uint32_t pid, uint64_t t_ns)
{
    gwi_model *inner = model->inner;
    for (size_t i = model->process_count; i-- > 0;) { /* the newest of a reused pid */
        if (inner->process[i]->pid == pid)
            return inner->last = inner->process[i];
    }
    return inner->last = process_add(model, pid, t_ns);
}

static inline gwi_process *process_of(gw_model *model, uint32_t pid, uint64_t t_ns)
{
    gwi_process *last = model->inner->last;
    return last != NULL && last->pid == pid ? last : process_find(model, pid, t_ns);
}

static size_t thread_of(gw_model *model, uint32_t pid, uint32_t tid)
{
    gwi_model *inner = model->inner;
    for (size_t i = model->thread_count; i-- > 0;) {
        if (model->thread[i].pid == pid && model->thread[i].tid == tid)
            return i;
    }
    size_t capacity = inner->thread_capacity, again = capacity;
    if (!gwi_room(model, &inner->ring, model->thread_count, &capacity, sizeof(gwi_hot_ring)) ||
        !gwi_room(model, &inner->inside_fn_plus_1, model->thread_count, &again, sizeof(uint16_t)) ||
        !gwi_room(model, &model->thread, model->thread_count, &inner->thread_capacity, sizeof(gw_thread)))
        return SIZE_MAX;
    size_t index = model->thread_count++;
    model->thread[index] = (gw_thread){.pid = pid, .tid = tid};
    inner->ring[index] = (gwi_hot_ring){0};
    inner->inside_fn_plus_1[index] = 0;
    return index;
}

/* ---- facts among the events ---- */

/* NULL: it is beyond those that are known one by one. */
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
    if (!device->known || device->bytes_free_first == UINT64_MAX) /* at first it may only be named */
        device->bytes_free_first = event->arg[2];
    device->known = true;
    if (event->arg[1] != 0) {
        device->has_total = true;
        device->bytes_total = event->arg[1];
    }
    if (event->text != NULL && event->text_bytes > 0 && device->name == NULL) {
        device->name = malloc(event->text_bytes + 1);
        if (device->name != NULL) {
            memcpy(device->name, event->text, event->text_bytes);
            device->name[event->text_bytes] = '\0';
        }
    }
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
    for (size_t i = 0; i < model->process_count; i++) {
        const gw_usage *usage = &model->process[i].usage[info.device];
        if (model->process[i].exit_known)
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

static void note_fact(gw_model *model, const gw_event *event)
{
    if (event->arg[0] < GW_NOTE_COUNT)
        model->note_count[event->arg[0]]++;
    if (event->arg[0] == GW_NOTE_OBSERVER_ATTACHED)
        model->observer_attached = true;
}

static void driver_log(gw_model *model, const gw_event *event)
{
    gw_stderr_line *line = &model->stderr_facts.driver_log;
    line->count++;
    if (event->text == NULL || line->seen)
        return;
    line->seen = true;
    line->t_ns = event->t_ns;
    snprintf(line->text, sizeof line->text, "%.*s", (int)(event->text_bytes < 399 ? event->text_bytes : 399),
             event->text);
}

static void site_fact(gw_model *model, const gw_event *event)
{
    if (!gw_sites_feed_event(model->sites, event))
        model->inner->nomem = true;
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
        note_fact(model, event);
        break;
    case GW_EV_CRASH:
        gwi_crash_event(model, process, event);
        break;
    case GW_EV_DRIVER:
        facts->driver_api = (uint32_t)event->arg[0];
        break;
    case GW_EV_DRIVER_LOG:
        driver_log(model, event);
        gwi_fault_log(model, event);
        break;
    case GW_EV_GUARD_REFUSED: {
        gw_device *device = device_at(model, event->arg[3]);
        device->has_limit = true;
        device->bytes_limit = event->arg[1];
        gwi_failure_refused(model, process, event);
        break;
    }
    case GW_EV_FORK:
        facts->forked = true;
        facts->forked_after_init = facts->forked_after_init || event->arg[1] != 0;
        facts->t_fork_ns = event->t_ns;
        if (event->arg[2] != 0 && event->arg[2] <= UINT32_MAX)
            facts->fork_site = gw_sites_number(model->sites, (uint32_t)event->arg[0], (uint32_t)event->arg[2]);
        site_fact(model, event);
        facts->fork_parent_pid = (uint32_t)event->arg[0];
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
    case GW_EV_ORDER:
    case GW_EV_ORDER_RANGE:
        gwi_order_step(model, process, event);
        break;
    default:
        gwi_observer_event(model, process, event);
        break;
    }
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
    facts->init_site = gw_sites_number(model->sites, event->pid, event->site);
}

void gwi_model_event(gw_model *model, const gw_event *event)
{
    if (event->t_ns > model->inner->t_last_ns)
        model->inner->t_last_ns = event->t_ns;
    gwi_process *process = process_of(model, event->pid, event->t_ns);
    if (process == NULL)
        return;
    model->event_count++;
    gw_process *facts = &model->process[process->index];
    facts->t_last_event_ns = event->t_ns;
    if (is_fact(event->kind)) {
        fact_event(model, process, event);
        return;
    }
    if (facts->t_first_call_ns == 0)
        facts->t_first_call_ns = event->t_ns;
    if (event->result != 0) {
        gwi_failure_add(model, process, event);
        return;
    }
    if (event->kind == GW_EV_INIT)
        initialised(model, facts, event);
    if (gwi_order_matters(event->kind))
        gwi_order_call(model, process, event);
    gwi_ledger_apply(model, process, event);
}

/* ---- the other items ---- */

static void feed_process(gw_model *model, const gw_item *item)
{
    gwi_process *process = process_of(model, item->pid, item->t_ns);
    if (process != NULL && model->process[process->index].exit_known) /* the pid was used again */
        process = model->inner->last = process_add(model, item->pid, item->t_ns);
    if (process == NULL)
        return;
    gw_process *facts = &model->process[process->index];
    facts->parent_pid = item->process.parent_pid;
    facts->t_seen_ns = item->t_ns;
    if (facts->exe == NULL)
        facts->exe = gwi_copy_text(model, item->process.exe);
    if (facts->driver_path == NULL)
        facts->driver_path = gwi_copy_text(model, item->process.driver_path);
    if (facts->driver_build_id == NULL)
        facts->driver_build_id = gwi_copy_text(model, item->process.driver_build_id);
}

static void feed_counters(gw_model *model, const gw_item *item)
{
    size_t index = thread_of(model, item->pid, item->tid);
    gwi_process *process = process_of(model, item->pid, item->t_ns);
    if (index == SIZE_MAX || process == NULL)
        return;
    gw_thread *thread = &model->thread[index];
    gw_process *facts = &model->process[process->index];
    for (int i = 0; i < GW_COUNT_COUNT; i++) {
        facts->counter[i] += item->counters.counter[i] - thread->counter[i];
        thread->counter[i] = item->counters.counter[i];
    }
    thread->calls = item->counters.calls;
    thread->synced_at_ns = item->counters.synced_at_ns;
    thread->inside_since_ns = item->counters.inside_since_ns;
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
    size_t index = thread_of(model, item->pid, item->tid);
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
    free(ring->call);
    *ring = (gwi_hot_ring){call, item->ring.count, item->ring.total, item->ring.synced_total};
}

/* The one on which the process holds most; -1: it holds nothing. */
static int fullest_device(const gw_process *facts)
{
    int fullest = -1;
    for (int device = 0; device < GW_MODEL_DEVICES_MAX; device++) {
        uint64_t bytes = facts->usage[device].live_bytes;
        if (bytes > 0 && (fullest < 0 || bytes >= facts->usage[fullest].live_bytes))
            fullest = device;
    }
    return fullest;
}

static void end_snapshot(gw_model *model, gwi_process *process, int device, uint64_t t_ns)
{
    gw_process *facts = &model->process[process->index];
    gwi_snapshot_release(model, facts->end_snapshot, true);
    facts->end_snapshot = gwi_snapshot_take(model, process, device, t_ns, GW_SNAPSHOT_END);
}

static void feed_exit(gw_model *model, const gw_item *item)
{
    gwi_process *process = process_of(model, item->exit.pid, item->t_ns);
    if (process == NULL)
        return;
    gw_process *facts = &model->process[process->index];
    facts->exit_known = true;
    facts->exit = item->exit;
    facts->t_exit_ns = item->t_ns;
    if (item->exit.is_command) {
        facts->is_command = true;
        model->t_end_ns = item->t_ns;
    }
    int before = facts->end_snapshot, device = fullest_device(facts);
    uint64_t bytes = device < 0 ? 0 : facts->usage[device].live_bytes;
    if (bytes > 0 && (before < 0 || bytes >= model->snapshot[before].usage.live_bytes))
        end_snapshot(model, process, device, item->t_ns);
}

/* NULL: there is no room, or it has no key. */
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
    gwi_process *process = item->pid == 0 ? NULL : process_of(model, item->pid, item->t_ns);
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
    }
    facts->alive_at_end = facts->alive_at_end || what == GW_FACT_PROCESS_ALIVE;
}

static void feed_fact(gw_model *model, const gw_item *item)
{
    const gw_fact_key what = gw_fact_key_of(item->pair.key);
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
    default: /* looked for at the end, or by a verdict */
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

gw_status gw_model_feed(gw_model *model, const gw_item *item, gw_error *err)
{
    gwi_model *inner = model->inner;
    if (item->t_ns > inner->t_last_ns)
        inner->t_last_ns = item->t_ns;
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
    case GW_ITEM_LOST: {
        gwi_process *process = process_of(model, item->pid, item->t_ns);
        if (process != NULL) {
            model->process[process->index].lost_events = item->lost.events;
            model->process[process->index].lost_failures = item->lost.failures;
            model->process[process->index].lost_threads = item->lost.threads;
        }
        break;
    }
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
    case GW_ITEM_DRAINED: /* for writers alone */
    case GW_ITEM_COUNT:
        break;
    }
    return inner->nomem ? gw_fail(err, GW_NOMEM, "the model of the run") : GW_OK;
}

gw_status gw_model_name_fns(gw_model *model, const char *const *names, uint32_t count, gw_error *err)
{
    gwi_string_pool *pool = &model->inner->fn_names;
    for (uint32_t i = (uint32_t)pool->count; i < count; i++) {
        char *name = gwi_copy_text(model, names[i] == NULL ? "?" : names[i]);
        if (name == NULL || !gwi_room(model, &pool->item, pool->count, &pool->capacity, sizeof(char *))) {
            free(name);
            return gw_fail(err, GW_NOMEM, "the names of the functions");
        }
        pool->item[pool->count++] = name;
    }
    return GW_OK;
}

const char *gw_model_fn_name(const gw_model *model, uint16_t fn)
{
    return fn < model->inner->fn_names.count ? model->inner->fn_names.item[fn] : "?";
}

/* ---- the end ---- */

static void decode_call(gw_model *model, gwi_process *process, uint32_t tid, const gw_hot_call *hot, gw_ring_call *call)
{
    const char *name = gw_model_fn_name(model, hot->fn);
    *call = (gw_ring_call){.t_ns = hot->t_ns, .what = hot->what, .stream = hot->stream, .fn_name = name};
    call->is_graph_launch = gw_begins(name, "cuGraphLaunch");
    call->is_launch = gw_begins(name, "cuLaunch") && !gw_begins(name, "cuLaunchHostFunc");
    call->is_copy = gw_begins(name, "cuMemcpy");
    call->is_sync = strstr(name, "Synchronize") != NULL;
    call->is_query = gw_begins(name, "cuStreamQuery") || gw_begins(name, "cuEventQuery");
    if (process == NULL)
        return;
    if (gw_is_any_launch(call))
        call->captured = gwi_was_captured(process, tid, hot->t_ns);
    if (call->is_launch)
        call->kernel = gwi_function_name(model, process, hot->what);
    if (call->is_graph_launch)
        call->kernel = gwi_exec_names(model, process, hot->what);
}

static void decode_rings(gw_model *model)
{
    for (size_t i = 0; i < model->thread_count; i++) {
        gw_thread *thread = &model->thread[i];
        const gwi_hot_ring *ring = &model->inner->ring[i];
        gwi_process *process = process_of(model, thread->pid, 0);
        uint16_t inside = model->inner->inside_fn_plus_1[i];
        thread->inside_fn = inside == 0 ? NULL : gw_model_fn_name(model, (uint16_t)(inside - 1));
        thread->ring_total = ring->total;
        thread->ring_synced_total = ring->synced_total;
        thread->ring = ring->count == 0 ? NULL : calloc(ring->count, sizeof *thread->ring);
        if (thread->ring == NULL)
            continue;
        thread->ring_count = ring->count;
        for (uint32_t k = 0; k < ring->count; k++)
            decode_call(model, process, thread->tid, &ring->call[k], &thread->ring[k]);
    }
}

static void find_command(gw_model *model)
{
    for (size_t i = 0; i < model->process_count; i++) {
        if (model->process[i].is_command)
            model->command = &model->process[i];
    }
    if (model->t_end_ns == 0)
        model->t_end_ns = model->inner->t_last_ns;
}

static void find_card(gw_model *model)
{
    const char *gpu = gw_model_meta(model, "option.gpu");
    model->is_virtual = gpu != NULL && gw_begins(gpu, "virtual");
    uint64_t limit;
    const char *memory = gw_model_meta(model, "option.memory");
    if (memory == NULL || !gw_bytes_parse(memory, &limit) || limit == 0)
        return;
    for (size_t i = 0; i < GW_MODEL_DEVICES_MAX; i++) {
        if (model->device[i].known && !model->device[i].has_limit) {
            model->device[i].has_limit = true;
            model->device[i].bytes_limit = limit;
        }
    }
}

/* A process that still runs, or whose end nobody saw, has its ledger of the last moment. */
static void snapshot_survivors(gw_model *model)
{
    for (size_t i = 0; i < model->process_count; i++) {
        int device = fullest_device(&model->process[i]);
        if (!model->process[i].exit_known && device >= 0)
            end_snapshot(model, model->inner->process[i], device, model->inner->t_last_ns);
    }
}

gw_status gw_model_finish(gw_model *model, gw_error *err)
{
    snapshot_survivors(model);
    gwi_phases_sort(model);
    decode_rings(model);
    gwi_waits_finish(model);
    find_command(model);
    find_card(model);
    gwi_stderr_finish(model);
    gwi_raised_finish(model);
    gwi_observer_finish(model);
    gwi_failures_finish(model);
    gwi_faults_finish(model);
    gwi_launches_finish(model);
    gwi_alone_finish(model);
    gwi_hangs_finish(model);
    gwi_machine_finish(model);
    gwi_crash_finish(model);
    gwi_order_finish(model);
    return model->inner->nomem ? gw_fail(err, GW_NOMEM, "the model of the run") : GW_OK;
}

const gw_process *gw_model_process(const gw_model *model, uint32_t pid)
{
    for (size_t i = model->process_count; i-- > 0;) {
        if (model->process[i].pid == pid)
            return &model->process[i];
    }
    return NULL;
}

const char *gw_model_meta(const gw_model *model, const char *key)
{
    for (size_t i = 0; i < model->meta_count; i++) {
        if (model->meta[i].key != NULL && strcmp(model->meta[i].key, key) == 0)
            return model->meta[i].value;
    }
    return NULL;
}

const gw_pair *gw_model_fact(const gw_model *model, gw_fact_key what)
{
    for (size_t i = 0; i < model->fact_count; i++) {
        if (model->fact[i].what == what)
            return &model->fact[i];
    }
    return NULL;
}

char *gw_device_text(char out[GW_DEVICE_TEXT_MAX], int device)
{
    if (device < GW_MODEL_DEVICES_MAX)
        snprintf(out, GW_DEVICE_TEXT_MAX, "GPU %d", device);
    else
        snprintf(out, GW_DEVICE_TEXT_MAX, "a GPU beyond the first %d", GW_MODEL_DEVICES_MAX);
    return out;
}

gw_framework gw_model_framework(const gw_model *model)
{
    for (int i = GW_FRAMEWORK_TORCH; i < GW_FRAMEWORK_COUNT; i++) {
        if (model->framework_mapped[i])
            return (gw_framework)i;
    }
    return GW_FRAMEWORK_RAW;
}

bool gw_model_device_limit(const gw_model *model, int device, uint64_t *ret_bytes)
{
    const gw_device *it = &model->device[device < 0 ? 0 : gwi_device_place((uint64_t)device)];
    if (!it->has_limit && !it->has_total)
        return false;
    *ret_bytes = it->has_limit ? it->bytes_limit : it->bytes_total;
    return true;
}
