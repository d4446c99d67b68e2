/* Chooses which of many marks and spans of time a chart shows. */
#ifndef GWI_PICK_H
#define GWI_PICK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gwi_choice {
    uint64_t t_ns;
    uint64_t weight; /* of two that are equally important in the same part of the run, the heavier one is kept */
    size_t index;    /* of the caller */
    uint8_t importance;
    uint32_t part, rank; /* used while choosing */
} gwi_choice;

/* Keep at most `max` elements of the list: the most important ones and, among equally important ones, about the same
 * number from each part of a run that lasted `span_ns`. They are moved to the front, in the order of `index`. Returns
 * how many were kept. */
size_t gwi_pick(gwi_choice *list, size_t count, size_t max, uint64_t span_ns);

#endif
