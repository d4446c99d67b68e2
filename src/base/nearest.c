/* Find the most similar word of a list. */
#include "gw_nearest.h"

#include "gw_text.h"

#include <stdbool.h>
#include <string.h>

enum { EDITS_MAX = 3, EDITS_SHARE = 3, BEGINNING_MIN = 3 };

void gw_nearest_add(gw_nearest *nearest, const char *known)
{
    size_t bytes = strlen(nearest->word), known_bytes = strlen(known);
    size_t edits = gw_name_edits(nearest->word, known);
    size_t allowed = (bytes > known_bytes ? bytes : known_bytes) / EDITS_SHARE;
    bool is_similar = edits <= (allowed < EDITS_MAX ? allowed : EDITS_MAX);
    bool is_beginning = bytes >= BEGINNING_MIN && bytes <= known_bytes && memcmp(nearest->word, known, bytes) == 0;
    if ((is_similar || is_beginning) && (nearest->found == NULL || edits < nearest->edits)) {
        nearest->found = known;
        nearest->edits = edits;
    }
}
