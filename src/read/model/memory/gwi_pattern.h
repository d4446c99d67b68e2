/* Finds where a list of numbers repeats its own beginning, in linear time. */
#ifndef GWI_PATTERN_H
#define GWI_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gwi_pattern {
    uint32_t *match;  /* [i]: how many numbers from index i on equal the numbers at the start of the list; owned */
    uint32_t *border; /* [i]: length of the longest proper prefix of the first i numbers that is also a suffix; owned */
    uint32_t *sorts;  /* [i]: number of runs of equal numbers among the first i; owned */
} gwi_pattern;

/* Compute the pattern of a list with at least one number; free it with gwi_pattern_free(). Returns false if there is no
 * memory. */
bool gwi_pattern_make(const uint64_t *number, size_t count, gwi_pattern *ret_pattern);
void gwi_pattern_free(gwi_pattern *pattern);

/* True if the first `count` numbers repeat one pattern at least twice. The last repetition may be incomplete. */
static inline bool gwi_pattern_is_periodic(const gwi_pattern *pattern, size_t count)
{
    return count >= 2 && 2 * (count - pattern->border[count]) <= count;
}

#endif
