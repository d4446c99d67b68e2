/* Memory with an address: blocks of a card, managed memory, and the host's own.
 *
 * A card's addresses are reserved without access, so that the host faults where it would on a real card; the
 * bytes lie in a second mapping (the shadow) at a constant distance, which the system fills in as it is touched. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gwi_virt.h"

static bool take(void *card, uint64_t bytes)
{
    const gwi_device *device = card;
    return gwi_shared_take(gwi.shared, gwi.shared_slot, device->index, bytes);
}

static void give(void *card, uint64_t bytes)
{
    const gwi_device *device = card;
    gwi_shared_give(gwi.shared, gwi.shared_slot, device->index, bytes);
}

bool gwi_device_take(gwi_device *device, uint64_t bytes)
{
    return take(device, bytes);
}

void gwi_device_give(gwi_device *device, uint64_t bytes)
{
    give(device, bytes);
}

bool gwi_device_ready(gwi_device *device)
{
    if (device->arena_base != 0)
        return true;
    /* Four times the card: scattered blocks never use up the addresses before the memory. */
    uint64_t bytes = (gwi.spec.card.memory_bytes * 4 + GWI_PAGE_BYTES - 1) / GWI_PAGE_BYTES * GWI_PAGE_BYTES;
    size_t mapped = (size_t)(bytes + GWI_PAGE_BYTES);
    char *addresses = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *shadow = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addresses == MAP_FAILED || shadow == MAP_FAILED) {
        gwi_say("the host refuses address space for the virtual card");
        if (addresses != MAP_FAILED)
            munmap(addresses, mapped);
        if (shadow != MAP_FAILED)
            munmap(shadow, mapped);
        return false;
    }
    madvise(shadow, mapped, MADV_DONTDUMP);
    uint64_t base = ((uintptr_t)addresses + GWI_PAGE_BYTES - 1) / GWI_PAGE_BYTES * GWI_PAGE_BYTES;
    device->arena_base = base;
    device->arena_bytes = bytes;
    device->shadow = shadow + (base - (uintptr_t)addresses);
    device->pages.take = take;
    device->pages.give = give;
    device->pages.card = device;
    return gwi_runs_give(&device->pages.addresses, base, bytes);
}

bool gwi_allocation_refused(void)
{
    gwi.allocation_count++;
    for (unsigned i = 0; i < gwi.spec.fault_count; i++)
        if (gwi.spec.faults[i].kind == GW_VIRT_FAULT_OOM_AT && gwi.spec.faults[i].count == gwi.allocation_count)
            return true;
    return false;
}

gwi_block *gwi_block_at(uint64_t address)
{
    return (gwi_block *)gwi_ranges_at(&gwi.blocks, address);
}

bool gwi_is_host_block(const gwi_block *block)
{
    return block->kind == GWI_BLOCK_HOST || block->kind == GWI_BLOCK_REGISTERED;
}

char *gwi_storage(uint64_t address, uint64_t bytes)
{
    const gwi_block *block = gwi_block_at(address);
    if (block == NULL || block->freed || (block->kind == GWI_BLOCK_MAPPED && !block->accessible))
        return NULL;
    uint64_t offset = address - block->range.base;
    if (bytes <= block->range.bytes - offset)
        return block->storage + offset;
    /* Mappings may lie side by side and be one to the program; so far only if their storage is, too. */
    return NULL;
}

bool gwi_mapped(uint64_t address)
{
    const gwi_block *block = gwi_block_at(address);
    if (block != NULL)
        return block->kind != GWI_BLOCK_MAPPED || block->accessible;
    for (unsigned d = 0; d < gwi.spec.device_count; d++) {
        const gwi_device *device = &gwi.devices[d];
        if (device->arena_base == 0 || address < device->arena_base ||
            address - device->arena_base >= device->arena_bytes)
            continue;
        /* Inside a page that other blocks still hold? */
        uint64_t page = address / GWI_PAGE_BYTES * GWI_PAGE_BYTES;
        const gwi_range *range = gwi_ranges_from(&gwi.blocks, page);
        if (range != NULL && range->base < page + GWI_PAGE_BYTES)
            return true;
        const gwi_block *before = page > 0 ? gwi_block_at(page) : NULL;
        return before != NULL;
    }
    return false;
}

gwi_block *gwi_block_alloc(gwi_context *context, uint64_t bytes, gwi_block_kind kind)
{
    gwi_block *block = calloc(1, sizeof *block);
    uint64_t address = 0;
    if (block == NULL)
        return NULL;
    if (!gwi_pages_alloc(&context->device->pages, bytes, &address, &block->page)) {
        free(block);
        return NULL;
    }
    block->kind = kind;
    block->device = context->device;
    block->context = context;
    block->generation = context->generation;
    block->storage = context->device->shadow + (address - context->device->arena_base);
    block->range.base = address;
    block->range.bytes = bytes;
    block->id = gwi.next_id++;
    gwi_ranges_add(&gwi.blocks, &block->range);
    return block;
}

/* What was written to whole pages goes back to the host. */
static void storage_drop(char *storage, uint64_t bytes)
{
    const uintptr_t page = 4096;
    uintptr_t begin = ((uintptr_t)storage + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)storage + bytes) / page * page;
    if (end > begin)
        madvise((void *)begin, end - begin, MADV_DONTNEED);
}

void gwi_block_free(gwi_block *block)
{
    gwi_ranges_remove(&gwi.blocks, &block->range);
    switch (block->kind) {
    case GWI_BLOCK_DEVICE:
    case GWI_BLOCK_GLOBAL:
        storage_drop(block->storage, block->range.bytes);
        gwi_pages_free(&block->device->pages, block->range.base, block->range.bytes, block->page);
        break;
    case GWI_BLOCK_MANAGED:
        munmap(block->storage, block->range.bytes);
        break;
    case GWI_BLOCK_HOST:
        gwi.host_bytes -= block->range.bytes;
        munmap(block->storage, block->range.bytes);
        break;
    case GWI_BLOCK_REGISTERED:
        gwi.host_bytes -= block->range.bytes;
        break;
    case GWI_BLOCK_IPC:
        munmap(block->storage, (block->range.bytes + GWI_PAGE_BYTES - 1) / GWI_PAGE_BYTES * GWI_PAGE_BYTES);
        break;
    case GWI_BLOCK_POOL:
    case GWI_BLOCK_MAPPED:
        break;
    }
    free(block);
}

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

GWI_API(cuMemAlloc_v2)(CUdeviceptr *dptr, size_t bytesize)
{
    GWI_ENTER;
    return gwi_leave(alloc(dptr, bytesize));
}

GWI_API(cuMemAllocPitch_v2)
(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, unsigned int ElementSizeBytes)
{
    GWI_ENTER;
    size_t bytes = 0;
    if (pPitch == NULL || WidthInBytes == 0 || Height == 0 || WidthInBytes > SIZE_MAX / 2 ||
        (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    size_t pitch = (WidthInBytes + 511) / 512 * 512;
    if (__builtin_mul_overflow(pitch, Height, &bytes))
        return gwi_leave(CUDA_ERROR_OUT_OF_MEMORY);
    int result = alloc(dptr, bytes);
    if (result == 0)
        *pPitch = pitch;
    return gwi_leave(result);
}

GWI_API(cuMemFree_v2)(CUdeviceptr dptr)
{
    GWI_ENTER;
    if (dptr == 0)
        return gwi_leave(0);
    gwi_block *block = gwi_block_at(dptr);
    if (block == NULL || block->range.base != dptr || block->freed ||
        (block->kind != GWI_BLOCK_DEVICE && block->kind != GWI_BLOCK_MANAGED && block->kind != GWI_BLOCK_POOL))
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    /* Nobody may still be using it. */
    gwi_device *device = block->device;
    gwi_wait_device(device);
    int result = gwi_see_fault();
    if (result != 0)
        return gwi_leave(result);
    block = gwi_block_at(dptr);
    if (block != NULL && block->range.base == dptr) {
        if (block->kind == GWI_BLOCK_POOL)
            gwi_pool_freed(block);
        else
            gwi_block_free(block);
    }
    return gwi_leave(0);
}

GWI_API(cuMemGetInfo_v2)(size_t *free_bytes, size_t *total)
{
    GWI_ENTER;
    if (free_bytes == NULL || total == NULL)
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    *free_bytes = (size_t)gwi_shared_free_bytes(gwi.shared, gwi_current()->device->index);
    *total = (size_t)gwi.spec.card.memory_bytes;
    return gwi_leave(0);
}

GWI_API(cuMemGetAddressRange_v2)(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    GWI_ENTER;
    const gwi_block *block = gwi_block_at(dptr);
    if (block == NULL)
        return gwi_leave(CUDA_ERROR_NOT_FOUND);
    if (pbase != NULL)
        *pbase = block->range.base;
    if (psize != NULL)
        *psize = (size_t)block->range.bytes;
    return gwi_leave(0);
}

/* --- managed memory: the host's, as far as anybody can tell --------------------------------------------- */

static gwi_block *host_block(uint64_t bytes, gwi_block_kind kind)
{
    gwi_block *block = calloc(1, sizeof *block);
    char *memory = block != NULL
                       ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                       : MAP_FAILED;
    if (memory == MAP_FAILED) {
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
    gwi_ranges_add(&gwi.blocks, &block->range);
    return block;
}

GWI_API(cuMemAllocManaged)(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    GWI_ENTER;
    if (dptr == NULL || bytesize == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    if (gwi_allocation_refused())
        return gwi_leave(CUDA_ERROR_OUT_OF_MEMORY);
    const gwi_block *block = host_block(bytesize, GWI_BLOCK_MANAGED);
    if (block == NULL)
        return gwi_leave(CUDA_ERROR_OUT_OF_MEMORY);
    *dptr = block->range.base;
    return gwi_leave(0);
}

/* Where managed memory lies is nothing the virtual card could show: prefetching and advice change nothing. */
static int managed_check(CUdeviceptr address, size_t bytes)
{
    const gwi_block *block = gwi_block_at(address);
    if (block == NULL || block->kind != GWI_BLOCK_MANAGED || bytes > block->range.bytes - (address - block->range.base))
        return CUDA_ERROR_INVALID_VALUE;
    return 0;
}

GWI_API(cuMemPrefetchAsync)(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
    GWI_ENTER;
    gwi_stream_find(hStream);
    if (dstDevice != CU_DEVICE_CPU && gwi_device_find(dstDevice) == NULL)
        return gwi_leave(CUDA_ERROR_INVALID_DEVICE);
    return gwi_leave(managed_check(devPtr, count));
}

GWI_API(cuMemPrefetchAsync_v2)
(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags, CUstream hStream)
{
    GWI_ENTER;
    (void)location;
    gwi_stream_find(hStream);
    return gwi_leave(flags != 0 ? CUDA_ERROR_INVALID_VALUE : managed_check(devPtr, count));
}

GWI_API(cuMemAdvise)(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
    GWI_ENTER;
    (void)advice;
    (void)device;
    return gwi_leave(managed_check(devPtr, count));
}

GWI_API(cuMemAdvise_v2)(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
    GWI_ENTER;
    (void)advice;
    (void)location;
    return gwi_leave(managed_check(devPtr, count));
}

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

GWI_API(cuMemHostAlloc)(void **pp, size_t bytesize, unsigned int Flags)
{
    GWI_ENTER;
    return gwi_leave(host_alloc(pp, bytesize, Flags));
}

GWI_API(cuMemAllocHost_v2)(void **pp, size_t bytesize)
{
    GWI_ENTER;
    return gwi_leave(host_alloc(pp, bytesize, 0));
}

GWI_API(cuMemFreeHost)(void *p)
{
    GWI_ENTER;
    if (p == NULL)
        return gwi_leave(0);
    gwi_block *block = gwi_block_at((uintptr_t)p);
    if (block == NULL || block->kind != GWI_BLOCK_HOST || block->range.base != (uintptr_t)p)
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    gwi_wait_device(block->device);
    block = gwi_block_at((uintptr_t)p);
    if (block != NULL)
        gwi_block_free(block);
    return gwi_leave(0);
}

static int host_register(void *p, size_t bytes, unsigned flags)
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
    if (!gwi_ranges_add(&gwi.blocks, &block->range)) {
        free(block);
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    block->id = gwi.next_id++;
    gwi.host_bytes += bytes;
    return 0;
}

GWI_API(cuMemHostRegister_v2)(void *p, size_t bytesize, unsigned int Flags)
{
    GWI_ENTER;
    return gwi_leave(host_register(p, bytesize, Flags));
}
GWI_ALIAS(cuMemHostRegister, cuMemHostRegister_v2);

GWI_API(cuMemHostUnregister)(void *p)
{
    GWI_ENTER;
    gwi_block *block = gwi_block_at((uintptr_t)p);
    if (p == NULL)
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    if (block == NULL || block->kind != GWI_BLOCK_REGISTERED || block->range.base != (uintptr_t)p)
        return gwi_leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    gwi_wait_device(block->device);
    block = gwi_block_at((uintptr_t)p);
    if (block != NULL)
        gwi_block_free(block);
    return gwi_leave(0);
}

GWI_API(cuMemHostGetDevicePointer_v2)(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    GWI_ENTER;
    const gwi_block *block = gwi_block_at((uintptr_t)p);
    if (pdptr == NULL || Flags != 0 || block == NULL || !gwi_is_host_block(block))
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    *pdptr = (uintptr_t)p;
    return gwi_leave(0);
}

GWI_API(cuMemHostGetFlags)(unsigned int *pFlags, void *p)
{
    GWI_ENTER;
    const gwi_block *block = gwi_block_at((uintptr_t)p);
    if (pFlags == NULL || block == NULL || block->kind != GWI_BLOCK_HOST)
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    *pFlags = block->flags;
    return gwi_leave(0);
}
