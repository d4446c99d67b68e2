/* Allocate a GPU's memory in pages of 2 MiB.
 *
 * A block of at most 1 MiB shares a page with other blocks, in steps of 512 B. The page stays allocated until its
 * last block is freed. A larger block has pages of its own. The address range is far larger than the GPU's memory,
 * because a GPU can map scattered pages to contiguous addresses. An allocation therefore fails only when the memory is
 * used up, never because free addresses are fragmented.
 *
 * The members take() and give() of gwi_pages take memory from the GPU and return memory to it. No function takes a
 * lock; the caller must hold one. */
#ifndef GWI_PAGES_H
#define GWI_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "gwi_ranges.h"

#define GWI_PAGE_BYTES      ((uint64_t)2 << 20)
#define GWI_SMALL_BYTES_MAX ((uint64_t)1 << 20)
#define GWI_SMALL_STEP      ((uint64_t)512)

typedef struct gwi_small_page {
    struct gwi_small_page *next, *previous; /* in the list of its bin */
    uint64_t base;
    gwi_runs free;
    unsigned block_count;
    int bin;
} gwi_small_page;

enum { GWI_PAGE_BINS = 14 };

typedef struct gwi_pages {
    gwi_runs addresses;
    gwi_runs retired; /* addresses of destroyed contexts; reused only when no others are left, so that old pointers stay
                         invalid */
    bool retiring;    /* addresses that are freed now go to `retired` */
    struct {
        gwi_small_page *first, *last;
    } bins[GWI_PAGE_BINS]; /* by the logarithm (base 2) of a page's largest free run in steps of 512 B */
    bool (*take)(void *card, uint64_t bytes);
    void (*give)(void *card, uint64_t bytes);
    void *card; /* borrowed: the GPU, passed to take() and give() */
} gwi_pages;

/* Allocate `bytes` > 0. Returns false if the GPU has no memory left or the addresses are used up. *ret_page is set to
 * the page that a small block shares, or to NULL; pass it to gwi_pages_free(). */
bool gwi_pages_alloc(gwi_pages *pages, uint64_t bytes, uint64_t *ret_address, gwi_small_page **ret_page);
void gwi_pages_free(gwi_pages *pages, uint64_t address, uint64_t bytes, gwi_small_page *page);
/* Return the size of the pages that a block of this size uses alone. Returns 0 if such a block shares a page. */
uint64_t gwi_pages_own_bytes(uint64_t bytes);

#endif
