/* Prints the list of `gpuwhy history` as text or as JSON. */
#ifndef GWI_HISTORY_H
#define GWI_HISTORY_H

#include "gw_compare.h"
#include "gwi_past.h"

/* All known runs of one command, called its attempts. */
typedef struct gwi_attempts_view {
    bool is_there;          /* false: the user asked for no command, or the command has only one attempt */
    const gwi_past *newest; /* borrowed from the list */
    size_t good, failed;    /* number of attempts that ended well, and that failed */
    size_t gone,
        slow; /* attempts whose recording is missing or unreadable; attempts whose recording took too long to read */
    gw_splits splits;   /* owned */
    bool may_be_chance; /* the differences may be chance */
} gwi_attempts_view;

typedef struct gwi_history_view {
    const gwi_past **run; /* owned, but the runs are borrowed; oldest first */
    size_t run_count;
    gwi_attempts_view attempts;
} gwi_history_view;

/* Write the list to standard output. GW_IO: writing failed. GW_USAGE: this build has no JSON. */
GW_MUST_CHECK gw_status gwi_history_write_json(const gwi_history_view *view, gw_error *err);

#endif
