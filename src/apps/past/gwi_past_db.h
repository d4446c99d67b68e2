/* The two parts of the database of past runs: opening and writing (past_db.c), and reading (past_db_read.c). */
#ifndef GWI_PAST_DB_H
#define GWI_PAST_DB_H

#include "gwi_past_store.h"

#include <sqlite3.h>

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

const char *gwi_past_db_column(int column); /* the column's name; static */
/* Append the names of all columns, or their parameters (?1, ?2, ..). */
void gwi_past_db_add_columns(gw_text *sql, bool are_parameters);
/* Fail with SQLite's last error. */
gw_status gwi_past_db_fail(sqlite3 *db, const char *path, gw_error *err);

/* Open the database. *ret_db must be closed even after an error. *ret_version is 0 if it has no table yet. Errors as in
 * gwi_past_store.h. */
GW_MUST_CHECK gw_status gwi_past_db_open(const char *path, bool writes, int wait_ms, sqlite3 **ret_db, int *ret_version,
                                         gw_error *err);
/* Like gwi_past_db_open(), and create the table if it is missing. */
GW_MUST_CHECK gw_status gwi_past_db_open_for_writing(const char *path, int wait_ms, sqlite3 **ret_db, gw_error *err);

#endif
