/* The blocks of the simulated allocator: an array, whose unused elements are linked. */
#include "gwi_allocator.h"

#include "gw_array.h"

/* Ordered sets of blocks: treaps. A block's priority is a hash of its index, so the shape does not depend on the order
 * of insertions, and sorted input does no harm. */

static uint32_t priority(uint32_t block)
{
    uint32_t x = block * UINT32_C(0x9e3779b1);
    x ^= x >> 15;
    x *= UINT32_C(0x85ebca6b);
    return x ^ x >> 13;
}

static gwi_key key_of(const gwi_allocator *a, uint32_t block)
{
    const gwi_block *b = &a->block[block];
    return (gwi_key){b->stream, b->bytes, b->address};
}

static int compare(const gwi_set *set, gwi_key left, gwi_key right)
{
    if (left.stream != right.stream)
        return left.stream < right.stream ? -1 : 1;
    if (left.bytes != right.bytes && !set->by_address)
        return left.bytes < right.bytes ? -1 : 1;
    return left.address < right.address ? -1 : left.address > right.address;
}

static uint32_t merge(gwi_allocator *a, uint32_t left, uint32_t right)
{
    if (left == 0 || right == 0)
        return left + right;
    if (priority(left) > priority(right)) {
        a->block[left].right = merge(a, a->block[left].right, right);
        return left;
    }
    a->block[right].left = merge(a, left, a->block[right].left);
    return right;
}

/* Split a tree into the blocks before the key and the others. */
static void split(gwi_allocator *a, const gwi_set *set, uint32_t root, gwi_key key, uint32_t *ret_before,
                  uint32_t *ret_rest)
{
    if (root == 0) {
        *ret_before = *ret_rest = 0;
    } else if (compare(set, key_of(a, root), key) < 0) {
        split(a, set, a->block[root].right, key, &a->block[root].right, ret_rest);
        *ret_before = root;
    } else {
        split(a, set, a->block[root].left, key, ret_before, &a->block[root].left);
        *ret_rest = root;
    }
}

void gwi_set_add(gwi_allocator *a, gwi_set *set, uint32_t block)
{
    gwi_key key = key_of(a, block);
    uint32_t *place = &set->root;
    while (*place != 0 && priority(*place) > priority(block))
        place = compare(set, key_of(a, *place), key) < 0 ? &a->block[*place].right : &a->block[*place].left;
    uint32_t below = *place;
    split(a, set, below, key, &a->block[block].left, &a->block[block].right);
    *place = block;
}

void gwi_set_remove(gwi_allocator *a, gwi_set *set, uint32_t block)
{
    gwi_key key = key_of(a, block);
    uint32_t *place = &set->root;
    while (*place != 0 && *place != block)
        place = compare(set, key_of(a, *place), key) < 0 ? &a->block[*place].right : &a->block[*place].left;
    if (*place != 0)
        *place = merge(a, a->block[block].left, a->block[block].right);
}

/* Return the last block before the key, or the first one that is not before it. */
static uint32_t find(const gwi_allocator *a, const gwi_set *set, gwi_key key, bool before)
{
    uint32_t found = 0;
    for (uint32_t at = set->root; at != 0;) {
        bool is_before = compare(set, key_of(a, at), key) < 0;
        found = is_before == before ? at : found;
        at = is_before ? a->block[at].right : a->block[at].left;
    }
    return found;
}

uint32_t gwi_set_from(const gwi_allocator *a, const gwi_set *set, gwi_key key)
{
    return find(a, set, key, false);
}

uint32_t gwi_set_after(const gwi_allocator *a, const gwi_set *set, uint32_t block)
{
    gwi_key key = key_of(a, block);
    key.address++; /* no two blocks begin at one address */
    return find(a, set, key, false);
}

uint32_t gwi_set_before(const gwi_allocator *a, const gwi_set *set, gwi_key key)
{
    return find(a, set, key, true);
}

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

uint32_t gwi_block_cut(gwi_allocator *a, const gwi_pool *pool, uint32_t block, uint64_t bytes)
{
    uint64_t address = a->block[block].address + bytes;
    uint32_t rest = gwi_block_new(a, pool, a->block[block].stream, address, a->block[block].bytes - bytes);
    if (rest == 0)
        return 0;
    gwi_block *from = &a->block[block], *to = &a->block[rest];
    to->is_mapped = from->is_mapped;
    to->space = from->space;
    to->prev = block;
    to->next = from->next;
    if (to->next != 0)
        a->block[to->next].prev = rest;
    from->next = rest;
    from->bytes = bytes;
    return rest;
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
