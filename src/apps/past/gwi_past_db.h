/* The database of past runs: opening and writing (past_db.c), and reading (past_db_read.c). */
#ifndef GWI_PAST_DB_H
#define GWI_PAST_DB_H

#include "gwi_past.h"

#include <sqlite3.h>
#include <time.h>

/* The columns, in the order of the statements; docs/commands/history.md describes them. NULL is unknown, or none. A
 * database with other columns has another number in `user_version`. */
#define GWI_PAST_COLUMNS(X)                                                                                            \
    X(start_ns, "INTEGER NOT NULL")                                                                                    \
    X(key, "TEXT NOT NULL")                                                                                            \
    X(kind, "TEXT NOT NULL")                                                                                           \
    X(status, "TEXT NOT NULL")                                                                                         \
    X(cause, "TEXT")                                                                                                   \
    X(certainty, "TEXT")                                                                                               \
    X(good, "INTEGER NOT NULL")                                                                                        \
    X(observed, "INTEGER NOT NULL")                                                                                    \
    X(peak, "INTEGER")                                                                                                 \
    X(batch, "INTEGER")                                                                                                \
    X(seconds, "REAL")                                                                                                 \
    X(ended, "TEXT NOT NULL")                                                                                          \
    X(exit, "INTEGER")                                                                                                 \
    X(signal, "INTEGER")                                                                                               \
    X(card, "TEXT")                                                                                                    \
    X(recording, "TEXT")                                                                                               \
    X(folder, "TEXT NOT NULL")                                                                                         \
    X(command, "TEXT NOT NULL")                                                                                        \
    X(attempts, "TEXT")

enum {
#define GW_X(name, type) COLUMN_##name,
    GWI_PAST_COLUMNS(GW_X)
#undef GW_X
        COLUMN_COUNT
};

#define GWI_PAST_TABLE "runs"
#define GWI_PAST_FIT   "fit" /* column `kind` of an answer of gpuwhy fit */

/* A connection. */
typedef struct gwi_past_db {
    sqlite3 *sqlite;  /* owned; NULL: not open */
    const char *path; /* borrowed from the caller */
    int version;      /* of the schema; 0: there is no table yet */
    /* How long to wait for other programs, and since when; see wait_for_lock(). */
    uint64_t wait_ns, wait_begin_ns, progress_ns;
    struct timespec changed; /* the last change of the file that was seen while waiting */
    bool is_announced;
} gwi_past_db;

const char *gwi_past_db_column(int column); /* the column's name; static */
/* Append the names of all columns, or their parameters (?1, ?2, ..). */
void gwi_past_db_add_columns(gw_text *sql, bool are_parameters);
/* Fail with SQLite's last error. */
gw_status gwi_past_db_fail(const gwi_past_db *db, gw_error *err);

/* Open the database at `path`. It must be closed even after an error. For writing, it is created if it is missing.
 *
 * `wait_ms` is how long to wait for a program that holds a lock and changes nothing. While other programs make
 * progress, the wait goes on, for at most ten seconds in all.
 *
 * GW_MISSING: there is no database. GW_IO: it cannot be opened, read or written, or other programs kept it busy.
 * GW_CORRUPT: not a database, or damaged. GW_VERSION: a newer gpuwhy wrote it. GW_NOMEM. */
GW_MUST_CHECK gw_status gwi_past_db_open(gwi_past_db *ret_db, const char *path, bool writes, int wait_ms,
                                         gw_error *err);
void gwi_past_db_close(gwi_past_db *db);

/* Add a run. Unless GW_OK, the run was not added. Errors as above. */
GW_MUST_CHECK gw_status gwi_past_db_add(const char *path, const gwi_past *past, int wait_ms, gw_error *err);
/* Read the matching runs, oldest first. Errors as above, and GW_USAGE: query->where is not valid or not allowed. */
GW_MUST_CHECK gw_status gwi_past_db_read(const char *path, const gwi_past_query *query, gwi_past_list *ret_list,
                                         gw_error *err);

/* Encode the earlier attempts for their column, and decode them. Decoding changes `text`, skips an incomplete attempt,
 * and returns false if out of memory. */
void gwi_past_attempts_encode(const gwi_past *past, gw_text *text);
bool gwi_past_attempts_decode(char *text, gwi_past *past);
/* Free the texts of a run. */
void gwi_past_clear(gwi_past *past);

#endif
