/* Memory with an address: the entry points for device, managed and page-locked host memory. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "gwi_virt.h"

/* --- plain memory --------------------------------------------------------------------------------------- */

static int alloc(CUdeviceptr *ret_address, size_t bytes)
{
    if (ret_address == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes == 0) {
        gwi_say("Requested 0 byte allocation");
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (gwi_allocation_refused())
        return CUDA_ERROR_OUT_OF_MEMORY;
    const gwi_block *block = gwi_block_alloc(gwi_current(), bytes, GWI_BLOCK_DEVICE);
    if (block == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret_address = block->range.base;
    return 0;
}

GWI_RETURN(cuMemAlloc_v2, (CUdeviceptr * dptr, size_t bytesize), alloc(dptr, bytesize))

GWI_API(cuMemAllocPitch_v2)
(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, unsigned int ElementSizeBytes)
{
    size_t bytes = 0;
    if (pPitch == NULL || WidthInBytes == 0 || Height == 0 || WidthInBytes > SIZE_MAX / 2 ||
        (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
        return CUDA_ERROR_INVALID_VALUE;
    size_t pitch = (WidthInBytes + 511) / 512 * 512;
    if (__builtin_mul_overflow(pitch, Height, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    int result = alloc(dptr, bytes);
    if (result == 0)
        *pPitch = pitch;
    return result;
}

GWI_API(cuMemFree_v2)(CUdeviceptr dptr)
{
    if (dptr == 0)
        return 0;
    gwi_block *block = gwi_block_at(dptr);
    if (block == NULL || block->range.base != dptr || block->freed ||
        (block->kind != GWI_BLOCK_DEVICE && block->kind != GWI_BLOCK_MANAGED && block->kind != GWI_BLOCK_POOL))
        return CUDA_ERROR_INVALID_VALUE;
    /* Wait for all work on the device, which may still use the block. */
    gwi_device *device = block->device;
    gwi_wait_device(device);
    int result = gwi_see_fault(gwi_current());
    if (result != 0)
        return result;
    block = gwi_block_at(dptr);
    if (block != NULL && block->range.base == dptr) {
        if (block->kind == GWI_BLOCK_POOL)
            gwi_pool_freed(block);
        else
            gwi_block_free(block);
    }
    return 0;
}

GWI_API(cuMemGetInfo_v2)(size_t *free_bytes, size_t *total)
{
    if (free_bytes == NULL || total == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *free_bytes = (size_t)gwi_shared_free_bytes(gwi.shared, gwi_current()->device->index);
    *total = (size_t)gwi.spec.card.memory_bytes;
    return 0;
}

GWI_API(cuMemGetAddressRange_v2)(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    const gwi_block *block = gwi_block_at(dptr);
    if (block == NULL)
        return CUDA_ERROR_NOT_FOUND;
    if (pbase != NULL)
        *pbase = block->range.base;
    if (psize != NULL)
        *psize = (size_t)block->range.bytes;
    return 0;
}

/* --- managed memory: implemented as host memory ------------------------------------------------------- */

static gwi_block *host_block(uint64_t bytes, gwi_block_kind kind)
{
    gwi_block *block = calloc(1, sizeof *block);
    char *memory = block != NULL ? gwi_storage_map(bytes) : NULL;
    if (memory == NULL) {
        free(block);
        return NULL;
    }
    block->kind = kind;
    block->context = gwi_current();
    block->generation = block->context->generation;
    block->device = block->context->device;
    block->storage = memory;
    block->range.base = (uintptr_t)memory;
    block->range.bytes = bytes;
    block->id = gwi.next_id++;
    gw_ranges_add(&gwi.blocks, &block->range);
    return block;
}

GWI_API(cuMemAllocManaged)(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    if (dptr == NULL || bytesize == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    if (gwi_allocation_refused())
        return CUDA_ERROR_OUT_OF_MEMORY;
    const gwi_block *block = host_block(bytesize, GWI_BLOCK_MANAGED);
    if (block == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *dptr = block->range.base;
    return 0;
}

/* Check the range of a prefetch or an advice. Neither has an effect, because the virtual GPU does not simulate where
 * managed memory is located. */
static int managed_check(CUdeviceptr address, size_t bytes)
{
    const gwi_block *block = gwi_block_at(address);
    if (block == NULL || block->kind != GWI_BLOCK_MANAGED || bytes > block->range.bytes - (address - block->range.base))
        return CUDA_ERROR_INVALID_VALUE;
    return 0;
}

GWI_API(cuMemPrefetchAsync)(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
    gwi_stream_find(hStream);
    if (dstDevice != CU_DEVICE_CPU && gwi_device_find(dstDevice) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    return managed_check(devPtr, count);
}

GWI_API(cuMemPrefetchAsync_v2)
(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags, CUstream hStream)
{
    gwi_stream_find(hStream);
    return flags != 0 ? CUDA_ERROR_INVALID_VALUE : managed_check(devPtr, count);
}

GWI_RETURN(cuMemAdvise, (CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device),
           managed_check(devPtr, count))
GWI_RETURN(cuMemAdvise_v2, (CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location),
           managed_check(devPtr, count))

/* --- the host's page-locked memory ---------------------------------------------------------------------- */

static bool host_room(uint64_t bytes)
{
    return bytes <= gwi.spec.host_bytes_max && gwi.host_bytes <= gwi.spec.host_bytes_max - bytes;
}

static int host_alloc(void **ret_address, size_t bytes, unsigned flags)
{
    if (ret_address == NULL || (flags & ~7u) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes == 0) {
        *ret_address = NULL;
        return 0;
    }
    gwi_block *block = host_room(bytes) ? host_block(bytes, GWI_BLOCK_HOST) : NULL;
    if (block == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->flags = flags;
    gwi.host_bytes += bytes;
    *ret_address = block->storage;
    return 0;
}

GWI_RETURN(cuMemHostAlloc, (void **pp, size_t bytesize, unsigned int Flags), host_alloc(pp, bytesize, Flags))
GWI_RETURN(cuMemAllocHost_v2, (void **pp, size_t bytesize), host_alloc(pp, bytesize, 0))

GWI_API(cuMemFreeHost)(void *p)
{
    if (p == NULL)
        return 0;
    gwi_block *block = gwi_block_at((uintptr_t)p);
    if (block == NULL || block->kind != GWI_BLOCK_HOST || block->range.base != (uintptr_t)p)
        return CUDA_ERROR_INVALID_VALUE;
    gwi_wait_device(block->device);
    block = gwi_block_at((uintptr_t)p);
    if (block != NULL)
        gwi_block_free(block);
    return 0;
}

GWI_API(cuMemHostRegister_v2)(void *p, size_t bytes, unsigned flags)
{
    if (p == NULL || bytes == 0 || (flags & ~15u) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!host_room(bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    gwi_block *block = calloc(1, sizeof *block);
    if (block == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->kind = GWI_BLOCK_REGISTERED;
    block->context = gwi_current();
    block->generation = block->context->generation;
    block->device = block->context->device;
    block->storage = p;
    block->flags = flags;
    block->range.base = (uintptr_t)p;
    block->range.bytes = bytes;
    if (!gw_ranges_add(&gwi.blocks, &block->range)) {
        free(block);
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    block->id = gwi.next_id++;
    gwi.host_bytes += bytes;
    return 0;
}
GWI_ALIAS(cuMemHostRegister, cuMemHostRegister_v2);

GWI_API(cuMemHostUnregister)(void *p)
{
    gwi_block *block = gwi_block_at((uintptr_t)p);
    if (p == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (block == NULL || block->kind != GWI_BLOCK_REGISTERED || block->range.base != (uintptr_t)p)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    gwi_wait_device(block->device);
    block = gwi_block_at((uintptr_t)p);
    if (block != NULL)
        gwi_block_free(block);
    return 0;
}

GWI_API(cuMemHostGetDevicePointer_v2)(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    const gwi_block *block = gwi_block_at((uintptr_t)p);
    if (pdptr == NULL || Flags != 0 || block == NULL || !gwi_is_host_block(block))
        return CUDA_ERROR_INVALID_VALUE;
    *pdptr = (uintptr_t)p;
    return 0;
}

GWI_API(cuMemHostGetFlags)(unsigned int *pFlags, void *p)
{
    const gwi_block *block = gwi_block_at((uintptr_t)p);
    if (pFlags == NULL || block == NULL || block->kind != GWI_BLOCK_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    *pFlags = block->flags;
    return 0;
}
