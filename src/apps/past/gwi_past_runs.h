/* The past runs, in the SQLite database `runs.db` of the state folder. past_columns.def describes its columns. With
 * them, gpuwhy finds a run without reading recordings. One thread. */
#ifndef GWI_PAST_RUNS_H
#define GWI_PAST_RUNS_H

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

/* The types of the columns. All texts are owned. In a run that was read, they are not NULL, but may be "". */
typedef uint64_t gwi_column_time; /* ns since 1970-01-01 UTC */
typedef uint64_t gwi_column_key;  /* see gwi_past_key() */
typedef enum gwi_past_kind { GWI_PAST_RUN, GWI_PAST_REHEARSAL, GWI_PAST_FIT, GWI_PAST_KINDS } gwi_column_kind;
typedef gw_verdict_status gwi_column_status;
typedef gw_certainty gwi_column_certainty;
typedef bool gwi_column_flag;
typedef struct gwi_column_number {
    bool is_known;
    uint64_t value;
} gwi_column_number;
typedef double gwi_column_seconds; /* negative: unknown */
typedef char *gwi_column_words;    /* never NULL in the database */
typedef char *gwi_column_text;     /* NULL or "": unknown, or none */
typedef struct gwi_column_attempts {
    gwi_past_attempt *item; /* owned; in order */
    size_t count;
} gwi_column_attempts;

/* The columns of one run. */
typedef struct gwi_past {
#define GWI_COLUMN(type, field, column, json, meaning) gwi_column_##type field;
#include "past_columns.def"
    size_t number; /* @number is its handle: its place among all runs, 1 for the newest; 0: not asked for */
    bool is_going; /* never in the database */
} gwi_past;

enum {
#define GWI_COLUMN(type, field, column, json, meaning) GWI_COLUMN_##field,
#include "past_columns.def"
    GWI_COLUMN_COUNT
};

/* The descriptions of the columns, in the order of past_columns.def. */
typedef struct gwi_past_column {
    const char *name, *type, *meaning; /* type: in SQL */
} gwi_past_column;
extern const gwi_past_column gwi_past_columns[GWI_COLUMN_COUNT];

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
    bool is_numbered;  /* number the runs even if only some are read; without other conditions, they always are */
    int wait_ms;       /* how long to wait for a program that holds the database and makes no progress */
    uint64_t time_ms;  /* processor time that `where` may take; 0: 5 s */
} gwi_past_query;

/* Return the key of a command line and its working folder. Equal command lines in the same folder have equal keys. The
 * secrets in `argv` must be masked, as in a recording. */
uint64_t gwi_past_key(const gw_string_list *argv, const char *folder);

enum { GWI_KEY_TEXT_MAX = 17 };
char *gwi_past_key_text(char out[GWI_KEY_TEXT_MAX], uint64_t key); /* as 16 hexadecimal digits; returns `out` */
const char *gwi_past_kind_text(gwi_column_kind kind);

/* Return the batch size on a command line: the last of `--batch-size N`, `--batch N` and `-b N`, also with `=`. False:
 * there is none. */
bool gwi_past_batch(const gw_string_list *argv, uint64_t *ret_batch);

/* Add a judged run. `recording` is "" if the recording was not kept. `folder` is where the command was started; NULL:
 * the current one. `program` is the command line to list, in which
 * secrets are masked here; NULL: that of the verdict. May wait for other programs, for one second if they make no
 * progress, so print the verdict first. Prints a line if the run could not be added. */
void gwi_past_add(const gw_verdict *verdict, const char *recording, char *const *program, const char *folder);

/* Add an answer of `gpuwhy fit` to the command line `program`. `batch` is 0 if it is unknown; `good`: a batch fits. */
void gwi_past_add_answer(char *const *program, uint64_t start_realtime_ns, double seconds, uint64_t batch, bool good,
                         const char *answer);

/* Read the runs that match `query`. The list may be empty; it is if there is no database. Writes nothing, but undoes an
 * unfinished write, and adds the columns that a database of an older gpuwhy lacks.
 * - GW_MISSING: there is no state folder.
 * - GW_IO: cannot be read. GW_CORRUPT: the database is damaged. GW_VERSION: a newer gpuwhy wrote it.
 * - GW_USAGE: `where` is not valid SQL, or not allowed.
 * - GW_NOMEM: out of memory. */
GW_MUST_CHECK gw_status gwi_past_read(const gwi_past_query *query, gwi_past_list *ret_list, gw_error *err);
void gwi_past_clear(gwi_past *past); /* free the texts */
void gwi_past_free(gwi_past_list *list);

/* True if the program exited with an error, or a signal ended it. */
bool gwi_past_ended_badly(const gwi_past *past);
/* True if the run failed: a fault was found, or it ended badly. If a run is neither good nor failed, it is unknown
 * whether it failed. */
bool gwi_past_failed(const gwi_past *past);
/* Fill in how the program ended, and its peak. */
void gwi_past_take_end(gwi_past *past, const gw_verdict *verdict);

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
