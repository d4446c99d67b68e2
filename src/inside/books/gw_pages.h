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

#include <stdbool.h>
#include <stdint.h>

#include "gw_places.h"

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
