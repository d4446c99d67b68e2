/* The blocks of the simulated allocator: an array, whose unused elements are linked. */
#include "gwi_allocator.h"

#include "gw_array.h"

uint32_t gwi_block_new(gwi_allocator *a, const gwi_pool *pool, uint32_t stream, uint64_t address, uint64_t bytes)
{
    uint32_t index = a->unused;
    if (index != 0) {
        a->unused = a->block[index].next;
    } else if (a->block_count < UINT32_MAX &&
               gw_array_reach(&a->block, a->block_count + 1, &a->block_capacity, sizeof *a->block)) {
        index = (uint32_t)a->block_count++;
    } else {
        a->no_memory = true;
        return 0;
    }
    a->block[index] = (gwi_block){
        .address = address, .bytes = bytes, .stream = stream, .is_small = pool->is_small, .is_mapped = true};
    return index;
}

void gwi_block_drop(gwi_allocator *a, uint32_t block)
{
    a->block[block].next = a->unused;
    a->unused = block;
}

void gwi_block_link(gwi_allocator *a, uint32_t block, uint32_t before)
{
    uint32_t after = a->block[before].next;
    a->block[block].prev = before;
    a->block[block].next = after;
    a->block[block].space = a->block[before].space;
    a->block[before].next = block;
    if (after != 0)
        a->block[after].prev = block;
}

void gwi_block_merge(gwi_allocator *a, gwi_pool *pool, uint32_t block, uint32_t other)
{
    gwi_block *to = &a->block[block], *from = &a->block[other];
    if (other == 0 || from->is_used || from->is_mapped != to->is_mapped)
        return;
    gwi_set_remove(a, from->is_mapped ? &pool->free : &pool->unmapped, other);
    if (to->prev == other) {
        to->address = from->address;
        to->prev = from->prev;
        if (to->prev != 0)
            a->block[to->prev].next = block;
    } else {
        to->next = from->next;
        if (to->next != 0)
            a->block[to->next].prev = block;
    }
    to->bytes += from->bytes;
    gwi_block_drop(a, other);
}

void gwi_pool_put(gwi_allocator *a, gwi_pool *pool, uint32_t block)
{
    a->block[block].base = pool->searches;
    gwi_set_add(a, &pool->free, block);
}

void gwi_reserved_add(gwi_allocator *a, uint64_t bytes)
{
    a->reserved_bytes += bytes;
    if (a->reserved_bytes > a->reserved_peak)
        a->reserved_peak = a->reserved_bytes;
}
