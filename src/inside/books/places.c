/* Addresses in the driver's order: see gw_places.h. */
#include "gw_places.h"

#include <stdlib.h>
#include <string.h>

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
