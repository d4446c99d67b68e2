/* Makes a recording smaller, but keeps the events that show which objects are alive.
 *
 * A new file is written beside the old one and renamed over it. The newer half is copied unchanged. Of the older half,
 * these items are kept:
 * - facts
 * - failures (the first 64 of each function and result in a process)
 * - events that create or destroy an object, unless the older half has both
 * - other events whose kind is marked KEEP in gw_event.h
 * - the first and the last whole sample of each source and device
 * - the last state of each thread
 * - the last 256 KiB of stderr */
#ifndef GWI_COMPACT_H
#define GWI_COMPACT_H

#include "gwi_block.h"

typedef struct gwi_compacted {
    uint64_t events_dropped; /* number of events dropped by this compaction, not in total */
    uint64_t alive_dropped;  /* dropped events that a model needs; above 0 only if bytes_max is too small */
} gwi_compacted;

/* Compact the recording at `path`. On GW_OK, `ret_out` is the new file, open for appending. On failure, the old file is
 * unchanged and `ret_out` needs no cleanup. */
gw_status gwi_compact(const char *path, uint64_t bytes_max, gwi_out *ret_out, gwi_compacted *ret_done, gw_error *err);

#endif
