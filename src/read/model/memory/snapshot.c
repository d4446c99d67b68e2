/* Takes snapshots of the ledger. The code also calls a snapshot a picture.
 *
 * A program that provokes failures, or runs at its limit, may have ten thousand snapshots of a ledger with a million
 * blocks. A verdict uses only one or two of them. So a picture does not list the live blocks. It stores two numbers:
 * how many allocations and how many frees the process had made. A block is in the picture if it was allocated before
 * and freed later.
 *
 * When a block of a picture is freed, a copy goes to the process's graves. At the end, any picture can be listed from
 * the live blocks and the graves.
 *
 *     alloc A (1), alloc B (2), [picture: 2 made, 0 freed], free A (0 frees before), alloc C (3), alloc fails
 *     in the picture: B (alive, made 2nd) and A (dead, made 1st, 0 frees before its own); not: C (made 3rd) */
#include "gwi_inner.h"
#include "gwi_sort.h"

#include <string.h>

enum { SMALL_BYTES_MAX = 1 << 20, PAGE_SHIFT = 21, SMALL_STEP = 512 };

/* ---- the process's pictures ---- */

static void settle_order(const gw_model *model, gwi_process *process)
{
    uint32_t count = process->pictured_count;
    process->pictured_order = count == 0 ? 0 : model->snapshot[process->pictured[count - 1]].order;
    if (count == 0)
        process->grave_count = 0;
}

/* Remove a picture from its process's list `pictured`. The blocks of this picture can then no longer be listed. */
static void unlist(gw_model *model, int index)
{
    gwi_picture *picture = &model->inner->picture[index];
    gwi_process *process = model->inner->process[picture->process];
    if (!picture->listed)
        return;
    picture->listed = false;
    uint32_t at = 0;
    while (process->pictured[at] != index)
        at++;
    process->pictured_count--;
    memmove(&process->pictured[at], &process->pictured[at + 1],
            (process->pictured_count - at) * sizeof process->pictured[0]);
    settle_order(model, process);
}

/* Make room for a picture of a failure. If there are GWI_PICTURES_MAX, one in the middle is dropped: the first half
 * and the newest ones stay. */
static void make_way(gw_model *model, gwi_process *process)
{
    uint32_t failures = 0;
    int first_of_newer = -1;
    for (uint32_t i = 0; i < process->pictured_count; i++) {
        if (model->snapshot[process->pictured[i]].reason != GW_SNAPSHOT_FAILURE)
            continue;
        if (failures++ == GWI_PICTURES_MAX / 2)
            first_of_newer = process->pictured[i];
    }
    if (failures >= GWI_PICTURES_MAX)
        unlist(model, first_of_newer);
}

static void list(gw_model *model, gwi_process *process, int index)
{
    if (model->snapshot[index].reason == GW_SNAPSHOT_FAILURE)
        make_way(model, process);
    if (process->pictured_count == sizeof process->pictured / sizeof process->pictured[0])
        return;
    process->pictured[process->pictured_count++] = index;
    model->inner->picture[index].listed = true;
    settle_order(model, process);
}

/* Return an index in gw_model.snapshot and gwi_model.picture whose elements are unused; -1: no memory. The caller
 * fills the elements. */
static int place_new(gw_model *model)
{
    gwi_model *inner = model->inner;
    if (inner->picture_free != 0) {
        int index = (int)inner->picture_free - 1;
        inner->picture_free = inner->picture[index].next_free;
        return index;
    }
    if (!gwi_room(model, &model->snapshot, model->snapshot_count, &inner->snapshot_capacity, sizeof(gw_snapshot)) ||
        !gwi_room(model, &inner->picture, model->snapshot_count, &inner->picture_capacity, sizeof(gwi_picture)))
        return -1;
    return (int)model->snapshot_count++;
}

bool gwi_snapshot_is_now(const gw_model *model, const gwi_process *process, int index)
{
    const gw_process *facts = &model->process[process->index];
    if (index < 0 || model->inner->picture[index].process != process->index)
        return false;
    const gw_snapshot *snapshot = &model->snapshot[index];
    return snapshot->order == facts->alloc_order && snapshot->frees == facts->free_order;
}

/* Return the index of the previous failure's picture if the new failure can share it, else -1. The device must be
 * the same, and nothing may have been allocated or freed since then. */
static int find_same(const gw_model *model, const gwi_process *process, int device)
{
    if (process->pictured_count == 0)
        return -1;
    int index = process->pictured[process->pictured_count - 1];
    const gw_snapshot *last = &model->snapshot[index];
    bool same =
        last->reason == GW_SNAPSHOT_FAILURE && last->device == device && gwi_snapshot_is_now(model, process, index);
    return same ? index : -1;
}

int gwi_snapshot_take(gw_model *model, gwi_process *process, int device, uint64_t t_ns, gw_snapshot_reason reason)
{
    const gw_process *facts = &model->process[process->index];
    if (device < 0)
        device = 0;
    int index = reason == GW_SNAPSHOT_FAILURE ? find_same(model, process, device) : -1;
    if (index < 0) {
        index = place_new(model);
        if (index < 0)
            return -1;
        model->inner->picture[index] = (gwi_picture){.process = process->index};
        model->snapshot[index] = (gw_snapshot){.reason = reason,
                                               .t_ns = t_ns,
                                               .pid = process->pid,
                                               .device = device,
                                               .usage = facts->usage[device],
                                               .has_primary = process->primary[device] != 0,
                                               .order = facts->alloc_order,
                                               .frees = facts->free_order,
                                               .launches = process->launches,
                                               .copies = process->copies,
                                               .reads = process->reads,
                                               .waits = process->waits};
        list(model, process, index);
    }
    model->inner->picture[index].use_count++;
    model->inner->picture[index].need_count++;
    return index;
}

void gwi_snapshot_unneed(gw_model *model, int index)
{
    if (index >= 0 && --model->inner->picture[index].need_count == 0)
        unlist(model, index);
}

void gwi_snapshot_release(gw_model *model, int index, bool needed)
{
    if (index < 0)
        return;
    if (needed)
        gwi_snapshot_unneed(model, index);
    gwi_picture *picture = &model->inner->picture[index];
    if (--picture->use_count > 0)
        return;
    picture->next_free = model->inner->picture_free;
    model->inner->picture_free = (uint32_t)index + 1;
}

/* ---- graves ---- */

/* True if a freed block is in a picture of the process. Only the first picture after its allocation is checked:
 * later pictures have at least as many frees. */
static bool is_pictured(const gw_model *model, const gwi_process *process, const gwi_grave *grave)
{
    uint32_t low = 0, high = process->pictured_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (model->snapshot[process->pictured[middle]].order < grave->live.order)
            low = middle + 1;
        else
            high = middle;
    }
    return low < process->pictured_count && model->snapshot[process->pictured[low]].frees <= grave->died;
}

static void clear_graves(const gw_model *model, gwi_process *process)
{
    size_t kept = 0;
    for (size_t i = 0; i < process->grave_count; i++) {
        if (is_pictured(model, process, &process->grave[i]))
            process->grave[kept++] = process->grave[i];
    }
    process->grave_count = kept;
}

/* Make room for one more grave. If the array is full, graves in no picture are dropped, then pictures from the
 * middle. Returns false if memory runs out. */
static bool grave_room(gw_model *model, gwi_process *process)
{
    if (process->grave_count < process->grave_capacity)
        return true;
    clear_graves(model, process);
    while (process->grave_count >= GWI_GRAVES_MAX && process->pictured_count > 0) {
        unlist(model, process->pictured[process->pictured_count / 2]);
        clear_graves(model, process);
    }
    if (process->grave_count * 2 < process->grave_capacity)
        return true;
    size_t capacity = process->grave_capacity;
    return gwi_room(model, &process->grave, capacity, &process->grave_capacity, sizeof(gwi_grave));
}

static gw_live live_of(const gwi_object *object)
{
    return (gw_live){.address = object->key,
                     .bytes = object->bytes,
                     .t_ns = object->t_ns,
                     .order = object->order,
                     .group = object->group,
                     .cls = object->cls,
                     .device = object->device,
                     .has_time = true};
}

void gwi_snapshot_bury(gw_model *model, gwi_process *process, const gwi_object *object)
{
    if (object->order > process->pictured_order || !grave_room(model, process))
        return;
    process->grave[process->grave_count++] = (gwi_grave){live_of(object), model->process[process->index].free_order};
}

/* ---- making a list ---- */

static bool gather(const gw_model *model, const gwi_process *process, gw_snapshot *snapshot)
{
    size_t room = snapshot->usage.live_count + snapshot->usage.class_count[GW_CLASS_MANAGED], count = 0;
    gw_live *live = room == 0 ? NULL : malloc(room * sizeof *live);
    if (live == NULL)
        return false;
    for (uint32_t i = 0; i < process->object_count && count < room; i++) {
        const gwi_object *object = &process->object[i];
        if (gwi_is_alive(object) && gwi_is_counted(object->cls) && object->device == snapshot->device &&
            object->order <= snapshot->order)
            live[count++] = live_of(object);
    }
    for (size_t i = 0; i < process->grave_count && count < room; i++) {
        const gwi_grave *grave = &process->grave[i];
        if (grave->live.device == snapshot->device && grave->live.order <= snapshot->order &&
            grave->died >= snapshot->frees)
            live[count++] = grave->live;
    }
    for (size_t i = 0; i < count; i++) {
        live[i].site = model->group[live[i].group].site;
        live[i].group = model->group[live[i].group].kin;
    }
    snapshot->live = live;
    snapshot->live_count = count;
    return true;
}

/* Compute how many pages the small blocks occupy, up to 1 MiB each. They share pages of 2 MiB in steps of 512
 * bytes. A page stays as long as one block in it. */
static void measure_pages(gw_snapshot *snapshot, const gwi_sort_key *by_address)
{
    uint64_t page_last = UINT64_MAX, used = 0, large = 0;
    snapshot->small_page_count = 0;
    const uint64_t page_bytes = (uint64_t)1 << PAGE_SHIFT;
    for (size_t i = 0; i < snapshot->live_count; i++) {
        const gw_live *live = &snapshot->live[by_address[i].index];
        if (live->cls == GW_CLASS_MANAGED)
            continue;
        if (live->cls != GW_CLASS_PLAIN || live->bytes > SMALL_BYTES_MAX) {
            large += (live->bytes + page_bytes - 1) / page_bytes * page_bytes;
            continue;
        }
        used += (live->bytes + SMALL_STEP - 1) / SMALL_STEP * SMALL_STEP;
        uint64_t first = live->address >> PAGE_SHIFT, last = (live->address + live->bytes - 1) >> PAGE_SHIFT;
        snapshot->small_page_count += first == page_last ? last - first : last - first + 1;
        page_last = last;
    }
    uint64_t held = snapshot->small_page_count << PAGE_SHIFT;
    snapshot->held_bytes = held + large;
    snapshot->small_bytes = used;
    snapshot->small_idle_bytes = held > used ? held - used : 0;
}

/* Sort the list by address and measure its pages, then sort it in the order of allocation. Returns false if there is no
 * memory. */
static bool put_in_order(gw_snapshot *snapshot)
{
    size_t count = snapshot->live_count;
    gwi_sort_key *key = malloc(count * sizeof *key);
    gw_live *ordered = malloc(count * sizeof *ordered);
    bool good = key != NULL && ordered != NULL;
    for (size_t i = 0; good && i < count; i++)
        key[i] = (gwi_sort_key){snapshot->live[i].address, (uint32_t)i};
    good = good && gwi_sort(key, count);
    if (good)
        measure_pages(snapshot, key);
    for (size_t i = 0; good && i < count; i++)
        key[i] = (gwi_sort_key){snapshot->live[i].order, (uint32_t)i};
    good = good && gwi_sort(key, count);
    for (size_t i = 0; good && i < count; i++)
        ordered[i] = snapshot->live[key[i].index];
    free(key);
    free(good ? snapshot->live : ordered);
    if (good)
        snapshot->live = ordered;
    return good;
}

const gw_snapshot *gw_model_snapshot(const gw_model *model, int index)
{
    if (index < 0 || (size_t)index >= model->snapshot_count)
        return NULL;
    gw_snapshot *snapshot = &model->snapshot[index];
    const gwi_picture *picture = &model->inner->picture[index];
    if (snapshot->live != NULL || !picture->listed || !gather(model, model->inner->process[picture->process], snapshot))
        return snapshot;
    if (!put_in_order(snapshot)) {
        free(snapshot->live);
        snapshot->live = NULL;
        snapshot->live_count = 0;
    }
    return snapshot;
}

static int compare_addresses(const void *a, const void *b)
{
    const gw_live *left = a, *right = b;
    return (left->address > right->address) - (left->address < right->address);
}

/* Return the block that a mapping makes accessible, if this is the first mapping of a live block that is found. */
static const gwi_object *newly_mapped(const gwi_process *process, const gwi_object *mapping, bool *seen)
{
    if (mapping->cls != GW_CLASS_MAPPING || mapping->owner >= process->object_count || seen[mapping->owner])
        return NULL;
    const gwi_object *block = &process->object[mapping->owner];
    if (!gwi_is_alive(block) || block->cls != GW_CLASS_VMM)
        return NULL;
    seen[mapping->owner] = true;
    return block;
}

/* List the live blocks. Memory of cuMemCreate gets the address of its first mapping, or 0. `seen` is all false. */
static size_t list_now(const gwi_process *process, int device, bool *seen, gw_live *live)
{
    size_t count = 0;
    for (uint32_t i = 0; i < process->object_count; i++) {
        const gwi_object *object = &process->object[i];
        const gwi_object *block = gwi_is_alive(object) ? newly_mapped(process, object, seen) : NULL;
        if (block == NULL || block->device != device)
            continue;
        live[count] = live_of(block);
        live[count++].address = object->key;
    }
    for (uint32_t i = 0; i < process->object_count; i++) {
        const gwi_object *object = &process->object[i];
        if (!gwi_is_alive(object) || !gwi_is_counted(object->cls) || object->device != device || seen[i])
            continue;
        live[count] = live_of(object);
        if (object->cls == GW_CLASS_VMM)
            live[count].address = 0;
        count++;
    }
    return count;
}

gw_live *gw_model_live_now(const gw_model *model, uint32_t pid, int device, size_t *ret_count)
{
    const gwi_process *process = gwi_process_known(model, pid);
    uint32_t room = process == NULL ? 0 : process->object_count;
    gw_live *live = room == 0 ? NULL : malloc(room * sizeof *live);
    bool *seen = live == NULL ? NULL : calloc(room, sizeof *seen);
    *ret_count = seen == NULL ? 0 : list_now(process, device, seen, live);
    free(seen);
    if (*ret_count == 0) {
        free(live);
        return NULL;
    }
    for (size_t i = 0; i < *ret_count; i++)
        live[i].site = model->group[live[i].group].site;
    qsort(live, *ret_count, sizeof *live, compare_addresses);
    return live;
}

/* ---- the end of a process ---- */

/* Return the index of the device on which the process has the most live bytes, or -1 if it has none. */
int gwi_fullest_device(const gw_process *facts)
{
    int fullest = -1;
    for (int device = 0; device < GW_MODEL_DEVICES_MAX; device++) {
        uint64_t bytes = facts->usage[device].live_bytes;
        if (bytes > 0 && (fullest < 0 || bytes >= facts->usage[fullest].live_bytes))
            fullest = device;
    }
    return fullest;
}

void gwi_snapshot_end(gw_model *model, gwi_process *process, int device, uint64_t t_ns)
{
    gw_process *facts = &model->process[process->index];
    gwi_snapshot_release(model, facts->end_snapshot, true);
    facts->end_snapshot = gwi_snapshot_take(model, process, device, t_ns, GW_SNAPSHOT_END);
}
