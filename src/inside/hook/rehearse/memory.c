/* Plain, pitched and managed memory of a rehearsal. */
#include "gw_hook_rehearsal.h"
#include "gwi_rehearse.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { PITCH_STEP = 512 };

/* ---- allocate ---- */

/* Add a block for memory that was taken from the card. With the lock. */
static bool block_add(const gwi_here *here, gwi_held_kind kind, uint64_t base, uint64_t bytes, gw_small_page *page)
{
    gwi_held *held = calloc(1, sizeof *held);
    if (held == NULL)
        return false;
    held->kind = kind;
    held->card = here->card;
    held->context = here->context;
    held->page = page;
    held->range.base = base;
    held->range.bytes = bytes;
    if (!gwi_held_add(held)) {
        free(held);
        return false;
    }
    return true;
}

static bool plain_take(const gwi_here *here, size_t bytes, uint64_t *ret_address)
{
    gw_pages *pages = &here->card->pages;
    gw_small_page *page = NULL;
    if (!gw_pages_alloc(pages, bytes, ret_address, &page))
        return false;
    if (block_add(here, GWI_HELD_PLAIN, *ret_address, bytes, page))
        return true;
    gw_pages_free(pages, *ret_address, bytes, page);
    return false;
}

static int plain_alloc(CUdeviceptr *ret_address, size_t bytes)
{
    gwi_here here;
    uint64_t address = 0;
    bool done;
    int result = gwi_here_find(&here);
    if (result != 0)
        return result;
    if (ret_address == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!gwi_lock())
        return CUDA_ERROR_OUT_OF_MEMORY;
    done = plain_take(&here, bytes, &address);
    gwi_unlock();
    if (!done)
        return CUDA_ERROR_OUT_OF_MEMORY;
    gwi_card_tell(here.card);
    *ret_address = address;
    return 0;
}

GWI_REHEARSE(cuMemAlloc_v2)(CUdeviceptr *dptr, size_t bytesize)
{
    return plain_alloc(dptr, bytesize);
}

GWI_REHEARSE(cuMemAllocPitch_v2)
(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, unsigned int ElementSizeBytes)
{
    size_t bytes = 0;
    if (pPitch == NULL || WidthInBytes == 0 || Height == 0 || WidthInBytes > SIZE_MAX / 2 ||
        (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
        return CUDA_ERROR_INVALID_VALUE;
    size_t pitch = (WidthInBytes + PITCH_STEP - 1) / PITCH_STEP * PITCH_STEP;
    if (__builtin_mul_overflow(pitch, Height, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    int result = plain_alloc(dptr, bytes);
    if (result == 0)
        *pPitch = pitch;
    return result;
}

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + GW_PAGE_BYTES - 1) / GW_PAGE_BYTES * GW_PAGE_BYTES;
}

/* The host may use managed memory directly, so host memory stands behind it. It counts as if the card held all of it,
 * because that is the most that a run can need. */
static int managed_alloc(const gwi_here *here, size_t bytes, uint64_t *ret_address)
{
    uint64_t whole = whole_pages(bytes);
    if (whole < bytes || !gwi_lock())
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool done = gwi_card_take(here->card, whole);
    gwi_unlock();
    if (!done)
        return CUDA_ERROR_OUT_OF_MEMORY;
    char *map = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool locked = gwi_lock();
    done = locked && map != MAP_FAILED && block_add(here, GWI_HELD_MANAGED, (uintptr_t)map, bytes, NULL);
    if (!done && locked)
        gwi_card_give(here->card, whole);
    if (locked)
        gwi_unlock();
    if (!done && map != MAP_FAILED)
        munmap(map, whole);
    *ret_address = (uintptr_t)map;
    return done ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

GWI_REHEARSE(cuMemAllocManaged)(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    gwi_here here;
    uint64_t address = 0;
    int result = gwi_here_find(&here);
    if (result == 0 && (dptr == NULL || bytesize == 0 || (flags != 1 && flags != 2)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == 0)
        result = managed_alloc(&here, bytesize, &address);
    if (result != 0)
        return result;
    gwi_card_tell(here.card);
    *dptr = address;
    return 0;
}

/* ---- free ---- */

void *gwi_block_drop(gwi_held *held, size_t *ret_bytes)
{
    void *host = NULL;
    gwi_held_remove(held);
    if (held->kind == GWI_HELD_MANAGED) {
        *ret_bytes = whole_pages(held->range.bytes);
        gwi_card_give(held->card, *ret_bytes);
        host = (void *)(uintptr_t)held->range.base;
    } else {
        gw_pages_free(&held->card->pages, held->range.base, held->range.bytes, held->page);
    }
    free(held);
    return host;
}

void gwi_held_context_gone(uint64_t context)
{
    for (uint64_t at = 0; gwi_lock();) {
        size_t host_bytes = 0;
        void *host = NULL;
        gwi_held *held = gwi_held_from(at);
        if (held == NULL) {
            gwi_unlock();
            break;
        }
        at = held->range.base + held->range.bytes;
        if (held->context == context && (held->kind == GWI_HELD_PLAIN || held->kind == GWI_HELD_MANAGED)) {
            gw_pages *pages = &held->card->pages;
            pages->retiring = true;
            host = gwi_block_drop(held, &host_bytes);
            pages->retiring = false;
        }
        gwi_unlock();
        if (host != NULL)
            munmap(host, host_bytes);
    }
    gwi_cards_share_gone();
}

GWI_REHEARSE(cuCtxDestroy_v2)(CUcontext ctx)
{
    int result = GWI_DRIVER(cuCtxDestroy_v2)(ctx);
    if (result == 0)
        gwi_held_context_gone((uint64_t)(uintptr_t)ctx);
    return result;
}

GWI_REHEARSE(cuCtxDestroy)(CUcontext ctx)
{
    int result = GWI_DRIVER(cuCtxDestroy)(ctx);
    if (result == 0)
        gwi_held_context_gone((uint64_t)(uintptr_t)ctx);
    return result;
}

static bool primary_is_active(CUdevice device)
{
    unsigned flags = 0;
    int active = 0;
    return GWI_DRIVER(cuDevicePrimaryCtxGetState)(device, &flags, &active) == 0 && active != 0;
}

/* Return the primary context of a device, or NULL if it is not active. */
static CUcontext primary_of(CUdevice device)
{
    CUcontext context = NULL;
    if (!primary_is_active(device) || GWI_DRIVER(cuDevicePrimaryCtxRetain)(&context, device) != 0)
        return NULL;
    GWI_DRIVER(cuDevicePrimaryCtxRelease_v2)(device);
    return context;
}

/* Remove the memory of a primary context that the driver's call has ended. */
static int primary_ended(int result, CUdevice device, CUcontext context)
{
    if (result == 0 && context != NULL && !primary_is_active(device)) {
        gwi_held_context_gone((uint64_t)(uintptr_t)context);
        gwi_pools_device_gone(device);
    }
    return result;
}

GWI_REHEARSE(cuDevicePrimaryCtxReset_v2)(CUdevice dev)
{
    CUcontext context = primary_of(dev);
    return primary_ended(GWI_DRIVER(cuDevicePrimaryCtxReset_v2)(dev), dev, context);
}

GWI_REHEARSE(cuDevicePrimaryCtxReset)(CUdevice dev)
{
    CUcontext context = primary_of(dev);
    return primary_ended(GWI_DRIVER(cuDevicePrimaryCtxReset)(dev), dev, context);
}

GWI_REHEARSE(cuDevicePrimaryCtxRelease_v2)(CUdevice dev)
{
    CUcontext context = primary_of(dev);
    return primary_ended(GWI_DRIVER(cuDevicePrimaryCtxRelease_v2)(dev), dev, context);
}

GWI_REHEARSE(cuDevicePrimaryCtxRelease)(CUdevice dev)
{
    CUcontext context = primary_of(dev);
    return primary_ended(GWI_DRIVER(cuDevicePrimaryCtxRelease)(dev), dev, context);
}

GWI_REHEARSE(cuMemGetAddressRange_v2)(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    if (!gwi_rehearses(dptr))
        return GWI_DRIVER(cuMemGetAddressRange_v2)(pbase, psize, dptr);
    int result = gwi_driver_state();
    if (result != 0)
        return result;
    if (!gwi_lock())
        return CUDA_ERROR_INVALID_VALUE;
    const gwi_held *held = gwi_held_at(dptr);
    if (held != NULL && pbase != NULL)
        *pbase = held->range.base;
    if (held != NULL && psize != NULL)
        *psize = held->range.bytes;
    gwi_unlock();
    return held != NULL ? 0 : CUDA_ERROR_NOT_FOUND;
}
