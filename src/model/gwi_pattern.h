/* How a list of numbers repeats its own beginning. Everything is worked out once, in a time that grows as the list
 * does: a hundred thousand equal sizes cost no more than as many different ones. */
#ifndef GWI_PATTERN_H
#define GWI_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gwi_pattern {
    uint32_t *match;  /* [i]: how many numbers from i on are those that the list begins with; owned */
    uint32_t *border; /* [i]: of the first i numbers, how many at most are both their beginning and their end; owned */
    uint32_t *sorts;  /* [i]: how often the number changes among the first i, the first one counted; owned */
} gwi_pattern;

/* Of `count` numbers, at least one. False: no memory, and there is nothing to free. */
bool gwi_pattern_make(const uint64_t *number, size_t count, gwi_pattern *ret_pattern);
void gwi_pattern_free(gwi_pattern *pattern);

/* Are the first `count` numbers one pattern twice or more, the last time perhaps in part? */
static inline bool gwi_pattern_is_periodic(const gwi_pattern *pattern, size_t count)
{
    return count >= 2 && 2 * (count - pattern->border[count]) <= count;
}

#endif
