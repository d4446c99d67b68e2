/* Makes a recording smaller without losing what is alive.
 *
 * A new file is written beside the old one and renamed over it. The newer half is copied unchanged. Of the older half
 * these are kept: facts; failures (the first 64 of each function and result in a process); of events that create and
 * destroy an object (allocate and free, load and unload, ...) those whose partner is in the newer half or missing, so
 * that a model knows what is alive; the last state of each thread; the last 256 KiB of stderr. */
#ifndef GWI_COMPACT_H
#define GWI_COMPACT_H

#include "gwi_block_out.h"

typedef struct gwi_compacted {
    uint64_t events_dropped; /* by this compaction, not in total */
    uint64_t alive_dropped;  /* of these, events that a model would have needed, because the limit is too small */
} gwi_compacted;

/* GW_OK: `ret_out` continues the smaller file at `path`. Otherwise the old file is unchanged and no resource is
 * held. */
gw_status gwi_compact(const char *path, uint64_t bytes_max, gwi_out *ret_out, gwi_compacted *ret_done, gw_error *err);

#endif
