/* The ledger at an instant. Taking one only copies; what survives to the end is sorted and measured then, so that a
 * program which fails a thousand allocations on purpose costs little. */
#include "inner.h"

#include <string.h>

enum { SMALL_BYTES_MAX = 1 << 20, PAGE_SHIFT = 21, SMALL_STEP = 512 };

static bool belongs(const gwi_object *object, int device)
{
    return gwi_is_alive(object) && object->device == device &&
           (object->cls <= GW_CLASS_DEVICE_LAST || object->cls == GW_CLASS_MANAGED);
}

static void copy_live(gw_model *model, const gwi_process *process, gw_snapshot *snapshot)
{
    uint64_t count = snapshot->usage.live_count + snapshot->usage.class_count[GW_CLASS_MANAGED];
    if (count == 0 || model->inner->snapshot_blocks + count > GWI_SNAPSHOT_BLOCKS_MAX)
        return;
    snapshot->live = malloc(count * sizeof *snapshot->live);
    if (snapshot->live == NULL)
        return;
    for (uint32_t i = 0; i < process->object_count && snapshot->live_count < count; i++) {
        const gwi_object *object = &process->object[i];
        if (belongs(object, snapshot->device))
            snapshot->live[snapshot->live_count++] = (gw_live){
                object->key, object->bytes, object->t_ns, object->order, object->group, object->cls, object->device};
    }
    model->inner->snapshot_blocks += snapshot->live_count;
}

void gwi_snapshot_thin(gw_model *model, int index)
{
    if (index < 0)
        return;
    gw_snapshot *snapshot = &model->snapshot[index];
    model->inner->snapshot_blocks -= snapshot->live_count;
    free(snapshot->live);
    snapshot->live = NULL;
    snapshot->live_count = 0;
}

/* Keep the first half of the lists and the newest ones. */
static void make_way(gw_model *model)
{
    size_t kept = 0;
    for (size_t i = 0; i < model->snapshot_count; i++)
        kept += model->snapshot[i].live != NULL;
    if (kept < GWI_SNAPSHOTS_MAX)
        return;
    size_t seen = 0;
    for (size_t i = 0; i < model->snapshot_count; i++) {
        if (model->snapshot[i].live == NULL || model->snapshot[i].reason != GW_SNAPSHOT_FAILURE ||
            seen++ < GWI_SNAPSHOTS_MAX / 2)
            continue;
        gwi_snapshot_thin(model, (int)i);
        return;
    }
}

int gwi_snapshot_take(gw_model *model, gwi_process *process, int device, uint64_t t_ns, gw_snapshot_reason reason)
{
    const gw_process *facts = &model->process[process->index];
    if (device < 0 || device >= GW_MODEL_DEVICES_MAX)
        device = 0;
    if (model->snapshot_count > 0 && reason == GW_SNAPSHOT_FAILURE) {
        const gw_snapshot *last = &model->snapshot[model->snapshot_count - 1];
        if (last->pid == process->pid && last->device == device && last->order == facts->alloc_order &&
            last->frees == facts->free_order && last->reason == reason)
            return (int)model->snapshot_count - 1;
    }
    make_way(model);
    if (!gwi_room(model, &model->snapshot, model->snapshot_count, &model->inner->snapshot_capacity,
                  sizeof(gw_snapshot)))
        return -1;
    gw_snapshot *snapshot = &model->snapshot[model->snapshot_count];
    *snapshot = (gw_snapshot){.reason = reason,
                              .t_ns = t_ns,
                              .pid = process->pid,
                              .device = device,
                              .usage = facts->usage[device],
                              .has_primary = process->primary[device] != 0,
                              .order = facts->alloc_order,
                              .frees = facts->free_order};
    copy_live(model, process, snapshot);
    return (int)model->snapshot_count++;
}

static int by_order(const void *left, const void *right)
{
    const gw_live *a = left, *b = right;
    return a->order < b->order ? -1 : a->order > b->order;
}

static int by_address(const void *left, const void *right)
{
    const gw_live *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

/* Blocks of at most 1 MiB share pages of 2 MiB in steps of 512 B: a page is held while one of them lives. Expects
 * the list by address. */
static void measure_pages(gw_snapshot *snapshot)
{
    uint64_t page_last = UINT64_MAX, used = 0, large = 0;
    const uint64_t page_bytes = (uint64_t)1 << PAGE_SHIFT;
    for (size_t i = 0; i < snapshot->live_count; i++) {
        const gw_live *live = &snapshot->live[i];
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

void gwi_snapshots_finish(gw_model *model)
{
    for (size_t i = 0; i < model->snapshot_count; i++) {
        gw_snapshot *snapshot = &model->snapshot[i];
        if (snapshot->live == NULL)
            continue;
        qsort(snapshot->live, snapshot->live_count, sizeof *snapshot->live, by_address);
        measure_pages(snapshot);
        qsort(snapshot->live, snapshot->live_count, sizeof *snapshot->live, by_order);
    }
}
