/* Prints the list of `gpuwhy history` as JSON. */
#ifndef GWI_HISTORY_H
#define GWI_HISTORY_H

#include "gw_compare.h"
#include "gwi_past.h"

/* The attempts of one command: all its runs in the list of past runs. */
typedef struct gwi_attempts_view {
    bool is_there;          /* false: the user named no command, or the command has only one attempt */
    const gwi_past *newest; /* borrowed from the list */
    size_t good, failed;    /* number of good and of failed attempts */
    size_t unknown;         /* number of the others: it is not known whether they failed */
    size_t gone, slow;  /* gone: attempts whose recording is missing or unreadable; slow: attempts whose recording could
                           not be read in time */
    gw_splits splits;   /* owned */
    gwi_peaks peaks;    /* of the newest run and those before it */
    bool may_be_chance; /* the differences in `splits` may be chance: too few attempts, or splits.chance is high */
} gwi_attempts_view;

typedef struct gwi_history_view {
    const gwi_past **run; /* owned array, oldest first; the runs are borrowed from the list */
    size_t run_count;
    gwi_attempts_view attempts;
} gwi_history_view;

/* Print the list. GW_NOMEM: out of memory. main() reports if standard output cannot be written. */
GW_MUST_CHECK gw_status gwi_history_write_json(const gwi_history_view *view, gw_error *err);

#endif
