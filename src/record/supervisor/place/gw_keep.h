/* Limits the number, size and age of the recordings in the state folder.
 *
 * Never removed: a recording made with -o or under a name that gpuwhy did not choose, the newest one, and those of runs
 * in progress. These may exceed the limits. */
#ifndef GW_KEEP_H
#define GW_KEEP_H

#include "gw_status.h"

#include <stdbool.h>
#include <stdint.h>

/* Limits of the state folder. 0 means no limit. */
typedef struct gw_keep_limits {
    uint64_t recordings; /* number of recordings; each is counted together with its core dumps, logs and second run */
    uint64_t bytes;      /* disk space of all recordings together */
    uint64_t days;
} gw_keep_limits;

/* Read the limits from the configuration of this process. GW_USAGE: the configuration has errors; the user may want to
 * keep more than the limits that were read. */
GW_MUST_CHECK gw_status gw_keep_limits_read(gw_keep_limits *ret_limits, gw_error *err);

typedef struct gw_keep_result {
    uint64_t kept, kept_bytes;
    uint64_t removed, removed_bytes;
} gw_keep_result;

/* Remove the oldest recordings until the others are within the limits. Safe while other runs are in progress. Returns
 * GW_OK, GW_IO or GW_NOMEM. */
GW_MUST_CHECK gw_status gw_keep_apply(const gw_keep_limits *limits, gw_keep_result *ret_result, gw_error *err);

#endif
