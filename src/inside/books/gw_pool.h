/* The books of a pool of stream-ordered memory.
 *
 * A pool is one range of addresses, divided into chunks of 32 MiB. Blocks lie in steps of 512 B, each in the smallest
 * free piece of the range that is large enough (H100, driver 580.159.04). The pool takes a chunk from the GPU when the
 * first block is placed in it, and keeps it until it is trimmed.
 *
 * No function takes a lock; the caller must hold one. */
#ifndef GW_POOL_H
#define GW_POOL_H

#include "gw_pages.h"

typedef struct gw_pool {
    uint64_t base; /* 0: no addresses yet */
    uint64_t bytes;
    gw_runs addresses;
    unsigned *chunk_uses;                        /* owned: number of blocks in each chunk */
    bool *chunk_held;                            /* owned: the pool has taken this chunk from the GPU */
    uint64_t bytes_max;                          /* largest size of the pool; 0: no limit */
    uint64_t threshold;                          /* bytes that the pool keeps at a synchronisation */
    uint64_t used, used_high;                    /* bytes of blocks, as requested */
    uint64_t reserved, reserved_high;            /* bytes of chunks */
    bool (*take)(void *card, uint64_t bytes);    /* take memory from the GPU; false: none left */
    void (*give)(void *card, uint64_t bytes);    /* return memory to the GPU */
    void (*dropped)(void *pool, uint64_t chunk); /* may be NULL: the memory of this chunk was given back */
    void *card;                                  /* borrowed: passed to take() and give() */
} gw_pool;

/* Give the pool its addresses: a multiple of GW_PLACES_CHUNK_BYTES. Returns false and changes nothing if out of host
 * memory.
 */
bool gw_pool_begin(gw_pool *pool, uint64_t base, uint64_t bytes);
/* Allocate `bytes` > 0. Returns false if the pool, the GPU or the host has no memory left. */
bool gw_pool_alloc(gw_pool *pool, uint64_t bytes, uint64_t *ret_address);
/* The program has freed the block; its memory may be reused once gw_pool_free() is called. */
void gw_pool_unuse(gw_pool *pool, uint64_t bytes);
/* Make the memory of a block free. */
void gw_pool_free(gw_pool *pool, uint64_t address, uint64_t bytes);
/* Return unused chunks to the GPU, from the end, until `keep` bytes are left. */
void gw_pool_trim(gw_pool *pool, uint64_t keep);
/* Free the host memory of the books. */
void gw_pool_end(gw_pool *pool);

#endif
