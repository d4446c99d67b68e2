/* Finds the part of PyTorch's cache that torch.cuda.empty_cache() can return to the driver. */
#include "gwi_inner.h"
#include "gwi_replay.h"

#include <stdlib.h>

typedef struct segment {
    uint64_t address, bytes;
    bool is_used;
} segment;

static int by_address(const void *left, const void *right)
{
    const segment *a = left, *b = right;
    return (a->address > b->address) - (a->address < b->address);
}

/* Collect PyTorch's segments, sorted by address. Sets *ret_bytes to their total size. */
static size_t collect(const gw_model *model, const gw_snapshot *snapshot, segment *out, uint64_t *ret_bytes)
{
    size_t count = 0;
    *ret_bytes = 0;
    for (size_t i = 0; i < snapshot->live_count; i++) {
        const gw_live *block = &snapshot->live[i];
        if (block->address == 0 || block->cls > GW_CLASS_DEVICE_LAST || !gwi_replay_is_torchs(model, block->site))
            continue;
        out[count++] = (segment){.address = block->address, .bytes = block->bytes};
        *ret_bytes += block->bytes;
    }
    qsort(out, count, sizeof *out, by_address);
    return count;
}

/* Return the segment that contains the address, or NULL. */
static segment *find(segment *list, size_t count, uint64_t address)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && address - list[low - 1].address < list[low - 1].bytes ? &list[low - 1] : NULL;
}

/* Mark the segments with live blocks. Returns false unless each block is in a segment, and all blocks are listed. */
static bool mark_used(const gw_allocator_report *report, segment *list, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < report->live_count; i++) {
        segment *at = find(list, count, report->live[i].address);
        if (at == NULL)
            return false;
        at->is_used = true;
        bytes += report->live[i].bytes;
    }
    return report->rest_count == 0 && report->has_course && report->course_missed == 0 &&
           bytes == report->field[GW_ALLOCATOR_COURSE_LIVE];
}

bool gw_model_empty_segments(const gw_model *model, const gw_allocator_report *report, const gw_snapshot *snapshot,
                             uint64_t *ret_bytes)
{
    uint64_t all = 0, empty = 0;
    if (snapshot->live_count == 0 || snapshot->device != report->device)
        return false;
    segment *list = malloc(snapshot->live_count * sizeof *list);
    size_t count = list == NULL ? 0 : collect(model, snapshot, list, &all);
    bool known = count > 0 && all == report->field[GW_ALLOCATOR_RESERVED] && mark_used(report, list, count);
    for (size_t i = 0; known && i < count; i++)
        empty += list[i].is_used ? 0 : list[i].bytes;
    free(list);
    if (known)
        *ret_bytes = empty;
    return known;
}
