/* The page allocator: see gw_pages.h. */
#include "gw_pages.h"

#include <stdlib.h>
#include <string.h>

/* Addresses in the driver's order. */

typedef struct gw_chunk {
    gw_range range; /* must be first; member of gw_places.chunks */
    gw_runs free;
    struct gw_chunk *older, *newer; /* in the list of chunks with free pieces */
    uint64_t number;                /* chunks are numbered as they are made */
    bool listed;
} gw_chunk;

static void unlist(gw_places *places, gw_chunk *chunk)
{
    if (!chunk->listed)
        return;
    if (chunk->newer != NULL)
        chunk->newer->older = chunk->older;
    else
        places->newest = chunk->older;
    if (chunk->older != NULL)
        chunk->older->newer = chunk->newer;
    chunk->listed = false;
}

static void list(gw_places *places, gw_chunk *chunk)
{
    gw_chunk *newer = NULL, *older = places->newest;
    if (chunk->listed)
        return;
    for (; older != NULL && older->number > chunk->number; older = older->older)
        newer = older;
    chunk->newer = newer;
    chunk->older = older;
    if (newer != NULL)
        newer->older = chunk;
    else
        places->newest = chunk;
    if (older != NULL)
        older->newer = chunk;
    chunk->listed = true;
}

static void chunk_free(gw_chunk *chunk)
{
    gw_runs_free(&chunk->free);
    free(chunk);
}

static gw_chunk *chunk_new(gw_places *places, uint64_t bytes)
{
    gw_chunk *chunk = calloc(1, sizeof *chunk);
    if (chunk == NULL)
        return NULL;
    chunk->range.bytes = gw_places_rounded(bytes);
    if (!gw_runs_take_highest(&places->space, chunk->range.bytes, &chunk->range.base)) {
        chunk_free(chunk);
        return NULL;
    }
    chunk->number = places->made++;
    if (!gw_runs_give(&chunk->free, chunk->range.base, chunk->range.bytes) ||
        !gw_ranges_add(&places->chunks, &chunk->range)) {
        gw_runs_give(&places->space, chunk->range.base, chunk->range.bytes);
        chunk_free(chunk);
        return NULL;
    }
    list(places, chunk);
    return chunk;
}

bool gw_places_add(gw_places *places, uint64_t base, uint64_t bytes)
{
    return gw_runs_give(&places->space, base, bytes);
}

bool gw_places_take(gw_places *places, uint64_t bytes, uint64_t *ret_base)
{
    if (bytes > UINT64_MAX - GW_PLACES_CHUNK_BYTES)
        return false;
    gw_chunk *chunk = places->newest;
    while (chunk != NULL && !gw_runs_take_best(&chunk->free, bytes, ret_base))
        chunk = chunk->older;
    if (chunk == NULL) {
        chunk = chunk_new(places, bytes);
        if (chunk == NULL || !gw_runs_take_best(&chunk->free, bytes, ret_base))
            return false;
    }
    if (chunk->free.count == 0)
        unlist(places, chunk);
    return true;
}

/* Give back addresses that lie in one chunk. */
static bool chunk_give(gw_places *places, gw_chunk *chunk, uint64_t base, uint64_t bytes)
{
    if (!gw_runs_give(&chunk->free, base, bytes))
        return false;
    list(places, chunk);
    if (chunk->free.runs[0].bytes < chunk->range.bytes)
        return true;
    unlist(places, chunk);
    gw_ranges_remove(&places->chunks, &chunk->range);
    bool given = gw_runs_give(&places->space, chunk->range.base, chunk->range.bytes);
    chunk_free(chunk);
    return given;
}

bool gw_places_give(gw_places *places, uint64_t base, uint64_t bytes)
{
    bool given = true;
    while (bytes > 0) {
        gw_chunk *chunk = (gw_chunk *)gw_ranges_at(&places->chunks, base);
        const gw_range *part = chunk != NULL ? &chunk->range : gw_ranges_from(&places->chunks, base);
        if (part == NULL)
            break;
        uint64_t left = chunk != NULL ? part->bytes - (base - part->base) : part->base - base;
        uint64_t here = bytes < left ? bytes : left;
        if (chunk != NULL && !chunk_give(places, chunk, base, here))
            given = false;
        base += here;
        bytes -= here;
    }
    return given;
}

void gw_places_free(gw_places *places)
{
    for (gw_range *range; (range = places->chunks.root) != NULL;) {
        gw_ranges_remove(&places->chunks, range);
        chunk_free((gw_chunk *)range);
    }
    gw_runs_free(&places->space);
    memset(places, 0, sizeof *places);
}

/* Try at most this many pages of a bin, because they may lack a free run that is large enough. Then try a larger bin,
 * then a new page. */
enum { TRIES_IN_BIN = 64 };

static uint64_t round_up(uint64_t bytes, uint64_t step)
{
    return (bytes + step - 1) / step * step;
}

static int log2_of(uint64_t value)
{
    return 63 - __builtin_clzll(value);
}

static void bin_remove(gw_pages *pages, gw_small_page *page)
{
    if (page->bin < 0)
        return;
    if (page->previous != NULL)
        page->previous->next = page->next;
    else
        pages->bins[page->bin].first = page->next;
    if (page->next != NULL)
        page->next->previous = page->previous;
    else
        pages->bins[page->bin].last = page->previous;
    page->bin = -1;
    page->next = page->previous = NULL;
}

static void bin_update(gw_pages *pages, gw_small_page *page)
{
    uint64_t steps = gw_runs_largest(&page->free) / GW_SMALL_STEP;
    int bin = steps > 0 ? log2_of(steps) : -1;
    if (bin == page->bin)
        return;
    bin_remove(pages, page);
    page->bin = bin;
    if (bin < 0)
        return;
    page->previous = pages->bins[bin].last;
    if (page->previous != NULL)
        page->previous->next = page;
    else
        pages->bins[bin].first = page;
    pages->bins[bin].last = page;
}

static bool take_from_page(gw_pages *pages, gw_small_page *page, uint64_t bytes, uint64_t *ret_address)
{
    if (!gw_runs_take(&page->free, bytes, GW_SMALL_STEP, ret_address))
        return false;
    page->block_count++;
    bin_update(pages, page);
    return true;
}

static gw_small_page *page_with_room(gw_pages *pages, uint64_t bytes, uint64_t *ret_address)
{
    int bin = log2_of(bytes / GW_SMALL_STEP);
    int tries = 0;
    for (gw_small_page *page = pages->bins[bin].first; page != NULL && tries < TRIES_IN_BIN; page = page->next, tries++)
        if (take_from_page(pages, page, bytes, ret_address))
            return page;
    for (bin++; bin < GW_PAGE_BINS; bin++) {
        gw_small_page *page = pages->bins[bin].first;
        if (page != NULL && take_from_page(pages, page, bytes, ret_address))
            return page;
    }
    return NULL;
}

static bool own_pages(gw_pages *pages, uint64_t bytes, uint64_t *ret_address)
{
    if (!pages->take(pages->card, bytes))
        return false;
    if (gw_places_take(&pages->addresses, bytes, ret_address))
        return true;
    for (size_t i = 0; i < pages->retired.count; i++)
        gw_places_give(&pages->addresses, pages->retired.runs[i].base, pages->retired.runs[i].bytes);
    pages->retired.count = 0;
    if (gw_places_take(&pages->addresses, bytes, ret_address))
        return true;
    pages->give(pages->card, bytes);
    return false;
}

static gw_small_page *page_new(gw_pages *pages)
{
    gw_small_page *page = calloc(1, sizeof *page);
    if (page == NULL)
        return NULL;
    page->bin = -1;
    if (!own_pages(pages, GW_PAGE_BYTES, &page->base)) {
        free(page);
        return NULL;
    }
    if (!gw_runs_give(&page->free, page->base, GW_PAGE_BYTES)) {
        gw_pages_free(pages, page->base, GW_PAGE_BYTES, NULL);
        free(page);
        return NULL;
    }
    return page;
}

uint64_t gw_pages_own_bytes(uint64_t bytes)
{
    return bytes <= GW_SMALL_BYTES_MAX ? 0 : round_up(bytes, GW_PAGE_BYTES);
}

bool gw_pages_alloc(gw_pages *pages, uint64_t bytes, uint64_t *ret_address, gw_small_page **ret_page)
{
    if (bytes > UINT64_MAX - GW_PAGE_BYTES)
        return false;
    *ret_page = NULL;
    if (bytes > GW_SMALL_BYTES_MAX)
        return own_pages(pages, round_up(bytes, GW_PAGE_BYTES), ret_address);
    bytes = round_up(bytes, GW_SMALL_STEP);
    gw_small_page *page = page_with_room(pages, bytes, ret_address);
    if (page == NULL) {
        page = page_new(pages);
        if (page == NULL || !take_from_page(pages, page, bytes, ret_address))
            return false;
    }
    *ret_page = page;
    return true;
}

void gw_pages_free(gw_pages *pages, uint64_t address, uint64_t bytes, gw_small_page *page)
{
    if (page == NULL) {
        bytes = round_up(bytes, GW_PAGE_BYTES);
        if (pages->retiring)
            gw_runs_give(&pages->retired, address, bytes);
        else
            gw_places_give(&pages->addresses, address, bytes);
        pages->give(pages->card, bytes);
        return;
    }
    gw_runs_give(&page->free, address, round_up(bytes, GW_SMALL_STEP));
    if (--page->block_count > 0) {
        bin_update(pages, page);
        return;
    }
    bin_remove(pages, page);
    gw_runs_free(&page->free);
    gw_pages_free(pages, page->base, GW_PAGE_BYTES, NULL);
    free(page);
}
