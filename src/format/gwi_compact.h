/* Making a recording smaller without losing what was alive.
 *
 * The file is written anew beside itself and renamed over. Its newer half is copied as it is. Of the older half stay:
 * facts; failures (the first 64 of each function and result in a process); of events that make and end a thing
 * (allocate and free, load and unload, ...) those whose partner lies outside, so that a model knows what is alive; the
 * last state of each thread; the last 256 KiB of stderr. */
#ifndef GWI_COMPACT_H
#define GWI_COMPACT_H

#include "gwi_block_out.h"

typedef struct gwi_compacted {
    uint64_t events_dropped; /* now, not in total */
    uint64_t alive_dropped;  /* of these, events that a model would have needed: the limit is too small */
} gwi_compacted;

/* GW_OK: `ret_out` continues the smaller file at `path`. Else the old file is as it was and nothing is held. */
gw_status gwi_compact(const char *path, uint64_t bytes_max, gwi_out *ret_out, gwi_compacted *ret_done, gw_error *err);

#endif
