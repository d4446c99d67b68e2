/* Expandable segments: for each stream and pool one range of addresses, larger than the card, into which pages are
 * mapped as needed. The range is a list of blocks: used, free, or not mapped. Blocks that are not mapped begin and end
 * at pages. */
#include "gwi_allocator.h"

#include "gw_array.h"

static uint64_t page_bytes(const gwi_allocator *a, const gwi_pool *pool)
{
    return pool->is_small ? GWI_SMALL_SEGMENT : a->settings->large_segment_bytes;
}

uint64_t gwi_expandable_bytes(const gwi_allocator *a, uint32_t block)
{
    const gwi_block *b = &a->block[block];
    bool can_grow = b->next != 0 && !a->block[b->next].is_mapped;
    return b->bytes + (can_grow ? a->block[b->next].bytes : 0);
}

/* True if the block and its free neighbours after it, mapped or not, have at least `bytes`. */
static bool has_space(const gwi_allocator *a, uint32_t block, uint64_t bytes)
{
    uint64_t found = 0;
    for (; found < bytes && block != 0 && !a->block[block].is_used; block = a->block[block].next)
        found += a->block[block].bytes;
    return found >= bytes;
}

/* The address space is 1 1/8 of the card, in whole pages. */
static gwi_answer new_space(gwi_allocator *a, gwi_pool *pool, uint32_t stream, uint32_t *ret_block)
{
    uint64_t page = page_bytes(a, pool), wanted = a->card_bytes + a->card_bytes / 8, address;
    uint64_t bytes = (wanted + page - 1) / page * page;
    gwi_answer answer = a->device->reserve(a->device->user, bytes, &address);
    if (answer != GWI_GRANTED)
        return answer;
    uint32_t block = gwi_block_new(a, pool, stream, address, bytes);
    if (block == 0 || !gw_array_more(&a->space, a->space_count, sizeof *a->space)) {
        a->no_memory = true;
        return GWI_STOPPED;
    }
    a->space[a->space_count++] = (gwi_space){address, bytes};
    a->block[block].space = (uint32_t)a->space_count;
    a->block[block].is_mapped = false;
    gwi_set_add(a, &pool->unmapped, block);
    *ret_block = block;
    return GWI_GRANTED;
}

/* Find the lowest address at which free and unmapped space suffices. The result may be a free block before an unmapped
 * one. */
static gwi_answer find_space(gwi_allocator *a, gwi_pool *pool, uint64_t bytes, uint32_t stream, uint32_t *ret_block)
{
    for (uint32_t at = gwi_set_from(a, &pool->unmapped, (gwi_key){stream, 0, 0});
         at != 0 && a->block[at].stream == stream; at = gwi_set_after(a, &pool->unmapped, at)) {
        uint32_t before = a->block[at].prev, first = before != 0 && !a->block[before].is_used ? before : at;
        if (has_space(a, first, bytes)) {
            *ret_block = first;
            return GWI_GRANTED;
        }
    }
    return new_space(a, pool, stream, ret_block);
}

/* Map the first `bytes` of an unmapped block, rounded up to pages, and put the block, merged with its free neighbours,
 * into the set of free blocks. */
static gwi_answer map(gwi_allocator *a, gwi_pool *pool, uint32_t block, uint64_t bytes)
{
    uint64_t page = page_bytes(a, pool), count = (bytes + page - 1) / page, mapped = count * page;
    gwi_answer answer = a->device->create(a->device->user, page, count);
    if (answer != GWI_GRANTED)
        return answer;
    gwi_set_remove(a, &pool->unmapped, block);
    if (mapped < a->block[block].bytes) {
        uint32_t rest = gwi_block_cut(a, pool, block, mapped);
        if (rest == 0)
            return GWI_STOPPED;
        gwi_set_add(a, &pool->unmapped, rest);
    }
    a->block[block].is_mapped = true;
    gwi_block_merge(a, pool, block, a->block[block].prev);
    gwi_block_merge(a, pool, block, a->block[block].next);
    gwi_pool_put(a, pool, block);
    gwi_reserved_add(a, mapped);
    return GWI_GRANTED;
}

static uint64_t least_of(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

gwi_answer gwi_expand(gwi_allocator *a, gwi_pool *pool, uint64_t bytes, uint32_t stream, uint32_t *ret_block)
{
    uint32_t block;
    gwi_answer answer = find_space(a, pool, bytes, stream, &block);
    if (answer == GWI_GRANTED && a->block[block].bytes < bytes && a->block[block].next == 0)
        return GWI_REFUSED; /* larger than the whole address space */
    if (answer == GWI_GRANTED && !a->block[block].is_mapped)
        answer = map(a, pool, block, least_of(a->block[block].bytes, bytes));
    while (answer == GWI_GRANTED && a->block[block].bytes < bytes) {
        uint32_t next = a->block[block].next; /* not mapped: two mapped free neighbours would be one */
        answer = map(a, pool, next, least_of(bytes - a->block[block].bytes, a->block[next].bytes));
        block = next; /* which now has the free block before it, too */
    }
    if (answer != GWI_GRANTED)
        return answer;
    gwi_set_remove(a, &pool->free, block);
    *ret_block = block;
    return GWI_GRANTED;
}

bool gwi_shrink(gwi_allocator *a, gwi_pool *pool, uint32_t block)
{
    uint64_t page = page_bytes(a, pool), start = a->space[a->block[block].space - 1].address;
    uint64_t from = a->block[block].address, to = from + a->block[block].bytes;
    uint64_t first = start + (from - start + page - 1) / page * page, end = start + (to - start) / page * page;
    if (first >= end)
        return true;
    gwi_set_remove(a, &pool->free, block);
    if (first > from) {
        uint32_t front = block;
        block = gwi_block_cut(a, pool, front, first - from);
        if (block == 0)
            return false;
        gwi_pool_put(a, pool, front);
    }
    if (end < to) {
        uint32_t rest = gwi_block_cut(a, pool, block, end - first);
        if (rest == 0)
            return false;
        gwi_pool_put(a, pool, rest);
    }
    a->block[block].is_mapped = false;
    gwi_block_merge(a, pool, block, a->block[block].prev);
    gwi_block_merge(a, pool, block, a->block[block].next);
    bool is_whole = a->block[block].bytes == a->space[a->block[block].space - 1].bytes;
    if (is_whole)
        gwi_block_drop(a, block); /* PyTorch gives the address space back, too */
    else
        gwi_set_add(a, &pool->unmapped, block);
    a->reserved_bytes -= end - first;
    return a->device->unmap(a->device->user, first, page, (end - first) / page);
}
