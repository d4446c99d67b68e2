/* Count edits between two names: the optimal string alignment distance, with three rows of its table. */
#include "gw_nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { NAME_BYTES_MAX = 80, EDITS_MAX = 3, EDITS_SHARE = 3, BEGINNING_MIN = 3 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool is_same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

size_t gw_name_edits(const char *a, const char *b)
{
    size_t row[3][NAME_BYTES_MAX + 1], b_bytes = strlen(b), i = 0;
    if (b_bytes > NAME_BYTES_MAX)
        return SIZE_MAX;
    for (size_t k = 0; k <= b_bytes; k++)
        row[0][k] = k;
    while (a[i] != '\0') {
        i++;
        size_t *now = row[i % 3];
        const size_t *before = row[(i + 2) % 3], *twice_before = row[(i + 1) % 3];
        now[0] = i;
        for (size_t k = 1; k <= b_bytes; k++) {
            size_t replaced = before[k - 1] + !is_same(a[i - 1], b[k - 1]);
            now[k] = least(replaced, least(before[k], now[k - 1]) + 1);
            if (i > 1 && k > 1 && is_same(a[i - 1], b[k - 2]) && is_same(a[i - 2], b[k - 1]))
                now[k] = least(now[k], twice_before[k - 2] + 1);
        }
    }
    return row[i % 3][b_bytes];
}

void gw_nearest_add(gw_nearest *nearest, const char *known)
{
    size_t bytes = strlen(nearest->word), known_bytes = strlen(known);
    size_t edits = gw_name_edits(nearest->word, known);
    bool is_similar = edits <= least(EDITS_MAX, (bytes > known_bytes ? bytes : known_bytes) / EDITS_SHARE);
    bool is_beginning = bytes >= BEGINNING_MIN && bytes <= known_bytes && memcmp(nearest->word, known, bytes) == 0;
    if ((is_similar || is_beginning) && (nearest->found == NULL || edits < nearest->edits)) {
        nearest->found = known;
        nearest->edits = edits;
    }
}
