/* Addresses of device memory in the order in which NVIDIA's driver hands them out.
 *
 * Measured on an H100 and an H200 (driver 580.159.04; docs/gpu-results.md): blocks of whole pages lie in chunks whose
 * size is a multiple of 32 MiB. New chunks are placed top-down. A block goes into the newest chunk that has room, there
 * into the smallest free piece that is large enough, at its low end. Freed pieces join their neighbours within a chunk.
 * An empty chunk is given up. The order matters because PyTorch's caching allocator prefers the lowest of equally large
 * free blocks.
 *
 * No function takes a lock; the caller must hold one. */
#ifndef GW_PLACES_H
#define GW_PLACES_H

#include "gw_ranges.h"

#define GW_PLACES_CHUNK_BYTES ((uint64_t)32 << 20)

/* Return `bytes` or an address, rounded up to a multiple of GW_PLACES_CHUNK_BYTES. */
static inline uint64_t gw_places_rounded(uint64_t bytes)
{
    return (bytes + GW_PLACES_CHUNK_BYTES - 1) / GW_PLACES_CHUNK_BYTES * GW_PLACES_CHUNK_BYTES;
}

struct gw_chunk;

typedef struct gw_places {
    gw_runs space;           /* addresses outside all chunks */
    gw_ranges chunks;        /* of gw_chunk */
    struct gw_chunk *newest; /* list of the chunks with free pieces, the newest first */
    uint64_t made;           /* number of chunks made so far */
} gw_places;

/* Add addresses that may be handed out: a multiple of GW_PLACES_CHUNK_BYTES, aligned to it. Returns false if out of
 * host memory. */
bool gw_places_add(gw_places *places, uint64_t base, uint64_t bytes);
/* Take `bytes` > 0, a multiple of 2 MiB. Returns false if no addresses or no host memory are left. */
bool gw_places_take(gw_places *places, uint64_t bytes, uint64_t *ret_base);
/* Give back addresses that were taken, in any pieces: a range may cover several chunks. Ignores addresses outside all
 * chunks. Returns false if out of host memory; the addresses are then lost. */
bool gw_places_give(gw_places *places, uint64_t base, uint64_t bytes);
/* Free all memory of `places`. */
void gw_places_free(gw_places *places);

#endif
