/* Finds live objects by address or handle, and the device of a context. */
#ifndef GWI_FIND_H
#define GWI_FIND_H

#include "gwi_inner.h"

typedef struct gwi_object_key {
    const gwi_object *object;
    uint64_t key;
    uint8_t space;
} gwi_object_key;

static inline bool gwi_object_is(const void *context, uint32_t index)
{
    const gwi_object_key *key = context;
    return key->object[index].key == key->key && key->object[index].space == key->space;
}

static inline gwi_spot gwi_spot_of(const gwi_process *process, gwi_space space, uint64_t key)
{
    gwi_object_key wanted = {process->object, key, (uint8_t)space};
    return gwi_table_find(&process->table[space], gwi_hash(key), gwi_object_is, &wanted);
}

/* Find a live object by its address or handle `key`; *ret_index is its index in `process->object`. Returns false if
 * there is no such object. */
bool gwi_object_find(const gwi_process *process, gwi_space space, uint64_t key, uint32_t *ret_index);

/* The slow part of gwi_device_of(): look the context up, and store it in context_last with its device. */
int gwi_device_find(gwi_process *process, uint64_t context);
/* Return the index of the device of a context, or 0 if the context is unknown. */
static inline int gwi_device_of(gwi_process *process, uint64_t context)
{
    return context == process->context_last ? process->context_last_device : gwi_device_find(process, context);
}

#endif
