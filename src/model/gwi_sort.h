/* Sorting large lists by a number, in a time that grows as they do. */
#ifndef GWI_SORT_H
#define GWI_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gwi_sort_key {
    uint64_t key;
    uint32_t index; /* of what it stands for */
} gwi_sort_key;

/* Put `list` in order of `key`; equal ones stay as they were. False, and the list is as it was: no memory. */
bool gwi_sort(gwi_sort_key *list, size_t count);

#endif
