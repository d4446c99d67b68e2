/* A recording made up for benchmarks. The mix, of 1,000,000 events: 460,000 allocations and as many frees (four
 * threads; 256 sizes from 512 B to 64 MiB, a quarter of them below 1 MiB; a random live block is freed), 30,000
 * stream-ordered allocations and as many frees, 7,500 event creations and as many destructions, 4,999 kernel names with
 * text, 1 failed allocation. */
#ifndef GW_MADE_RECORDING_H
#define GW_MADE_RECORDING_H

#include "gw_recording.h"

/* Write `event_count` events to `path`, about `live_count` blocks alive at a time (at half of them on average).
 * Unless GW_OK, `err` says why. */
GW_MUST_CHECK gw_status gw_made_recording_write(const char *path, uint64_t event_count, uint64_t live_count,
                                                gw_error *err);

#endif
