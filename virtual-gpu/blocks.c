/* Manages blocks of memory by address: device blocks, managed memory, and page-locked host memory.
 *
 * A GPU's addresses are reserved without access rights, so the host faults where it would fault with a real GPU. A
 * second mapping (the shadow) at a constant distance has the bytes. Its pages are allocated when touched. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

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

char *gwi_storage_map(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    (void)!munlock(memory, bytes); /* before it can be written: the kernel fills locked memory that becomes writable */
    if (mprotect(memory, bytes, PROT_READ | PROT_WRITE) == 0)
        return memory;
    munmap(memory, bytes);
    return NULL;
}

static bool reserve(uint64_t bytes, gwi_reserved *reserved)
{
    size_t mapped = (size_t)(bytes + GW_PLACES_CHUNK_BYTES);
    char *addresses = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addresses == MAP_FAILED)
        return false;
    char *shadow = gwi_storage_map(mapped);
    if (shadow == NULL) {
        munmap(addresses, mapped);
        return false;
    }
    madvise(shadow, mapped, MADV_DONTDUMP);
    uint64_t base = gw_places_rounded((uintptr_t)addresses);
    *reserved = (gwi_reserved){.base = base, .bytes = bytes, .shadow = shadow + (base - (uintptr_t)addresses)};
    return true;
}

bool gwi_reserve(unsigned times, gwi_reserved *reserved)
{
    /* After a refusal, ask for much less: the card's other reservations need addresses, too. */
    for (; times > 0; times = times > 2 ? 2 : times - 1)
        if (reserve(gw_places_rounded(gwi.spec.card.memory_bytes * times), reserved))
            return true;
    gwi_say("the host has no address space for the virtual card");
    return false;
}

bool gwi_device_ready(gwi_device *device)
{
    if (device->arena.base != 0)
        return true;
    /* With addresses for eight times the GPU's memory, the memory is used up before the addresses, even if the blocks
     * are scattered. */
    if (!gwi_reserve(8, &device->arena))
        return false;
    device->pages.take = take;
    device->pages.give = give;
    device->pages.card = device;
    return gw_places_add(&device->pages.addresses, device->arena.base, device->arena.bytes);
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
    return (gwi_block *)gw_ranges_at(&gwi.blocks, address);
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
    /* Adjacent mappings are separate blocks here, so an access that crosses from one into the next fails. A real GPU
     * allows it. */
    return NULL;
}

bool gwi_mapped(uint64_t address)
{
    const gwi_block *block = gwi_block_at(address);
    if (block != NULL)
        return block->kind != GWI_BLOCK_MAPPED || block->accessible;
    for (unsigned d = 0; d < gwi.spec.device_count; d++) {
        const gwi_device *device = &gwi.devices[d];
        if (device->arena.base == 0 || address < device->arena.base ||
            address - device->arena.base >= device->arena.bytes)
            continue;
        /* An address between blocks is accessible if a block still uses part of its page. */
        uint64_t page = address / GW_PAGE_BYTES * GW_PAGE_BYTES;
        const gw_range *range = gw_ranges_from(&gwi.blocks, page);
        if (range != NULL && range->base < page + GW_PAGE_BYTES)
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
    if (!gw_pages_alloc(&context->device->pages, bytes, &address, &block->page)) {
        free(block);
        return NULL;
    }
    block->kind = kind;
    block->device = context->device;
    block->context = context;
    block->generation = context->generation;
    block->storage = context->device->arena.shadow + (address - context->device->arena.base);
    block->range.base = address;
    block->range.bytes = bytes;
    block->id = gwi.next_id++;
    gw_ranges_add(&gwi.blocks, &block->range);
    return block;
}

/* Return the whole pages in a storage range to the host; they read as zeros then. */
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
    gw_ranges_remove(&gwi.blocks, &block->range);
    switch (block->kind) {
    case GWI_BLOCK_DEVICE:
    case GWI_BLOCK_GLOBAL:
        storage_drop(block->storage, block->range.bytes);
        gw_pages_free(&block->device->pages, block->range.base, block->range.bytes, block->page);
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
        munmap(block->storage, (block->range.bytes + GW_PAGE_BYTES - 1) / GW_PAGE_BYTES * GW_PAGE_BYTES);
        break;
    case GWI_BLOCK_POOL:
    case GWI_BLOCK_MAPPED:
        break;
    }
    free(block);
}
