/* Radix sort, lowest digit first. Digits that are equal in all keys (most digits of addresses) are skipped. */
#include "gwi_sort.h"

#include <stdlib.h>
#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, PASSES = (64 + DIGIT_BITS - 1) / DIGIT_BITS };

static unsigned digit_of(uint64_t key, unsigned pass)
{
    return (unsigned)(key >> (pass * DIGIT_BITS)) & (DIGITS - 1);
}

static void pass_over(const gwi_sort_key *from, gwi_sort_key *to, size_t count, unsigned pass)
{
    size_t place[DIGITS] = {0}, sum = 0;
    for (size_t i = 0; i < count; i++)
        place[digit_of(from[i].key, pass)]++;
    for (size_t digit = 0; digit < DIGITS; digit++) {
        size_t here = place[digit];
        place[digit] = sum;
        sum += here;
    }
    for (size_t i = 0; i < count; i++)
        to[place[digit_of(from[i].key, pass)]++] = from[i];
}

bool gwi_sort(gwi_sort_key *list, size_t count)
{
    uint64_t differing = 0;
    for (size_t i = 1; i < count; i++)
        differing |= list[i].key ^ list[0].key;
    if (differing == 0)
        return true;
    gwi_sort_key *other = malloc(count * sizeof *other), *from = list, *to = other;
    if (other == NULL)
        return false;
    for (unsigned pass = 0; pass < PASSES; pass++) {
        if (digit_of(differing, pass) == 0)
            continue;
        pass_over(from, to, count, pass);
        gwi_sort_key *swap = from;
        from = to;
        to = swap;
    }
    if (from != list)
        memcpy(list, from, count * sizeof *list);
    free(other);
    return true;
}
