/* How a list of numbers repeats its own beginning. Computed once in linear time: a hundred thousand equal numbers take
 * no longer than as many different ones. */
#ifndef GWI_PATTERN_H
#define GWI_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gwi_pattern {
    uint32_t *match;  /* [i]: how many numbers from i on equal the beginning of the list; owned */
    uint32_t *border; /* [i]: the longest proper beginning of the first i numbers that is also their end; owned */
    uint32_t *sorts;  /* [i]: how often the number changes among the first i, counting the first one; owned */
} gwi_pattern;

/* `count` is at least 1. False: no memory, and there is nothing to free. */
bool gwi_pattern_make(const uint64_t *number, size_t count, gwi_pattern *ret_pattern);
void gwi_pattern_free(gwi_pattern *pattern);

/* True if the first `count` numbers are one pattern repeated at least twice, the last time perhaps in part. */
static inline bool gwi_pattern_is_periodic(const gwi_pattern *pattern, size_t count)
{
    return count >= 2 && 2 * (count - pattern->border[count]) <= count;
}

#endif
