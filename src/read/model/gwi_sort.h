/* Sorts large lists by an integer key in linear time. */
#ifndef GWI_SORT_H
#define GWI_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gwi_sort_key {
    uint64_t key;
    uint32_t index; /* index, in the caller's array, of the element with this key */
} gwi_sort_key;

/* Sort `list` by `key`. Elements with equal keys keep their order. If there is no memory, return false and leave the
 * list unchanged. */
bool gwi_sort(gwi_sort_key *list, size_t count);

#endif
