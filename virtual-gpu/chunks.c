/* Stream-ordered memory: a pool's addresses and content. gw_pool.h has the books. A synchronisation returns unused
 * chunks to the GPU if the pool has more memory than its release threshold. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "gwi_virt.h"

/* Address ranges of destroyed pools, kept for new pools. Each range is hundreds of GiB, so without this list a program
 * that creates and destroys many pools would run out of address space. The driver's lock protects the list. */
typedef struct spare {
    struct spare *next;
    gwi_reserved range;
} spare;
static spare *spares;

static bool pool_begin(gwi_pool *pool, const gwi_reserved *range)
{
    if (!gw_pool_begin(&pool->books, range->base, range->bytes))
        return false;
    pool->range = *range;
    return true;
}

static bool pool_take_spare(gwi_pool *pool)
{
    spare *found = spares;
    if (found == NULL || !pool_begin(pool, &found->range))
        return false;
    spares = found->next;
    free(found);
    return true;
}

static void leave_spare(const gwi_reserved *range)
{
    spare *left = malloc(sizeof *left);
    if (left == NULL)
        return;
    *left = (spare){.next = spares, .range = *range};
    spares = left;
}

/* Keep the address range of an empty pool that is about to be freed, so that a new pool can reuse it. */
void gwi_pool_leave_spare(gwi_pool *pool)
{
    if (pool->books.base != 0)
        leave_spare(&pool->range);
}

/* Reserve address space for the pool, twice the GPU's memory if the host has it. */
static bool pool_reserve(gwi_pool *pool)
{
    gwi_reserved range;
    if (!gwi_reserve(2, &range))
        return false;
    if (pool_begin(pool, &range))
        return true;
    leave_spare(&range);
    return false;
}

static bool pool_ready(gwi_pool *pool)
{
    return pool->books.base != 0 || pool_take_spare(pool) || pool_reserve(pool);
}

/* The content of memory that was given back is lost. */
static void forget_content(void *books, uint64_t chunk)
{
    gwi_pool *pool = (gwi_pool *)((char *)books - offsetof(gwi_pool, books));
    madvise(pool->range.shadow + chunk * GW_PLACES_CHUNK_BYTES, GW_PLACES_CHUNK_BYTES, MADV_DONTNEED);
}

static bool take(void *device, uint64_t bytes)
{
    return gwi_device_take(device, bytes);
}

static void give(void *device, uint64_t bytes)
{
    gwi_device_give(device, bytes);
}

void gwi_pool_trim(gwi_pool *pool, uint64_t keep)
{
    gw_pool_trim(&pool->books, keep);
}

int gwi_pool_alloc(gwi_pool *pool, size_t bytes, gwi_block **ret_block)
{
    uint64_t address = 0;
    if (gwi_allocation_refused() || bytes > gwi.spec.card.memory_bytes || !pool_ready(pool))
        return CUDA_ERROR_OUT_OF_MEMORY;
    gwi_block *block = calloc(1, sizeof *block);
    if (block == NULL || !gw_pool_alloc(&pool->books, bytes, &address)) {
        free(block);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->kind = GWI_BLOCK_POOL;
    block->device = pool->device;
    block->pool = pool;
    block->storage = pool->range.shadow + (address - pool->books.base);
    block->range.base = address;
    block->range.bytes = bytes;
    block->id = gwi.next_id++;
    gw_ranges_add(&gwi.blocks, &block->range);
    *ret_block = block;
    return 0;
}

/* Remove a block from its pool: its stream-ordered free has been executed, or the pool is emptied. */
void gwi_pool_freed(gwi_block *block)
{
    gwi_pool *pool = block->pool;
    if (block->kind != GWI_BLOCK_POOL || pool == NULL)
        return;
    gw_pool_free(&pool->books, block->range.base, block->range.bytes);
    if (!block->freed)
        gw_pool_unuse(&pool->books, block->range.bytes);
    gwi_block_free(block);
}

static void each_pool(gwi_device *device, void (*act)(gwi_pool *pool))
{
    gw_range *range = gw_ranges_from(&gwi.objects, 0);
    while (range != NULL) {
        gwi_object *object = (gwi_object *)range;
        range = gw_ranges_from(&gwi.objects, range->base + 1);
        if (object->kind == GWI_POOL && ((gwi_pool *)object)->device == device)
            act((gwi_pool *)object);
    }
}

static void trim_to_threshold(gwi_pool *pool)
{
    gwi_pool_trim(pool, pool->books.threshold);
}

void gwi_pools_trim(gwi_device *device)
{
    /* If no pool was ever used, skip the walk over all objects. */
    if (device->pool_default != NULL)
        each_pool(device, trim_to_threshold);
}

void gwi_pool_empty(gwi_pool *pool)
{
    if (pool->books.base == 0)
        return;
    gw_range *range = gw_ranges_from(&gwi.blocks, pool->books.base);
    while (range != NULL && range->base < pool->books.base + pool->books.bytes) {
        gw_range *next = gw_ranges_from(&gwi.blocks, range->base + range->bytes);
        gwi_pool_freed((gwi_block *)range);
        range = next;
    }
    pool->books.used = 0;
    gwi_pool_trim(pool, 0);
}

void gwi_pools_end(gwi_device *device)
{
    each_pool(device, gwi_pool_empty);
}

gwi_pool *gwi_pool_make(gwi_device *device)
{
    gwi_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return NULL;
    pool->device = device;
    pool->books.take = take;
    pool->books.give = give;
    pool->books.dropped = forget_content;
    pool->books.card = device;
    pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
    gwi_object_add(&pool->object, GWI_POOL);
    return pool;
}

gwi_pool *gwi_pool_default(gwi_device *device)
{
    if (device->pool_default == NULL) {
        device->pool_default = gwi_pool_make(device);
        if (device->pool_default != NULL)
            device->pool_default->is_default = true;
        device->pool_current = device->pool_default;
    }
    return device->pool_default;
}
