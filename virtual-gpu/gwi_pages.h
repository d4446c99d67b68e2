/* How a card hands out its memory: pages of 2 MiB.
 *
 * A block of at most 1 MiB shares a page with others, in steps of 512 B; the page stays held until the last
 * block in it is freed. A larger block gets pages of its own. Addresses come from a range far larger than the
 * card, since the card maps scattered pages: only bytes run out, never runs of addresses.
 *
 * Bytes are taken from and given back to the card through the two functions of gwi_pages; nothing locks. */
#ifndef GWI_PAGES_H
#define GWI_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "gwi_ranges.h"

#define GWI_PAGE_BYTES      ((uint64_t)2 << 20)
#define GWI_SMALL_BYTES_MAX ((uint64_t)1 << 20)
#define GWI_SMALL_STEP      ((uint64_t)512)

typedef struct gwi_small_page {
    struct gwi_small_page *next, *previous; /* of its bin */
    uint64_t base;
    gwi_runs free;
    unsigned block_count;
    int bin;
} gwi_small_page;

enum { GWI_PAGE_BINS = 14 };

typedef struct gwi_pages {
    gwi_runs addresses;
    gwi_runs retired; /* addresses of a context that is gone: used again only when there are no others, so that its
                         old pointers stay wrong */
    bool retiring;    /* what is freed now goes there */
    struct {
        gwi_small_page *first, *last;
    } bins[GWI_PAGE_BINS]; /* by the logarithm of the largest free run, in steps */
    bool (*take)(void *card, uint64_t bytes);
    void (*give)(void *card, uint64_t bytes);
    void *card; /* borrowed: the argument of the two */
} gwi_pages;

/* `bytes` > 0. False: the card has no more memory (or the addresses are used up). *ret_page is the page that
 * a small block shares, else NULL; it is wanted back by gwi_pages_free(). */
bool gwi_pages_alloc(gwi_pages *pages, uint64_t bytes, uint64_t *ret_address, gwi_small_page **ret_page);
void gwi_pages_free(gwi_pages *pages, uint64_t address, uint64_t bytes, gwi_small_page *page);
/* Bytes of pages that a block of this size holds alone; 0 where it shares a page. */
uint64_t gwi_pages_own_bytes(uint64_t bytes);

#endif
