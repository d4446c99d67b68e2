/* The runs of the past: one line each in `<state folder>/runs`, so that nobody has to read recordings to find one.
 *
 * The newest PAST_BYTES_MAX / 2 bytes of lines are kept at least. Lines that are damaged, or from a newer version, are
 * passed over. Writing never fails loudly: who cannot write there goes without. */
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
    uint64_t key; /* of command line and working folder: gwi_past_key() */
    gw_verdict_status status;
    bool good;       /* clean, and exit 0 */
    bool unobserved; /* it ended well, but no driver call was observed */
    double seconds;  /* how long it ran */
    char *cause;     /* owned, as are all below; "" none */
    char *end;       /* "exited 1", "died of signal 9" */
    char *recording; /* absolute; "" it was not kept */
    char *folder;    /* the working folder */
    char *command;   /* the words, masked, with blanks between */
} gwi_past;

typedef struct gwi_past_list {
    gwi_past *item; /* owned; the newest last */
    size_t count, capacity;
} gwi_past_list;

/* What two runs of one command have in common. `argv` is masked. */
uint64_t gwi_past_key(const gw_string_list *argv, const char *folder);

/* Add the run that was judged. `recording` "": it is not kept. */
void gwi_past_add(const gw_verdict *verdict, const char *recording);

/* All that is known. GW_MISSING: there is no state folder; without any run the list is empty. GW_NOMEM. */
GW_MUST_CHECK gw_status gwi_past_read(gwi_past_list *ret_list, gw_error *err);
void gwi_past_free(gwi_past_list *list);

/* "3 min", "2 h", "5 days". Writes to `out`, returns it. */
enum { GWI_AGE_TEXT_MAX = 32 };
char *gwi_age_text(char out[GWI_AGE_TEXT_MAX], uint64_t ns);

/* Add what was different when the same command last ended well as evidence to the verdict on the recording at `path`.
 * `folder`: the run's working folder; NULL: it is the one of the line in the list that tells of this run, and without
 * such a line nothing is said. Takes half a second at most, and says nothing when that run's recording is gone or too
 * large for it. */
void gwi_last_good_say(gw_verdict *verdict, const char *path, const char *folder);

#endif
