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

/* Judges from samples of the held memory whether a program keeps more and more of it, and when the card will be full.
 *
 * The memory that is kept at a time is the lowest value from then on: what is held for an iteration and freed does not
 * count. Growth is measured over rounds of work (launches that the program waited for), not over time, so that building
 * a model, or one long first iteration, is no growth. It must go on: a warm-up or a phase that takes memory once is no
 * growth either. */

typedef struct gwi_held_sample {
    uint64_t t_ns;
    uint64_t rounds; /* rounds of work so far; never falls */
    uint64_t bytes;  /* held memory that the framework's cache could not give back */
} gwi_held_sample;

typedef struct gwi_forecast {
    bool grows;
    uint64_t kept_bytes;     /* held now, without what the last rounds may still free */
    double bytes_per_minute; /* if `grows`, like all fields below */
    double full_s;           /* seconds until kept_bytes reaches the limit; 0 if it already has */
    uint64_t since_ns;       /* start of the time over which bytes_per_minute was measured */
} gwi_forecast;

/* Judge `count` samples in order of time. `limit_bytes`: the memory of the card, or the guard's limit; not 0. Returns
 * no growth if there are too few samples or rounds to tell. */
void gwi_forecast_make(const gwi_held_sample *sample, size_t count, uint64_t limit_bytes, gwi_forecast *ret_forecast);

/* Add a sample to an array with room for `room` samples, at least 4. If it is full, first merge each two neighbours
 * into one with the lower bytes. Returns the new count. */
size_t gwi_forecast_add(gwi_held_sample *sample, size_t count, size_t room, gwi_held_sample one);

#endif
