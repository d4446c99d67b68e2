/* Physical memory and mappings of a rehearsal. Addresses are reserved by the driver. Handles of physical memory are our
 * own, and never reach the driver. */
#include "gw_hook_rehearsal.h"
#include "gwi_rehearse.h"

#include <stdlib.h>
#include <string.h>

struct gwi_physical {
    gwi_physical *next;
    uint64_t handle;
    uint64_t bytes;
    gwi_card *card;
    unsigned handle_count, map_count;
    CUmemAllocationProp properties;
};

enum { BUCKETS = 4096 };
static gwi_physical *buckets[BUCKETS]; /* owned; with the lock */
static uint64_t handles_made;

static gwi_physical **bucket_of(uint64_t handle)
{
    return &buckets[handle % BUCKETS];
}

static gwi_physical *physical_find(uint64_t handle)
{
    gwi_physical *physical = *bucket_of(handle);
    while (physical != NULL && physical->handle != handle)
        physical = physical->next;
    return physical;
}

/* Free physical memory that has neither handles nor mappings. With the lock. */
static void physical_settle(gwi_physical *physical)
{
    if (physical->handle_count > 0 || physical->map_count > 0)
        return;
    gwi_physical **link = bucket_of(physical->handle);
    while (*link != physical)
        link = &(*link)->next;
    *link = physical->next;
    gwi_card_give(physical->card, physical->bytes);
    free(physical);
}

/* ---- physical memory ---- */

static int physical_add(gwi_card *card, size_t bytes, const CUmemAllocationProp *prop, uint64_t *ret_handle)
{
    gwi_physical *physical = calloc(1, sizeof *physical);
    if (physical == NULL || !gwi_lock()) {
        free(physical);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    bool done = gwi_card_take(card, bytes);
    if (done) {
        *physical = (gwi_physical){.handle = GWI_PHYSICAL_FIRST + ++handles_made,
                                   .bytes = bytes,
                                   .card = card,
                                   .handle_count = 1,
                                   .properties = *prop};
        physical->next = *bucket_of(physical->handle);
        *bucket_of(physical->handle) = physical;
        *ret_handle = physical->handle;
    }
    gwi_unlock();
    if (!done)
        free(physical);
    return done ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

GWI_REHEARSE(cuMemCreate)
(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags)
{
    if (prop == NULL || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return GWI_DRIVER(cuMemCreate)(handle, size, prop, flags);
    size_t granularity = 0;
    int result = GWI_DRIVER(cuMemGetAllocationGranularity)(&granularity, prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result != 0)
        return result;
    if (handle == NULL || size == 0 || granularity == 0 || size % granularity != 0)
        return CUDA_ERROR_INVALID_VALUE;
    gwi_card *card = gwi_card_of(prop->location.id);
    if (card == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    gwi_card_measure(card);
    uint64_t made = 0;
    result = physical_add(card, size, prop, &made);
    if (result != 0)
        return result;
    *handle = made;
    gwi_card_tell(card);
    return 0;
}

GWI_REHEARSE(cuMemRelease)(CUmemGenericAllocationHandle handle)
{
    if (!gwi_physical_is_ours(handle))
        return GWI_DRIVER(cuMemRelease)(handle);
    if (!gwi_lock())
        return CUDA_ERROR_INVALID_VALUE;
    gwi_physical *physical = physical_find(handle);
    bool done = physical != NULL && physical->handle_count > 0;
    if (done) {
        physical->handle_count--;
        physical_settle(physical);
    }
    gwi_unlock();
    return done ? 0 : CUDA_ERROR_INVALID_VALUE;
}

GWI_REHEARSE(cuMemGetAllocationPropertiesFromHandle)(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
    if (!gwi_physical_is_ours(handle))
        return GWI_DRIVER(cuMemGetAllocationPropertiesFromHandle)(prop, handle);
    if (prop == NULL || !gwi_lock())
        return CUDA_ERROR_INVALID_VALUE;
    const gwi_physical *physical = physical_find(handle);
    if (physical != NULL)
        *prop = physical->properties;
    gwi_unlock();
    return physical != NULL ? 0 : CUDA_ERROR_INVALID_VALUE;
}

GWI_REHEARSE(cuMemRetainAllocationHandle)(CUmemGenericAllocationHandle *handle, void *addr)
{
    if (!gwi_rehearses((uintptr_t)addr))
        return GWI_DRIVER(cuMemRetainAllocationHandle)(handle, addr);
    if (handle == NULL || !gwi_lock())
        return CUDA_ERROR_INVALID_VALUE;
    const gwi_held *held = gwi_held_at((uintptr_t)addr);
    bool done = held != NULL && held->kind == GWI_HELD_MAPPED;
    if (done) {
        held->physical->handle_count++;
        *handle = held->physical->handle;
    }
    gwi_unlock();
    return done ? 0 : CUDA_ERROR_INVALID_VALUE;
}

/* ---- reserved addresses ---- */

static gw_ranges reserved; /* owned; with the lock */

static bool reserved_add(uint64_t base, uint64_t bytes)
{
    gw_range *range = calloc(1, sizeof *range);
    if (range == NULL || !gwi_lock()) {
        free(range);
        return false;
    }
    range->base = base;
    range->bytes = bytes;
    bool done = gw_ranges_add(&reserved, range);
    gwi_unlock();
    if (!done)
        free(range);
    return done;
}

static void reserved_remove(uint64_t base)
{
    if (!gwi_lock())
        return;
    gw_range *range = gw_ranges_at(&reserved, base);
    if (range != NULL)
        gw_ranges_remove(&reserved, range);
    gwi_unlock();
    free(range);
}

/* ---- mappings ---- */

/* Check the arguments of cuMemMap() in the driver's order. With the lock. */
static int map_check(uint64_t address, uint64_t bytes, uint64_t offset, const gwi_physical *physical)
{
    const gw_range *home = gw_ranges_at(&reserved, address);
    if (physical == NULL || home == NULL || address % GW_PAGE_BYTES != 0 || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes % GW_PAGE_BYTES != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    bool fits = bytes <= home->bytes - (address - home->base) && offset % GW_PAGE_BYTES == 0 &&
                offset <= physical->bytes && bytes <= physical->bytes - offset;
    return fits ? 0 : CUDA_ERROR_INVALID_VALUE;
}

static int map_add(uint64_t address, uint64_t bytes, uint64_t offset, uint64_t handle)
{
    gwi_held *held = calloc(1, sizeof *held);
    if (held == NULL || !gwi_lock()) {
        free(held);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    gwi_physical *physical = physical_find(handle);
    int result = map_check(address, bytes, offset, physical);
    if (result == 0) {
        held->range.base = address;
        held->range.bytes = bytes;
        held->kind = GWI_HELD_MAPPED;
        held->card = physical->card;
        held->physical = physical;
        result = gwi_held_add(held) ? 0 : CUDA_ERROR_INVALID_VALUE;
    }
    if (result == 0)
        physical->map_count++;
    gwi_unlock();
    if (result != 0)
        free(held);
    return result;
}

GWI_REHEARSE(cuMemMap)
(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    if (!gwi_physical_is_ours(handle))
        return GWI_DRIVER(cuMemMap)(ptr, size, offset, handle, flags);
    return flags != 0 ? CUDA_ERROR_INVALID_VALUE : map_add(ptr, size, offset, handle);
}

/* Remove the mappings in the range. Returns false and changes nothing if one of them is partly outside. With the lock.
 */
static bool maps_remove(uint64_t address, uint64_t bytes)
{
    for (gwi_held *held = gwi_held_from(address); held != NULL && held->range.base - address < bytes;
         held = gwi_held_from(held->range.base + held->range.bytes))
        if (held->kind != GWI_HELD_MAPPED || held->range.bytes > bytes - (held->range.base - address))
            return false;
    for (gwi_held *held; (held = gwi_held_from(address)) != NULL && held->range.base - address < bytes;) {
        gwi_physical *physical = held->physical;
        gwi_held_remove(held);
        free(held);
        physical->map_count--;
        physical_settle(physical);
    }
    return true;
}

/* True if a mapping of the books begins in the range, which itself may begin in a gap. */
static bool maps_begin_in(uint64_t address, uint64_t bytes)
{
    if (!gwi_lock())
        return false;
    const gwi_held *held = gwi_held_from(address);
    bool begins = held != NULL && held->kind == GWI_HELD_MAPPED && held->range.base - address < bytes;
    gwi_unlock();
    return begins;
}

GWI_REHEARSE(cuMemUnmap)(CUdeviceptr ptr, size_t size)
{
    if (!gwi_rehearses(ptr) && !maps_begin_in(ptr, size))
        return GWI_DRIVER(cuMemUnmap)(ptr, size);
    if (!gwi_lock())
        return CUDA_ERROR_INVALID_VALUE;
    bool done = maps_remove(ptr, size);
    gwi_unlock();
    return done ? 0 : CUDA_ERROR_INVALID_VALUE;
}

/* Allow or forbid access to the mappings of which the range consists. Returns false and changes nothing if parts of the
 * range are not mapped, or a mapping is partly outside. With the lock. */
static bool maps_access(uint64_t address, uint64_t bytes, bool accessible)
{
    for (uint64_t at = address; at - address < bytes;) {
        const gwi_held *held = gwi_held_at(at);
        if (held == NULL || held->kind != GWI_HELD_MAPPED || held->range.base != at ||
            held->range.bytes > bytes - (at - address))
            return false;
        at += held->range.bytes;
    }
    for (uint64_t at = address; at - address < bytes;) {
        gwi_held *held = gwi_held_at(at);
        held->accessible = accessible;
        at += held->range.bytes;
    }
    return true;
}

GWI_REHEARSE(cuMemSetAccess)(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    if (!gwi_rehearses(ptr))
        return GWI_DRIVER(cuMemSetAccess)(ptr, size, desc, count);
    if (desc == NULL || count == 0 || size == 0 || !gwi_lock())
        return CUDA_ERROR_INVALID_VALUE;
    bool done = maps_access(ptr, size, desc[0].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE);
    gwi_unlock();
    return done ? 0 : CUDA_ERROR_INVALID_VALUE;
}

GWI_REHEARSE(cuMemGetAccess)(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    if (!gwi_rehearses(ptr))
        return GWI_DRIVER(cuMemGetAccess)(flags, location, ptr);
    if (flags == NULL || location == NULL || !gwi_lock())
        return CUDA_ERROR_INVALID_VALUE;
    const gwi_held *held = gwi_held_at(ptr);
    bool is_mapped = held != NULL && held->kind == GWI_HELD_MAPPED;
    if (is_mapped)
        *flags = held->accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : 0;
    gwi_unlock();
    return is_mapped ? 0 : CUDA_ERROR_INVALID_VALUE;
}

/* The driver frees addresses that it reserved. In our books nothing lies there: a range with mappings cannot be freed.
 */
GWI_REHEARSE(cuMemAddressFree)(CUdeviceptr ptr, size_t size)
{
    if (!gwi_lock())
        return CUDA_ERROR_INVALID_VALUE;
    const gwi_held *held = gwi_held_from(ptr);
    bool is_mapped = held != NULL && held->range.base - ptr < size;
    gwi_unlock();
    if (is_mapped)
        return CUDA_ERROR_INVALID_VALUE;
    int result = GWI_DRIVER(cuMemAddressFree)(ptr, size);
    if (result == 0)
        reserved_remove(ptr);
    return result;
}

GWI_REHEARSE(cuMemAddressReserve)
(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags)
{
    int result = GWI_DRIVER(cuMemAddressReserve)(ptr, size, alignment, addr, flags); /* `addr` is only a hint */
    if (result != 0 || reserved_add(*ptr, size))
        return result;
    GWI_DRIVER(cuMemAddressFree)(*ptr, size);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* This call names device memory by a plain pointer. So do those of tensor maps, but there the driver only writes the
 * address into the map. */
GWI_REHEARSE(cuLogicalEndpointBindAddr)
(CUlogicalEndpointId leId, CUdevice dev, cuuint64_t offset, void *ptr, cuuint64_t size, unsigned long long flags)
{
    if (gwi_rehearses((uintptr_t)ptr))
        return gwi_rehearse_refuse(GW_FN_cuLogicalEndpointBindAddr);
    return GWI_DRIVER(cuLogicalEndpointBindAddr)(leId, dev, offset, ptr, size, flags);
}
