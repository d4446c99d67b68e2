/* The books of a pool: see gw_pool.h. */
#include "gw_pool.h"

#include <stdlib.h>

#define STEP_BYTES ((uint64_t)512)

static uint64_t steps(uint64_t bytes)
{
    return (bytes + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES;
}

void gw_pool_end(gw_pool *pool)
{
    gw_runs_free(&pool->addresses);
    free(pool->chunk_uses);
    free(pool->chunk_held);
    pool->chunk_uses = NULL;
    pool->chunk_held = NULL;
    pool->base = pool->bytes = 0;
}

bool gw_pool_begin(gw_pool *pool, uint64_t base, uint64_t bytes)
{
    pool->chunk_uses = calloc((size_t)(bytes / GW_PLACES_CHUNK_BYTES), sizeof *pool->chunk_uses);
    pool->chunk_held = calloc((size_t)(bytes / GW_PLACES_CHUNK_BYTES), sizeof *pool->chunk_held);
    if (pool->chunk_uses == NULL || pool->chunk_held == NULL || !gw_runs_give(&pool->addresses, base, bytes)) {
        gw_pool_end(pool);
        return false;
    }
    pool->base = base;
    pool->bytes = bytes;
    return true;
}

static void chunk_drop(gw_pool *pool, uint64_t chunk)
{
    pool->chunk_held[chunk] = false;
    pool->reserved -= GW_PLACES_CHUNK_BYTES;
    if (pool->dropped != NULL)
        pool->dropped(pool, chunk);
    pool->give(pool->card, GW_PLACES_CHUNK_BYTES);
}

void gw_pool_trim(gw_pool *pool, uint64_t keep)
{
    for (uint64_t chunk = pool->bytes / GW_PLACES_CHUNK_BYTES; chunk-- > 0 && pool->reserved > keep;)
        if (pool->chunk_held[chunk] && pool->chunk_uses[chunk] == 0 && pool->reserved - GW_PLACES_CHUNK_BYTES >= keep)
            chunk_drop(pool, chunk);
}

/* Take the chunks from `first` to `last` that the pool does not hold: all of them, or none and return false. */
static bool chunks_take(gw_pool *pool, uint64_t first, uint64_t last)
{
    uint64_t missing = 0;
    for (uint64_t chunk = first; chunk <= last; chunk++)
        missing += !pool->chunk_held[chunk];
    if (pool->bytes_max != 0 && pool->reserved + missing * GW_PLACES_CHUNK_BYTES > pool->bytes_max)
        return false;
    if (missing > 0 && !pool->take(pool->card, missing * GW_PLACES_CHUNK_BYTES))
        return false;
    for (uint64_t chunk = first; chunk <= last; chunk++) {
        pool->chunk_held[chunk] = true;
        pool->chunk_uses[chunk]++;
    }
    pool->reserved += missing * GW_PLACES_CHUNK_BYTES;
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
    return true;
}

bool gw_pool_alloc(gw_pool *pool, uint64_t bytes, uint64_t *ret_address)
{
    if (bytes > pool->bytes || !gw_runs_take_best(&pool->addresses, steps(bytes), ret_address))
        return false;
    uint64_t first = (*ret_address - pool->base) / GW_PLACES_CHUNK_BYTES;
    uint64_t last = (*ret_address - pool->base + steps(bytes) - 1) / GW_PLACES_CHUNK_BYTES;
    if (!chunks_take(pool, first, last)) {
        gw_runs_give(&pool->addresses, *ret_address, steps(bytes));
        return false;
    }
    pool->used += bytes;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    return true;
}

void gw_pool_unuse(gw_pool *pool, uint64_t bytes)
{
    pool->used -= bytes;
}

void gw_pool_free(gw_pool *pool, uint64_t address, uint64_t bytes)
{
    uint64_t first = (address - pool->base) / GW_PLACES_CHUNK_BYTES;
    uint64_t last = (address - pool->base + steps(bytes) - 1) / GW_PLACES_CHUNK_BYTES;
    for (uint64_t chunk = first; chunk <= last; chunk++)
        pool->chunk_uses[chunk]--;
    gw_runs_give(&pool->addresses, address, steps(bytes));
}
