/* The run is divided into as many equal parts as elements may be kept. Within its part, each element has a rank among
 * those of the same importance, the heaviest first. The elements with the lowest ranks are kept. */
#include "gwi_pick.h"

#include <stdlib.h>

static int compare(uint64_t left, uint64_t right)
{
    return (left > right) - (left < right);
}

/* Sort by importance, part and weight. */
static int compare_in_part(const void *a, const void *b)
{
    const gwi_choice *left = a, *right = b;
    if (left->importance != right->importance)
        return compare(right->importance, left->importance);
    if (left->part != right->part)
        return compare(left->part, right->part);
    if (left->weight != right->weight)
        return compare(right->weight, left->weight);
    return compare(left->index, right->index);
}

/* Sort by importance, rank and weight. */
static int compare_ranks(const void *a, const void *b)
{
    const gwi_choice *left = a, *right = b;
    if (left->importance != right->importance)
        return compare(right->importance, left->importance);
    if (left->rank != right->rank)
        return compare(left->rank, right->rank);
    if (left->weight != right->weight)
        return compare(right->weight, left->weight);
    return compare(left->index, right->index);
}

static int compare_indexes(const void *a, const void *b)
{
    const gwi_choice *left = a, *right = b;
    return compare(left->index, right->index);
}

static void set_ranks(gwi_choice *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool is_first = i == 0 || list[i].importance != list[i - 1].importance || list[i].part != list[i - 1].part;
        list[i].rank = is_first ? 0 : list[i - 1].rank + 1;
    }
}

size_t gwi_pick(gwi_choice *list, size_t count, size_t max, uint64_t span_ns)
{
    if (count <= max || max == 0)
        return count <= max ? count : 0;
    uint64_t part_ns = span_ns / max;
    part_ns += part_ns < UINT64_MAX; /* so the last part is not longer than the others, and it is not 0 */
    for (size_t i = 0; i < count; i++) {
        uint64_t part = list[i].t_ns / part_ns;
        list[i].part = part < max ? (uint32_t)part : (uint32_t)max;
    }
    qsort(list, count, sizeof *list, compare_in_part);
    set_ranks(list, count);
    qsort(list, count, sizeof *list, compare_ranks);
    qsort(list, max, sizeof *list, compare_indexes);
    return max;
}
