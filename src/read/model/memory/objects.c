/* Stores, finds and counts the objects of the ledger. Reading a recording spends most of its time here. So the
 * functions that add or end an object access little memory: one slot of a table, one object, one group and the
 * usage. */
#include "gwi_find.h"

/* ---- groups ---- */

/* The key of a group of objects: process, class, function, size and call site. If the call site is unknown, the key
 * also includes the thread. */
typedef struct group_key {
    const gw_group *group;
    uint64_t bytes;
    uint32_t pid, tid, site;
    uint16_t fn;
    uint8_t cls;
} group_key;

static inline bool group_is(const void *context, uint32_t index)
{
    const group_key *key = context;
    const gw_group *group = &key->group[index];
    return group->bytes == key->bytes && group->fn == key->fn && group->site == key->site &&
           (key->site != 0 || group->tid == key->tid) && group->cls == key->cls && group->pid == key->pid;
}

/* Make room for one more group. Unlike with gwi_room(), the array is aligned to cache lines. */
static GWI_RARE bool group_room(gw_model *model)
{
    size_t *capacity = &model->inner->group_capacity;
    if (model->group_count < *capacity)
        return true;
    size_t more = *capacity == 0 ? 64 : *capacity * 2;
    gw_group *wider = gwi_big_alloc(more * sizeof *wider);
    if (wider == NULL) {
        model->inner->nomem = true;
        return false;
    }
    if (model->group_count > 0)
        memcpy(wider, model->group, model->group_count * sizeof *wider);
    free(model->group);
    model->group = wider;
    *capacity = more;
    return true;
}

bool gwi_groups_start(gw_model *model)
{
    if (!group_room(model))
        return false;
    model->group[model->group_count++] = (gw_group){0};
    return true;
}

static GWI_RARE uint32_t group_add(gw_model *model, const gw_event *event, uint32_t hash, const group_key *key,
                                   uint8_t device)
{
    gwi_model *inner = model->inner;
    uint32_t index = (uint32_t)model->group_count;
    if (index >= GWI_GROUPS_MAX || !group_room(model))
        return 0;
    if (!gwi_table_add(&inner->group_table, hash, index)) {
        inner->nomem = true;
        return 0;
    }
    model->group[index] = (gw_group){.bytes = key->bytes,
                                     .pid = key->pid,
                                     .tid = key->tid,
                                     .site = key->site,
                                     .kin = index,
                                     .fn = key->fn,
                                     .cls = key->cls,
                                     .device = device,
                                     .t_first_ns = event->t_ns};
    model->group_count++;
    return index;
}

static inline uint32_t group_of(gw_model *model, uint32_t pid, const gw_event *event, uint8_t cls, uint8_t device,
                                uint64_t bytes)
{
    group_key key = {model->group, bytes, pid, event->tid, model->inner->event_site, event->fn, cls};
    uint32_t hash = gwi_group_hash(event, bytes);
    gwi_spot spot = gwi_table_find(&model->inner->group_table, hash, group_is, &key);
    if (spot.bucket != NULL)
        return gwi_spot_value(spot);
    return group_add(model, event, hash,
                     &(group_key){NULL, bytes, pid, event->tid, model->inner->event_site, event->fn, cls}, device);
}

static inline void group_grow(gw_group *group, uint64_t frees, uint64_t order, uint64_t t_ns)
{
    if (group->alloc_count == 0) {
        group->order_first = order;
        group->t_first_ns = t_ns;
    } else if (frees > group->frees_at_last) {
        group->step_count++;
    }
    group->alloc_count++;
    group->live_count++;
    if (group->live_count > group->live_count_peak) {
        group->live_count_peak = group->live_count;
        group->grown_at = group->alloc_count;
    }
    group->t_last_ns = t_ns;
    group->order_last = order;
    group->frees_at_last = frees;
}

void gwi_group_kept(gw_model *model, const gwi_object *object)
{
    gw_group *group = &model->group[object->group];
    if (object->t_ns > group->t_kept_ns)
        group->t_kept_ns = object->t_ns;
}

void gwi_groups_finish(gw_model *model)
{
    for (size_t i = 0; i < model->process_count; i++) {
        const gwi_process *process = model->inner->process[i];
        for (uint32_t k = 0; k < process->object_count; k++)
            if (gwi_is_alive(&process->object[k]))
                gwi_group_kept(model, &process->object[k]);
    }
}

/* ---- objects ---- */

static GWI_RARE bool grow_objects(gw_model *model, gwi_process *process)
{
    if (process->object_capacity == 0 && !gwi_process_holds(model, process))
        return false;
    uint32_t capacity = process->object_capacity == 0 ? 64 : process->object_capacity * 2;
    gwi_object *wider = gwi_big_alloc(capacity * sizeof *wider);
    if (wider == NULL)
        return false;
    if (process->object_count > 0)
        memcpy(wider, process->object, process->object_count * sizeof *wider);
    free(process->object);
    process->object = wider;
    process->object_capacity = capacity;
    return true;
}

static inline gwi_object *object_new(gw_model *model, gwi_process *process, uint32_t *ret_index)
{
    if (process->object_free != 0) {
        *ret_index = process->object_free - 1;
        process->object_free = process->object[*ret_index].group;
        return &process->object[*ret_index];
    }
    if (process->object_count == process->object_capacity && !grow_objects(model, process)) {
        model->inner->nomem = true;
        return NULL;
    }
    *ret_index = process->object_count++;
    return &process->object[*ret_index];
}

static inline void usage_add(gw_usage *usage, uint8_t cls, uint64_t bytes, uint64_t t_ns)
{
    usage->class_bytes[cls] += bytes;
    usage->class_count[cls]++;
    usage->class_made[cls]++;
    if (usage->class_count[cls] > usage->class_count_peak[cls])
        usage->class_count_peak[cls] = usage->class_count[cls];
    if (cls == GW_CLASS_MANAGED && usage->class_bytes[cls] > usage->managed_bytes_peak)
        usage->managed_bytes_peak = usage->class_bytes[cls];
    if (!gwi_is_memory(cls))
        return;
    usage->used = true;
    usage->live_count++;
    usage->live_bytes += bytes;
    usage->alloc_count_total++;
    usage->alloc_bytes_total += bytes;
    if (usage->live_bytes > usage->peak_bytes) {
        usage->peak_bytes = usage->live_bytes;
        usage->t_peak_ns = t_ns;
    }
}

static inline void usage_take(gw_usage *usage, uint8_t cls, uint64_t bytes)
{
    usage->class_bytes[cls] -= bytes;
    usage->class_count[cls]--;
    if (gwi_is_memory(cls)) {
        usage->live_bytes -= bytes;
        usage->live_count--;
    }
}

static inline void object_forget(gwi_process *process, uint32_t index)
{
    process->object[index].space = GWI_SPACE_COUNT;
    process->object[index].group = process->object_free;
    process->object_free = index + 1;
}

/* Report a change of device memory to the follower. */
static GWI_RARE void follow(const gw_model *model, const gwi_process *process, const gwi_object *object, bool made)
{
    const gw_model_follower *follower = model->inner->follower;
    const gw_memory_change change = {.t_ns = model->inner->t_event_ns,
                                     .bytes = object->bytes,
                                     .pid = process->pid,
                                     .group = object->group,
                                     .device = object->device,
                                     .made = made};
    if (gwi_is_memory(object->cls) && follower->memory != NULL)
        follower->memory(follower->user, model, &change);
}

/* Does the work of gwi_object_drop(). Always inlined, so that the compiler removes the checks of a constant `cls`. */
static inline __attribute__((always_inline)) void object_drop(gw_model *model, gwi_process *process, uint32_t index,
                                                              gw_class cls)
{
    gwi_object *object = &process->object[index];
    gw_process *facts = &model->process[process->index];
    usage_take(&facts->usage[object->device], (uint8_t)cls, object->bytes);
    if (cls == GW_CLASS_HOST || cls == GW_CLASS_REGISTERED)
        facts->pinned_bytes -= object->bytes;
    if (cls != GW_CLASS_FUNCTION && cls != GW_CLASS_MAPPING) {
        gw_group *group = &model->group[object->group];
        group->live_count--;
        group->free_count++;
        process->ends_total++;
    }
    if (gwi_is_counted((uint8_t)cls)) {
        if (object->order <= process->pictured_order)
            gwi_snapshot_bury(model, process, object);
        facts->free_order++;
        gwi_request_freed(process, object->order, facts->free_order);
    }
    if (model->inner->follower != NULL)
        follow(model, process, object, false);
    object_forget(process, index);
}

void gwi_object_drop(gw_model *model, gwi_process *process, uint32_t index)
{
    object_drop(model, process, index, process->object[index].cls);
}

static inline bool object_take(gwi_process *process, gwi_space space, uint64_t key, uint32_t *ret_index)
{
    gwi_spot spot = gwi_spot_of(process, space, key);
    if (spot.bucket == NULL)
        return false;
    *ret_index = gwi_spot_value(spot);
    gwi_table_erase(&process->table[space], spot);
    return true;
}

bool gwi_object_take(gwi_process *process, gwi_space space, uint64_t key, uint32_t *ret_index)
{
    return object_take(process, space, key, ret_index);
}

bool gwi_object_end(gw_model *model, gwi_process *process, gwi_space space, uint64_t key)
{
    uint32_t index;
    if (!object_take(process, space, key, &index))
        return false;
    gwi_object_drop(model, process, index);
    return true;
}

static GWI_RARE void free_of_nothing(gw_model *model, const gwi_process *process, const gw_event *event)
{
    if (event->arg[0] != 0)
        model->process[process->index].unknown_frees++;
}

void gwi_memory_free(gw_model *model, gwi_process *process, const gw_event *event)
{
    if (event->arg[0] == 0 || !gwi_object_end(model, process, GWI_SPACE_MEMORY, event->arg[0]))
        free_of_nothing(model, process, event);
}

/* cuMemFree waits for the device, unless the memory is stream-ordered. */
static inline void plain_free(gw_model *model, gwi_process *process, const gw_event *event)
{
    uint32_t index;
    bool found = event->arg[0] != 0 && object_take(process, GWI_SPACE_MEMORY, event->arg[0], &index);
    if (!found)
        free_of_nothing(model, process, event);
    if (!found || process->object[index].cls != GW_CLASS_POOL)
        process->t_waited_ns = event->t_ns;
    if (found && process->object[index].cls == GW_CLASS_PLAIN)
        object_drop(model, process, index, GW_CLASS_PLAIN);
    else if (found)
        gwi_object_drop(model, process, index);
}

/* End an object because a new object got its address or handle. The old one must have been freed, but the event of its
 * free was lost. */
static GWI_RARE void end_unseen(gw_model *model, gwi_process *process, gwi_space space, uint64_t key)
{
    if (gwi_object_end(model, process, space, key))
        model->process[process->index].unknown_frees++;
}

static inline void request_add(gw_model *model, gwi_process *process, const gwi_object *object, const gw_event *event,
                               uint64_t live_bytes)
{
    if (gw_is_request(event->kind))
        gwi_work_add(process, event->extra);
    gwi_request *request = gwi_request_place(model, process, object->order);
    if (request != NULL)
        *request = (gwi_request){.t_ns = event->t_ns,
                                 .bytes = object->bytes,
                                 .live_bytes = live_bytes,
                                 .launches = process->launches,
                                 .frees = model->process[process->index].free_order,
                                 .copies = (uint32_t)process->copies,
                                 .reads = (uint32_t)process->reads,
                                 .waits = (uint32_t)process->waits,
                                 .group = object->group,
                                 .thread = gwi_thread_mark(event->tid),
                                 .device = object->device};
}

/* Does the work of gwi_object_add(). It is always inlined, so that the compiler removes the checks of a constant
 * `space`. */
static inline __attribute__((always_inline)) gwi_object *object_add(gw_model *model, gwi_process *process,
                                                                    const gw_event *event, gwi_space space,
                                                                    gw_class cls, uint64_t key, uint64_t bytes,
                                                                    int device)
{
    uint32_t index, hash = gwi_hash(key);
    gw_process *facts = &model->process[process->index];
    if (gwi_table_may_have(&process->table[space], hash))
        end_unseen(model, process, space, key);
    gwi_object *object = object_new(model, process, &index);
    if (object == NULL)
        return NULL;
    if (!gwi_table_add(&process->table[space], hash, index)) {
        model->inner->nomem = true;
        object_forget(process, index);
        return NULL;
    }
    uint8_t on = device < 0 ? 0 : (uint8_t)gwi_device_place((uint64_t)device);
    bool counted = gwi_is_counted((uint8_t)cls);
    facts->alloc_order += counted;
    *object = (gwi_object){.key = key,
                           .bytes = bytes,
                           .t_ns = event->t_ns,
                           .order = facts->alloc_order,
                           .context = event->context,
                           .refs = space == GWI_SPACE_FUNCTION ? 0 : 1,
                           .cls = (uint8_t)cls,
                           .device = on,
                           .space = (uint8_t)space};
    uint64_t usage_before = facts->usage[on].live_bytes + facts->usage[on].class_bytes[GW_CLASS_MANAGED];
    usage_add(&facts->usage[on], (uint8_t)cls, bytes, event->t_ns);
    if (cls != GW_CLASS_FUNCTION && cls != GW_CLASS_MAPPING) {
        object->group = group_of(model, process->pid, event, (uint8_t)cls, on, bytes);
        facts->made_total++;
        group_grow(&model->group[object->group], counted ? facts->free_order : process->ends_total,
                   counted ? facts->alloc_order : facts->made_total, event->t_ns);
    }
    if (counted) {
        request_add(model, process, object, event, usage_before);
        gwi_asker_count(process, event->tid);
    }
    if (process->open_count > 0 && (counted ? bytes : 0) >= process->open_bytes_min)
        gwi_failure_allocated(model, process, event, counted ? bytes : 0);
    if (model->inner->follower != NULL)
        follow(model, process, object, true);
    return object;
}

gwi_object *gwi_object_add(gw_model *model, gwi_process *process, const gw_event *event, gwi_space space, gw_class cls,
                           uint64_t key, uint64_t bytes, int device)
{
    return object_add(model, process, event, space, cls, key, bytes, device);
}

void gwi_memory_add(gw_model *model, gwi_process *process, const gw_event *event, gw_class cls)
{
    (void)gwi_object_add(model, process, event, GWI_SPACE_MEMORY, cls, event->arg[0], event->arg[1],
                         gwi_device_of(process, event->context));
}

static gw_class class_of_space(uint64_t space)
{
    static const gw_class classes[GW_SPACE_COUNT] = {GW_CLASS_PLAIN, GW_CLASS_PITCHED, GW_CLASS_MANAGED, GW_CLASS_ARRAY,
                                                     GW_CLASS_MIPMAP};
    return space < GW_SPACE_COUNT ? classes[space] : GW_CLASS_PLAIN;
}

bool gwi_objects_apply(gw_model *model, gwi_process *process, const gw_event *event)
{
    if (event->kind == GW_EV_ALLOC) {
        model->process[process->index].allocation_us += event->took_us;
        if (event->arg[2] == GW_SPACE_DEVICE)
            (void)object_add(model, process, event, GWI_SPACE_MEMORY, GW_CLASS_PLAIN, event->arg[0], event->arg[1],
                             gwi_device_of(process, event->context));
        else
            gwi_memory_add(model, process, event, class_of_space(event->arg[2]));
    } else if (event->kind == GW_EV_FREE) {
        model->process[process->index].allocation_us += event->took_us;
        plain_free(model, process, event);
    } else {
        return false;
    }
    return true;
}
