/* Reconstructs the number of live bytes over time by walking an allocator's history backwards.
 *
 * A history lists allocations and frees in order. The walk starts with the blocks that are live at its end. Going back
 * over an allocation decreases the live bytes, and over a free increases them.
 *
 * The hook uses this inside the process, and the reader uses it for saved snapshots. The functions are static inline
 * and allocate no memory. */
#ifndef GW_HISTORY_H
#define GW_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- spans: the highest and the lowest live bytes in equal spans of time ---- */

enum { GW_HISTORY_SPANS = 512 };

typedef struct gw_history_spans {
    uint64_t oldest_age_ns; /* age of the oldest entry of the history; set by the caller before the walk */
    uint64_t highest[GW_HISTORY_SPANS], lowest[GW_HISTORY_SPANS]; /* in bytes; index 0: the latest span */
    bool seen[GW_HISTORY_SPANS];
} gw_history_spans;

/* Update the highest and lowest live bytes of the span that contains age_ns. */
static inline void gw_history_see(gw_history_spans *spans, uint64_t age_ns, uint64_t live_bytes)
{
    uint64_t unit_ns = spans->oldest_age_ns / (GW_HISTORY_SPANS - 1) + 1;
    uint64_t span = age_ns / unit_ns;
    if (span >= GW_HISTORY_SPANS)
        span = GW_HISTORY_SPANS - 1;
    if (!spans->seen[span] || live_bytes > spans->highest[span])
        spans->highest[span] = live_bytes;
    if (!spans->seen[span] || live_bytes < spans->lowest[span])
        spans->lowest[span] = live_bytes;
    spans->seen[span] = true;
}

/* Return the smallest age that belongs to the span, in ns. */
static inline uint64_t gw_history_span_age_ns(const gw_history_spans *spans, size_t span)
{
    return span * (spans->oldest_age_ns / (GW_HISTORY_SPANS - 1) + 1);
}

/* ---- the set of live blocks at an earlier time ---- */

typedef struct gw_live_entry {
    uint64_t address; /* 0: empty slot */
    uint64_t bytes;
    uint32_t stack; /* the caller's number for the stack that allocated the block; 0: unknown */
    bool gone;      /* the walk is at a time before the block was allocated; its slot stays in use */
} gw_live_entry;

typedef struct gw_live_set {
    gw_live_entry *entry; /* provided by the caller, zeroed; the number of slots is a power of two */
    size_t entry_count;
    size_t used;
} gw_live_set;

/* Return the number of slots needed for a walk with at most `addresses` different addresses. */
static inline size_t gw_live_set_room(size_t addresses)
{
    size_t count = 64;
    while (count < 2 * addresses)
        count *= 2;
    return count;
}

/* Return the slot of an address, or an empty slot if the address is not in the set. Returns NULL if the set is full or
 * the address is 0. */
static inline gw_live_entry *gw_live_set_find(gw_live_set *set, uint64_t address)
{
    if (address == 0 || set->entry_count == 0)
        return NULL;
    size_t at = (size_t)((address >> 9) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (set->entry_count - 1);
    for (size_t tries = 0; tries < set->entry_count; tries++) {
        gw_live_entry *entry = &set->entry[at];
        if (entry->address == address || entry->address == 0)
            return entry;
        at = (at + 1) & (set->entry_count - 1);
    }
    return NULL;
}

/* Add a block. Call this for a block that is live at the end of the history, and for one whose free the walk goes back
 * over. If the set is full, the block is ignored. */
static inline void gw_live_set_add(gw_live_set *set, uint64_t address, uint64_t bytes, uint32_t stack)
{
    gw_live_entry *entry = gw_live_set_find(set, address);
    if (entry == NULL || (entry->address == 0 && 4 * (set->used + 1) > 3 * set->entry_count))
        return;
    set->used += entry->address == 0;
    *entry = (gw_live_entry){address, bytes, stack, false};
}

/* Mark a block as gone. Call this when the walk goes back over an allocation, because the block did not exist before
 * the allocation. */
static inline void gw_live_set_remove(gw_live_set *set, uint64_t address)
{
    gw_live_entry *entry = gw_live_set_find(set, address);
    if (entry != NULL && entry->address != 0)
        entry->gone = true;
}

#endif
