/* Allocate a GPU's memory in pages of 2 MiB.
 *
 * A block of at most 1 MiB shares a page with other blocks, in steps of 512 B. The page stays allocated until its last
 * block is freed. A larger block has pages of its own. A GPU can map scattered pages to contiguous addresses, and has
 * far more addresses than memory. So an allocation never fails because of fragmented addresses.
 *
 * gwi_pages.take() and give() exchange memory with the GPU. The caller must hold a lock. */
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
    } bins[GWI_PAGE_BINS]; /* bins[n]: pages with a largest free run of 2^n to 2^(n+1) - 1 steps of 512 B */
    bool (*take)(void *card, uint64_t bytes);
    void (*give)(void *card, uint64_t bytes);
    void *card; /* borrowed: the GPU, passed to take() and give() */
} gwi_pages;

/* Allocate `bytes` > 0. False: no memory or no addresses left. *ret_page is the page that a small block shares, or
 * NULL, for gwi_pages_free(). */
bool gwi_pages_alloc(gwi_pages *pages, uint64_t bytes, uint64_t *ret_address, gwi_small_page **ret_page);
void gwi_pages_free(gwi_pages *pages, uint64_t address, uint64_t bytes, gwi_small_page *page);
/* Return the size of the pages that a block of this size uses alone. Returns 0 if such a block shares a page. */
uint64_t gwi_pages_own_bytes(uint64_t bytes);

#endif
