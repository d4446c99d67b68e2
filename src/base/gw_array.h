/* Growing arrays. `array` is the address of a pointer to the elements, for example &list->item. This pointer is NULL or
 * from malloc() or realloc(). */
#ifndef GW_ARRAY_H
#define GW_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Change the size of the array to `count` elements of `element_bytes` each. Returns false if there is no memory; the
 * array is then unchanged. */
static inline bool gw_array_resize(void *array, size_t count, size_t element_bytes)
{
    void *data;
    memcpy(&data, array, sizeof data);
    data = count > SIZE_MAX / element_bytes ? NULL : realloc(data, count * element_bytes);
    if (data == NULL)
        return false;
    memcpy(array, &data, sizeof data);
    return true;
}

/* Make room for `wanted` elements by doubling *capacity (in elements) until it is large enough. Returns false, with the
 * array unchanged, if there is no memory. */
static inline bool gw_array_reach(void *array, size_t wanted, size_t *capacity, size_t element_bytes)
{
    size_t wider = *capacity == 0 ? 16 : *capacity;
    if (wanted <= *capacity)
        return true;
    while (wider < wanted && wider <= SIZE_MAX / 2)
        wider *= 2;
    if (wider < wanted || !gw_array_resize(array, wider, element_bytes))
        return false;
    *capacity = wider;
    return true;
}

/* Make room for one more element in an array of `count` elements. Otherwise like gw_array_reach(). */
static inline bool gw_array_room(void *array, size_t count, size_t *capacity, size_t element_bytes)
{
    return gw_array_reach(array, count + 1, capacity, element_bytes);
}

/* Make room for one more element, without a stored capacity. The capacity is the smallest power of two that is at least
 * `count`. So no other function may allocate or shrink the array. */
static inline bool gw_array_more(void *array, size_t count, size_t element_bytes)
{
    bool is_full = (count & (count - 1)) == 0; /* `count` is 0, 1, 2, 4, 8, ... */
    return !is_full || gw_array_resize(array, count == 0 ? 1 : count * 2, element_bytes);
}

/* Compare two uint64_t for qsort(), which puts the smaller one first. */
static inline int gw_by_number(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

#endif
