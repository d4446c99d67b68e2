/* The objects of the ledger: where they lie, how they are found, what they add up to. This is where the time goes when
 * a recording is read: an event touches one slot of a table, one object, one group and the usage, and nothing else. */
#include "inner.h"

/* ---- groups ---- */

/* What tells groups of one process, class, function and size apart: the site, else the thread. */
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
    return group->bytes == key->bytes && group->site == key->site && (key->site != 0 || group->tid == key->tid) &&
           group->fn == key->fn && group->cls == key->cls && group->pid == key->pid;
}

static inline uint32_t group_hash(const group_key *key)
{
    uint64_t caller = key->site != 0 ? ~(uint64_t)key->site : key->tid;
    uint64_t who = ((uint64_t)key->pid << 32 ^ caller) * 0xc2b2ae3d27d4eb4fu;
    uint64_t how = ((uint64_t)key->fn << 8 | key->cls) * 0x165667b19e3779f9u;
    return gwi_hash(key->bytes ^ who ^ how);
}

static uint32_t group_add(gw_model *model, uint32_t hash, const gw_group *group)
{
    gwi_model *inner = model->inner;
    if (model->group_count >= GWI_GROUPS_MAX ||
        !gwi_room(model, &model->group, model->group_count, &inner->group_capacity, sizeof(gw_group)))
        return 0;
    if (!gwi_table_add(&inner->group_table, hash, (uint32_t)model->group_count)) {
        inner->nomem = true;
        return 0;
    }
    model->group[model->group_count] = *group;
    model->group[model->group_count].kin = (uint32_t)model->group_count;
    return (uint32_t)model->group_count++;
}

static uint32_t group_of(gw_model *model, uint32_t pid, const gw_event *event, uint8_t cls, uint8_t device,
                         uint64_t bytes)
{
    uint32_t site = event->site == 0 ? 0 : gw_sites_number(model->sites, event->pid, event->site);
    group_key key = {model->group, bytes, pid, event->tid, site, event->fn, cls};
    uint32_t hash = group_hash(&key);
    gwi_spot spot = gwi_table_find(&model->inner->group_table, hash, group_is, &key);
    if (spot.bucket != NULL)
        return gwi_spot_value(spot);
    gw_group group = {.bytes = bytes,
                      .pid = pid,
                      .tid = event->tid,
                      .site = site,
                      .fn = event->fn,
                      .cls = cls,
                      .device = device,
                      .t_first_ns = event->t_ns};
    return group_add(model, hash, &group);
}

static void group_grow(gw_group *group, const gwi_process *process, uint64_t order, uint64_t t_ns)
{
    if (group->alloc_count == 0) {
        group->order_first = order;
        group->t_first_ns = t_ns;
    } else if (process->frees_total > group->frees_at_last) {
        group->step_count++;
    }
    group->alloc_count++;
    group->live_count++;
    if (group->live_count > group->live_count_peak)
        group->live_count_peak = group->live_count;
    group->t_last_ns = t_ns;
    group->order_last = order;
    group->frees_at_last = process->frees_total;
}

/* ---- objects ---- */

static bool grow_objects(gwi_process *process)
{
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

static gwi_object *object_new(gw_model *model, gwi_process *process, uint32_t *ret_index)
{
    if (process->object_free != 0) {
        *ret_index = process->object_free - 1;
        process->object_free = process->object[*ret_index].group;
        return &process->object[*ret_index];
    }
    if (process->object_count == process->object_capacity && !grow_objects(process)) {
        model->inner->nomem = true;
        return NULL;
    }
    *ret_index = process->object_count++;
    return &process->object[*ret_index];
}

static void usage_add(gw_usage *usage, uint8_t cls, uint64_t bytes, uint64_t t_ns)
{
    usage->class_bytes[cls] += bytes;
    usage->class_count[cls]++;
    usage->class_made[cls]++;
    if (usage->class_count[cls] > usage->class_count_peak[cls])
        usage->class_count_peak[cls] = usage->class_count[cls];
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

static void usage_take(gw_usage *usage, uint8_t cls, uint64_t bytes)
{
    usage->class_bytes[cls] -= bytes;
    usage->class_count[cls]--;
    if (gwi_is_memory(cls)) {
        usage->live_bytes -= bytes;
        usage->live_count--;
    }
}

static void object_forget(gwi_process *process, uint32_t index)
{
    process->object[index].space = GWI_SPACE_COUNT;
    process->object[index].group = process->object_free;
    process->object_free = index + 1;
}

void gwi_object_drop(gw_model *model, gwi_process *process, uint32_t index)
{
    gwi_object *object = &process->object[index];
    gw_process *facts = &model->process[process->index];
    usage_take(&facts->usage[object->device], object->cls, object->bytes);
    if (object->cls == GW_CLASS_HOST || object->cls == GW_CLASS_REGISTERED)
        facts->pinned_bytes -= object->bytes;
    if (object->cls != GW_CLASS_FUNCTION && object->cls != GW_CLASS_MAPPING) {
        gw_group *group = &model->group[object->group];
        group->live_count--;
        group->free_count++;
    }
    if (gwi_is_counted(object->cls)) {
        gwi_snapshot_bury(model, process, object);
        process->frees_total++;
        facts->free_order++;
    }
    object_forget(process, index);
}

typedef struct object_key {
    const gwi_object *object;
    uint64_t key;
    uint8_t space;
} object_key;

static inline bool object_is(const void *context, uint32_t index)
{
    const object_key *key = context;
    return key->object[index].key == key->key && key->object[index].space == key->space;
}

static inline gwi_spot spot_of(const gwi_process *process, gwi_space space, uint64_t key)
{
    object_key wanted = {process->object, key, (uint8_t)space};
    return gwi_table_find(&process->table[space], gwi_hash(key), object_is, &wanted);
}

bool gwi_object_find(const gwi_process *process, gwi_space space, uint64_t key, uint32_t *ret_index)
{
    gwi_spot spot = spot_of(process, space, key);
    if (spot.bucket == NULL)
        return false;
    *ret_index = gwi_spot_value(spot);
    return true;
}

bool gwi_object_take(gwi_process *process, gwi_space space, uint64_t key, uint32_t *ret_index)
{
    gwi_spot spot = spot_of(process, space, key);
    if (spot.bucket == NULL)
        return false;
    *ret_index = gwi_spot_value(spot);
    gwi_table_erase(&process->table[space], spot);
    return true;
}

bool gwi_object_end(gw_model *model, gwi_process *process, gwi_space space, uint64_t key)
{
    uint32_t index;
    if (!gwi_object_take(process, space, key, &index))
        return false;
    gwi_object_drop(model, process, index);
    return true;
}

gwi_object *gwi_object_add(gw_model *model, gwi_process *process, const gw_event *event, gwi_space space, gw_class cls,
                           uint64_t key, uint64_t bytes, int device)
{
    uint32_t index;
    gw_process *facts = &model->process[process->index];
    if (gwi_object_end(model, process, space, key)) /* its end was not seen: events were lost */
        facts->unknown_frees++;
    gwi_object *object = object_new(model, process, &index);
    if (object == NULL)
        return NULL;
    if (!gwi_table_add(&process->table[space], gwi_hash(key), index)) {
        model->inner->nomem = true;
        object_forget(process, index);
        return NULL;
    }
    uint8_t on = device >= 0 && device < GW_MODEL_DEVICES_MAX ? (uint8_t)device : 0;
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
    usage_add(&facts->usage[on], (uint8_t)cls, bytes, event->t_ns);
    if (cls != GW_CLASS_FUNCTION && cls != GW_CLASS_MAPPING) {
        object->group = group_of(model, process->pid, event, (uint8_t)cls, on, bytes);
        group_grow(&model->group[object->group], process, facts->alloc_order, event->t_ns);
    }
    if (process->open_count > 0 && (counted ? bytes : 0) >= process->open_bytes_min)
        gwi_failure_allocated(model, process, event, counted ? bytes : 0);
    return object;
}
