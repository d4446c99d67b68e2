/* The past runs in a SQLite database.
 *
 * Each run opens the database, adds one row with one statement, and closes it. The journal is SQLite's default one, not
 * a write-ahead log: that needs memory shared by all programs that use the file, which does not work if a machine
 * exports its own disk to others, and a program that may not write to the folder could not read it.
 *
 * SQLite takes fcntl() locks. If a file system has none, SQLite would wait for its whole time limit, because it takes
 * ENOLCK for a lock that another program holds. So we try one lock ourselves before we open the database. */
#include "gwi_past_store.h"

#include "gw_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The columns, in the order of the statements; docs/commands/history.md describes them. NULL is unknown, or none. A
 * database with other columns has another number in `user_version`. */
#define COLUMNS(X)                                                                                                     \
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
    COLUMNS(GW_X)
#undef GW_X
        COLUMN_COUNT
};
static const char *const column_names[] = {
#define GW_X(name, type) #name,
    COLUMNS(GW_X)
#undef GW_X
};
_Static_assert(sizeof column_names / sizeof column_names[0] == COLUMN_COUNT, "a name for each column");

enum {
    SCHEMA = 1, /* in user_version */
    WRITE_WAIT_MS = 10000,
    WHERE_BYTES_MAX = 8 << 10,
    PROGRESS_STEPS = 10000, /* instructions of SQLite's virtual machine between two looks at the clock */
    ALWAYS = COLUMN_COUNT + 1
};
static const uint64_t query_time_ns = 5000000000u;
static const char table[] = "runs";
static const char fit_kind[] = "fit";

/* The newest 100,000 rows are kept. The trigger is part of the statement that adds a row. */
static const char schema[] = "CREATE TABLE runs(id INTEGER PRIMARY KEY"
#define GW_X(name, type) "," #name " " type
    COLUMNS(GW_X)
#undef GW_X
        ");"
        "CREATE INDEX runs_key ON runs(key, start_ns);"
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

static gw_status fail(sqlite3 *db, const char *path, gw_error *err)
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
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? GW_OK : fail(db, path, err);
}

static gw_status read_version(sqlite3 *db, const char *path, int *ret_version, gw_error *err)
{
    sqlite3_stmt *statement = NULL;
    gw_status st = GW_OK;
    if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        st = fail(db, path, err);
    else
        *ret_version = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    if (st == GW_OK && (*ret_version < 0 || *ret_version > SCHEMA))
        st = gw_fail(err, GW_VERSION, "%s was written by a newer version of gpuwhy (schema %d, known is %d)", path,
                     *ret_version, (int)SCHEMA);
    return st;
}

/* *ret_db must be closed even after an error. */
static gw_status open_database(const char *path, bool writes, int wait_ms, sqlite3 **ret_db, int *ret_version,
                               gw_error *err)
{
    gw_status st = check_file(path, writes, err);
    *ret_db = NULL;
    if (st != GW_OK)
        return st;
    int flags = (writes ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(path, ret_db, flags, NULL) != SQLITE_OK)
        return *ret_db == NULL ? gw_fail(err, GW_NOMEM, "open %s", path) : fail(*ret_db, path, err);
    sqlite3_busy_timeout(*ret_db, wait_ms);
    sqlite3_db_config(*ret_db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    return read_version(*ret_db, path, ret_version, err);
}

/* Create the table, unless another program does it at the same time. */
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

static gw_status open_for_writing(const char *path, sqlite3 **ret_db, gw_error *err)
{
    int version = 0;
    gw_status st = open_database(path, true, WRITE_WAIT_MS, ret_db, &version, err);
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
    bind_text(statement, COLUMN_kind, past->is_answer ? fit_kind : "run");
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

static void add_columns(gw_text *sql, bool are_parameters)
{
    for (int i = 0; i < COLUMN_COUNT; i++) {
        const char *comma = i == 0 ? "" : ",";
        if (are_parameters)
            gw_text_addf(sql, "%s?%d", comma, i + 1);
        else
            gw_text_addf(sql, "%s%s", comma, column_names[i]);
    }
}

/* Prepare the statement that adds a run: if ALWAYS is 0, only if there is no run with its key and start. */
static gw_status prepare_insert(sqlite3 *db, const char *path, sqlite3_stmt **ret_statement, gw_error *err)
{
    gw_text sql = {0};
    gw_text_addf(&sql, "INSERT INTO %s(", table);
    add_columns(&sql, false);
    gw_text_add_str(&sql, ") SELECT ");
    add_columns(&sql, true);
    gw_text_addf(&sql, " WHERE ?%d OR NOT EXISTS(SELECT 1 FROM %s WHERE key = ?%d AND start_ns = ?%d)", (int)ALWAYS,
                 table, COLUMN_key + 1, COLUMN_start_ns + 1);
    gw_status st = GW_OK;
    if (sql.failed)
        st = gw_fail(err, GW_NOMEM, "%s", path);
    else if (sqlite3_prepare_v2(db, gw_text_str(&sql), -1, ret_statement, NULL) != SQLITE_OK)
        st = fail(db, path, err);
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
        st = fail(db, path, err);
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
    gw_status st = open_for_writing(path, &db, err);
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

/* ---- reading ---- */

/* Allow an expression to read the table of runs and to call functions, and nothing else. */
static int authorize(void *user, int action, const char *first, const char *second, const char *database,
                     const char *trigger)
{
    (void)user, (void)database, (void)trigger;
    switch (action) {
    case SQLITE_SELECT:
        return SQLITE_OK;
    case SQLITE_READ:
        return sqlite3_stricmp(first, table) == 0 ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_FUNCTION:
        return sqlite3_stricmp(second, "load_extension") != 0 ? SQLITE_OK : SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

static int is_late(void *user)
{
    const uint64_t *until_ns = user;
    return gw_processor_ns() > *until_ns;
}

static void limit_query(sqlite3 *db, uint64_t *until_ns)
{
    static const struct {
        int what, most;
    } limits[] = {{SQLITE_LIMIT_LENGTH, 1 << 20},     {SQLITE_LIMIT_SQL_LENGTH, 2 * WHERE_BYTES_MAX},
                  {SQLITE_LIMIT_EXPR_DEPTH, 100},     {SQLITE_LIMIT_COMPOUND_SELECT, 1},
                  {SQLITE_LIMIT_VDBE_OP, 25000},      {SQLITE_LIMIT_FUNCTION_ARG, 32},
                  {SQLITE_LIMIT_ATTACHED, 0},         {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100},
                  {SQLITE_LIMIT_VARIABLE_NUMBER, 16}, {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
                  {SQLITE_LIMIT_WORKER_THREADS, 0}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        sqlite3_limit(db, limits[i].what, limits[i].most);
    *until_ns = gw_processor_ns() + query_time_ns;
    sqlite3_set_authorizer(db, authorize, NULL);
    sqlite3_progress_handler(db, PROGRESS_STEPS, is_late, until_ns);
}

enum { BIND_WORDS = 1, BIND_KEY, BIND_START, BIND_COUNT };

static void build_select(const gwi_past_query *query, gw_text *sql)
{
    gw_text_add_str(sql, "SELECT ");
    add_columns(sql, false);
    gw_text_addf(sql, " FROM %s WHERE 1", table);
    if (query->words != NULL)
        gw_text_addf(sql, " AND instr(command, ?%d) > 0", (int)BIND_WORDS);
    if (query->has_key)
        gw_text_addf(sql, " AND key = ?%d", (int)BIND_KEY);
    if (query->has_start)
        gw_text_addf(sql, " AND start_ns = ?%d", (int)BIND_START);
    if (query->where != NULL) /* the line break ends a comment */
        gw_text_addf(sql, " AND (%s\n)", query->where);
    gw_text_addf(sql, " ORDER BY start_ns DESC, id DESC LIMIT ?%d", (int)BIND_COUNT);
}

static void bind_query(sqlite3_stmt *statement, const gwi_past_query *query)
{
    char key[17];
    snprintf(key, sizeof key, "%016" PRIx64, query->key);
    if (query->words != NULL)
        sqlite3_bind_text(statement, BIND_WORDS, query->words, -1, SQLITE_STATIC);
    if (query->has_key)
        sqlite3_bind_text(statement, BIND_KEY, key, -1, SQLITE_TRANSIENT);
    if (query->has_start)
        sqlite3_bind_int64(statement, BIND_START, (sqlite3_int64)query->start_realtime_ns);
    sqlite3_bind_int64(statement, BIND_COUNT, query->newest_max == 0 ? -1 : (sqlite3_int64)query->newest_max);
}

/* Fail because of the user's expression, if there is one and the database is not to blame. */
static gw_status fail_query(sqlite3 *db, const gwi_past_query *query, const char *path, gw_error *err)
{
    int code = sqlite3_errcode(db);
    if (query->where == NULL)
        return fail(db, path, err);
    if (code == SQLITE_INTERRUPT)
        return gw_fail(err, GW_USAGE, "--where: the query took more than %d s of processor time",
                       (int)(query_time_ns / 1000000000u));
    if (code != SQLITE_AUTH && code != SQLITE_ERROR && code != SQLITE_TOOBIG && code != SQLITE_RANGE)
        return fail(db, path, err);
    if (code == SQLITE_AUTH)
        return gw_fail(err, GW_USAGE, "--where: %s: only the columns of the table %s can be read", sqlite3_errmsg(db),
                       table);
    gw_text columns = {0};
    for (int i = 0; i < COLUMN_COUNT; i++)
        gw_text_addf(&columns, "%s%s", i == 0 ? "" : " ", column_names[i]);
    gw_status st = gw_fail(err, GW_USAGE, "--where: %s (columns: %s)", sqlite3_errmsg(db), gw_text_str(&columns));
    gw_text_free(&columns);
    return st;
}

/* Prepare one statement. */
static gw_status prepare(sqlite3 *db, const gw_text *sql, const gwi_past_query *query, const char *path,
                         sqlite3_stmt **ret_statement, gw_error *err)
{
    const char *rest = "";
    if (sql->failed)
        return gw_fail(err, GW_NOMEM, "%s", path);
    if (sqlite3_prepare_v2(db, gw_text_str(sql), -1, ret_statement, &rest) != SQLITE_OK)
        return fail_query(db, query, path, err);
    if (rest[0] != '\0')
        return gw_fail(err, GW_USAGE, "--where: only one expression is allowed, not several statements");
    return GW_OK;
}

/* Prepare the user's expression alone, so that an error does not name words that the user did not write. */
static gw_status check_where(sqlite3 *db, const gwi_past_query *query, const char *path, gw_error *err)
{
    gw_text sql = {0};
    sqlite3_stmt *statement = NULL;
    if (query->where == NULL)
        return GW_OK;
    if (strlen(query->where) > WHERE_BYTES_MAX)
        return gw_fail(err, GW_USAGE, "--where: longer than %d bytes", (int)WHERE_BYTES_MAX);
    gw_text_addf(&sql, "SELECT 1 FROM %s WHERE %s", table, query->where);
    gw_status st = prepare(db, &sql, query, path, &statement, err);
    sqlite3_finalize(statement);
    gw_text_free(&sql);
    return st;
}

static gw_status prepare_select(sqlite3 *db, const gwi_past_query *query, const char *path,
                                sqlite3_stmt **ret_statement, gw_error *err)
{
    gw_text sql = {0};
    gw_status st = check_where(db, query, path, err);
    if (st != GW_OK)
        return st;
    build_select(query, &sql);
    st = prepare(db, &sql, query, path, ret_statement, err);
    gw_text_free(&sql);
    return st;
}

static bool column_copy(sqlite3_stmt *row, int column, char **ret_copy)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    return gw_str_copy(text == NULL ? "" : text, ret_copy);
}

/* Read a number of at least 0. False: NULL, or a number that cannot be right. */
static bool column_number(sqlite3_stmt *row, int column, uint64_t *ret_value)
{
    sqlite3_int64 value = sqlite3_column_int64(row, column);
    if (sqlite3_column_type(row, column) == SQLITE_NULL || value < 0)
        return false;
    *ret_value = (uint64_t)value;
    return true;
}

static bool is_text(sqlite3_stmt *row, int column, const char *text)
{
    const char *value = (const char *)sqlite3_column_text(row, column);
    return value != NULL && strcmp(value, text) == 0;
}

static void take_verdict(sqlite3_stmt *row, gwi_past *past)
{
    past->status = GW_VERDICT_UNDETERMINED;
    if (is_text(row, COLUMN_status, gw_verdict_status_text(GW_VERDICT_FAULT)))
        past->status = GW_VERDICT_FAULT;
    else if (is_text(row, COLUMN_status, gw_verdict_status_text(GW_VERDICT_CLEAN)))
        past->status = GW_VERDICT_CLEAN;
    for (gw_certainty i = GW_HYPOTHESIS; i <= GW_ESTABLISHED; i++)
        if (is_text(row, COLUMN_certainty, gw_certainty_text(i)))
            past->certainty = i;
}

static void take_exit(sqlite3_stmt *row, gwi_past *past)
{
    bool has_code = sqlite3_column_type(row, COLUMN_exit) != SQLITE_NULL;
    bool has_signal = sqlite3_column_type(row, COLUMN_signal) != SQLITE_NULL;
    past->has_exit = has_code || has_signal;
    past->exit_code = has_code ? sqlite3_column_int(row, COLUMN_exit) : -1;
    past->signal = has_signal ? sqlite3_column_int(row, COLUMN_signal) : 0;
}

/* Fill in a run from a row. False: out of memory. */
static bool take_row(sqlite3_stmt *row, gwi_past *past)
{
    const char *key = (const char *)sqlite3_column_text(row, COLUMN_key);
    past->key = key == NULL ? 0 : strtoull(key, NULL, 16);
    (void)column_number(row, COLUMN_start_ns, &past->start_realtime_ns);
    past->is_answer = is_text(row, COLUMN_kind, fit_kind);
    past->good = sqlite3_column_int(row, COLUMN_good) == 1;
    past->unobserved = sqlite3_column_int(row, COLUMN_observed) == 0;
    past->has_peak = column_number(row, COLUMN_peak, &past->peak_bytes);
    past->has_batch = column_number(row, COLUMN_batch, &past->batch);
    past->seconds =
        sqlite3_column_type(row, COLUMN_seconds) == SQLITE_NULL ? -1 : sqlite3_column_double(row, COLUMN_seconds);
    take_verdict(row, past);
    take_exit(row, past);
    char *attempts = NULL;
    bool is_good = column_copy(row, COLUMN_cause, &past->cause) && column_copy(row, COLUMN_ended, &past->end) &&
                   column_copy(row, COLUMN_card, &past->card) && column_copy(row, COLUMN_recording, &past->recording) &&
                   column_copy(row, COLUMN_folder, &past->folder) && column_copy(row, COLUMN_command, &past->command) &&
                   column_copy(row, COLUMN_attempts, &attempts) &&
                   (attempts[0] == '\0' || gwi_past_attempts_decode(attempts + 1, past));
    free(attempts);
    return is_good;
}

static gw_status read_rows(sqlite3 *db, sqlite3_stmt *statement, const gwi_past_query *query, const char *path,
                           gwi_past_list *list, gw_error *err)
{
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        gwi_past past = {0};
        if (!take_row(statement, &past) || !gwi_past_list_push(list, &past)) {
            gwi_past_clear(&past);
            return gw_fail(err, GW_NOMEM, "%s", path);
        }
    }
    return code == SQLITE_DONE ? GW_OK : fail_query(db, query, path, err);
}

/* The statement returns the newest run first, because of its limit. */
static void reverse(gwi_past_list *list)
{
    for (size_t i = 0; i < list->count / 2; i++) {
        gwi_past swap = list->item[i];
        list->item[i] = list->item[list->count - 1 - i];
        list->item[list->count - 1 - i] = swap;
    }
}

static gw_status read_once(const char *path, const gwi_past_query *query, gwi_past_list *ret_list,
                           bool *ret_is_unfinished, gw_error *err)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    uint64_t until_ns;
    int version = 0;
    *ret_list = (gwi_past_list){0};
    gw_status st = open_database(path, false, query->wait_ms, &db, &version, err);
    if (st == GW_OK && version == 0)
        st = gw_fail(err, GW_MISSING, "%s has no runs yet", path);
    if (st == GW_OK) {
        limit_query(db, &until_ns);
        st = prepare_select(db, query, path, &statement, err);
    }
    if (st == GW_OK) {
        bind_query(statement, query);
        st = read_rows(db, statement, query, path, ret_list, err);
    }
    int code = db == NULL ? SQLITE_OK : sqlite3_extended_errcode(db);
    *ret_is_unfinished = st != GW_OK && (code & 0xff) == SQLITE_READONLY;
    sqlite3_finalize(statement);
    sqlite3_close(db);
    if (st == GW_OK)
        reverse(ret_list);
    else
        gwi_past_free(ret_list);
    return st;
}

gw_status gwi_past_db_read(const char *path, const gwi_past_query *query, gwi_past_list *ret_list, gw_error *err)
{
    bool is_unfinished;
    sqlite3 *db = NULL;
    gw_status st = read_once(path, query, ret_list, &is_unfinished, err);
    if (!is_unfinished)
        return st;
    /* A program was killed while it added a run. Only a connection that may write can undo that. */
    gw_status opened = open_for_writing(path, &db, NULL);
    sqlite3_close(db);
    return opened == GW_OK ? read_once(path, query, ret_list, &is_unfinished, err) : st;
}
