/* Allocate a GPU's memory in pages of 2 MiB.
 *
 * A block of at most 1 MiB shares a page with other blocks, in steps of 512 B. The page stays allocated until its
 * last block is freed. A larger block has pages of its own. The address range is far larger than the GPU's memory,
 * because a GPU can map scattered pages to contiguous addresses. An allocation therefore fails only when the memory is
 * used up, never because free addresses are fragmented.
 *
 * The members take() and give() of gw_pages take memory from the GPU and return memory to it. No function takes a
 * lock; the caller must hold one. */
#ifndef GW_PAGES_H
#define GW_PAGES_H

#include "gw_ranges.h"

#include <stdbool.h>
#include <stdint.h>

/* Addresses of device memory in the order in which NVIDIA's driver hands them out.
 *
 * Measured on an H100 and an H200 (driver 580.159.04; docs/gpu-results.md): blocks of whole pages lie in chunks whose
 * size is a multiple of 32 MiB. New chunks are placed top-down. A block goes into the newest chunk that has room, there
 * into the smallest free piece that is large enough, at its low end. Freed pieces join their neighbours within a chunk.
 * An empty chunk is given up. The order matters because PyTorch's caching allocator prefers the lowest of equally large
 * free blocks.
 *
 * No function takes a lock; the caller must hold one. */

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

#define GW_PAGE_BYTES      ((uint64_t)2 << 20)
#define GW_SMALL_BYTES_MAX ((uint64_t)1 << 20)
#define GW_SMALL_STEP      ((uint64_t)512)

typedef struct gw_small_page {
    struct gw_small_page *next, *previous; /* in the list of its bin */
    uint64_t base;
    gw_runs free;
    unsigned block_count;
    int bin;
} gw_small_page;

enum { GW_PAGE_BINS = 14 };

typedef struct gw_pages {
    gw_places addresses;
    gw_runs retired; /* addresses of destroyed contexts; reused only when no others are left, so that old pointers stay
                         invalid */
    bool retiring;   /* addresses that are freed now go to `retired` */
    struct {
        gw_small_page *first, *last;
    } bins[GW_PAGE_BINS]; /* by the logarithm (base 2) of a page's largest free run in steps of 512 B */
    bool (*take)(void *card, uint64_t bytes);
    void (*give)(void *card, uint64_t bytes);
    void *card; /* borrowed: the GPU, passed to take() and give() */
} gw_pages;

/* Allocate `bytes` > 0. Returns false if the GPU has no memory left or the addresses are used up. *ret_page is set to
 * the page that a small block shares, or to NULL; pass it to gw_pages_free(). */
bool gw_pages_alloc(gw_pages *pages, uint64_t bytes, uint64_t *ret_address, gw_small_page **ret_page);
/* Free a block of `bytes` bytes. `page` is the one that gw_pages_alloc() returned for it. */
void gw_pages_free(gw_pages *pages, uint64_t address, uint64_t bytes, gw_small_page *page);
/* Return the size of the pages that a block of this size uses alone. Returns 0 if such a block shares a page. */
uint64_t gw_pages_own_bytes(uint64_t bytes);

#endif
