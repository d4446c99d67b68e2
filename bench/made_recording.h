/* A recording made up for benchmarks. The mix, of 100,000 events: 46,000 allocations and 46,000 frees (four threads;
 * sizes from 512 B to 64 MiB in steps of 512 B; a random live block is freed), 3,000 stream-ordered allocations and
 * 3,000 frees, 750 event creations and as many destructions, 499 kernel names with text, 1 failed allocation. */
#ifndef GW_MADE_RECORDING_H
#define GW_MADE_RECORDING_H

#include "gw_recording.h"

/* Write `event_count` events to `path`, about `live_count` blocks alive at a time (at half of them on average).
 * Unless GW_OK, `err` says why. */
GW_MUST_CHECK gw_status gw_made_recording_write(const char *path, uint64_t event_count, uint64_t live_count,
                                                gw_error *err);

#endif
