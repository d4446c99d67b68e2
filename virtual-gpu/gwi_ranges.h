/* Address ranges: find the object that covers an address, and find free addresses. gwi_ranges is a balanced tree of
 * disjoint ranges, embedded in their owners' structs. gwi_runs is a list of free runs, allocated first fit. The caller
 * must hold a lock. */
#ifndef GWI_RANGES_H
#define GWI_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gwi_range {
    struct gwi_range *left, *right; /* borrowed from the other members of the tree */
    uint64_t base;
    uint64_t bytes; /* at least 1 */
    uint32_t weight;
} gwi_range;

typedef struct gwi_ranges {
    gwi_range *root;
    size_t count;
    uint32_t seed;
} gwi_ranges;

/* Add a range. Returns false and changes nothing if the range is empty, wraps round or overlaps a member. */
bool gwi_ranges_add(gwi_ranges *ranges, gwi_range *range);
void gwi_ranges_remove(gwi_ranges *ranges, gwi_range *range);
/* Return the member that covers `address`; NULL if none does. */
gwi_range *gwi_ranges_at(const gwi_ranges *ranges, uint64_t address);
/* Return the first member whose base is >= `address`; NULL if there is none. */
gwi_range *gwi_ranges_from(const gwi_ranges *ranges, uint64_t address);

typedef struct gwi_run {
    uint64_t base;
    uint64_t bytes;
} gwi_run;

typedef struct gwi_runs {
    gwi_run *runs; /* owned; sorted, never adjacent */
    size_t count;
    size_t capacity;
} gwi_runs;

/* Add a free run and merge it with adjacent free runs. Returns false and changes nothing if out of host memory. */
bool gwi_runs_give(gwi_runs *runs, uint64_t base, uint64_t bytes);
/* Take `bytes` of contiguous addresses from the first run that has them, at a multiple of `align` (a power of two).
 * Returns false if there is no such run. */
bool gwi_runs_take(gwi_runs *runs, uint64_t bytes, uint64_t align, uint64_t *ret_base);
uint64_t gwi_runs_largest(const gwi_runs *runs);
void gwi_runs_free(gwi_runs *runs);

#endif
