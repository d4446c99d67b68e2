/* The past runs, in the SQLite database `runs.db` of the state folder; docs/commands/history.md describes its columns.
 * With them, gpuwhy finds a run without reading recordings. One thread. */
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
    gw_certainty certainty; /* of the cause; GW_CERTAINTY_NONE: unknown, or no cause */
    bool good;              /* no fault was found, and the exit status is 0 */
    bool is_answer;         /* not a run, but an answer of `gpuwhy fit`; the answer is in `end` */
    bool unobserved;        /* no driver call of the run was recorded, so a clean verdict proves nothing */
    bool has_peak;          /* peak_bytes is known: the most device memory of one process on one card */
    bool has_batch;
    bool has_exit; /* exit_code (-1: a signal ended the program) and signal (0: none) are known */
    uint64_t peak_bytes, batch;
    int exit_code, signal;
    double seconds;            /* duration of the run; negative: unknown */
    char *cause;               /* owned, like all texts below; "" if there is none */
    char *end;                 /* "exited 1", "died of signal 9" */
    char *card;                /* names of the cards; "": unknown */
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

/* Which runs to read: those that match all of these. */
typedef struct gwi_past_query {
    const char *where; /* an SQL expression over the columns of the database; NULL: any run */
    const char *words; /* part of the command line; NULL: any run */
    bool has_key, has_start;
    uint64_t key, start_realtime_ns;
    size_t newest_max; /* only the newest runs; 0: no limit */
    int wait_ms;       /* how long to wait for a program that holds the database and makes no progress */
    uint64_t time_ms;  /* processor time that `where` may take; 0: 5 s */
} gwi_past_query;

/* Return the key of a command line and its working folder. Equal command lines in the same folder have equal keys. The
 * secrets in `argv` must be masked, as in a recording. */
uint64_t gwi_past_key(const gw_string_list *argv, const char *folder);

/* Return the batch size on a command line: the last of `--batch-size N`, `--batch N` and `-b N`, also with `=`. False:
 * there is none. */
bool gwi_past_batch(const gw_string_list *argv, uint64_t *ret_batch);

/* Add a judged run. `recording` is "" if the recording was not kept. `program` is the command line to list, in which
 * secrets are masked here; NULL: that of the verdict. May wait for other programs, for one second if they make no
 * progress, so print the verdict first. Prints a line if the run could not be added. */
void gwi_past_add(const gw_verdict *verdict, const char *recording, char *const *program);

/* Add an answer of `gpuwhy fit`. The secrets in `argv` must be masked. `batch` is 0 if it is unknown. */
void gwi_past_add_answer(const gw_string_list *argv, uint64_t start_realtime_ns, double seconds, uint64_t batch,
                         const char *answer);

/* Read the runs that match `query`. The list may be empty; it is if there is no database. Writes nothing, but undoes an
 * unfinished write.
 * - GW_MISSING: there is no state folder.
 * - GW_IO: cannot be read. GW_CORRUPT: the database is damaged. GW_VERSION: a newer gpuwhy wrote it.
 * - GW_USAGE: `where` is not valid SQL, or not allowed.
 * - GW_NOMEM: out of memory. */
GW_MUST_CHECK gw_status gwi_past_read(const gwi_past_query *query, gwi_past_list *ret_list, gw_error *err);
void gwi_past_free(gwi_past_list *list);

/* True if the run failed: a fault was found, it exited with an error, or a signal ended it. If a run is neither good
 * nor failed, it is unknown whether it failed. */
bool gwi_past_failed(const gwi_past *past);

/* Format an age as "3 min", "2 h" or "5 days". Returns `out`. */
enum { GWI_AGE_TEXT_MAX = 32 };
char *gwi_age_text(char out[GWI_AGE_TEXT_MAX], uint64_t ns);

/* The peaks of the runs of one command: those of the last GWI_PEAKS_MAX runs before one run, and that of the run
 * itself. Runs with an unknown peak are left out. */
enum { GWI_PEAKS_MAX = 10 };
typedef struct gwi_peaks {
    size_t count;                     /* number of earlier runs that are compared; 0: nothing to compare */
    bool all_good;                    /* the earlier runs ended well; false: none of them is known to have ended well */
    bool all_failed;                  /* each of the earlier runs exited with an error, or a signal ended it */
    uint64_t least_bytes, most_bytes; /* of the earlier runs */
    bool is_known;                    /* the peak of the run itself is known: bytes */
    bool is_end_known;                /* how the run itself ended is known: `failed` */
    bool failed;                      /* it exited with an error, or a signal ended it */
    uint64_t bytes;
} gwi_peaks;

/* Find the peaks before the run `of`, whose key and start are used. Good runs are preferred to failed ones. */
void gwi_peaks_find(const gwi_past_list *list, const gwi_past *of, gwi_peaks *ret_peaks);
/* Add "the last 10 good runs of this command peaked at 11.30 GiB, this one peaked at 16.00 GiB and failed". False:
 * there is nothing to compare. `this_one` names the run, such as "this one". */
bool gwi_peaks_text(const gwi_peaks *peaks, const char *this_one, gw_text *text);

/* Add the differences from the last good run of the same command as evidence to the verdict on the recording at `path`,
 * and the peaks of its last runs. Good runs whose recording is missing or too large are skipped.
 *
 * `folder` is the run's working folder; NULL: read it from the past runs. Adds nothing if the run is not known there,
 * or after half a second of CPU time. */
void gwi_last_good_say(gw_verdict *verdict, const char *path, const char *folder);

#endif
