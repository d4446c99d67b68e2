/* The device memory that a running program holds and keeps: sampled for `run --alarm-at` and `gpuwhy watch`. */
#ifndef GWI_MEMORY_H
#define GWI_MEMORY_H

#include "gwi_forecast.h"
#include "gwi_held.h"

enum { GWI_MEMORY_SAMPLES_MAX = 256, GWI_MEMORY_OTHERS = 9 };

typedef struct gwi_memory_device {
    uint64_t reserved_bytes, allocated_bytes; /* of the frameworks' allocators */
    /* the newest values of what was held beyond reserved_bytes; a ring */
    int64_t other_bytes[GWI_MEMORY_OTHERS];
    size_t other_count;
    gwi_held_sample sample[GWI_MEMORY_SAMPLES_MAX];
    size_t count;
} gwi_memory_device;

typedef struct gwi_memory {
    uint64_t limit_bytes;  /* --memory; 0: none */
    uint64_t looked_at_ns; /* run time */
    uint64_t worked_at_ns; /* run time of the last look that found new launches or waits; 0: none */
    uint64_t launches, waits, rounds;
    uint64_t now_launches, now_waits; /* while looking at the threads */
    gwi_held held;                    /* must get the items of the recording */
    gwi_memory_device device[GWI_HELD_DEVICES_MAX];
} gwi_memory;

/* Take samples if they are due (every 90 ms). Call it after a drain. */
void gwi_memory_look(gwi_memory *memory, gw_drain *drain, uint64_t now_ns);
/* Return the memory that the program can use on a device; 0: unknown. */
uint64_t gwi_memory_limit(const gwi_memory *memory, unsigned device);
/* Judge the samples of a device. Returns false if it was not used or its size is unknown. */
bool gwi_memory_forecast(const gwi_memory *memory, unsigned device, gwi_forecast *ret_forecast);

/* Return a process with PyTorch whose allocator is not followed, so that its cache would count as kept; 0: none. Reads
 * the maps of the processes, so do not call it often. */
uint32_t gwi_memory_blind_pid(gw_drain *drain);

#endif
