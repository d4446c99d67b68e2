/* The past runs in a SQLite database.
 *
 * Each run opens the database, adds one row with one statement, and closes it. The journal is SQLite's default one, not
 * a write-ahead log: that needs memory shared by all programs that use the file, which does not work if a machine
 * exports its own disk to others, and a program that may not write to the folder could not read it.
 *
 * SQLite takes fcntl() locks. If a file system has none, SQLite would wait for its whole time limit, because it takes
 * ENOLCK for a lock that another program holds. So we try one lock ourselves before we open the database. */
#include "gwi_past_db.h"

#include "gw_say.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const column_names[] = {
#define GW_X(name, type) #name,
    GWI_PAST_COLUMNS(GW_X)
#undef GW_X
};
_Static_assert(sizeof column_names / sizeof column_names[0] == COLUMN_COUNT, "a name for each column");

const char *gwi_past_db_column(int column)
{
    return column_names[column];
}

enum {
    SCHEMA = 1, /* in user_version */
    WRITE_WAIT_MS = 10000,
    ALWAYS = COLUMN_COUNT + 1
};

/* The newest 100,000 rows are kept. The trigger is part of the statement that adds a row. */
static const char schema[] = "CREATE TABLE runs(id INTEGER PRIMARY KEY"
#define GW_X(name, type) "," #name " " type
    GWI_PAST_COLUMNS(GW_X)
#undef GW_X
        ");"
        "CREATE INDEX runs_key ON runs(key, start_ns);"
        "CREATE INDEX runs_start ON runs(start_ns);"
        "CREATE TRIGGER runs_keep AFTER INSERT ON runs WHEN new.id % 1000 = 0 BEGIN"
        " DELETE FROM runs WHERE id <= new.id - 100000; END;"
        "PRAGMA user_version = 1";

/* ---- errors ---- */

static gw_status status_of(int code)
{
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return GW_NOMEM;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR: /* our own statements are wrong only if the table is another one */
    case SQLITE_MISMATCH:
    case SQLITE_CONSTRAINT:
        return GW_CORRUPT;
    default:
        return GW_IO;
    }
}

gw_status gwi_past_db_fail(sqlite3 *db, const char *path, gw_error *err)
{
    int code = sqlite3_extended_errcode(db);
    return gw_fail(err, status_of(code), "%s: %s", path, sqlite3_errmsg(db));
}

/* ---- opening ---- */

/* Try one lock. Returns GW_UNSUPPORTED if the file system has none. A lock that another program holds is no error. */
static gw_status try_lock(int fd, bool writes, const char *path, gw_error *err)
{
    struct flock lock = {.l_type = writes ? F_WRLCK : F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
    if (fcntl(fd, F_SETLK, &lock) == 0 || errno == EAGAIN || errno == EACCES)
        return GW_OK;
    return gw_fail(err, GW_UNSUPPORTED, "%s: the file system cannot lock files: %s", path, strerror(errno));
}

/* Open the file to see whether it is there and can be locked. It is created with mode 0600; SQLite takes an empty file
 * for a new database. The lock ends with close(). */
static gw_status check_file(const char *path, bool writes, gw_error *err)
{
    int fd = open(path, (writes ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return gw_fail(err, errno == ENOENT ? GW_MISSING : GW_UNSUPPORTED, "open %s: %s", path, strerror(errno));
    gw_status st = try_lock(fd, writes, path, err);
    close(fd);
    return st;
}

static gw_status run_sql(sqlite3 *db, const char *sql, const char *path, gw_error *err)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? GW_OK : gwi_past_db_fail(db, path, err);
}

static gw_status read_version(sqlite3 *db, const char *path, int *ret_version, gw_error *err)
{
    sqlite3_stmt *statement = NULL;
    gw_status st = GW_OK;
    if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        st = gwi_past_db_fail(db, path, err);
    else
        *ret_version = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    if (st == GW_OK && (*ret_version < 0 || *ret_version > SCHEMA))
        st = gw_fail(err, GW_VERSION, "%s was written by a newer version of gpuwhy (schema %d, known is %d)", path,
                     *ret_version, (int)SCHEMA);
    return st;
}

/* SQLite calls this while another program holds a lock; `count` is the number of earlier calls for this lock. Returns 0
 * if the time is up. A wait that the user can notice is announced. */
static int wait_for_lock(void *wait_ms, int count)
{
    enum { SHORT_MS = 2, SHORT_COUNT = 50, LONG_MS = 20, SILENT_MS = 1000 };
    intptr_t left_ms = (intptr_t)wait_ms;
    intptr_t waited_ms = (intptr_t)SHORT_MS * count;
    if (count > SHORT_COUNT)
        waited_ms = SHORT_MS * SHORT_COUNT + (intptr_t)LONG_MS * (count - SHORT_COUNT);
    left_ms -= waited_ms;
    if (left_ms <= 0)
        return 0;
    intptr_t ms = count < SHORT_COUNT ? SHORT_MS : LONG_MS;
    if (waited_ms < SILENT_MS && waited_ms + ms >= SILENT_MS && left_ms > ms)
        gw_say("waiting up to %d s for another program that uses the list of past runs", (int)(left_ms / 1000) + 1);
    usleep((useconds_t)(ms < left_ms ? ms : left_ms) * 1000);
    return 1;
}

gw_status gwi_past_db_open(const char *path, bool writes, int wait_ms, sqlite3 **ret_db, int *ret_version,
                           gw_error *err)
{
    gw_status st = check_file(path, writes, err);
    *ret_db = NULL;
    if (st != GW_OK)
        return st;
    int flags = (writes ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(path, ret_db, flags, NULL) != SQLITE_OK)
        return *ret_db == NULL ? gw_fail(err, GW_NOMEM, "open %s", path) : gwi_past_db_fail(*ret_db, path, err);
    sqlite3_busy_handler(*ret_db, wait_for_lock, (void *)(intptr_t)wait_ms);
    sqlite3_db_config(*ret_db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    return read_version(*ret_db, path, ret_version, err);
}

/* Create the GWI_PAST_TABLE, unless another program does it at the same time. */
static gw_status create(sqlite3 *db, const char *path, gw_error *err)
{
    int version = 0;
    gw_status st = run_sql(db, "BEGIN IMMEDIATE", path, err);
    if (st != GW_OK)
        return st;
    st = read_version(db, path, &version, err);
    if (st == GW_OK && version == 0)
        st = run_sql(db, schema, path, err);
    if (st == GW_OK)
        return run_sql(db, "COMMIT", path, err);
    (void)!run_sql(db, "ROLLBACK", path, NULL);
    return st;
}

gw_status gwi_past_db_open_for_writing(const char *path, int wait_ms, sqlite3 **ret_db, gw_error *err)
{
    int version = 0;
    gw_status st = gwi_past_db_open(path, true, wait_ms, ret_db, &version, err);
    if (st == GW_OK)
        st = run_sql(*ret_db, "PRAGMA synchronous = NORMAL", path, err);
    if (st == GW_OK && version == 0)
        st = create(*ret_db, path, err);
    return st;
}

/* ---- adding ---- */

static void bind_number(sqlite3_stmt *statement, int column, uint64_t value)
{
    sqlite3_bind_int64(statement, column + 1, value > INT64_MAX ? INT64_MAX : (sqlite3_int64)value);
}

/* Bind a text that lives until the statement is reset. An empty one is NULL. */
static void bind_text(sqlite3_stmt *statement, int column, const char *text)
{
    if (text[0] != '\0')
        sqlite3_bind_text(statement, column + 1, text, -1, SQLITE_STATIC);
}

static void bind_run(sqlite3_stmt *statement, const gwi_past *past)
{
    char key[17];
    snprintf(key, sizeof key, "%016" PRIx64, past->key);
    bind_number(statement, COLUMN_start_ns, past->start_realtime_ns);
    sqlite3_bind_text(statement, COLUMN_key + 1, key, -1, SQLITE_TRANSIENT);
    bind_text(statement, COLUMN_kind, past->is_answer ? GWI_PAST_FIT : "run");
    bind_text(statement, COLUMN_status, gw_verdict_status_text(past->status));
    bind_text(statement, COLUMN_cause, past->cause);
    if (past->certainty != GW_CERTAINTY_NONE)
        bind_text(statement, COLUMN_certainty, gw_certainty_text(past->certainty));
    bind_number(statement, COLUMN_good, past->good);
    bind_number(statement, COLUMN_observed, !past->unobserved);
    if (past->has_peak)
        bind_number(statement, COLUMN_peak, past->peak_bytes);
    if (past->has_batch)
        bind_number(statement, COLUMN_batch, past->batch);
    if (isfinite(past->seconds) && past->seconds >= 0)
        sqlite3_bind_double(statement, COLUMN_seconds + 1, past->seconds);
    sqlite3_bind_text(statement, COLUMN_ended + 1, past->end, -1, SQLITE_STATIC);
    if (past->has_exit && past->signal == 0)
        sqlite3_bind_int(statement, COLUMN_exit + 1, past->exit_code);
    if (past->has_exit && past->signal != 0)
        sqlite3_bind_int(statement, COLUMN_signal + 1, past->signal);
    bind_text(statement, COLUMN_card, past->card);
    bind_text(statement, COLUMN_recording, past->recording);
    sqlite3_bind_text(statement, COLUMN_folder + 1, past->folder, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, COLUMN_command + 1, past->command, -1, SQLITE_STATIC);
}

void gwi_past_db_add_columns(gw_text *sql, bool are_parameters)
{
    for (int i = 0; i < COLUMN_COUNT; i++) {
        const char *comma = i == 0 ? "" : ",";
        if (are_parameters)
            gw_text_addf(sql, "%s?%d", comma, i + 1);
        else
            gw_text_addf(sql, "%s%s", comma, gwi_past_db_column(i));
    }
}

/* Prepare the statement that adds a run: if ALWAYS is 0, only if there is no run with its key and start. */
static gw_status prepare_insert(sqlite3 *db, const char *path, sqlite3_stmt **ret_statement, gw_error *err)
{
    gw_text sql = {0};
    gw_text_addf(&sql, "INSERT INTO %s(", GWI_PAST_TABLE);
    gwi_past_db_add_columns(&sql, false);
    gw_text_add_str(&sql, ") SELECT ");
    gwi_past_db_add_columns(&sql, true);
    gw_text_addf(&sql, " WHERE ?%d OR NOT EXISTS(SELECT 1 FROM %s WHERE key = ?%d AND start_ns = ?%d)", (int)ALWAYS,
                 GWI_PAST_TABLE, COLUMN_key + 1, COLUMN_start_ns + 1);
    gw_status st = GW_OK;
    if (sql.failed)
        st = gw_fail(err, GW_NOMEM, "%s", path);
    else if (sqlite3_prepare_v2(db, gw_text_str(&sql), -1, ret_statement, NULL) != SQLITE_OK)
        st = gwi_past_db_fail(db, path, err);
    gw_text_free(&sql);
    return st;
}

static gw_status insert(sqlite3 *db, sqlite3_stmt *statement, const gwi_past *past, bool always, const char *path,
                        gw_error *err)
{
    gw_text attempts = {0};
    gwi_past_attempts_encode(past, &attempts);
    sqlite3_clear_bindings(statement);
    bind_run(statement, past);
    bind_text(statement, COLUMN_attempts, gw_text_str(&attempts));
    sqlite3_bind_int(statement, ALWAYS, always);
    gw_status st = attempts.failed ? gw_fail(err, GW_NOMEM, "%s", path) : GW_OK;
    if (st == GW_OK && sqlite3_step(statement) != SQLITE_DONE)
        st = gwi_past_db_fail(db, path, err);
    sqlite3_reset(statement);
    gw_text_free(&attempts);
    return st;
}

/* ---- taking over the text list ---- */

static gw_status insert_list(sqlite3 *db, sqlite3_stmt *statement, const gwi_past_list *list, const char *path,
                             gw_error *err)
{
    gw_status st = run_sql(db, "BEGIN IMMEDIATE", path, err);
    if (st != GW_OK)
        return st;
    for (size_t i = 0; i < list->count && st == GW_OK; i++)
        st = insert(db, statement, &list->item[i], false, path, err);
    if (st == GW_OK)
        return run_sql(db, "COMMIT", path, err);
    (void)!run_sql(db, "ROLLBACK", path, NULL);
    return st;
}

static bool is_unchanged(const struct stat *before, const char *path)
{
    struct stat now;
    return stat(path, &now) == 0 && now.st_ino == before->st_ino && now.st_size == before->st_size;
}

/* Add the runs of the text list, then rename it to LIST.old. If this is interrupted, or another program does it at the
 * same time, no run is added twice. If a line was appended meanwhile, the list stays, and the next run takes it over. A
 * list that cannot be read is left as it is. */
static gw_status take_over(sqlite3 *db, sqlite3_stmt *statement, const char *list_path, const char *path,
                           size_t *ret_skipped, gw_error *err)
{
    struct stat before;
    gwi_past_list list = {0};
    gw_path old;
    size_t skipped = 0;
    if (lstat(list_path, &before) != 0 || !S_ISREG(before.st_mode) ||
        gwi_past_list_read(list_path, &list, &skipped, NULL) != GW_OK)
        return GW_OK;
    gw_status st = insert_list(db, statement, &list, path, err);
    if (st == GW_OK && is_unchanged(&before, list_path) && gw_path_format(old, NULL, "%s.old", list_path) == GW_OK &&
        rename(list_path, old) == 0)
        *ret_skipped = skipped;
    gwi_past_free(&list);
    return st;
}

gw_status gwi_past_db_add(const char *path, const char *list_path, const gwi_past *past, size_t *ret_skipped,
                          gw_error *err)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    *ret_skipped = 0;
    gw_status st = gwi_past_db_open_for_writing(path, WRITE_WAIT_MS, &db, err);
    if (st == GW_OK)
        st = prepare_insert(db, path, &statement, err);
    if (st == GW_OK)
        st = take_over(db, statement, list_path, path, ret_skipped, err);
    if (st == GW_OK && past != NULL)
        st = insert(db, statement, past, true, path, err);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return st;
}
