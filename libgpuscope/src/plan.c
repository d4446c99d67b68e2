/* Plan memory ahead: place blocks with known lifetimes in one piece of memory.
 *
 * The best layout is hard to find. Here, each block goes into the smallest gap that fits, between placed blocks that
 * live at the same time. The result depends on the order of the blocks, so several orders are tried. A training
 * iteration usually needs no more than the largest total size of blocks that live at the same time. It frees blocks in
 * roughly the reverse order of allocation. */
#include "gwi_scope.h"

#include <stdlib.h>
#include <string.h>

typedef struct block {
    uint64_t bytes, size; /* size as requested, and rounded up to the plan's alignment */
    size_t begin, end;    /* the block is alive in the steps [begin, end) */
    uint64_t offset;
    bool is_freed;
} block;

typedef struct step {
    size_t block;
    bool is_free;
} step;

struct gs_plan {
    uint64_t alignment;
    block *blocks; /* owned */
    size_t block_count, block_room;
    step *steps; /* owned */
    size_t step_count, step_room;
    uint64_t live_bytes, live_peak_bytes;
    uint64_t arena_bytes;
    bool is_closed;
};

/* Limit in bytes for the size of a block, and for the total size of blocks that live at the same time. It prevents
 * overflows of sums. */
#define BYTES_MAX ((uint64_t)1 << 60)

gs_status gs_plan_new(size_t alignment_bytes, gs_plan **ret_plan)
{
    if (alignment_bytes == 0)
        alignment_bytes = 512;
    if ((alignment_bytes & (alignment_bytes - 1)) != 0 || alignment_bytes > BYTES_MAX)
        return GS_MISUSE;
    gs_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return GS_NO_HOST_MEMORY;
    plan->alignment = alignment_bytes;
    *ret_plan = plan;
    return GS_OK;
}

void gs_plan_delete(gs_plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->blocks);
    free(plan->steps);
    free(plan);
}

/* ---- recording the iteration ---- */

/* Return the array with room for one more element. Returns NULL if there is no memory; the array is then unchanged. */
static void *with_room(void *array, size_t count, size_t *room, size_t element_bytes)
{
    if (count < *room)
        return array;
    size_t wider = *room == 0 ? 16 : *room * 2;
    void *wide = wider > SIZE_MAX / element_bytes ? NULL : realloc(array, wider * element_bytes);
    if (wide != NULL)
        *room = wider;
    return wide;
}

static bool has_room(gs_plan *plan)
{
    block *blocks = with_room(plan->blocks, plan->block_count, &plan->block_room, sizeof *plan->blocks);
    if (blocks == NULL)
        return false;
    plan->blocks = blocks;
    step *steps = with_room(plan->steps, plan->step_count, &plan->step_room, sizeof *plan->steps);
    if (steps == NULL)
        return false;
    plan->steps = steps;
    return true;
}

gs_status gs_plan_alloc(gs_plan *plan, size_t bytes, size_t *ret_block)
{
    if (plan == NULL || plan->is_closed || bytes == 0 || bytes > BYTES_MAX)
        return GS_MISUSE;
    uint64_t size = (bytes + plan->alignment - 1) & ~(plan->alignment - 1);
    if (plan->live_bytes + size > BYTES_MAX)
        return GS_NO_MEMORY;
    if (!has_room(plan))
        return GS_NO_HOST_MEMORY;
    size_t index = plan->block_count++;
    plan->blocks[index] = (block){.bytes = bytes, .size = size, .begin = plan->step_count};
    plan->steps[plan->step_count++] = (step){.block = index};
    plan->live_bytes += size;
    if (plan->live_bytes > plan->live_peak_bytes)
        plan->live_peak_bytes = plan->live_bytes;
    *ret_block = index;
    return GS_OK;
}

gs_status gs_plan_free(gs_plan *plan, size_t index)
{
    if (plan == NULL || plan->is_closed || index >= plan->block_count || plan->blocks[index].is_freed)
        return GS_MISUSE;
    if (!has_room(plan))
        return GS_NO_HOST_MEMORY;
    plan->blocks[index].is_freed = true;
    plan->blocks[index].end = plan->step_count;
    plan->steps[plan->step_count++] = (step){.block = index, .is_free = true};
    plan->live_bytes -= plan->blocks[index].size;
    return GS_OK;
}

/* ---- placing the blocks ---- */

static int by_number(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_size(const void *a, const void *b)
{
    const block *left = *(const block *const *)a, *right = *(const block *const *)b;
    int order = by_number(right->size, left->size);
    return order != 0 ? order : by_number(left->begin, right->begin);
}

static int by_lifetime(const void *a, const void *b)
{
    const block *left = *(const block *const *)a, *right = *(const block *const *)b;
    int order = by_number(right->end - right->begin, left->end - left->begin);
    return order != 0 ? order : by_size(a, b);
}

static int by_begin(const void *a, const void *b)
{
    const block *left = *(const block *const *)a, *right = *(const block *const *)b;
    return by_number(left->begin, right->begin);
}

static bool live_together(const block *a, const block *b)
{
    return a->begin < b->end && b->begin < a->end;
}

/* Return the offset of the smallest gap for `wanted` between placed blocks that live at the same time, or the offset
 * after them. `placed` is sorted by offset. */
static uint64_t find_gap(const block *wanted, block *const *placed, size_t placed_count)
{
    uint64_t at = 0, best = UINT64_MAX, best_bytes = UINT64_MAX;
    for (size_t i = 0; i < placed_count; i++) {
        const block *other = placed[i];
        if (!live_together(wanted, other))
            continue;
        uint64_t gap = other->offset > at ? other->offset - at : 0;
        if (gap >= wanted->size && gap < best_bytes) {
            best = at;
            best_bytes = gap;
        }
        if (other->offset + other->size > at)
            at = other->offset + other->size;
    }
    return best == UINT64_MAX ? at : best;
}

static void insert(block *added, block **placed, size_t placed_count)
{
    size_t at = placed_count;
    while (at > 0 && placed[at - 1]->offset > added->offset) {
        placed[at] = placed[at - 1];
        at--;
    }
    placed[at] = added;
}

/* Place the blocks one after the other, sorted by `order`, and return the size of the memory needed. `sorted` and
 * `placed` are work space with room for all blocks. */
static uint64_t place(gs_plan *plan, int (*order)(const void *, const void *), block **sorted, block **placed)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < plan->block_count; i++)
        sorted[i] = &plan->blocks[i];
    qsort(sorted, plan->block_count, sizeof *sorted, order);
    for (size_t i = 0; i < plan->block_count; i++) {
        sorted[i]->offset = find_gap(sorted[i], placed, i);
        insert(sorted[i], placed, i);
        if (sorted[i]->offset + sorted[i]->size > bytes)
            bytes = sorted[i]->offset + sorted[i]->size;
    }
    return bytes;
}

gs_status gs_plan_close(gs_plan *plan, gs_plan_size *ret_size)
{
    static int (*const orders[])(const void *, const void *) = {by_size, by_lifetime, by_begin};
    enum { ORDER_COUNT = sizeof orders / sizeof *orders };
    if (plan == NULL || plan->is_closed)
        return GS_MISUSE;
    block **sorted = calloc(plan->block_count + 1, sizeof *sorted);
    block **placed = calloc(plan->block_count + 1, sizeof *placed);
    gs_status status = GS_NO_HOST_MEMORY;
    if (sorted == NULL || placed == NULL)
        goto out;
    for (size_t i = 0; i < plan->block_count; i++) {
        if (!plan->blocks[i].is_freed)
            plan->blocks[i].end = plan->step_count;
    }
    size_t best = 0;
    uint64_t bytes = UINT64_MAX, last = 0;
    for (size_t i = 0; i < ORDER_COUNT && bytes > plan->live_peak_bytes; i++) {
        last = place(plan, orders[i], sorted, placed);
        if (last < bytes) {
            bytes = last;
            best = i;
        }
    }
    if (last != bytes) /* the last order tried was not the best: place the blocks in the best order again */
        bytes = place(plan, orders[best], sorted, placed);
    plan->arena_bytes = bytes;
    plan->is_closed = true;
    if (ret_size != NULL)
        *ret_size = (gs_plan_size){
            .block_count = plan->block_count, .live_peak_bytes = plan->live_peak_bytes, .arena_bytes = bytes};
    status = GS_OK;
out:
    free(sorted);
    free(placed);
    return status;
}

gs_status gs_plan_offset(const gs_plan *plan, size_t index, uint64_t *ret_offset)
{
    if (plan == NULL || !plan->is_closed || index >= plan->block_count)
        return GS_MISUSE;
    *ret_offset = plan->blocks[index].offset;
    return GS_OK;
}

/* ---- functions for the arena ---- */

size_t gwi_plan_step_count(const gs_plan *plan)
{
    return plan->step_count;
}

gwi_plan_step gwi_plan_step_at(const gs_plan *plan, size_t index)
{
    const step *at = &plan->steps[index];
    const block *of = &plan->blocks[at->block];
    return (gwi_plan_step){.is_free = at->is_free, .block = at->block, .bytes = of->bytes, .offset = of->offset};
}

uint64_t gwi_plan_arena_bytes(const gs_plan *plan)
{
    return plan->is_closed ? plan->arena_bytes : 0;
}
