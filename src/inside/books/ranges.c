/* A treap of address ranges, and a sorted list of free runs: see gw_ranges.h. */
#include "gw_array.h"
#include "gw_ranges.h"

#include <stdlib.h>
#include <string.h>

gw_range *gw_ranges_at(const gw_ranges *ranges, uint64_t address)
{
    gw_range *node = ranges->root;
    while (node != NULL) {
        if (address < node->base)
            node = node->left;
        else if (address - node->base < node->bytes)
            return node;
        else
            node = node->right;
    }
    return NULL;
}

gw_range *gw_ranges_from(const gw_ranges *ranges, uint64_t address)
{
    gw_range *node = ranges->root;
    gw_range *best = NULL;
    while (node != NULL) {
        if (node->base >= address) {
            best = node;
            node = node->left;
        } else {
            node = node->right;
        }
    }
    return best;
}

static uint32_t next_weight(gw_ranges *ranges)
{
    uint32_t x = ranges->seed != 0 ? ranges->seed : 0x9E3779B9u;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    ranges->seed = x;
    return x;
}

/* Split `node` into the members below `base` and all others. */
static void split(gw_range *node, uint64_t base, gw_range **ret_low, gw_range **ret_high)
{
    while (node != NULL) {
        if (node->base < base) {
            *ret_low = node;
            ret_low = &node->right;
            node = node->right;
        } else {
            *ret_high = node;
            ret_high = &node->left;
            node = node->left;
        }
    }
    *ret_low = NULL;
    *ret_high = NULL;
}

bool gw_ranges_add(gw_ranges *ranges, gw_range *range)
{
    uint64_t last = range->base + (range->bytes - 1);
    if (range->bytes == 0 || last < range->base)
        return false;
    const gw_range *after = gw_ranges_from(ranges, range->base);
    if (gw_ranges_at(ranges, range->base) != NULL || (after != NULL && after->base <= last))
        return false;
    range->weight = next_weight(ranges);
    gw_range **link = &ranges->root;
    while (*link != NULL && (*link)->weight >= range->weight)
        link = range->base < (*link)->base ? &(*link)->left : &(*link)->right;
    split(*link, range->base, &range->left, &range->right);
    *link = range;
    ranges->count++;
    return true;
}

void gw_ranges_remove(gw_ranges *ranges, gw_range *range)
{
    gw_range **link = &ranges->root;
    while (*link != NULL && *link != range)
        link = range->base < (*link)->base ? &(*link)->left : &(*link)->right;
    if (*link == NULL)
        return;
    gw_range *low = range->left;
    gw_range *high = range->right;
    while (low != NULL && high != NULL) {
        if (low->weight >= high->weight) {
            *link = low;
            link = &low->right;
            low = low->right;
        } else {
            *link = high;
            link = &high->left;
            high = high->left;
        }
    }
    *link = low != NULL ? low : high;
    ranges->count--;
}

/* Return the index of the first run whose base is > `base`. */
static size_t runs_after(const gw_runs *runs, uint64_t base)
{
    size_t low = 0;
    size_t high = runs->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (runs->runs[middle].base > base)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void runs_remove(gw_runs *runs, size_t index)
{
    memmove(&runs->runs[index], &runs->runs[index + 1], (runs->count - index - 1) * sizeof *runs->runs);
    runs->count--;
}

static bool runs_insert(gw_runs *runs, size_t index, gw_run run)
{
    if (!gw_array_room(&runs->runs, runs->count, &runs->capacity, sizeof *runs->runs))
        return false;
    memmove(&runs->runs[index + 1], &runs->runs[index], (runs->count - index) * sizeof *runs->runs);
    runs->runs[index] = run;
    runs->count++;
    return true;
}

bool gw_runs_give(gw_runs *runs, uint64_t base, uint64_t bytes)
{
    size_t index = runs_after(runs, base);
    bool joins_before = index > 0 && runs->runs[index - 1].base + runs->runs[index - 1].bytes == base;
    bool joins_after = index < runs->count && base + bytes == runs->runs[index].base;
    if (joins_before && joins_after) {
        runs->runs[index - 1].bytes += bytes + runs->runs[index].bytes;
        runs_remove(runs, index);
        return true;
    }
    if (joins_before) {
        runs->runs[index - 1].bytes += bytes;
        return true;
    }
    if (joins_after) {
        runs->runs[index].base = base;
        runs->runs[index].bytes += bytes;
        return true;
    }
    return runs_insert(runs, index, (gw_run){base, bytes});
}

bool gw_runs_take(gw_runs *runs, uint64_t bytes, uint64_t align, uint64_t *ret_base)
{
    for (size_t i = 0; i < runs->count; i++) {
        gw_run run = runs->runs[i];
        uint64_t base = (run.base + align - 1) & ~(align - 1);
        uint64_t skipped = base - run.base;
        if (skipped >= run.bytes || run.bytes - skipped < bytes)
            continue;
        uint64_t rest = run.bytes - skipped - bytes;
        if (skipped > 0 && rest > 0 && !runs_insert(runs, i + 1, (gw_run){base + bytes, rest}))
            return false;
        if (skipped > 0)
            runs->runs[i].bytes = skipped;
        else if (rest > 0)
            runs->runs[i] = (gw_run){base + bytes, rest};
        else
            runs_remove(runs, i);
        *ret_base = base;
        return true;
    }
    return false;
}

bool gw_runs_take_best(gw_runs *runs, uint64_t bytes, uint64_t *ret_base)
{
    size_t best = runs->count;
    for (size_t i = 0; i < runs->count; i++)
        if (runs->runs[i].bytes >= bytes && (best == runs->count || runs->runs[i].bytes < runs->runs[best].bytes))
            best = i;
    if (best == runs->count)
        return false;
    *ret_base = runs->runs[best].base;
    runs->runs[best].base += bytes;
    runs->runs[best].bytes -= bytes;
    if (runs->runs[best].bytes == 0)
        runs_remove(runs, best);
    return true;
}

bool gw_runs_take_highest(gw_runs *runs, uint64_t bytes, uint64_t *ret_base)
{
    for (size_t i = runs->count; i-- > 0;) {
        if (runs->runs[i].bytes < bytes)
            continue;
        runs->runs[i].bytes -= bytes;
        *ret_base = runs->runs[i].base + runs->runs[i].bytes;
        if (runs->runs[i].bytes == 0)
            runs_remove(runs, i);
        return true;
    }
    return false;
}

uint64_t gw_runs_largest(const gw_runs *runs)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < runs->count; i++)
        if (runs->runs[i].bytes > largest)
            largest = runs->runs[i].bytes;
    return largest;
}

void gw_runs_free(gw_runs *runs)
{
    free(runs->runs);
    memset(runs, 0, sizeof *runs);
}
