/* Stream-ordered memory. A pool is one run of addresses, held in chunks of 32 MiB: a chunk is taken from the
 * card when the first block reaches into it and given back at the next synchronisation after the last left,
 * as far as more than the release threshold is held. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "gwi_virt.h"

#define CHUNK_BYTES ((uint64_t)32 << 20)
#define STEP_BYTES  ((uint64_t)512)

/* Addresses of pools that are no more, for the next ones: hundreds of GiB each, so that a program which makes and
 * destroys pools would run out of address space. All are of one size. Guarded by the lock. */
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

/* Of an empty pool that is about to go. */
static void pool_leave_spare(gwi_pool *pool)
{
    spare *left = pool->base == 0 ? NULL : malloc(sizeof *left);
    if (left == NULL)
        return;
    *left = (spare){.next = spares, .base = pool->base, .shadow = pool->shadow};
    spares = left;
}

/* Addresses of its own, and memory behind them. */
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

/* Give back chunks that nobody uses, from the end, until `keep` bytes are held. */
static void trim(gwi_pool *pool, uint64_t keep)
{
    if (pool->base == 0 || pool->reserved <= keep)
        return;
    for (uint64_t chunk = pool->bytes / CHUNK_BYTES; chunk-- > 0 && pool->reserved > keep;)
        if (pool->chunk_held[chunk] && pool->chunk_uses[chunk] == 0 && pool->reserved - CHUNK_BYTES >= keep)
            chunk_drop(pool, chunk);
}

/* Take the chunks that [first, last] lacks; all or none. */
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

/* The free has run. */
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
    trim(pool, pool->threshold);
}

void gwi_pools_trim(gwi_device *device)
{
    /* Without a pool that was ever used there is nothing to walk for. */
    if (device->pool_default != NULL)
        each_pool(device, trim_to_threshold);
}

static void pool_empty(gwi_pool *pool)
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
    trim(pool, 0);
}

void gwi_pools_end(gwi_device *device)
{
    each_pool(device, pool_empty);
}

static gwi_pool *pool_make(gwi_device *device)
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
        device->pool_default = pool_make(device);
        if (device->pool_default != NULL)
            device->pool_default->is_default = true;
        device->pool_current = device->pool_default;
    }
    return device->pool_default;
}

/* --- entry points --------------------------------------------------------------------------------------- */

GWI_API(cuDeviceGetDefaultMemPool)(CUmemoryPool *pool_out, CUdevice dev)
{
    GWI_ENTER;
    gwi_device *device = gwi_device_find(dev);
    if (pool_out == NULL)
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    if (device == NULL)
        return gwi_leave(CUDA_ERROR_INVALID_DEVICE);
    *pool_out = (CUmemoryPool)gwi_pool_default(device);
    return gwi_leave(*pool_out != NULL ? 0 : CUDA_ERROR_OUT_OF_MEMORY);
}

GWI_API(cuDeviceGetMemPool)(CUmemoryPool *pool, CUdevice dev)
{
    GWI_ENTER;
    gwi_device *device = gwi_device_find(dev);
    if (pool == NULL)
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    if (device == NULL)
        return gwi_leave(CUDA_ERROR_INVALID_DEVICE);
    gwi_pool_default(device);
    *pool = (CUmemoryPool)device->pool_current;
    return gwi_leave(0);
}

GWI_API(cuDeviceSetMemPool)(CUdevice dev, CUmemoryPool pool)
{
    GWI_ENTER;
    gwi_device *device = gwi_device_find(dev);
    gwi_pool *found = gwi_object_find(pool, GWI_POOL);
    if (device == NULL)
        return gwi_leave(CUDA_ERROR_INVALID_DEVICE);
    if (found == NULL || found->device != device)
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    gwi_pool_default(device);
    device->pool_current = found;
    return gwi_leave(0);
}

GWI_API(cuMemPoolCreate)(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    GWI_ENTER;
    if (pool == NULL || poolProps == NULL || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    if (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return gwi_leave(CUDA_ERROR_NOT_SUPPORTED);
    gwi_device *device = gwi_device_find(poolProps->location.id);
    if (device == NULL)
        return gwi_leave(CUDA_ERROR_INVALID_DEVICE);
    gwi_pool_default(device);
    gwi_pool *made = pool_make(device);
    if (made == NULL)
        return gwi_leave(CUDA_ERROR_OUT_OF_MEMORY);
    made->bytes_max = poolProps->maxSize;
    *pool = (CUmemoryPool)made;
    return gwi_leave(0);
}

GWI_API(cuMemPoolDestroy)(CUmemoryPool pool)
{
    GWI_ENTER;
    gwi_pool *found = gwi_object_find(pool, GWI_POOL);
    if (found == NULL || found->is_default)
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    gwi_wait_device(found->device);
    pool_empty(found);
    if (found->device->pool_current == found)
        found->device->pool_current = found->device->pool_default;
    gwi_object_remove(&found->object);
    pool_leave_spare(found);
    gwi_runs_free(&found->addresses);
    free(found->chunk_uses);
    free(found->chunk_held);
    free(found);
    return gwi_leave(0);
}

GWI_API(cuMemPoolTrimTo)(CUmemoryPool pool, size_t minBytesToKeep)
{
    GWI_ENTER;
    gwi_pool *found = gwi_object_find(pool, GWI_POOL);
    if (found == NULL)
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    trim(found, minBytesToKeep);
    return gwi_leave(0);
}

enum { REUSE_FIRST = 1, REUSE_LAST = 3, THRESHOLD = 4, RESERVED = 5, RESERVED_HIGH = 6, USED = 7, USED_HIGH = 8 };

GWI_API(cuMemPoolGetAttribute)(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    GWI_ENTER;
    const gwi_pool *found = gwi_object_find(pool, GWI_POOL);
    if (found == NULL || value == NULL)
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    const uint64_t numbers[] = {found->threshold, found->reserved, found->reserved_high, found->used, found->used_high};
    if ((int)attr >= REUSE_FIRST && (int)attr <= REUSE_LAST)
        *(int *)value = found->reuse[attr - REUSE_FIRST];
    else if ((int)attr >= THRESHOLD && (int)attr <= USED_HIGH)
        *(cuuint64_t *)value = numbers[attr - THRESHOLD];
    else
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    return gwi_leave(0);
}

GWI_API(cuMemPoolSetAttribute)(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    GWI_ENTER;
    gwi_pool *found = gwi_object_find(pool, GWI_POOL);
    if (found == NULL || value == NULL)
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    if ((int)attr >= REUSE_FIRST && (int)attr <= REUSE_LAST)
        found->reuse[attr - REUSE_FIRST] = *(int *)value;
    else if ((int)attr == THRESHOLD)
        found->threshold = *(cuuint64_t *)value;
    else if ((int)attr == RESERVED_HIGH && *(cuuint64_t *)value == 0)
        found->reserved_high = found->reserved;
    else if ((int)attr == USED_HIGH && *(cuuint64_t *)value == 0)
        found->used_high = found->used;
    else
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    return gwi_leave(0);
}

GWI_API(cuMemPoolSetAccess)(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    GWI_ENTER;
    (void)count;
    return gwi_leave(gwi_object_find(pool, GWI_POOL) == NULL || map == NULL ? CUDA_ERROR_INVALID_VALUE : 0);
}

GWI_API(cuMemPoolGetAccess)(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
    GWI_ENTER;
    const gwi_pool *pool = gwi_object_find(memPool, GWI_POOL);
    if (flags == NULL || location == NULL || pool == NULL)
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    *flags =
        location->id == (int)pool->device->index ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return gwi_leave(0);
}

/* A capture gets its block now and for good; the nodes only mark the place. */
static int alloc_async(CUdeviceptr *ret_address, size_t bytes, gwi_pool *pool, CUstream handle)
{
    gwi_stream *stream = gwi_stream_find(handle);
    gwi_block *block = NULL;
    if (ret_address == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (pool == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (bytes == 0) {
        *ret_address = 0;
        return 0;
    }
    gwi_advance();
    int result = gwi_pool_alloc(pool, bytes, &block);
    if (result != 0)
        return result;
    *ret_address = block->range.base;
    if (stream->capture == NULL && stream->capture_owner == NULL)
        return 0;
    gwi_work work = {.kind = GWI_WORK_ALLOC, .memory = {.address = block->range.base, .bytes = bytes, .pool = pool}};
    return gwi_submit(stream, &work, NULL, NULL);
}

GWI_API(cuMemAllocAsync)(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    GWI_ENTER;
    gwi_device *device = gwi_current()->device;
    gwi_pool_default(device);
    return gwi_leave(alloc_async(dptr, bytesize, device->pool_current, hStream));
}

GWI_API(cuMemAllocFromPoolAsync)(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
    GWI_ENTER;
    gwi_pool *found = gwi_object_find(pool, GWI_POOL);
    return gwi_leave(found == NULL ? CUDA_ERROR_INVALID_VALUE : alloc_async(dptr, bytesize, found, hStream));
}

GWI_API(cuMemFreeAsync)(CUdeviceptr dptr, CUstream hStream)
{
    GWI_ENTER;
    gwi_stream *stream = gwi_stream_find(hStream);
    gwi_block *block = gwi_block_at(dptr);
    if (dptr == 0)
        return gwi_leave(0);
    if (block == NULL || block->range.base != dptr || block->freed ||
        (block->kind != GWI_BLOCK_POOL && block->kind != GWI_BLOCK_DEVICE))
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    if (block->kind == GWI_BLOCK_DEVICE) {
        gwi_wait_stream(stream);
        block = gwi_block_at(dptr);
        if (block != NULL)
            gwi_block_free(block);
        return gwi_leave(0);
    }
    bool captured = stream->capture != NULL || stream->capture_owner != NULL;
    gwi_work work = {.kind = GWI_WORK_FREE, .memory = {.address = dptr}};
    if (!captured) {
        block->freed = true;
        block->pool->used -= block->range.bytes;
    } else {
        work.kind = GWI_WORK_EMPTY; /* the block is the graph's */
    }
    return gwi_leave(gwi_submit(stream, &work, NULL, NULL));
}
