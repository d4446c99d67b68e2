/* Address ranges: find the object that covers an address, and find free addresses.
 *
 * gw_ranges is a balanced tree of disjoint ranges, which are embedded in their owners' structs. gw_runs is a list of
 * free runs, allocated first fit. No function takes a lock; the caller must hold one. */
#ifndef GW_RANGES_H
#define GW_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gw_range {
    struct gw_range *left, *right; /* borrowed from the other members of the tree */
    uint64_t base;
    uint64_t bytes; /* at least 1 */
    uint32_t weight;
} gw_range;

typedef struct gw_ranges {
    gw_range *root;
    size_t count;
    uint32_t seed;
} gw_ranges;

/* Add a range. Returns false and changes nothing if the range is empty, wraps round or overlaps a member. */
bool gw_ranges_add(gw_ranges *ranges, gw_range *range);
/* Remove a member, which the caller owns again. Does nothing if the range is no member. */
void gw_ranges_remove(gw_ranges *ranges, gw_range *range);
/* Return the member that covers `address`; NULL if none does. */
gw_range *gw_ranges_at(const gw_ranges *ranges, uint64_t address);
/* Return the first member whose base is >= `address`; NULL if there is none. */
gw_range *gw_ranges_from(const gw_ranges *ranges, uint64_t address);

typedef struct gw_run {
    uint64_t base;
    uint64_t bytes;
} gw_run;

typedef struct gw_runs {
    gw_run *runs; /* owned; sorted, never adjacent */
    size_t count;
    size_t capacity;
} gw_runs;

/* Add a free run and merge it with adjacent free runs. Returns false and changes nothing if out of host memory. */
bool gw_runs_give(gw_runs *runs, uint64_t base, uint64_t bytes);
/* Take `bytes` of contiguous addresses from the first run that has them, beginning at a multiple of `align` (a power of
 * two). Returns false if there is no such run. */
bool gw_runs_take(gw_runs *runs, uint64_t bytes, uint64_t align, uint64_t *ret_base);
/* Take `bytes` from the low end of the smallest run that has them; from the lowest of equal ones. Returns false if
 * there is no such run. */
bool gw_runs_take_best(gw_runs *runs, uint64_t bytes, uint64_t *ret_base);
/* Take `bytes` from the high end of the highest run that has them. Returns false if there is no such run. */
bool gw_runs_take_highest(gw_runs *runs, uint64_t bytes, uint64_t *ret_base);
/* Return the bytes of the largest run, or 0 if there is none. */
uint64_t gw_runs_largest(const gw_runs *runs);
/* Free the list, and set it to zeros. */
void gw_runs_free(gw_runs *runs);

#endif
