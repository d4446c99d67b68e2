/* Sorts large lists by a number in linear time. */
#ifndef GWI_SORT_H
#define GWI_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gwi_sort_key {
    uint64_t key;
    uint32_t index; /* index of the sorted element */
} gwi_sort_key;

/* Sort `list` by `key`. Equal keys keep their order. Returns false, with the list unchanged, if there is no memory. */
bool gwi_sort(gwi_sort_key *list, size_t count);

#endif
