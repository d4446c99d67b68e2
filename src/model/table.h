/* A map from a 64-bit key to a 32-bit value: open addressing, linear probing, no tombstones (an erased entry pulls
 * its followers back), so that a table that lives for hours of alloc and free stays as fast as a new one. */
#ifndef GWI_TABLE_H
#define GWI_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct gwi_entry {
    uint64_t key;
    uint32_t value_plus_1; /* 0: empty */
    uint32_t reserved;
} gwi_entry;

typedef struct gwi_table {
    gwi_entry *entry; /* owned; NULL while empty */
    uint32_t mask;
    uint32_t count;
} gwi_table;

static inline uint32_t gwi_hash(uint64_t key)
{
    key ^= key >> 29;
    key *= 0x9e3779b97f4a7c15u;
    return (uint32_t)(key >> 32);
}

/* Memory that begins at a cache line, on huge pages where it is large and the system has them. Freed by free(). */
static inline void *gwi_big_alloc(size_t bytes)
{
    const size_t huge_bytes = 2u << 20;
    size_t step = bytes >= huge_bytes ? huge_bytes : 64, whole = (bytes + step - 1) / step * step;
    void *memory = aligned_alloc(step, whole);
    if (memory != NULL && step == huge_bytes)
        (void)madvise(memory, whole, MADV_HUGEPAGE); /* a wish */
    return memory;
}

static inline void gwi_table_free(gwi_table *table)
{
    free(table->entry);
    *table = (gwi_table){0};
}

/* The entry of `key`, or the empty place where it belongs. The table must not be empty. */
static inline gwi_entry *gwi_table_place(const gwi_table *table, uint64_t key)
{
    uint32_t at = gwi_hash(key) & table->mask;
    while (table->entry[at].value_plus_1 != 0 && table->entry[at].key != key)
        at = (at + 1) & table->mask;
    return &table->entry[at];
}

static inline bool gwi_table_get(const gwi_table *table, uint64_t key, uint32_t *ret_value)
{
    if (table->entry == NULL)
        return false;
    const gwi_entry *entry = gwi_table_place(table, key);
    if (entry->value_plus_1 == 0)
        return false;
    *ret_value = entry->value_plus_1 - 1;
    return true;
}

static inline bool gwi_table_grow(gwi_table *table)
{
    uint32_t capacity = table->entry == NULL ? 64 : (table->mask + 1) * 2;
    gwi_table wider = {gwi_big_alloc(capacity * sizeof(gwi_entry)), capacity - 1, table->count};
    if (wider.entry == NULL)
        return false;
    memset(wider.entry, 0, capacity * sizeof(gwi_entry));
    for (uint32_t i = 0; table->entry != NULL && i <= table->mask; i++) {
        if (table->entry[i].value_plus_1 != 0)
            *gwi_table_place(&wider, table->entry[i].key) = table->entry[i];
    }
    free(table->entry);
    *table = wider;
    return true;
}

/* Insert or replace. False: no memory. */
static inline bool gwi_table_put(gwi_table *table, uint64_t key, uint32_t value)
{
    if ((table->entry == NULL || table->count + table->count / 2 >= table->mask) && !gwi_table_grow(table))
        return false;
    gwi_entry *entry = gwi_table_place(table, key);
    table->count += entry->value_plus_1 == 0;
    entry->key = key;
    entry->value_plus_1 = value + 1;
    return true;
}

/* Take out what gwi_table_place() found there. */
static inline void gwi_table_erase(gwi_table *table, gwi_entry *entry)
{
    uint32_t hole = (uint32_t)(entry - table->entry);
    for (uint32_t at = (hole + 1) & table->mask; table->entry[at].value_plus_1 != 0; at = (at + 1) & table->mask) {
        uint32_t home = gwi_hash(table->entry[at].key) & table->mask;
        if (((at - home) & table->mask) >= ((at - hole) & table->mask)) {
            table->entry[hole] = table->entry[at];
            hole = at;
        }
    }
    table->entry[hole].value_plus_1 = 0;
    table->count--;
}

static inline bool gwi_table_take(gwi_table *table, uint64_t key, uint32_t *ret_value)
{
    if (table->entry == NULL)
        return false;
    gwi_entry *entry = gwi_table_place(table, key);
    if (entry->value_plus_1 == 0)
        return false;
    *ret_value = entry->value_plus_1 - 1;
    gwi_table_erase(table, entry);
    return true;
}

#endif
