/* Stream-ordered memory of a rehearsal. A pool's handle is the driver's own, so the driver answers what does not
 * concern its memory; the pool's memory is in our books. */
#include "gw_hook_rehearsal.h"
#include "gwi_rehearse.h"

#include <stdlib.h>

struct gwi_rehearsed_pool {
    gwi_rehearsed_pool *next;
    uint64_t handle;
    gwi_card *card;
    gw_pool books;
};

static gwi_rehearsed_pool *pools; /* owned; with the lock */

static gwi_rehearsed_pool *pool_find(uint64_t handle)
{
    gwi_rehearsed_pool *pool = pools;
    while (pool != NULL && pool->handle != handle)
        pool = pool->next;
    return pool;
}

uint64_t gwi_pool_handle(const gwi_rehearsed_pool *pool)
{
    return pool != NULL ? pool->handle : 0;
}

/* Add a pool of that handle. Call without the lock. */
static gwi_rehearsed_pool *pool_add(uint64_t handle, gwi_card *card, uint64_t bytes_max)
{
    uint64_t range = gw_places_rounded(card->total_bytes * 2);
    uint64_t base = gwi_addresses_reserve(range), threshold = 0;
    gwi_rehearsed_pool *pool = calloc(1, sizeof *pool);
    if (base == 0 || pool == NULL || !gw_pool_begin(&pool->books, base, range)) {
        free(pool);
        return NULL;
    }
    if (GWI_DRIVER(cuMemPoolGetAttribute)((CUmemoryPool)(uintptr_t)handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                          &threshold) == 0)
        pool->books.threshold = threshold;
    pool->handle = handle;
    pool->card = card;
    pool->books.bytes_max = bytes_max;
    pool->books.take = gwi_card_take;
    pool->books.give = gwi_card_give;
    pool->books.card = card;
    if (!gwi_lock()) {
        gw_pool_end(&pool->books);
        free(pool);
        return NULL;
    }
    gwi_rehearsed_pool *other = pool_find(handle);
    if (other == NULL) {
        pool->next = pools;
        pools = pool;
    }
    gwi_unlock();
    if (other != NULL) {
        gw_pool_end(&pool->books);
        free(pool);
    }
    return other != NULL ? other : pool;
}

/* Return the pool of a handle, and make its books if it has none. Call without the lock. */
static gwi_rehearsed_pool *pool_of(uint64_t handle, gwi_card *card)
{
    if (handle == 0 || !gwi_lock())
        return NULL;
    gwi_rehearsed_pool *pool = pool_find(handle);
    gwi_unlock();
    return pool != NULL ? pool : pool_add(handle, card, 0);
}

/* ---- allocate and free ---- */

static int block_alloc(gwi_rehearsed_pool *pool, size_t bytes, CUdeviceptr *ret_address)
{
    gwi_held *held = calloc(1, sizeof *held);
    if (held == NULL || !gwi_lock()) {
        free(held);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    bool done = gw_pool_alloc(&pool->books, bytes, &held->range.base);
    if (done) {
        held->range.bytes = bytes;
        held->kind = GWI_HELD_POOL;
        held->card = pool->card;
        held->pool = pool;
        gwi_held_add(held);
        *ret_address = held->range.base;
    }
    gwi_unlock();
    if (!done) {
        free(held);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    gwi_card_tell(pool->card);
    return 0;
}

static int alloc_async(CUdeviceptr *ret_address, size_t bytes, CUmemoryPool named)
{
    gwi_here here;
    CUmemoryPool handle = named;
    int result = gwi_here_find(&here);
    if (result != 0)
        return result;
    if (ret_address == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes == 0) {
        *ret_address = 0;
        return 0;
    }
    if (handle == NULL)
        result = GWI_DRIVER(cuDeviceGetMemPool)(&handle, here.card->device);
    if (result != 0)
        return result;
    gwi_rehearsed_pool *pool = pool_of((uint64_t)(uintptr_t)handle, here.card);
    return pool != NULL ? block_alloc(pool, bytes, ret_address) : CUDA_ERROR_OUT_OF_MEMORY;
}

GWI_REHEARSE(cuMemAllocAsync)(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    (void)hStream;
    return alloc_async(dptr, bytesize, NULL);
}

GWI_REHEARSE(cuMemAllocFromPoolAsync)(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
    (void)hStream;
    return pool == NULL ? CUDA_ERROR_INVALID_VALUE : alloc_async(dptr, bytesize, pool);
}

void gwi_pool_block_drop(gwi_held *held)
{
    gwi_held_remove(held);
    gw_pool_unuse(&held->pool->books, held->range.bytes);
    gw_pool_free(&held->pool->books, held->range.base, held->range.bytes);
    free(held);
}

/* ---- trim ---- */

void gwi_pools_synchronised(void)
{
    if (__atomic_load_n(&pools, __ATOMIC_ACQUIRE) == NULL || !gwi_lock())
        return;
    for (gwi_rehearsed_pool *pool = pools; pool != NULL; pool = pool->next)
        gw_pool_trim(&pool->books, pool->books.threshold);
    gwi_unlock();
}

GWI_REHEARSE(cuMemPoolTrimTo)(CUmemoryPool pool, size_t minBytesToKeep)
{
    int result = GWI_DRIVER(cuMemPoolTrimTo)(pool, minBytesToKeep);
    if (result != 0 || !gwi_lock())
        return result;
    gwi_rehearsed_pool *found = pool_find((uint64_t)(uintptr_t)pool);
    if (found != NULL)
        gw_pool_trim(&found->books, minBytesToKeep);
    gwi_unlock();
    return 0;
}

/* ---- attributes ---- */

static uint64_t *attribute_of(gwi_rehearsed_pool *pool, CUmemPool_attribute attribute)
{
    switch ((int)attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &pool->books.threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return &pool->books.reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return &pool->books.reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return &pool->books.used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return &pool->books.used_high;
    default:
        return NULL;
    }
}

GWI_REHEARSE(cuMemPoolGetAttribute)(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    int result = GWI_DRIVER(cuMemPoolGetAttribute)(pool, attr, value);
    if (result != 0 || !gwi_lock())
        return result;
    gwi_rehearsed_pool *found = pool_find((uint64_t)(uintptr_t)pool);
    const uint64_t *number = found != NULL ? attribute_of(found, attr) : NULL;
    if (number != NULL)
        *(cuuint64_t *)value = *number;
    gwi_unlock();
    return 0;
}

GWI_REHEARSE(cuMemPoolSetAttribute)(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    int result = GWI_DRIVER(cuMemPoolSetAttribute)(pool, attr, value);
    if (result != 0 || !gwi_lock())
        return result;
    gwi_rehearsed_pool *found = pool_find((uint64_t)(uintptr_t)pool);
    if (found != NULL && attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        found->books.threshold = *(cuuint64_t *)value;
    else if (found != NULL && attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        found->books.reserved_high = found->books.reserved;
    else if (found != NULL && attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        found->books.used_high = found->books.used;
    gwi_unlock();
    return 0;
}

/* ---- create and destroy ---- */

GWI_REHEARSE(cuMemPoolCreate)(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    int result = GWI_DRIVER(cuMemPoolCreate)(pool, poolProps);
    if (result != 0 || poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return result;
    gwi_card *card = gwi_card_of(poolProps->location.id);
    if (card != NULL)
        pool_add((uint64_t)(uintptr_t)*pool, card, poolProps->maxSize);
    return 0;
}

/* Remove a pool and its blocks. Returns the pool, which the caller frees, or NULL. With the lock. */
static gwi_rehearsed_pool *pool_remove(uint64_t handle)
{
    gwi_rehearsed_pool **link = &pools;
    while (*link != NULL && (*link)->handle != handle)
        link = &(*link)->next;
    gwi_rehearsed_pool *pool = *link;
    if (pool == NULL)
        return NULL;
    *link = pool->next;
    for (gwi_held *held, *next = gwi_held_from(pool->books.base); (held = next) != NULL;) {
        next = gwi_held_from(held->range.base + held->range.bytes);
        if (held->range.base >= pool->books.base + pool->books.bytes)
            break;
        gwi_held_remove(held);
        gw_pool_free(&pool->books, held->range.base, held->range.bytes);
        free(held);
    }
    gw_pool_trim(&pool->books, 0);
    return pool;
}

GWI_REHEARSE(cuMemPoolDestroy)(CUmemoryPool pool)
{
    int result = GWI_DRIVER(cuMemPoolDestroy)(pool);
    if (result != 0 || !gwi_lock())
        return result;
    gwi_rehearsed_pool *found = pool_remove((uint64_t)(uintptr_t)pool);
    gwi_unlock();
    if (found != NULL) {
        gw_pool_end(&found->books);
        free(found);
    }
    return 0;
}

void gwi_pools_device_gone(int device)
{
    for (gwi_rehearsed_pool *pool = NULL; gwi_lock();) {
        for (pool = pools; pool != NULL && pool->card->device != device;)
            pool = pool->next;
        if (pool != NULL)
            pool = pool_remove(pool->handle);
        gwi_unlock();
        if (pool == NULL)
            return;
        gw_pool_end(&pool->books);
        free(pool);
    }
}
