/* "did you mean": the word of a list that is most similar to a misspelt one. */
#ifndef GW_NEAREST_H
#define GW_NEAREST_H

#include <stddef.h>

/* Return how many characters must be inserted, removed, replaced or swapped with their neighbour, ignoring case, to
 * turn one name into the other. SIZE_MAX if `b` is longer than 80 bytes. */
size_t gw_name_edits(const char *a, const char *b);

/* A search in a list. Begin with {.word = WORD}. A word of the list is similar if at most a third of the longer word's
 * characters must change, and at most 3; or if it begins with WORD, which has three characters or more. */
typedef struct gw_nearest {
    const char *word;  /* the misspelt word, borrowed */
    const char *found; /* the most similar word so far, borrowed; NULL: none */
    size_t edits;      /* of `found` */
} gw_nearest;

/* Compare one more word, which is borrowed. Of equally similar words, the first one counts. */
void gw_nearest_add(gw_nearest *nearest, const char *known);

#endif
