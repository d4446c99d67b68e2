/* Counts the device memory that the recorded processes hold, from their events. Small and approximate compared to the
 * ledger in src/read/model: it only needs the current sum of each card, while the program runs. */
#ifndef GWI_HELD_H
#define GWI_HELD_H

#include "gw_recording.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GWI_HELD_DEVICES_MAX = 16, GWI_HELD_CONTEXTS_MAX = 256 };

typedef struct gwi_held_block {
    uint64_t handle, bytes, context;
    uint32_t pid; /* 0: this entry is empty */
    uint8_t thing, device;
} gwi_held_block;

typedef struct gwi_held_context {
    uint64_t context;
    uint32_t pid, references; /* references 0: this entry is empty */
    uint8_t device;
    bool is_primary;
} gwi_held_context;

typedef struct gwi_held_pci {
    uint32_t part[3]; /* bus, device, domain */
    bool known[3];
    bool is_mixed; /* different cards in different processes */
} gwi_held_pci;

typedef struct gwi_held {
    gwi_held_block *block; /* owned; a hash table with linear probing; its size is a power of two */
    size_t count, capacity;
    bool failed; /* no memory, or more than 2 million blocks: the sums are too small */
    gwi_held_context context[GWI_HELD_CONTEXTS_MAX];
    uint64_t live_bytes[GWI_HELD_DEVICES_MAX];
    uint64_t total_bytes[GWI_HELD_DEVICES_MAX]; /* the card's memory; 0: unknown */
    gwi_held_pci pci[GWI_HELD_DEVICES_MAX];     /* where the card is */
} gwi_held;

/* Take an item of the recording. All items of a run must be passed, in order. */
void gwi_held_take(gwi_held *held, const gw_item *item);
void gwi_held_free(gwi_held *held);

#endif
