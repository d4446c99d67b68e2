/* "did you mean": the word of a list that is most similar to a misspelt one. */
#ifndef GW_NEAREST_H
#define GW_NEAREST_H

#include <stddef.h>

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
