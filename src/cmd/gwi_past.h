/* The list of past runs: one line per run in `<state folder>/runs`. With it, gpuwhy finds a run without reading
 * recordings.
 *
 * If the file exceeds PAST_BYTES_MAX, only the newest lines are kept, up to PAST_BYTES_MAX / 2 bytes. Damaged lines and
 * lines of newer versions are skipped. A run that cannot be added is only missing from the list. */
#ifndef GWI_PAST_H
#define GWI_PAST_H

#include "gw_place.h"
#include "gw_text.h"
#include "gw_verdict.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An earlier attempt of a run (`gpuwhy run --restart`). The texts are owned. */
typedef struct gwi_past_attempt {
    char *cause, *end, *recording; /* "" if there is none */
} gwi_past_attempt;

typedef struct gwi_past {
    uint64_t start_realtime_ns;
    uint64_t key; /* hash of the command line and the working folder; see gwi_past_key() */
    gw_verdict_status status;
    bool good;                 /* no fault was found, and the exit status is 0 */
    bool is_answer;            /* not a run, but an answer of `gpuwhy fit`; the answer is in `end` */
    bool unobserved;           /* no driver call of the run was recorded, so a clean verdict proves nothing */
    double seconds;            /* duration of the run */
    char *cause;               /* owned, like all texts below; "" if there is none */
    char *end;                 /* "exited 1", "died of signal 9" */
    char *recording;           /* absolute path; "" if the recording was not kept */
    char *folder;              /* the working folder */
    char *command;             /* the arguments, separated by blanks, with secrets masked */
    gwi_past_attempt *attempt; /* owned; the attempts before the last one, in order */
    size_t attempt_count;
} gwi_past;

typedef struct gwi_past_list {
    gwi_past *item; /* owned; the newest run is last */
    size_t count, capacity;
} gwi_past_list;

/* Return the key of a command line and its working folder. Equal command lines in the same folder have equal keys. The
 * secrets in `argv` must be masked, as in a recording. */
uint64_t gwi_past_key(const gw_string_list *argv, const char *folder);

/* Add a judged run to the list. `recording` is "" if the recording was not kept. `program` is the command line to list,
 * in which secrets are masked here; NULL: that of the verdict. */
void gwi_past_add(const gw_verdict *verdict, const char *recording, char *const *program);

/* Add an answer of `gpuwhy fit` to the list. The secrets in `argv` must be masked. */
void gwi_past_add_answer(const gw_string_list *argv, uint64_t start_realtime_ns, double seconds, const char *answer);

/* Read all runs. The list may be empty. GW_MISSING: there is no state folder. GW_IO: the list cannot be opened.
 * GW_NOMEM: out of memory. */
GW_MUST_CHECK gw_status gwi_past_read(gwi_past_list *ret_list, gw_error *err);
void gwi_past_free(gwi_past_list *list);

/* Format an age as "3 min", "2 h" or "5 days". Returns `out`. */
enum { GWI_AGE_TEXT_MAX = 32 };
char *gwi_age_text(char out[GWI_AGE_TEXT_MAX], uint64_t ns);

/* Add the differences from the last good run of the same command as evidence to the verdict on the recording at `path`.
 * Good runs whose recording is missing or too large are skipped.
 *
 * `folder` is the run's working folder; NULL: read it from the list of past runs. Adds nothing if the run is not in the
 * list, or after half a second of CPU time. */
void gwi_last_good_say(gw_verdict *verdict, const char *path, const char *folder);

#endif
