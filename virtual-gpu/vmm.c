/* Virtual memory management: physical memory, reserved addresses, and mappings between them. Physical memory is freed
 * once it is not mapped anywhere and was released as often as it was created or retained. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gwi_virt.h"

typedef struct reservation {
    gw_range range; /* member of gwi.reserved */
} reservation;

static bool multiple(uint64_t bytes)
{
    return bytes != 0 && bytes % GW_PAGE_BYTES == 0;
}

static void physical_drop(gwi_physical *physical)
{
    if (physical->handle_count > 0 || physical->map_count > 0)
        return;
    if (physical->charged)
        gwi_device_give(physical->device, physical->bytes);
    munmap(physical->storage, physical->bytes);
    if (gwi_object_find(physical, GWI_PHYSICAL) != NULL)
        gwi_object_remove(&physical->object);
    free(physical);
}

static int location_check(const CUmemAllocationProp *prop, gwi_device **ret_device)
{
    if (prop == NULL || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    *ret_device = gwi_device_find(prop->location.id);
    return *ret_device != NULL ? 0 : CUDA_ERROR_INVALID_DEVICE;
}

GWI_API(cuMemGetAllocationGranularity)
(size_t *granularity, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option)
{
    gwi_device *device = NULL;
    int result = granularity == NULL ? CUDA_ERROR_INVALID_VALUE : location_check(prop, &device);
    if (result == 0)
        *granularity = GW_PAGE_BYTES;
    return result;
}

/* Allocate the storage of physical memory, and keep it out of core dumps. */
static char *physical_storage(uint64_t bytes)
{
    char *storage = gwi_storage_map(bytes);
    if (storage != NULL)
        madvise(storage, bytes, MADV_DONTDUMP);
    return storage;
}

GWI_API(cuMemCreate)
(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags)
{
    gwi_device *device = NULL;
    if (handle == NULL || flags != 0 || !multiple(size))
        return CUDA_ERROR_INVALID_VALUE;
    int result = location_check(prop, &device);
    if (result != 0)
        return result;
    if (gwi_allocation_refused() || !gwi_device_take(device, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    gwi_physical *physical = calloc(1, sizeof *physical);
    char *storage = physical != NULL ? physical_storage(size) : NULL;
    if (storage == NULL) {
        gwi_device_give(device, size);
        free(physical);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    physical->device = device;
    physical->bytes = size;
    physical->handle_count = 1;
    physical->storage = storage;
    physical->properties = *prop;
    physical->charged = true;
    gwi_object_add(&physical->object, GWI_PHYSICAL);
    *handle = (uintptr_t)physical;
    return 0;
}

static gwi_physical *physical_find(CUmemGenericAllocationHandle handle)
{
    gwi_physical *physical = gwi_object_find((const void *)(uintptr_t)handle, GWI_PHYSICAL);
    return physical != NULL && physical->handle_count > 0 ? physical : NULL;
}

GWI_API(cuMemRelease)(CUmemGenericAllocationHandle handle)
{
    gwi_physical *physical = physical_find(handle);
    if (physical == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    physical->handle_count--;
    physical_drop(physical);
    return 0;
}

GWI_API(cuMemRetainAllocationHandle)(CUmemGenericAllocationHandle *handle, void *addr)
{
    const gwi_block *block = gwi_block_at((uintptr_t)addr);
    if (handle == NULL || block == NULL || block->kind != GWI_BLOCK_MAPPED)
        return CUDA_ERROR_INVALID_VALUE;
    block->physical->handle_count++;
    *handle = (uintptr_t)block->physical;
    return 0;
}

GWI_ANSWER_OF(cuMemGetAllocationPropertiesFromHandle, (CUmemAllocationProp * prop, CUmemGenericAllocationHandle handle),
              prop, gwi_physical, physical_find(handle), CUDA_ERROR_INVALID_VALUE, found->properties)

GWI_API(cuMemAddressReserve)
(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags)
{
    (void)addr; /* `addr` is only a hint, and ignored */
    if (ptr == NULL || flags != 0 || !multiple(size) || (alignment & (alignment - 1)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (alignment < GW_PAGE_BYTES)
        alignment = GW_PAGE_BYTES;
    reservation *made = calloc(1, sizeof *made);
    char *memory = made != NULL && size <= SIZE_MAX / 4
                       ? mmap(NULL, size + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                       : MAP_FAILED;
    if (memory == MAP_FAILED) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    uint64_t base = ((uintptr_t)memory + alignment - 1) / alignment * alignment;
    if (base > (uintptr_t)memory)
        munmap(memory, base - (uintptr_t)memory);
    munmap((char *)(uintptr_t)base + size, (uintptr_t)memory + alignment - base);
    made->range.base = base;
    made->range.bytes = size;
    gw_ranges_add(&gwi.reserved, &made->range);
    *ptr = base;
    return 0;
}

static bool any_mapping(uint64_t base, uint64_t bytes)
{
    const gw_range *range = gw_ranges_from(&gwi.blocks, base);
    return range != NULL && range->base < base + bytes;
}

GWI_API(cuMemAddressFree)(CUdeviceptr ptr, size_t size)
{
    gw_range *range = gw_ranges_at(&gwi.reserved, ptr);
    if (range == NULL || range->base != ptr || range->bytes != size || any_mapping(ptr, size))
        return CUDA_ERROR_INVALID_VALUE;
    gw_ranges_remove(&gwi.reserved, range);
    munmap((void *)(uintptr_t)ptr, size);
    free(range);
    return 0;
}

GWI_API(cuMemMap)
(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    gwi_physical *physical = physical_find(handle);
    const gw_range *home = gw_ranges_at(&gwi.reserved, ptr);
    if (physical == NULL || home == NULL || flags != 0 || ptr % GW_PAGE_BYTES != 0 || size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (size % GW_PAGE_BYTES != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (size > home->bytes - (ptr - home->base) || offset % GW_PAGE_BYTES != 0 || offset > physical->bytes ||
        size > physical->bytes - offset)
        return CUDA_ERROR_INVALID_VALUE;
    gwi_block *block = calloc(1, sizeof *block);
    if (block == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->kind = GWI_BLOCK_MAPPED;
    block->device = physical->device;
    block->physical = physical;
    block->physical_offset = offset;
    block->storage = physical->storage + offset;
    block->range.base = ptr;
    block->range.bytes = size;
    if (!gw_ranges_add(&gwi.blocks, &block->range)) {
        free(block);
        return CUDA_ERROR_INVALID_VALUE;
    }
    block->id = gwi.next_id++;
    physical->map_count++;
    return 0;
}

/* True if mappings fill the range and none of them extends beyond the range. With `gaps`, parts of the range may be
 * unmapped. */
static bool whole_mappings(uint64_t base, uint64_t bytes, bool gaps)
{
    uint64_t at = base;
    const gw_range *before = gw_ranges_at(&gwi.blocks, base);
    if (before != NULL && before->base != base)
        return false;
    while (at < base + bytes) {
        const gw_range *range = gw_ranges_from(&gwi.blocks, at);
        if (range == NULL || range->base >= base + bytes)
            return gaps;
        if ((range->base != at && !gaps) || ((const gwi_block *)range)->kind != GWI_BLOCK_MAPPED ||
            range->bytes > base + bytes - range->base)
            return false;
        at = range->base + range->bytes;
    }
    return true;
}

GWI_API(cuMemUnmap)(CUdeviceptr ptr, size_t size)
{
    const gw_range *home = gw_ranges_at(&gwi.reserved, ptr);
    if (home == NULL || !multiple(size) || size > home->bytes - (ptr - home->base) || !whole_mappings(ptr, size, true))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned d = 0; d < gwi.spec.device_count; d++)
        gwi_wait_device(&gwi.devices[d]);
    gw_range *range = gw_ranges_from(&gwi.blocks, ptr);
    while (range != NULL && range->base < ptr + size) {
        gw_range *next = gw_ranges_from(&gwi.blocks, range->base + range->bytes);
        gwi_physical *physical = ((gwi_block *)range)->physical;
        gwi_block_free((gwi_block *)range);
        physical->map_count--;
        physical_drop(physical);
        range = next;
    }
    return 0;
}

GWI_API(cuMemSetAccess)(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    if (desc == NULL || count == 0 || !multiple(size) || !whole_mappings(ptr, size, false))
        return CUDA_ERROR_INVALID_VALUE;
    for (gw_range *range = gw_ranges_from(&gwi.blocks, ptr); range != NULL && range->base < ptr + size;
         range = gw_ranges_from(&gwi.blocks, range->base + range->bytes))
        ((gwi_block *)range)->accessible = desc[0].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return 0;
}

GWI_API(cuMemGetAccess)(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    const gwi_block *block = gwi_block_at(ptr);
    if (flags == NULL || location == NULL || block == NULL || block->kind != GWI_BLOCK_MAPPED)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = block->accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : 0;
    return 0;
}
