/* What a rehearsal answers about its addresses. */
#include "gw_hook_rehearsal.h"
#include "gwi_rehearse.h"

#include <string.h>

static void put_int(void *data, int value)
{
    memcpy(data, &value, sizeof value);
}

static void put_wide(void *data, uint64_t value)
{
    memcpy(data, &value, sizeof value);
}

static void put_bool(void *data, bool value)
{
    memcpy(data, &value, sizeof value);
}

/* Write one attribute as the driver does (H100, driver 580.159.04). With the lock. */
static int attribute(void *data, CUpointer_attribute attribute, const gwi_held *held, uint64_t address)
{
    bool is_managed = held->kind == GWI_HELD_MANAGED, is_plain = held->kind == GWI_HELD_PLAIN;
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        put_wide(data, held->kind == GWI_HELD_POOL || held->kind == GWI_HELD_MAPPED ? 0 : held->context);
        return 0;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        put_int(data, CU_MEMORYTYPE_DEVICE);
        return 0;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        put_wide(data, address);
        return 0;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        put_wide(data, is_managed ? address : 0);
        return is_managed ? 0 : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_MAPPED:
        put_int(data, 1);
        return 0;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        put_wide(data, held->id);
        return 0;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        put_bool(data, is_managed);
        return 0;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        put_int(data, held->card->device);
        return 0;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        put_bool(data, is_plain);
        return 0;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        put_wide(data, held->range.base);
        return 0;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        put_wide(data, held->range.bytes);
        return 0;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        put_wide(data, 0);
        return 0;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        put_bool(data, is_plain);
        return 0;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        put_int(data, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        return 0;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        put_wide(data, gwi_pool_handle(held->pool));
        return 0;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static int answer(void *data, CUpointer_attribute which, uint64_t address)
{
    int state = gwi_driver_state();
    if (state != 0)
        return state;
    if (data == NULL || !gwi_lock())
        return CUDA_ERROR_INVALID_VALUE;
    const gwi_held *held = gwi_held_at(address);
    int result = held != NULL ? attribute(data, which, held, address) : CUDA_ERROR_INVALID_VALUE;
    gwi_unlock();
    return result;
}

GWI_REHEARSE(cuPointerGetAttribute)(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    if (!gwi_rehearses(ptr))
        return GWI_DRIVER(cuPointerGetAttribute)(data, attribute, ptr);
    return answer(data, attribute, ptr);
}

/* Attributes that cannot be read are set to 0, and the call succeeds. */
GWI_REHEARSE(cuPointerGetAttributes)
(unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)
{
    if (!gwi_rehearses(ptr))
        return GWI_DRIVER(cuPointerGetAttributes)(numAttributes, attributes, data, ptr);
    if (attributes == NULL || data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < numAttributes; i++) {
        bool is_wide = attributes[i] == CU_POINTER_ATTRIBUTE_CONTEXT ||
                       attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER ||
                       attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
        if (answer(data[i], attributes[i], ptr) != 0 && data[i] != NULL && is_wide)
            put_wide(data[i], 0);
    }
    return 0;
}

/* ---- hints: they change neither sizes nor addresses ---- */

bool gwi_is_managed(uint64_t address, uint64_t bytes)
{
    if (!gwi_lock())
        return false;
    const gwi_held *held = gwi_held_at(address);
    bool is_managed =
        held != NULL && held->kind == GWI_HELD_MANAGED && bytes <= held->range.bytes - (address - held->range.base);
    gwi_unlock();
    return is_managed;
}

/* Answer a hint about memory of the books: only managed memory takes it. */
static int hint(uint64_t address, uint64_t bytes)
{
    return gwi_is_managed(address, bytes) ? 0 : CUDA_ERROR_INVALID_VALUE;
}

GWI_REHEARSE(cuPointerSetAttribute)(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    return gwi_rehearses(ptr) ? 0 : GWI_DRIVER(cuPointerSetAttribute)(value, attribute, ptr);
}

GWI_REHEARSE(cuMemAdvise)(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
    return gwi_rehearses(devPtr) ? hint(devPtr, count) : GWI_DRIVER(cuMemAdvise)(devPtr, count, advice, device);
}

GWI_REHEARSE(cuMemAdvise_v2)(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
    return gwi_rehearses(devPtr) ? hint(devPtr, count) : GWI_DRIVER(cuMemAdvise_v2)(devPtr, count, advice, location);
}

GWI_REHEARSE(cuMemPrefetchAsync)(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
    return gwi_rehearses(devPtr) ? hint(devPtr, count)
                                 : GWI_DRIVER(cuMemPrefetchAsync)(devPtr, count, dstDevice, hStream);
}

GWI_REHEARSE(cuMemPrefetchAsync_v2)
(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags, CUstream hStream)
{
    return gwi_rehearses(devPtr) ? hint(devPtr, count)
                                 : GWI_DRIVER(cuMemPrefetchAsync_v2)(devPtr, count, location, flags, hStream);
}

GWI_REHEARSE(cuStreamAttachMemAsync)(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags)
{
    return gwi_rehearses(dptr) ? 0 : GWI_DRIVER(cuStreamAttachMemAsync)(hStream, dptr, length, flags);
}

/* ---- hints for a list of addresses ---- */

static bool any_rehearsed(const CUdeviceptr *list, size_t count)
{
    for (size_t i = 0; list != NULL && i < count; i++)
        if (gwi_rehearses(list[i]))
            return true;
    return false;
}

/* Answer a hint about several ranges, of which some are of the books. The others need no hint. */
static int hints(const CUdeviceptr *list, const size_t *sizes, size_t count)
{
    int result = sizes == NULL ? CUDA_ERROR_INVALID_VALUE : 0;
    for (size_t i = 0; result == 0 && i < count; i++)
        if (gwi_rehearses(list[i]))
            result = hint(list[i], sizes[i]);
    return result;
}

GWI_REHEARSE(cuMemPrefetchBatchAsync)
(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
 size_t numPrefetchLocs, unsigned long long flags, CUstream hStream)
{
    if (any_rehearsed(dptrs, count))
        return hints(dptrs, sizes, count);
    return GWI_DRIVER(cuMemPrefetchBatchAsync)(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs,
                                               flags, hStream);
}

GWI_REHEARSE(cuMemDiscardAndPrefetchBatchAsync)
(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
 size_t numPrefetchLocs, unsigned long long flags, CUstream hStream)
{
    if (any_rehearsed(dptrs, count))
        return hints(dptrs, sizes, count);
    return GWI_DRIVER(cuMemDiscardAndPrefetchBatchAsync)(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
                                                         numPrefetchLocs, flags, hStream);
}

GWI_REHEARSE(cuMemDiscardBatchAsync)
(CUdeviceptr *dptrs, size_t *sizes, size_t count, unsigned long long flags, CUstream hStream)
{
    if (any_rehearsed(dptrs, count))
        return hints(dptrs, sizes, count);
    return GWI_DRIVER(cuMemDiscardBatchAsync)(dptrs, sizes, count, flags, hStream);
}
