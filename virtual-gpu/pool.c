/* The driver API functions for memory pools and stream-ordered memory. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "gwi_virt.h"

/* --- entry points --------------------------------------------------------------------------------------- */

GWI_API(cuDeviceGetDefaultMemPool)(CUmemoryPool *pool_out, CUdevice dev)
{
    gwi_device *device = gwi_device_find(dev);
    if (pool_out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *pool_out = (CUmemoryPool)gwi_pool_default(device);
    return *pool_out != NULL ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

GWI_API(cuDeviceGetMemPool)(CUmemoryPool *pool, CUdevice dev)
{
    gwi_device *device = gwi_device_find(dev);
    if (pool == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    gwi_pool_default(device);
    *pool = (CUmemoryPool)device->pool_current;
    return 0;
}

GWI_API(cuDeviceSetMemPool)(CUdevice dev, CUmemoryPool pool)
{
    gwi_device *device = gwi_device_find(dev);
    gwi_pool *found = gwi_object_find(pool, GWI_POOL);
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (found == NULL || found->device != device)
        return CUDA_ERROR_INVALID_VALUE;
    gwi_pool_default(device);
    device->pool_current = found;
    return 0;
}

GWI_API(cuMemPoolCreate)(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    if (pool == NULL || poolProps == NULL || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    gwi_device *device = gwi_device_find(poolProps->location.id);
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    gwi_pool_default(device);
    gwi_pool *made = gwi_pool_make(device);
    if (made == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->books.bytes_max = poolProps->maxSize;
    *pool = (CUmemoryPool)made;
    return 0;
}

GWI_API(cuMemPoolDestroy)(CUmemoryPool pool)
{
    gwi_pool *found = gwi_object_find(pool, GWI_POOL);
    if (found == NULL || found->is_default)
        return CUDA_ERROR_INVALID_VALUE;
    gwi_wait_device(found->device);
    gwi_pool_empty(found);
    if (found->device->pool_current == found)
        found->device->pool_current = found->device->pool_default;
    gwi_object_remove(&found->object);
    gwi_pool_leave_spare(found);
    gw_pool_end(&found->books);
    free(found);
    return 0;
}

GWI_API(cuMemPoolTrimTo)(CUmemoryPool pool, size_t minBytesToKeep)
{
    gwi_pool *found = gwi_object_find(pool, GWI_POOL);
    if (found == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    gwi_pool_trim(found, minBytesToKeep);
    return 0;
}

enum { REUSE_FIRST = 1, REUSE_LAST = 3, THRESHOLD = 4, RESERVED = 5, RESERVED_HIGH = 6, USED = 7, USED_HIGH = 8 };

GWI_API(cuMemPoolGetAttribute)(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    const gwi_pool *found = gwi_object_find(pool, GWI_POOL);
    if (found == NULL || value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const uint64_t numbers[] = {found->books.threshold, found->books.reserved, found->books.reserved_high,
                                found->books.used, found->books.used_high};
    if ((int)attr >= REUSE_FIRST && (int)attr <= REUSE_LAST)
        *(int *)value = found->reuse[attr - REUSE_FIRST];
    else if ((int)attr >= THRESHOLD && (int)attr <= USED_HIGH)
        *(cuuint64_t *)value = numbers[attr - THRESHOLD];
    else
        return CUDA_ERROR_INVALID_VALUE;
    return 0;
}

GWI_API(cuMemPoolSetAttribute)(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    gwi_pool *found = gwi_object_find(pool, GWI_POOL);
    if (found == NULL || value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if ((int)attr >= REUSE_FIRST && (int)attr <= REUSE_LAST)
        found->reuse[attr - REUSE_FIRST] = *(int *)value;
    else if ((int)attr == THRESHOLD)
        found->books.threshold = *(cuuint64_t *)value;
    else if ((int)attr == RESERVED_HIGH && *(cuuint64_t *)value == 0)
        found->books.reserved_high = found->books.reserved;
    else if ((int)attr == USED_HIGH && *(cuuint64_t *)value == 0)
        found->books.used_high = found->books.used;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return 0;
}

GWI_RETURN(cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc *map, size_t count),
           gwi_object_find(pool, GWI_POOL) == NULL || map == NULL ? CUDA_ERROR_INVALID_VALUE : 0)

GWI_API(cuMemPoolGetAccess)(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
    const gwi_pool *pool = gwi_object_find(memPool, GWI_POOL);
    if (flags == NULL || location == NULL || pool == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *flags =
        location->id == (int)pool->device->index ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return 0;
}

/* Allocate from `pool` in stream order. During a capture, the memory is allocated at once and never freed, and the
 * graph node has no effect. */
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
    gwi_device *device = gwi_current()->device;
    gwi_pool_default(device);
    return alloc_async(dptr, bytesize, device->pool_current, hStream);
}

GWI_API(cuMemAllocFromPoolAsync)(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
    gwi_pool *found = gwi_object_find(pool, GWI_POOL);
    return found == NULL ? CUDA_ERROR_INVALID_VALUE : alloc_async(dptr, bytesize, found, hStream);
}

GWI_API(cuMemFreeAsync)(CUdeviceptr dptr, CUstream hStream)
{
    gwi_stream *stream = gwi_stream_find(hStream);
    gwi_block *block = gwi_block_at(dptr);
    if (dptr == 0)
        return 0;
    if (block == NULL || block->range.base != dptr || block->freed ||
        (block->kind != GWI_BLOCK_POOL && block->kind != GWI_BLOCK_DEVICE))
        return CUDA_ERROR_INVALID_VALUE;
    if (block->kind == GWI_BLOCK_DEVICE) {
        gwi_wait_stream(stream);
        block = gwi_block_at(dptr);
        if (block != NULL)
            gwi_block_free(block);
        return 0;
    }
    bool captured = stream->capture != NULL || stream->capture_owner != NULL;
    gwi_work work = {.kind = GWI_WORK_FREE, .memory = {.address = dptr}};
    if (!captured) {
        block->freed = true;
        gw_pool_unuse(&block->pool->books, block->range.bytes);
    } else {
        work.kind = GWI_WORK_EMPTY; /* freeing has no effect: the block belongs to the graph */
    }
    return gwi_submit(stream, &work, NULL, NULL);
}
