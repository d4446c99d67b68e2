/* The list of past runs: one line per run in `<state folder>/runs`, so that gpuwhy can find a run without reading
 * recordings.
 *
 * If the file grows beyond PAST_BYTES_MAX, only the newest lines are kept, up to PAST_BYTES_MAX / 2 bytes. Damaged
 * lines and lines of newer versions are skipped. If a run cannot be added, it is missing from the list, and nothing
 * else fails. */
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
    uint64_t key; /* hash of the command line and the working folder; see gwi_past_key() */
    gw_verdict_status status;
    bool good;       /* no fault was found, and the exit status is 0 */
    bool is_answer;  /* not a run, but an answer of `gpuwhy fit`; the answer is in `end` */
    bool unobserved; /* no driver call of the run was recorded, so a clean verdict proves nothing */
    double seconds;  /* duration of the run */
    char *cause;     /* owned, like all texts below; "" if there is none */
    char *end;       /* "exited 1", "died of signal 9" */
    char *recording; /* absolute path; "" if the recording was not kept */
    char *folder;    /* the working folder */
    char *command;   /* the arguments, separated by blanks, with secrets masked */
} gwi_past;

typedef struct gwi_past_list {
    gwi_past *item; /* owned; the newest run is last */
    size_t count, capacity;
} gwi_past_list;

/* Return the key of a command, which all runs of the command in this folder share. The secrets in `argv` must be
 * masked. */
uint64_t gwi_past_key(const gw_string_list *argv, const char *folder);

/* Add a judged run to the list. `recording` is "" if the recording was not kept. */
void gwi_past_add(const gw_verdict *verdict, const char *recording);

/* Add an answer of `gpuwhy fit` to the list. The secrets in `argv` must be masked. */
void gwi_past_add_answer(const gw_string_list *argv, uint64_t start_realtime_ns, double seconds, const char *answer);

/* Read all runs. The list may be empty. GW_MISSING: there is no state folder. GW_IO: the list cannot be opened.
 * GW_NOMEM: out of memory. */
GW_MUST_CHECK gw_status gwi_past_read(gwi_past_list *ret_list, gw_error *err);
void gwi_past_free(gwi_past_list *list);

/* Format an age as "3 min", "2 h" or "5 days". Returns `out`. */
enum { GWI_AGE_TEXT_MAX = 32 };
char *gwi_age_text(char out[GWI_AGE_TEXT_MAX], uint64_t ns);

/* Add evidence to the verdict on the recording at `path`: the differences from the last good run of the same command.
 * `folder` is the run's working folder. If it is NULL, the folder is read from the list of past runs; if the run is not
 * in the list, nothing is added. The function uses at most half a second of CPU time. It adds nothing if the recording
 * of the good run is missing or too large to be read in this time. */
void gwi_last_good_say(gw_verdict *verdict, const char *path, const char *folder);

#endif
