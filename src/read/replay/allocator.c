/* PyTorch's native caching allocator: requests, frees, and what it returns to the driver.
 *
 * A request is rounded and looked up among the free blocks of its stream: the smallest that is large enough, the lowest
 * address among equals. If there is none, the allocator asks the driver for a segment. If the driver refuses, it first
 * frees oversize blocks (only with max_split_size_mb), then its whole cache, and asks again each time. */
#include "gwi_allocator.h"

#include "gw_array.h"

void gwi_allocator_init(gwi_allocator *a, const gw_replay_settings *settings, const gwi_device *device,
                        uint64_t card_bytes)
{
    const uint64_t any_card = (uint64_t)1 << 40;
    *a = (gwi_allocator){.settings = settings, .device = device, .block_count = 1};
    a->card_bytes = card_bytes != 0 ? card_bytes : any_card;
    a->small.is_small = true;
    a->small.unmapped.by_address = a->large.unmapped.by_address = true;
}

void gwi_allocator_free(gwi_allocator *a)
{
    free(a->block);
    free(a->space);
    a->block = NULL;
    a->space = NULL;
}

/* ---- blocks ---- */

static bool is_split(const gwi_block *block)
{
    return block->prev != 0 || block->next != 0;
}

static bool is_whole_segment(const gwi_block *block)
{
    return block->space == 0 && !is_split(block);
}

static gwi_pool *pool_of(gwi_allocator *a, bool is_small)
{
    return is_small ? &a->small : &a->large;
}

/* ---- finding a free block ---- */

/* Among blocks of expandable segments, the best fit is the one that can grow least: a block is as large as it could
 * become. */
static uint32_t least_expandable(gwi_allocator *a, const gwi_pool *pool, uint32_t found, uint32_t stream)
{
    for (uint32_t next = gwi_set_after(a, &pool->free, found);
         a->block[found].space != 0 && next != 0 && a->block[next].stream == stream &&
         gwi_expandable_bytes(a, next) < gwi_expandable_bytes(a, found);
         next = gwi_set_after(a, &pool->free, found))
        found = next;
    return found;
}

static uint32_t find_free(gwi_allocator *a, gwi_pool *pool, uint64_t bytes, uint32_t stream)
{
    const gw_replay_settings *settings = a->settings;
    pool->searches += settings->limit_bytes != UINT64_MAX && settings->collect_ratio > 0.0;
    uint32_t found = gwi_set_from(a, &pool->free, (gwi_key){stream, bytes, 0});
    if (found == 0 || a->block[found].stream != stream)
        return 0;
    if (a->block[found].space != 0)
        found = least_expandable(a, pool, found, stream);
    uint64_t has = a->block[found].bytes;
    bool is_oversize = bytes < settings->max_split_bytes && has >= settings->max_split_bytes;
    bool is_too_much = bytes >= settings->max_split_bytes && has >= bytes + settings->non_split_rounding_bytes;
    if (is_oversize || is_too_much)
        return 0;
    gwi_set_remove(a, &pool->free, found);
    return found;
}

uint64_t gwi_largest_below(gwi_allocator *a, uint64_t bytes, uint32_t stream)
{
    const gwi_pool *pool = pool_of(a, bytes <= GWI_SMALL_MAX);
    uint32_t found = gwi_set_before(a, &pool->free, (gwi_key){stream, bytes, 0});
    return found == 0 || a->block[found].stream != stream ? 0 : a->block[found].bytes;
}

/* ---- returning memory ---- */

static bool give_segment(gwi_allocator *a, gwi_pool *pool, uint32_t block)
{
    gwi_block *b = &a->block[block];
    gwi_set_remove(a, &pool->free, block);
    a->reserved_bytes -= b->bytes;
    bool goes_on = a->device->give(a->device->user, b->address, b->bytes);
    gwi_block_drop(a, block);
    return goes_on;
}

/* Expandable blocks come last: unmapping them changes the set. */
static bool empty_pool(gwi_allocator *a, gwi_pool *pool)
{
    uint32_t next;
    bool goes_on = true;
    for (uint32_t at = gwi_set_from(a, &pool->free, (gwi_key){0}); goes_on && at != 0; at = next) {
        next = gwi_set_after(a, &pool->free, at);
        if (is_whole_segment(&a->block[at]))
            goes_on = give_segment(a, pool, at);
    }
    uint32_t *list = NULL;
    size_t count = 0;
    for (uint32_t at = gwi_set_from(a, &pool->free, (gwi_key){0}); goes_on && at != 0;
         at = gwi_set_after(a, &pool->free, at)) {
        if (a->block[at].space == 0)
            continue;
        if (!gw_array_more(&list, count, sizeof *list)) {
            a->no_memory = true;
            goes_on = false;
        } else {
            list[count++] = at;
        }
    }
    for (size_t i = 0; goes_on && i < count; i++)
        goes_on = gwi_shrink(a, pool, list[i]);
    free(list);
    return goes_on && !a->no_memory;
}

bool gwi_empty(gwi_allocator *a)
{
    return empty_pool(a, &a->large) && empty_pool(a, &a->small);
}

/* With max_split_size_mb: free one cached oversize block that is large enough, or else the largest ones until their sum
 * is. GWI_GRANTED: enough was freed to ask again. */
static gwi_answer release_oversize(gwi_allocator *a, gwi_pool *pool, uint64_t bytes, uint32_t stream)
{
    uint64_t split_max = a->settings->max_split_bytes, wanted = bytes < split_max ? split_max : bytes, released = 0;
    if (split_max == UINT64_MAX)
        return GWI_REFUSED;
    uint32_t block = gwi_set_from(a, &pool->free, (gwi_key){stream, wanted, 0});
    if (block != 0 && a->block[block].stream == stream && is_whole_segment(&a->block[block]))
        return give_segment(a, pool, block) ? GWI_GRANTED : GWI_STOPPED;
    gwi_key key = {stream, wanted, 0};
    while (released < wanted) {
        block = gwi_set_before(a, &pool->free, key);
        if (block == 0 || a->block[block].stream != stream || a->block[block].bytes < split_max)
            return GWI_REFUSED;
        key.bytes = a->block[block].bytes;
        key.address = a->block[block].address;
        if (!is_whole_segment(&a->block[block]))
            continue;
        released += a->block[block].bytes;
        if (!give_segment(a, pool, block))
            return GWI_STOPPED;
    }
    return GWI_GRANTED;
}

/* One round of the garbage collection: free blocks that have not been used for at least the average time. */
static bool collect_round(gwi_allocator *a, gwi_pool *pool, double age_least, uint64_t *reclaimed, double *age_sum,
                          size_t *count, bool *ret_freed)
{
    uint32_t next;
    bool goes_on = true;
    *ret_freed = false;
    for (uint32_t at = gwi_set_from(a, &pool->free, (gwi_key){0}); goes_on && at != 0; at = next) {
        const gwi_block *block = &a->block[at];
        double age = (double)(pool->searches - block->base);
        next = gwi_set_after(a, &pool->free, at);
        if (!is_whole_segment(block) || age < age_least)
            continue;
        *ret_freed = true;
        *reclaimed += block->bytes;
        *age_sum -= age;
        --*count;
        goes_on = give_segment(a, pool, at);
    }
    return goes_on;
}

/* Only the large pool, and only if the program set a memory fraction. */
static bool collect_garbage(gwi_allocator *a)
{
    const gw_replay_settings *settings = a->settings;
    gwi_pool *pool = &a->large;
    if (settings->limit_bytes == UINT64_MAX || settings->collect_ratio <= 0.0)
        return true;
    uint64_t threshold = (uint64_t)(settings->collect_ratio * (double)settings->limit_bytes), reclaimed = 0;
    double age_sum = 0.0;
    size_t count = 0;
    if (a->reserved_bytes <= threshold)
        return true;
    uint64_t target = a->reserved_bytes - threshold;
    for (uint32_t at = gwi_set_from(a, &pool->free, (gwi_key){0}); at != 0; at = gwi_set_after(a, &pool->free, at)) {
        if (!is_whole_segment(&a->block[at]))
            continue;
        age_sum += (double)(pool->searches - a->block[at].base);
        count++;
    }
    bool goes_on = true;
    for (bool freed = true; goes_on && freed && reclaimed < target && count > 0;)
        goes_on = collect_round(a, pool, age_sum / (double)count, &reclaimed, &age_sum, &count, &freed);
    return goes_on;
}

/* ---- new memory ---- */

static uint64_t segment_bytes(const gw_replay_settings *settings, uint64_t bytes)
{
    if (bytes <= GWI_SMALL_MAX)
        return GWI_SMALL_SEGMENT;
    if (bytes < GWI_OWN_SEGMENT)
        return settings->large_segment_bytes;
    return (bytes + GWI_OWN_ROUNDING - 1) / GWI_OWN_ROUNDING * GWI_OWN_ROUNDING;
}

static gwi_answer new_segment(gwi_allocator *a, gwi_pool *pool, uint64_t bytes, uint32_t stream, uint32_t *ret_block)
{
    uint64_t address, wanted = segment_bytes(a->settings, bytes);
    if (a->settings->limit_bytes != UINT64_MAX && a->reserved_bytes + wanted > a->settings->limit_bytes)
        return GWI_REFUSED; /* PyTorch's own limit: the driver is not asked */
    if (a->settings->is_expandable)
        return gwi_expand(a, pool, bytes, stream, ret_block);
    gwi_answer answer = a->device->take(a->device->user, wanted, &address);
    if (answer != GWI_GRANTED)
        return answer;
    *ret_block = gwi_block_new(a, pool, stream, address, wanted);
    gwi_reserved_add(a, wanted);
    return *ret_block == 0 ? GWI_STOPPED : GWI_GRANTED;
}

static gwi_answer new_memory(gwi_allocator *a, gwi_pool *pool, uint64_t bytes, uint32_t stream, uint32_t *ret_block)
{
    if (!collect_garbage(a))
        return GWI_STOPPED;
    gwi_answer answer = new_segment(a, pool, bytes, stream, ret_block);
    if (answer != GWI_REFUSED)
        return answer;
    answer = release_oversize(a, pool, bytes, stream);
    if (answer == GWI_GRANTED)
        answer = new_segment(a, pool, bytes, stream, ret_block);
    if (answer != GWI_REFUSED)
        return answer;
    a->retry_count++;
    return gwi_empty(a) ? new_segment(a, pool, bytes, stream, ret_block) : GWI_STOPPED;
}

/* ---- requests and frees ---- */

static bool should_split(const gwi_allocator *a, const gwi_block *block, uint64_t bytes)
{
    uint64_t rest = block->bytes - bytes;
    if (block->is_small || a->settings->is_expandable)
        return rest >= GWI_UNIT;
    return bytes < a->settings->max_split_bytes && rest > GWI_SMALL_MAX;
}

gwi_answer gwi_allocate(gwi_allocator *a, uint64_t bytes, uint32_t stream, uint32_t *ret_block)
{
    gwi_pool *pool = pool_of(a, bytes <= GWI_SMALL_MAX);
    uint32_t block = find_free(a, pool, bytes, stream);
    gwi_answer answer = block != 0 ? GWI_GRANTED : new_memory(a, pool, bytes, stream, &block);
    if (answer != GWI_GRANTED)
        return answer;
    a->was_split = should_split(a, &a->block[block], bytes);
    if (a->was_split) {
        uint32_t rest = gwi_block_cut(a, pool, block, bytes);
        if (rest == 0)
            return GWI_STOPPED;
        gwi_pool_put(a, pool, rest);
    }
    a->block[block].is_used = true;
    a->live_bytes += a->block[block].bytes;
    if (a->live_bytes > a->live_peak)
        a->live_peak = a->live_bytes;
    *ret_block = block;
    return GWI_GRANTED;
}

void gwi_release(gwi_allocator *a, uint32_t block)
{
    gwi_pool *pool = pool_of(a, a->block[block].is_small);
    a->live_bytes -= a->block[block].bytes;
    a->block[block].is_used = false;
    gwi_block_merge(a, pool, block, a->block[block].prev);
    gwi_block_merge(a, pool, block, a->block[block].next);
    gwi_pool_put(a, pool, block);
}
