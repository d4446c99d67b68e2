/* A made-up recording for benchmarks. Out of 1,000,000 events, 460,000 are allocations and as many are frees (four
 * threads; 256 sizes from 512 B to 64 MiB, a quarter of them below 1 MiB; a random live block is freed), 30,000 are
 * stream-ordered allocations and as many frees, 7,500 are event creations and as many destructions, 4,999 are kernel
 * names with text, and 1 is a failed allocation. */
#ifndef GW_MADE_RECORDING_H
#define GW_MADE_RECORDING_H

#include "gw_recording.h"

/* Write `event_count` events to `path`. At most about `live_count` blocks are alive at a time, on average half of
 * them. Unless GW_OK, `err` has the reason. */
GW_MUST_CHECK gw_status gw_made_recording_write(const char *path, uint64_t event_count, uint64_t live_count,
                                                gw_error *err);

#endif
