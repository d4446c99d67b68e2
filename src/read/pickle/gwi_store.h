/* Stores the data of a pickle file: texts, each only once, and containers. */
#ifndef GW_PICKLE_STORE_H
#define GW_PICKLE_STORE_H

#include "gw_pickle.h"
#include "gw_status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct gwi_text_ref {
    uint64_t offset; /* offset in gw_pickle.bytes */
    uint32_t bytes;
    uint32_t hash;
} gwi_text_ref;

typedef enum gwi_node_state {
    GWI_NODE_OPEN,   /* items may still be added */
    GWI_NODE_SEALED, /* complete; its items are stored */
    /* `fold` replaced it and its items were freed; `count` is the tag and `folded` the number of the FOLDED value */
    GWI_NODE_FOLDED
} gwi_node_state;

typedef struct gwi_node {
    uint8_t type;             /* LIST or DICT */
    uint8_t state;            /* gwi_node_state */
    uint32_t count, capacity; /* number of values; each pair of a dict is two values */
    union {
        gw_pickle_value *item; /* owned */
        uint64_t folded;
    };
} gwi_node;

struct gw_pickle {
    gwi_node *node; /* owned */
    uint32_t node_count, text_count;
    uint64_t node_capacity, text_capacity;
    gwi_text_ref *text; /* owned */
    char *bytes;        /* all texts, each followed by a NUL; owned */
    uint64_t bytes_count, bytes_capacity;
    uint32_t *slot; /* hash table of the texts: text id + 1; 0: unused; owned */
    uint32_t slot_count;
    uint64_t memory, memory_max;
};

static inline bool gwi_is_container(gw_pickle_value value)
{
    return value.type == GW_PICKLE_LIST || value.type == GW_PICKLE_DICT;
}

/* Grow an array so that it has room for `wanted` elements. The memory of the array counts against memory_max of the
 * store. */
GW_MUST_CHECK gw_status gwi_store_room(gw_pickle *store, void *array_pointer, uint64_t wanted, uint64_t *capacity,
                                       size_t element_bytes, gw_error *err);
/* Make room for a text of `bytes` bytes after the texts of the store. The caller writes the text to *ret_room and then
 * calls gwi_store_text(). */
GW_MUST_CHECK gw_status gwi_store_text_room(gw_pickle *store, uint32_t bytes, char **ret_room, gw_error *err);
/* Store the text that the caller wrote to *ret_room of gwi_store_text_room(). *ret_id is its id. An equal text in the
 * store keeps its id, which is then returned. */
GW_MUST_CHECK gw_status gwi_store_text(gw_pickle *store, uint32_t bytes, uint32_t *ret_id, gw_error *err);
/* Add an empty container. *ret_index is its index in `node`. */
GW_MUST_CHECK gw_status gwi_store_node(gw_pickle *store, gw_pickle_type type, uint32_t *ret_index, gw_error *err);
/* Append `count` values to the container with index `node`. */
GW_MUST_CHECK gw_status gwi_store_append(gw_pickle *store, uint32_t node, const gw_pickle_value *item, size_t count,
                                         gw_error *err);
/* Replace a container by a folded value and free the container's items. */
void gwi_store_fold(gw_pickle *store, uint32_t node, gw_pickle_value folded);
/* Mark a container as complete, and let the caller's `fold` replace it. */
GW_MUST_CHECK gw_status gwi_store_complete(gw_pickle *store, uint32_t node, const gw_pickle_options *options,
                                           gw_error *err);
/* Return the value of a container: the container itself, or the value that gwi_store_fold() put in its place. */
gw_pickle_value gwi_store_value(const gw_pickle *store, uint32_t node);

/* Reads a file from beginning to end, through a buffer of GWI_WINDOW_BYTES. */

enum { GWI_WINDOW_BYTES = 1 << 16 };

typedef struct gwi_window {
    int fd; /* -1: closed */
    size_t at, filled;
    uint64_t passed; /* offset in the file of the first byte in `data` */
    unsigned char data[GWI_WINDOW_BYTES];
} gwi_window;

/* Open a regular file. Returns GW_IO if it cannot be opened or is not a regular file. */
GW_MUST_CHECK gw_status gwi_window_open(gwi_window *window, const char *path, gw_error *err);
void gwi_window_close(gwi_window *window);
static inline uint64_t gwi_window_offset(const gwi_window *window)
{
    return window->passed + window->at;
}

/* Read exactly `count` bytes. Returns GW_CORRUPT if the file ends before the last of them, and GW_IO if reading
 * fails. */
GW_MUST_CHECK gw_status gwi_window_take(gwi_window *window, void *to, size_t count, gw_error *err);

#endif
