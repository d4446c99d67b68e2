/* Stores the data of a pickle file: texts, each only once, and containers. */
#ifndef GW_PICKLE_STORE_H
#define GW_PICKLE_STORE_H

#include "gw_pickle.h"

typedef struct gwi_text_ref {
    uint64_t offset; /* offset in gw_pickle.bytes */
    uint32_t bytes;
    uint32_t hash;
} gwi_text_ref;

typedef enum gwi_node_state {
    GWI_NODE_OPEN,   /* may still be filled */
    GWI_NODE_SEALED, /* complete; its items are stored */
    GWI_NODE_FOLDED  /* its items were freed; `count` is the tag, `folded` the number */
} gwi_node_state;

typedef struct gwi_node {
    uint8_t type;             /* LIST or DICT */
    uint8_t state;            /* gwi_node_state */
    uint32_t count, capacity; /* in values; each pair of a dict is two values */
    union {
        gw_pickle_value *item; /* owned */
        uint64_t folded;
    };
} gwi_node;

struct gw_pickle {
    gwi_node *node; /* owned */
    uint32_t node_count, node_capacity;
    gwi_text_ref *text; /* owned */
    uint32_t text_count, text_capacity;
    char *bytes; /* all texts, each terminated; owned */
    uint64_t bytes_count, bytes_capacity;
    uint32_t *slot; /* hash table: text id + 1; owned */
    uint32_t slot_count;
    uint64_t memory, memory_max;
};

/* Grow an array of the store so that it has room for `wanted` elements. */
GW_MUST_CHECK gw_status gwi_store_room(gw_pickle *store, void *array_pointer, uint64_t wanted, uint64_t *capacity,
                                       size_t element_bytes, gw_error *err);
/* Make room for a text of `bytes` bytes at the end of the store's bytes. The caller fills it and then calls
 * gwi_store_text(). */
GW_MUST_CHECK gw_status gwi_store_text_room(gw_pickle *store, uint32_t bytes, char **ret_room, gw_error *err);
/* Return the id of the text that the caller wrote into that room. If the store already has an equal text, return the id
 * of that one. */
GW_MUST_CHECK gw_status gwi_store_text(gw_pickle *store, uint32_t bytes, uint32_t *ret_id, gw_error *err);
/* Add an empty container. *ret_index is its index in `node`. */
GW_MUST_CHECK gw_status gwi_store_node(gw_pickle *store, gw_pickle_type type, uint32_t *ret_index, gw_error *err);
/* Append `count` values to a container. */
GW_MUST_CHECK gw_status gwi_store_append(gw_pickle *store, uint32_t node, const gw_pickle_value *item, size_t count,
                                         gw_error *err);
/* Replace a container by a folded value and free its items. */
void gwi_store_fold(gw_pickle *store, uint32_t node, gw_pickle_value folded);
/* Return the value of a container: the container itself, or the value to which it was folded. */
gw_pickle_value gwi_store_value(const gw_pickle *store, uint32_t node);

#endif
