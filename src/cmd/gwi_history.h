/* `gpuwhy history`: what it has to show, as text or as JSON. */
#ifndef GWI_HISTORY_H
#define GWI_HISTORY_H

#include "gw_compare.h"
#include "gwi_past.h"

/* The attempts of one command, newest last among the runs that are shown. */
typedef struct gwi_attempts_view {
    bool is_there;          /* false: no command was asked for, or there is but one attempt of it */
    const gwi_past *newest; /* borrowed from the list */
    size_t good, failed;    /* of all that are known */
    size_t gone, slow;      /* recordings that are not there or cannot be read; that took too long */
    gw_splits splits;       /* owned */
    bool may_be_chance;     /* what splits them */
} gwi_attempts_view;

typedef struct gwi_history_view {
    const gwi_past **run; /* owned, the runs are borrowed; oldest first */
    size_t run_count;
    gwi_attempts_view attempts;
} gwi_history_view;

/* To standard output. GW_IO; GW_USAGE: this build lacks JSON. */
GW_MUST_CHECK gw_status gwi_history_write_json(const gwi_history_view *view, gw_error *err);

#endif
