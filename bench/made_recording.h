/* Write a synthetic recording for benchmarks.
 *
 * Of 1,000,000 events, 460,000 are allocations and as many are frees. They come from four threads, use 256 sizes from
 * 512 B to 64 MiB (a quarter of them below 1 MiB), and each free releases a random live block. 30,000 events are
 * stream-ordered allocations and as many are their frees, 7,500 create an event and as many destroy one, 4,999 are
 * kernel names with text, and 1 is a failed allocation. */
#ifndef GW_MADE_RECORDING_H
#define GW_MADE_RECORDING_H

#include "gw_recording.h"

/* Write `event_count` events to `path`. At most about `live_count` blocks are alive at a time, and half as many on
 * average. Unless GW_OK is returned, `err` contains the reason. */
GW_MUST_CHECK gw_status gw_made_recording_write(const char *path, uint64_t event_count, uint64_t live_count,
                                                gw_error *err);

#endif
