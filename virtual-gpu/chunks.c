/* Stream-ordered memory: a pool is one range of addresses, divided into chunks of 32 MiB. The first block in a chunk
 * takes it from the GPU. After the last one is freed, a synchronisation returns it if the pool exceeds its release
 * threshold. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "gwi_virt.h"

#define CHUNK_BYTES ((uint64_t)32 << 20)
#define STEP_BYTES  ((uint64_t)512)

/* Address ranges of destroyed pools, kept for new pools. Each has hundreds of GiB: a program that creates many pools
 * would run out of address space. All ranges have the same size. The driver's lock protects the list. */
typedef struct spare {
    struct spare *next;
    uint64_t base;
    char *shadow;
} spare;
static spare *spares;

static bool pool_take_spare(gwi_pool *pool, uint64_t bytes)
{
    spare *found = spares;
    if (found == NULL || !gwi_runs_give(&pool->addresses, found->base, bytes))
        return false;
    pool->base = found->base;
    pool->shadow = found->shadow;
    spares = found->next;
    free(found);
    return true;
}

/* Keep the address range of an empty pool that is about to be freed, so that a new pool can reuse it. */
void gwi_pool_leave_spare(gwi_pool *pool)
{
    spare *left = pool->base == 0 ? NULL : malloc(sizeof *left);
    if (left == NULL)
        return;
    *left = (spare){.next = spares, .base = pool->base, .shadow = pool->shadow};
    spares = left;
}

/* Reserve address space for the pool, and a shadow mapping for the content of its memory. */
static bool pool_map(gwi_pool *pool, uint64_t bytes)
{
    size_t mapped = (size_t)(bytes + CHUNK_BYTES);
    char *addresses = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addresses == MAP_FAILED)
        return false;
    char *shadow = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint64_t base = ((uintptr_t)addresses + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
    if (shadow == MAP_FAILED || !gwi_runs_give(&pool->addresses, base, bytes)) {
        munmap(addresses, mapped);
        if (shadow != MAP_FAILED)
            munmap(shadow, mapped);
        return false;
    }
    madvise(shadow, mapped, MADV_DONTDUMP);
    pool->shadow = shadow + (base - (uintptr_t)addresses);
    pool->base = base;
    return true;
}

static bool pool_ready(gwi_pool *pool)
{
    if (pool->base != 0)
        return true;
    uint64_t bytes = (gwi.spec.card.memory_bytes * 2 + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
    pool->chunk_uses = calloc((size_t)(bytes / CHUNK_BYTES), sizeof *pool->chunk_uses);
    pool->chunk_held = calloc((size_t)(bytes / CHUNK_BYTES), sizeof *pool->chunk_held);
    bool has_tables = pool->chunk_uses != NULL && pool->chunk_held != NULL;
    if (has_tables && (pool_take_spare(pool, bytes) || pool_map(pool, bytes))) {
        pool->bytes = bytes;
        return true;
    }
    free(pool->chunk_uses);
    free(pool->chunk_held);
    pool->chunk_uses = NULL;
    pool->chunk_held = NULL;
    return false;
}
static void charge(gwi_pool *pool, uint64_t bytes)
{
    pool->reserved += bytes;
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
}

static void chunk_drop(gwi_pool *pool, uint64_t chunk)
{
    pool->chunk_held[chunk] = false;
    pool->reserved -= CHUNK_BYTES;
    madvise(pool->shadow + chunk * CHUNK_BYTES, CHUNK_BYTES, MADV_DONTNEED);
    gwi_device_give(pool->device, CHUNK_BYTES);
}

/* Return unused chunks to the GPU, from the end, until `keep` bytes are left. */
void gwi_pool_trim(gwi_pool *pool, uint64_t keep)
{
    if (pool->base == 0 || pool->reserved <= keep)
        return;
    for (uint64_t chunk = pool->bytes / CHUNK_BYTES; chunk-- > 0 && pool->reserved > keep;)
        if (pool->chunk_held[chunk] && pool->chunk_uses[chunk] == 0 && pool->reserved - CHUNK_BYTES >= keep)
            chunk_drop(pool, chunk);
}

/* Allocate the chunks from `first` to `last` that the pool does not hold yet. Returns false and allocates none if the
 * GPU has too little memory, or if the pool would exceed its maximum. */
static bool chunks_take(gwi_pool *pool, uint64_t first, uint64_t last)
{
    uint64_t missing = 0;
    for (uint64_t chunk = first; chunk <= last; chunk++)
        missing += !pool->chunk_held[chunk];
    if (pool->bytes_max != 0 && pool->reserved + missing * CHUNK_BYTES > pool->bytes_max)
        return false;
    if (missing > 0 && !gwi_device_take(pool->device, missing * CHUNK_BYTES))
        return false;
    for (uint64_t chunk = first; chunk <= last; chunk++) {
        pool->chunk_held[chunk] = true;
        pool->chunk_uses[chunk]++;
    }
    charge(pool, missing * CHUNK_BYTES);
    return true;
}

static uint64_t steps(uint64_t bytes)
{
    return (bytes + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES;
}

int gwi_pool_alloc(gwi_pool *pool, size_t bytes, gwi_block **ret_block)
{
    uint64_t address = 0;
    if (gwi_allocation_refused() || bytes > gwi.spec.card.memory_bytes || !pool_ready(pool) ||
        !gwi_runs_take(&pool->addresses, steps(bytes), STEP_BYTES, &address))
        return CUDA_ERROR_OUT_OF_MEMORY;
    gwi_block *block = calloc(1, sizeof *block);
    uint64_t first = (address - pool->base) / CHUNK_BYTES;
    uint64_t last = (address - pool->base + steps(bytes) - 1) / CHUNK_BYTES;
    if (block == NULL || !chunks_take(pool, first, last)) {
        gwi_runs_give(&pool->addresses, address, steps(bytes));
        free(block);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->kind = GWI_BLOCK_POOL;
    block->device = pool->device;
    block->pool = pool;
    block->storage = pool->shadow + (address - pool->base);
    block->range.base = address;
    block->range.bytes = bytes;
    block->id = gwi.next_id++;
    gwi_ranges_add(&gwi.blocks, &block->range);
    pool->used += bytes;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    *ret_block = block;
    return 0;
}

/* Remove a block from its pool: its stream-ordered free has been executed, or the pool is emptied. */
void gwi_pool_freed(gwi_block *block)
{
    gwi_pool *pool = block->pool;
    if (block->kind != GWI_BLOCK_POOL || pool == NULL)
        return;
    uint64_t first = (block->range.base - pool->base) / CHUNK_BYTES;
    uint64_t last = (block->range.base - pool->base + steps(block->range.bytes) - 1) / CHUNK_BYTES;
    for (uint64_t chunk = first; chunk <= last; chunk++)
        pool->chunk_uses[chunk]--;
    gwi_runs_give(&pool->addresses, block->range.base, steps(block->range.bytes));
    if (!block->freed)
        pool->used -= block->range.bytes;
    gwi_block_free(block);
}

static void each_pool(gwi_device *device, void (*act)(gwi_pool *pool))
{
    gwi_range *range = gwi_ranges_from(&gwi.objects, 0);
    while (range != NULL) {
        gwi_object *object = (gwi_object *)range;
        range = gwi_ranges_from(&gwi.objects, range->base + 1);
        if (object->kind == GWI_POOL && ((gwi_pool *)object)->device == device)
            act((gwi_pool *)object);
    }
}

static void trim_to_threshold(gwi_pool *pool)
{
    gwi_pool_trim(pool, pool->threshold);
}

void gwi_pools_trim(gwi_device *device)
{
    /* If no pool was ever used, skip the walk over all objects. */
    if (device->pool_default != NULL)
        each_pool(device, trim_to_threshold);
}

void gwi_pool_empty(gwi_pool *pool)
{
    if (pool->base == 0)
        return;
    gwi_range *range = gwi_ranges_from(&gwi.blocks, pool->base);
    while (range != NULL && range->base < pool->base + pool->bytes) {
        gwi_range *next = gwi_ranges_from(&gwi.blocks, range->base + range->bytes);
        gwi_pool_freed((gwi_block *)range);
        range = next;
    }
    pool->used = 0;
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
