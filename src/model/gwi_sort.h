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

/* Sort `list` by `key`; equal keys keep their order. False: no memory, and the list is unchanged. */
bool gwi_sort(gwi_sort_key *list, size_t count);

#endif
