/* Past runs: one line each in `<state folder>/runs`, so that a run can be found without reading recordings.
 *
 * At least the newest PAST_BYTES_MAX / 2 bytes of lines are kept. Damaged lines, and those of newer versions, are
 * skipped. A run that cannot be written is missing from the list; nothing else fails. */
#ifndef GWI_PAST_H
#define GWI_PAST_H

#include "gw_place.h"
#include "gw_text.h"
#include "gw_verdict.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gwi_past {
    uint64_t start_realtime_ns;
    uint64_t key; /* hash of command line and working folder: gwi_past_key() */
    gw_verdict_status status;
    bool good;       /* clean, and exit 0 */
    bool unobserved; /* it ended well, but no driver call was observed */
    double seconds;  /* duration */
    char *cause;     /* owned, like all texts below; "": none */
    char *end;       /* "exited 1", "died of signal 9" */
    char *recording; /* absolute path; "": not kept */
    char *folder;    /* the working folder */
    char *command;   /* the masked words, with blanks in between */
} gwi_past;

typedef struct gwi_past_list {
    gwi_past *item; /* owned; newest last */
    size_t count, capacity;
} gwi_past_list;

/* The key that two runs of one command share. `argv` is masked. */
uint64_t gwi_past_key(const gw_string_list *argv, const char *folder);

/* Add a judged run. `recording` "": it was not kept. */
void gwi_past_add(const gw_verdict *verdict, const char *recording);

/* Read all runs. The list may be empty. GW_MISSING: there is no state folder. GW_NOMEM. */
GW_MUST_CHECK gw_status gwi_past_read(gwi_past_list *ret_list, gw_error *err);
void gwi_past_free(gwi_past_list *list);

/* "3 min", "2 h", "5 days". Writes to `out` and returns it. */
enum { GWI_AGE_TEXT_MAX = 32 };
char *gwi_age_text(char out[GWI_AGE_TEXT_MAX], uint64_t ns);

/* Add evidence to the verdict on the recording at `path`: what was different when the same command last ended well.
 * `folder` is the run's working folder; NULL: use the folder in the run's line of the list, and without such a line do
 * nothing. Takes at most half a second, and adds nothing if that run's recording is gone or too large for this time. */
void gwi_last_good_say(gw_verdict *verdict, const char *path, const char *folder);

#endif
