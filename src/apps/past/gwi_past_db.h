/* The database of past runs: opening and writing (past_db.c), and reading (past_db_read.c). */
#ifndef GWI_PAST_DB_H
#define GWI_PAST_DB_H

#include "gwi_past_runs.h"

#include <sqlite3.h>
#include <time.h>

/* The version of the schema (`user_version`). The first one had 19 columns, and columns are only ever added. */
enum { GWI_PAST_SCHEMA = GWI_COLUMN_COUNT - 18 };

#define GWI_PAST_TABLE "runs"

/* A connection. */
typedef struct gwi_past_db {
    sqlite3 *sqlite;  /* owned; NULL: not open */
    const char *path; /* borrowed from the caller */
    int version;      /* of the schema; 0: there is no table yet */
    gw_path lock;     /* the folder that is our lock; "": none */
    /* How long to wait for other programs, and since when; see wait_for_lock(). */
    uint64_t wait_ns, wait_begin_ns, progress_ns;
    struct timespec changed; /* the last change of the file that was seen while waiting */
    bool is_announced;
} gwi_past_db;

/* True if the table has this column. */
bool gwi_past_db_has(const gwi_past_db *db, const char *column);
/* Fail with SQLite's last error. */
gw_status gwi_past_db_fail(const gwi_past_db *db, gw_error *err);

/* Open the database at `path`. It must be closed even after an error. A connection for writing creates the file and the
 * table, or adds the columns that a table of an older gpuwhy lacks.
 *
 * `wait_ms` is how long to wait for a program that holds a lock and changes nothing. While other programs make
 * progress, the wait goes on, for at most half as long again.
 *
 * GW_MISSING: there is no database. GW_IO: it cannot be opened, read or written, or other programs kept it busy.
 * GW_CORRUPT: not a database, or damaged; the text has the command that begins a new list. GW_VERSION: a newer gpuwhy
 * wrote it. GW_NOMEM. */
GW_MUST_CHECK gw_status gwi_past_db_open(gwi_past_db *ret_db, const char *path, bool writes, int wait_ms,
                                         gw_error *err);
void gwi_past_db_close(gwi_past_db *db);

/* Add a run. Unless GW_OK, the run was not added. Errors as above. */
GW_MUST_CHECK gw_status gwi_past_db_add(const char *path, const gwi_past *past, int wait_ms, gw_error *err);
/* Read the matching runs, oldest first. Errors as above, and GW_USAGE: query->where is not valid or not allowed. */
GW_MUST_CHECK gw_status gwi_past_db_read(const char *path, const gwi_past_query *query, gwi_past_list *ret_list,
                                         gw_error *err);

#endif
