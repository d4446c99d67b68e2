/* Write a synthetic recording for benchmarks. Of 1,000,000 events, these are the averages:
 * - 460,000 allocations and 460,000 frees
 * - 30,000 stream-ordered allocations and 30,000 frees of this memory
 * - 7,500 event creations and 7,500 event destructions
 * - 4,999 kernel names with text
 * - 1 failed allocation
 *
 * The events come from four threads. Blocks have 256 sizes from 512 B to 64 MiB, about a quarter below 1 MiB. Each free
 * releases a random live block. */
#ifndef GW_MADE_RECORDING_H
#define GW_MADE_RECORDING_H

#include "gw_recording.h"

/* Write `event_count` events to `path`. `live_count` is the highest number of live blocks; half as many are alive on
 * average. Unless GW_OK, `err` has the reason. */
GW_MUST_CHECK gw_status gw_made_recording_write(const char *path, uint64_t event_count, uint64_t live_count,
                                                gw_error *err);

#endif
