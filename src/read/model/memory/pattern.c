/* Computes a gwi_pattern with two standard algorithms: the Z function for `match`, and the prefix function for
 * `border`. */
#include "gwi_pattern.h"

#include <stdlib.h>

/* Compute the Z function. [left, right) is the match that ends last so far. For an index inside it, an earlier result
 * can be reused. */
static void find_matches(const uint64_t *number, uint32_t count, uint32_t *match)
{
    match[0] = count;
    for (uint32_t i = 1, left = 0, right = 0; i < count; i++) {
        uint32_t length = i < right ? (match[i - left] < right - i ? match[i - left] : right - i) : 0;
        while (i + length < count && number[length] == number[i + length])
            length++;
        match[i] = length;
        if (i + length > right) {
            left = i;
            right = i + length;
        }
    }
}

static void find_borders(const uint64_t *number, uint32_t count, uint32_t *border)
{
    border[0] = border[1] = 0;
    for (uint32_t i = 1, length = 0; i < count; i++) {
        while (length > 0 && number[i] != number[length])
            length = border[length];
        length += number[i] == number[length];
        border[i + 1] = length;
    }
}

static void count_sorts(const uint64_t *number, uint32_t count, uint32_t *sorts)
{
    sorts[0] = 0;
    for (uint32_t i = 0; i < count; i++)
        sorts[i + 1] = sorts[i] + (i == 0 || number[i] != number[i - 1]);
}

bool gwi_pattern_make(const uint64_t *number, size_t count, gwi_pattern *ret_pattern)
{
    gwi_pattern made = {malloc(count * sizeof *made.match), malloc((count + 1) * sizeof *made.border),
                        malloc((count + 1) * sizeof *made.sorts)};
    if (count >= UINT32_MAX || made.match == NULL || made.border == NULL || made.sorts == NULL) {
        gwi_pattern_free(&made);
        return false;
    }
    find_matches(number, (uint32_t)count, made.match);
    find_borders(number, (uint32_t)count, made.border);
    count_sorts(number, (uint32_t)count, made.sorts);
    *ret_pattern = made;
    return true;
}

void gwi_pattern_free(gwi_pattern *pattern)
{
    free(pattern->match);
    free(pattern->border);
    free(pattern->sorts);
    *pattern = (gwi_pattern){0};
}
