/* The card of a rehearsal: its size, what the books hold of it, and what the driver holds. */
#include "gw_hook_rehearsal.h"
#include "gwi_hook.h"
#include "gwi_rehearse.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* If NVML does not tell: what an H100 holds for the card once it has a context (driver 580.159.04). */
static const uint64_t usual_extra_bytes = 9240576;

/* The driver's chunks of addresses when a context is new (H100 and H200, driver 580.159.04). Of the first one, 8 MiB
 * are in use; the second is in use; of the third, only the last 2 MiB are free until the first kernel is loaded. */
static const uint64_t first_chunk_bytes = (uint64_t)32 << 20, first_used_bytes = (uint64_t)8 << 20,
                      second_chunk_bytes = (uint64_t)64 << 20, third_chunk_bytes = (uint64_t)416 << 20,
                      third_free_bytes = (uint64_t)2 << 20;

static gwi_card cards[GWI_CARDS_MAX];
static uint64_t limit_bytes; /* 0: the card's own size */

bool gwi_rehearsal_is_on;

void gwi_cards_limit(uint64_t bytes)
{
    limit_bytes = bytes;
}

/* ---- addresses ---- */

static gw_ranges ours; /* owned; with the lock; grows only, so that an old address never reaches the driver */

/* Reserve addresses in the driver, or else in the process. Returns 0 if both fail. */
static uint64_t reserve(uint64_t bytes)
{
    CUdeviceptr base = 0;
    if (GWI_DRIVER(cuMemAddressReserve) != NULL &&
        GWI_DRIVER(cuMemAddressReserve)(&base, bytes, GW_PLACES_CHUNK_BYTES, 0, 0) == 0)
        return base;
    char *map =
        mmap(NULL, bytes + GW_PLACES_CHUNK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? 0 : gw_places_rounded((uintptr_t)map);
}

uint64_t gwi_addresses_reserve(uint64_t bytes)
{
    gw_range *range = calloc(1, sizeof *range);
    uint64_t base = range != NULL ? reserve(bytes) : 0;
    bool added = false;
    if (base != 0 && gwi_lock()) {
        range->base = base;
        range->bytes = bytes;
        added = gw_ranges_add(&ours, range);
        gwi_unlock();
    }
    if (!added)
        free(range);
    return added ? base : 0;
}

bool gwi_addresses_are_ours(uint64_t address)
{
    return gw_ranges_at(&ours, address) != NULL;
}

/* Put the driver's chunks among the addresses, as they are when the first block is allocated. */
static void pages_as_in_driver(gwi_card *card)
{
    gw_places *places = &card->pages.addresses;
    uint64_t first, second, third;
    if (!gw_places_take(places, first_chunk_bytes, &first) || !gw_places_take(places, second_chunk_bytes, &second) ||
        !gw_places_take(places, third_chunk_bytes, &third))
        return;
    gw_places_give(places, first + first_used_bytes, first_chunk_bytes - first_used_bytes);
    gw_places_give(places, third + third_chunk_bytes - third_free_bytes, third_free_bytes);
    card->held_chunk = third;
}

void gwi_cards_launched(void)
{
    for (int i = 0; i < GWI_CARDS_MAX; i++) {
        if (cards[i].held_chunk == 0)
            continue;
        gw_places_give(&cards[i].pages.addresses, cards[i].held_chunk, third_chunk_bytes - third_free_bytes);
        cards[i].held_chunk = 0;
    }
}

/* ---- cards ---- */

bool gwi_card_take(void *data, uint64_t bytes)
{
    gwi_card *card = data;
    uint64_t used = card->held_bytes + card->share_bytes + card->extra_bytes;
    if (used > card->total_bytes || bytes > card->total_bytes - used)
        return false;
    card->held_bytes += bytes;
    return true;
}

void gwi_card_give(void *data, uint64_t bytes)
{
    ((gwi_card *)data)->held_bytes -= bytes;
}

/* Blocks that the driver takes for itself lie among the program's, so keep their place in the books, too. */
static void mirror_share(gwi_card *card)
{
    uint64_t place, grown = card->share_bytes - card->mirrored_bytes;
    if (card->mirrored_bytes != 0 && card->share_bytes > card->mirrored_bytes && grown >= GW_PAGE_BYTES)
        gw_places_take(&card->pages.addresses, grown / GW_PAGE_BYTES * GW_PAGE_BYTES, &place);
    if (card->share_bytes > card->mirrored_bytes)
        card->mirrored_bytes = card->share_bytes;
}

/* Read the memory of the card from the driver, which answers only for the current context's card. */
static bool read_info(const gwi_card *card, size_t *ret_free, size_t *ret_total)
{
    CUdevice current = -1;
    return GWI_DRIVER(cuMemGetInfo_v2) != NULL && GWI_DRIVER(cuCtxGetDevice)(&current) == 0 &&
           current == card->device && GWI_DRIVER(cuMemGetInfo_v2)(ret_free, ret_total) == 0;
}

void gwi_card_measure(gwi_card *card)
{
    uint64_t extra, share = gwi_own_memory_read(card->device, &extra);
    size_t free_bytes = 0, total = 0;
    if (share == UINT64_MAX && read_info(card, &free_bytes, &total) && total - free_bytes > usual_extra_bytes) {
        extra = usual_extra_bytes;
        share = total - free_bytes - extra;
    }
    if (share != UINT64_MAX && extra == UINT64_MAX)
        extra = usual_extra_bytes;
    if (!gwi_lock())
        return;
    bool has_grown = share != UINT64_MAX && share > card->share_bytes;
    if (has_grown)
        card->share_bytes = share;
    if (extra != UINT64_MAX && card->extra_bytes == 0)
        card->extra_bytes = extra;
    mirror_share(card);
    gwi_unlock();
    if (has_grown)
        gwi_fact(GW_EV_REHEARSAL, GW_REHEARSAL_SHARE, share, 0, (uint64_t)card->device, NULL);
}

static bool card_begin(gwi_card *card, int device)
{
    size_t total = 0;
    if (GWI_DRIVER(cuDeviceTotalMem_v2) == NULL || GWI_DRIVER(cuDeviceTotalMem_v2)(&total, device) != 0)
        return false;
    uint64_t seen = limit_bytes != 0 ? limit_bytes : total;
    /* Many addresses, so that scattered blocks do not use them up before the memory; less where there are fewer. */
    static const unsigned times[] = {16, 4, 1};
    uint64_t range = 0, base = 0;
    for (size_t i = 0; i < sizeof times / sizeof times[0] && base == 0; i++) {
        range = gw_places_rounded(seen * times[i]);
        base = gwi_addresses_reserve(range);
    }
    if (base == 0 || !gwi_lock())
        return false;
    if (!card->ready) {
        card->device = device;
        card->total_bytes = seen;
        card->pages = (gw_pages){.take = gwi_card_take, .give = gwi_card_give, .card = card};
        card->ready = gw_places_add(&card->pages.addresses, base, range);
        pages_as_in_driver(card);
    }
    gwi_unlock();
    gwi_fact(GW_EV_REHEARSAL, GW_REHEARSAL_LIMIT, seen, total, (uint64_t)device, NULL);
    return card->ready;
}

gwi_card *gwi_card_of(int device)
{
    if (device < 0 || device >= GWI_CARDS_MAX)
        return NULL;
    gwi_card *card = &cards[device];
    return card->ready || card_begin(card, device) ? card : NULL;
}

int gwi_here_find(gwi_here *ret_here)
{
    CUcontext context = NULL;
    CUdevice device = -1;
    int result = GWI_DRIVER(cuCtxGetCurrent)(&context);
    if (result == 0 && context == NULL)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (result == 0)
        result = GWI_DRIVER(cuCtxGetDevice)(&device);
    if (result != 0)
        return result;
    ret_here->context = (uint64_t)(uintptr_t)context;
    ret_here->card = gwi_card_of(device);
    if (ret_here->card == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    gwi_card_measure(ret_here->card);
    return 0;
}

void gwi_cards_share_gone(void)
{
    if (!gwi_lock())
        return;
    for (int i = 0; i < GWI_CARDS_MAX; i++)
        cards[i].share_bytes = 0; /* until it is measured again */
    gwi_unlock();
}

int gwi_driver_state(void)
{
    CUcontext context = NULL;
    int result = GWI_DRIVER(cuCtxGetCurrent)(&context);
    return result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_DEINITIALIZED ? result : 0;
}

void gwi_card_tell(gwi_card *card)
{
    uint64_t held = 0, share = 0;
    if (!gwi_lock())
        return;
    bool is_new = card->held_bytes + card->share_bytes > card->peak_bytes;
    if (is_new) {
        held = card->held_bytes;
        share = card->share_bytes;
        card->peak_bytes = held + share;
    }
    gwi_unlock();
    if (is_new)
        gwi_fact(GW_EV_REHEARSAL, GW_REHEARSAL_PEAK, held, share, (uint64_t)card->device, NULL);
}

uint64_t gwi_cards_peak(void)
{
    uint64_t peak = 0;
    for (int i = 0; i < GWI_CARDS_MAX; i++)
        peak += cards[i].peak_bytes;
    return peak;
}

void gwi_cards_settle(void)
{
    for (int i = 0; i < GWI_CARDS_MAX; i++)
        if (cards[i].ready) {
            gwi_card_measure(&cards[i]);
            gwi_card_tell(&cards[i]);
        }
}

/* ---- what the program sees of the card ---- */

static uint64_t card_free(const gwi_card *card)
{
    uint64_t used = card->held_bytes + card->share_bytes + card->extra_bytes;
    return used < card->total_bytes ? card->total_bytes - used : 0;
}

GWI_REHEARSE(cuMemGetInfo_v2)(size_t *free, size_t *total)
{
    gwi_here here;
    int result = gwi_here_find(&here);
    if (result != 0)
        return result;
    if (free == NULL || total == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *total = here.card->total_bytes;
    *free = card_free(here.card);
    return 0;
}

GWI_REHEARSE(cuDeviceTotalMem_v2)(size_t *bytes, CUdevice dev)
{
    int result = GWI_DRIVER(cuDeviceTotalMem_v2)(bytes, dev);
    if (result == 0 && limit_bytes != 0)
        *bytes = limit_bytes;
    return result;
}

/* The blocks of a rehearsal, by address. */

static gw_ranges blocks;
static uint64_t last_id;

gwi_held *gwi_held_at(uint64_t address)
{
    return (gwi_held *)gw_ranges_at(&blocks, address);
}

gwi_held *gwi_held_from(uint64_t address)
{
    return (gwi_held *)gw_ranges_from(&blocks, address);
}

bool gwi_held_add(gwi_held *held)
{
    held->id = ++last_id;
    return gw_ranges_add(&blocks, &held->range);
}

bool gwi_held_covers(uint64_t address, uint64_t bytes)
{
    for (uint64_t here; bytes > 0; address += here, bytes -= here) {
        const gwi_held *held = gwi_held_at(address);
        if (held == NULL || (held->kind == GWI_HELD_MAPPED && !held->accessible))
            return false;
        here = held->range.bytes - (address - held->range.base);
        if (bytes <= here)
            return true;
        if (held->kind != GWI_HELD_MAPPED)
            return false;
    }
    return true;
}

void gwi_held_remove(gwi_held *held)
{
    gw_ranges_remove(&blocks, &held->range);
}

bool gwi_rehearses(uint64_t address)
{
    if (gwi_physical_is_ours(address))
        return true;
    if (address == 0 || !gwi_lock())
        return false;
    bool is_ours = gwi_held_at(address) != NULL || gwi_addresses_are_ours(address);
    gwi_unlock();
    return is_ours;
}
