/* The past runs in a SQLite database.
 *
 * Each run opens the database, adds one row with one statement, and closes it. The journal is SQLite's default one, not
 * a write-ahead log: that needs memory shared by all programs that use the file, which does not work if a machine
 * exports its own disk to others, and a program that may not write to the folder could not read it.
 *
 * SQLite takes fcntl() locks. If a file system has none, SQLite would wait for its whole time limit, because it takes
 * ENOLCK for a lock that another program holds. So we try one lock ourselves before we open the database. Without such
 * locks, the lock of runs.db is the folder runs.db.lock, which any file system can create, from opening to closing. It
 * is like that of SQLite's "unix-dotfile", which we do not use: it takes its own lock for that of another program, so
 * that it never undoes what a killed program left unfinished (3.40). A program with one kind of lock does not see the
 * other kind, so all machines that share a state folder must agree on whether its file system has locks. */
#include "gwi_past_db.h"

#include "gw_clock.h"
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

#define SQL_time      "INTEGER NOT NULL"
#define SQL_key       "TEXT NOT NULL"
#define SQL_kind      "TEXT NOT NULL"
#define SQL_status    "TEXT NOT NULL"
#define SQL_certainty "TEXT"
#define SQL_flag      "INTEGER NOT NULL"
#define SQL_number    "INTEGER"
#define SQL_seconds   "REAL"
#define SQL_words     "TEXT NOT NULL"
#define SQL_text      "TEXT"
#define SQL_attempts  "TEXT"

const gwi_past_column gwi_past_columns[] = {
#define GWI_COLUMN(type, field, column, json, meaning) {column, SQL_##type, meaning},
#include "past_columns.def"
};

/* The newest 100,000 rows are kept. The trigger is part of the statement that adds a row. */
static const char schema[] = "CREATE TABLE runs(id INTEGER PRIMARY KEY"
#define GWI_COLUMN(type, field, column, json, meaning) "," column " " SQL_##type
#include "past_columns.def"
                             ");"
                             "CREATE INDEX runs_key ON runs(key, start_ns);"
                             "CREATE INDEX runs_start ON runs(start_ns);"
                             "CREATE TRIGGER runs_keep AFTER INSERT ON runs WHEN new.id % 1000 = 0 BEGIN"
                             " DELETE FROM runs WHERE id <= new.id - 100000; END";

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

/* Write the command that begins a new list. SQLite would apply the journal of the old file to a new one, so the command
 * removes it. */
static void add_renewal(const char *path, gw_text *text)
{
    const char *name = gw_path_last(path);
    gw_text folder = {0};
    gw_text_addf(&folder, "%.*s", (int)(name - path), path);
    gw_text_add_str(text, "(cd ");
    gw_add_shell_word(text, folder.bytes == 0 ? "." : gw_text_str(&folder));
    gw_text_addf(text, " && mv %s %s.damaged && rm -f %s-journal)", name, name, name);
    gw_text_free(&folder);
}

gw_status gwi_past_db_fail(const gwi_past_db *db, gw_error *err)
{
    gw_text renewal = {0};
    gw_status st = status_of(sqlite3_extended_errcode(db->sqlite));
    if (st == GW_CORRUPT)
        add_renewal(db->path, &renewal);
    st = gw_fail(err, st, "%s: %s%s%s", db->path, sqlite3_errmsg(db->sqlite),
                 st == GW_CORRUPT ? "; to keep this file and begin a new list: " : "", gw_text_str(&renewal));
    gw_text_free(&renewal);
    return st;
}

/* ---- opening ---- */

/* SQLite would wait for ever for the other end of a FIFO that has the name of the database or of one of its journals.
 */
static gw_status check_kinds(const char *path, gw_error *err)
{
    static const char *const ends[] = {"", "-journal", "-wal"};
    gw_text name = {0};
    gw_status st = GW_OK;
    for (size_t i = 0; st == GW_OK && i < sizeof ends / sizeof ends[0]; i++) {
        struct stat info;
        gw_text_clear(&name);
        gw_text_addf(&name, "%s%s", path, ends[i]);
        if (lstat(gw_text_str(&name), &info) == 0 && !S_ISREG(info.st_mode))
            st = gw_fail(err, GW_IO, "open %s: not a regular file", gw_text_str(&name));
    }
    gw_text_free(&name);
    return st;
}

/* Open the file to see whether it is there and can be locked. It is created with mode 0600; SQLite takes an empty file
 * for a new database. */
static gw_status check_file(const char *path, bool writes, bool *ret_has_locks, gw_error *err)
{
    struct flock lock = {.l_type = writes ? F_WRLCK : F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
    gw_status st = check_kinds(path, err);
    if (st != GW_OK)
        return st;
    int fd = open(path, (writes ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return gw_fail(err, errno == ENOENT ? GW_MISSING : GW_IO, "open %s: %s", path, strerror(errno));
    *ret_has_locks = fcntl(fd, F_SETLK, &lock) == 0 || errno == EAGAIN || errno == EACCES;
    close(fd); /* ends the lock, too */
    return GW_OK;
}

static gw_status run_sql(const gwi_past_db *db, const char *sql, gw_error *err)
{
    return sqlite3_exec(db->sqlite, sql, NULL, NULL, NULL) == SQLITE_OK ? GW_OK : gwi_past_db_fail(db, err);
}

static gw_status read_version(gwi_past_db *db, gw_error *err)
{
    sqlite3_stmt *statement = NULL;
    gw_status st = GW_OK;
    if (sqlite3_prepare_v2(db->sqlite, "PRAGMA user_version", -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        st = gwi_past_db_fail(db, err);
    else
        db->version = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    if (st == GW_OK && (db->version < 0 || db->version > GWI_PAST_SCHEMA))
        st = gw_fail(err, GW_VERSION, "%s was written by a newer version of gpuwhy (schema %d, known is %d)", db->path,
                     db->version, (int)GWI_PAST_SCHEMA);
    return st;
}

/* True if the file changed since the last call, or if this is the first call: other programs make progress. */
static bool has_changed(gwi_past_db *db)
{
    struct stat info;
    if (stat(db->path, &info) != 0 ||
        (info.st_mtim.tv_sec == db->changed.tv_sec && info.st_mtim.tv_nsec == db->changed.tv_nsec))
        return false;
    db->changed = info.st_mtim;
    return true;
}

/* Called while another program holds a lock; `count` is the number of earlier calls for this lock. Returns 0 if the
 * time is up. A wait that the user can notice is announced. */
static int wait_for_lock(void *user, int count)
{
    enum { SHORT_MS = 2, SHORT_COUNT = 50, LONG_MS = 20 };
    static const uint64_t silent_ns = 1000000000u;
    gwi_past_db *db = user;
    const uint64_t most_ns = db->wait_ns + db->wait_ns / 2;
    uint64_t now_ns = gw_monotonic_ns();
    if (db->wait_begin_ns == 0)
        db->wait_begin_ns = db->progress_ns = now_ns;
    if (has_changed(db))
        db->progress_ns = now_ns;
    uint64_t waited_ns = now_ns - db->wait_begin_ns;
    if (now_ns - db->progress_ns >= db->wait_ns || waited_ns >= most_ns)
        return 0;
    if (waited_ns >= silent_ns && !db->is_announced) {
        gw_say("waiting for another program that uses the list of past runs");
        db->is_announced = true;
    }
    usleep((count < SHORT_COUNT ? SHORT_MS : LONG_MS) * 1000);
    return 1;
}

/* Remove the lock of a program that was killed: nothing else removes it. gpuwhy holds a lock for seconds at most, and
 * five minutes are more than the clocks of machines that share a folder differ. */
static void remove_stale_lock(const char *lock)
{
    enum { STALE_S = 300 };
    struct stat info;
    if (lstat(lock, &info) == 0 && info.st_mtime + STALE_S < time(NULL))
        (void)rmdir(lock);
}

/* Take our own lock. On a read-only file system, reading needs none. */
static gw_status take_lock(gwi_past_db *db, bool writes, gw_error *err)
{
    gw_path lock;
    gw_status st = gw_path_format(lock, err, "%s.lock", db->path);
    if (st != GW_OK)
        return st;
    for (int count = 0; mkdir(lock, 0700) != 0; count++) {
        if (errno == EROFS && !writes)
            return GW_OK;
        if (errno != EEXIST)
            return gw_fail(err, GW_IO, "create %s: %s", lock, strerror(errno));
        remove_stale_lock(lock);
        if (!wait_for_lock(db, count))
            return gw_fail(err, GW_IO, "%s: database is locked", db->path);
    }
    memcpy(db->lock, lock, sizeof lock);
    return GW_OK;
}

bool gwi_past_db_has(const gwi_past_db *db, const char *column)
{
    return sqlite3_table_column_metadata(db->sqlite, NULL, GWI_PAST_TABLE, column, NULL, NULL, NULL, NULL, NULL) ==
           SQLITE_OK;
}

static gw_status add_missing_columns(const gwi_past_db *db, gw_error *err)
{
    char sql[128];
    /* SQLite compares its copy of the schema with the file, which another program may have changed, when a statement
     * runs that reads a table. */
    gw_status st = run_sql(db, "SELECT 1 FROM sqlite_master LIMIT 0", err);
    for (size_t i = 0; i < GWI_COLUMN_COUNT && st == GW_OK; i++) {
        const gwi_past_column *column = &gwi_past_columns[i];
        snprintf(sql, sizeof sql, "ALTER TABLE %s ADD COLUMN %s %s", GWI_PAST_TABLE, column->name, column->type);
        if (!gwi_past_db_has(db, column->name))
            st = run_sql(db, sql, err);
    }
    return st;
}

/* Create the table, or add the columns that it lacks, unless another program does it at the same time. */
static gw_status update_table(gwi_past_db *db, gw_error *err)
{
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA user_version = %d", (int)GWI_PAST_SCHEMA);
    gw_status st = run_sql(db, "BEGIN IMMEDIATE", err);
    if (st != GW_OK)
        return st;
    st = read_version(db, err);
    if (st == GW_OK && db->version == 0)
        st = run_sql(db, schema, err);
    else if (st == GW_OK && db->version < GWI_PAST_SCHEMA)
        st = add_missing_columns(db, err);
    if (st == GW_OK)
        st = run_sql(db, sql, err);
    if (st == GW_OK)
        return run_sql(db, "COMMIT", err);
    (void)!run_sql(db, "ROLLBACK", NULL);
    return st;
}

gw_status gwi_past_db_open(gwi_past_db *ret_db, const char *path, bool writes, int wait_ms, gw_error *err)
{
    bool has_locks = false;
    *ret_db = (gwi_past_db){.path = path, .wait_ns = (uint64_t)wait_ms * 1000000u};
    gw_status st = check_file(path, writes, &has_locks, err);
    if (st == GW_OK && !has_locks)
        st = take_lock(ret_db, writes, err);
    if (st != GW_OK)
        return st;
    int flags = (writes ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(path, &ret_db->sqlite, flags, has_locks ? NULL : "unix-none") != SQLITE_OK)
        return ret_db->sqlite == NULL ? gw_fail(err, GW_NOMEM, "open %s", path) : gwi_past_db_fail(ret_db, err);
    sqlite3_busy_handler(ret_db->sqlite, wait_for_lock, ret_db);
    sqlite3_db_config(ret_db->sqlite, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    st = read_version(ret_db, err);
    if (st == GW_OK && writes)
        st = run_sql(ret_db, "PRAGMA synchronous = NORMAL", err);
    if (st == GW_OK && writes && ret_db->version < GWI_PAST_SCHEMA)
        st = update_table(ret_db, err);
    return st;
}

void gwi_past_db_close(gwi_past_db *db)
{
    sqlite3_close(db->sqlite);
    if (db->lock[0] != '\0')
        (void)rmdir(db->lock);
    db->sqlite = NULL;
    db->lock[0] = '\0';
}

/* ---- adding ---- */

/* bind_<type>() binds the value of a column to the parameter `at` until the statement is reset. What is not bound is
 * NULL. Each returns a code of SQLite. */

static int bind_words(sqlite3_stmt *statement, int at, const char *text)
{
    return sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

static int bind_text(sqlite3_stmt *statement, int at, const char *text)
{
    return text == NULL || text[0] == '\0' ? SQLITE_OK : bind_words(statement, at, text);
}

static int bind_time(sqlite3_stmt *statement, int at, uint64_t value)
{
    return sqlite3_bind_int64(statement, at, value > INT64_MAX ? INT64_MAX : (sqlite3_int64)value);
}

static int bind_number(sqlite3_stmt *statement, int at, gwi_column_number number)
{
    return number.is_known ? bind_time(statement, at, number.value) : SQLITE_OK;
}

static int bind_flag(sqlite3_stmt *statement, int at, bool value)
{
    return sqlite3_bind_int(statement, at, value);
}

static int bind_seconds(sqlite3_stmt *statement, int at, double seconds)
{
    return isfinite(seconds) && seconds >= 0 ? sqlite3_bind_double(statement, at, seconds) : SQLITE_OK;
}

static int bind_key(sqlite3_stmt *statement, int at, uint64_t key)
{
    char text[GWI_KEY_TEXT_MAX];
    return sqlite3_bind_text(statement, at, gwi_past_key_text(text, key), -1, SQLITE_TRANSIENT);
}

static int bind_kind(sqlite3_stmt *statement, int at, gwi_column_kind kind)
{
    return bind_words(statement, at, gwi_past_kind_text(kind));
}

static int bind_status(sqlite3_stmt *statement, int at, gw_verdict_status status)
{
    return bind_words(statement, at, gw_verdict_status_text(status));
}

static int bind_certainty(sqlite3_stmt *statement, int at, gw_certainty certainty)
{
    return certainty == GW_CERTAINTY_NONE ? SQLITE_OK : bind_words(statement, at, gw_certainty_text(certainty));
}

static void add_field(gw_text *line, const char *value)
{
    gw_text_add(line, "\t", 1);
    for (; *value != '\0'; value++) {
        unsigned char byte = (unsigned char)*value;
        if (byte < ' ' || byte == '%' || byte == 0x7f)
            gw_text_addf(line, "%%%02X", byte);
        else
            gw_text_add(line, value, 1);
    }
}

/* The text has cause, end and recording of each attempt. A tab precedes each of them. Control characters and percent
 * signs are written as %XX. */
static int bind_attempts(sqlite3_stmt *statement, int at, gwi_column_attempts attempts)
{
    gw_text text = {0};
    for (size_t i = 0; i < attempts.count; i++) {
        add_field(&text, attempts.item[i].cause);
        add_field(&text, attempts.item[i].end);
        add_field(&text, attempts.item[i].recording);
    }
    int code = text.failed ? SQLITE_NOMEM : SQLITE_OK;
    if (code == SQLITE_OK && attempts.count > 0)
        code = sqlite3_bind_text(statement, at, gw_text_str(&text), -1, SQLITE_TRANSIENT);
    gw_text_free(&text);
    return code;
}

static bool bind_run(sqlite3_stmt *statement, const gwi_past *past)
{
    int code = SQLITE_OK;
#define GWI_COLUMN(type, field, column, json, meaning)                                                                 \
    if (code == SQLITE_OK)                                                                                             \
        code = bind_##type(statement, GWI_COLUMN_##field + 1, past->field);
#include "past_columns.def"
    return code == SQLITE_OK;
}

static gw_status prepare_insert(const gwi_past_db *db, sqlite3_stmt **ret_statement, gw_error *err)
{
    gw_text sql = {0}, values = {0};
    gw_text_addf(&sql, "INSERT INTO %s(", GWI_PAST_TABLE);
    for (size_t i = 0; i < GWI_COLUMN_COUNT; i++) {
        gw_text_addf(&sql, "%s%s", i == 0 ? "" : ",", gwi_past_columns[i].name);
        gw_text_addf(&values, "%s?%zu", i == 0 ? "" : ",", i + 1);
    }
    gw_text_addf(&sql, ") VALUES(%s)", gw_text_str(&values));
    gw_status st = GW_OK;
    if (sql.failed || values.failed)
        st = gw_fail(err, GW_NOMEM, "%s", db->path);
    else if (sqlite3_prepare_v2(db->sqlite, gw_text_str(&sql), -1, ret_statement, NULL) != SQLITE_OK)
        st = gwi_past_db_fail(db, err);
    gw_text_free(&values);
    gw_text_free(&sql);
    return st;
}

gw_status gwi_past_db_add(const char *path, const gwi_past *past, int wait_ms, gw_error *err)
{
    gwi_past_db db;
    sqlite3_stmt *statement = NULL;
    gw_status st = gwi_past_db_open(&db, path, true, wait_ms, err);
    if (st == GW_OK)
        st = prepare_insert(&db, &statement, err);
    if (st == GW_OK && !bind_run(statement, past))
        st = gw_fail(err, GW_NOMEM, "%s", path);
    if (st == GW_OK && sqlite3_step(statement) != SQLITE_DONE)
        st = gwi_past_db_fail(&db, err);
    sqlite3_finalize(statement);
    gwi_past_db_close(&db);
    return st;
}
