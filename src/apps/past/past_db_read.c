/* Reads past runs from the database, and runs the user's expressions: read only, on one table, with limits. */
#include "gwi_past_db.h"

#include "gw_array.h"
#include "gw_clock.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum {
    WHERE_BYTES_MAX = 8 << 10,
    PROGRESS_STEPS = 10000 /* instructions of SQLite's virtual machine between two looks at the clock */
};
static const uint64_t query_time_ms = 5000;

/* Return how much processor time the user's expression may take. */
static uint64_t time_of(const gwi_past_query *query)
{
    return query->time_ms == 0 ? query_time_ms : query->time_ms;
}

/* Allow an expression to read the table of runs and to call functions, and nothing else. */
static int authorize(void *user, int action, const char *first, const char *second, const char *database,
                     const char *trigger)
{
    (void)user, (void)database, (void)trigger;
    switch (action) {
    case SQLITE_SELECT:
        return SQLITE_OK;
    case SQLITE_READ:
        return sqlite3_stricmp(first, GWI_PAST_TABLE) == 0 ? SQLITE_OK : SQLITE_DENY;
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

static void limit_query(sqlite3 *db, uint64_t time_ms, uint64_t *until_ns)
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
    *until_ns = gw_processor_ns() + time_ms * 1000000u;
    sqlite3_set_authorizer(db, authorize, NULL);
    sqlite3_progress_handler(db, PROGRESS_STEPS, is_late, until_ns);
}

enum { BIND_WORDS = 1, BIND_KEY, BIND_START, BIND_COUNT };

/* In a table of an older gpuwhy that could not be changed, the columns that it lacks are NULL. */
static void add_older_table(const gwi_past_db *db, gw_text *sql)
{
    gw_text_addf(sql, "WITH %s AS (SELECT id", GWI_PAST_TABLE);
    for (size_t i = 0; i < GWI_COLUMN_COUNT; i++) {
        const gwi_past_column *column = &gwi_past_columns[i];
        bool is_null = strstr(column->type, "NOT NULL") == NULL && !gwi_past_db_has(db, column->name);
        gw_text_addf(sql, is_null ? ",NULL AS %s" : ",%s", column->name);
    }
    gw_text_addf(sql, " FROM main.%s) ", GWI_PAST_TABLE);
}

/* True if the place of a row in the result is not its number. */
static bool must_number(const gwi_past_query *query)
{
    return query->is_numbered && (query->where != NULL || query->words != NULL);
}

static void build_select(const gwi_past_db *db, const gwi_past_query *query, gw_text *sql)
{
    if (db->version < GWI_PAST_SCHEMA)
        add_older_table(db, sql);
    if (must_number(query)) /* names that no expression of the user has */
        gw_text_addf(sql,
                     "%s \"@\" AS (SELECT id AS \"@id\", row_number() OVER (ORDER BY start_ns DESC, id DESC) AS"
                     " \"@number\" FROM %s) ",
                     sql->bytes == 0 ? "WITH" : ",", GWI_PAST_TABLE);
    for (size_t i = 0; i < GWI_COLUMN_COUNT; i++)
        gw_text_addf(sql, "%s%s", i == 0 ? "SELECT " : ",", gwi_past_columns[i].name);
    if (must_number(query))
        gw_text_addf(sql, ",\"@number\" FROM %s JOIN \"@\" ON id = \"@id\" WHERE 1", GWI_PAST_TABLE);
    else
        gw_text_addf(sql, " FROM %s WHERE 1", GWI_PAST_TABLE);
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
    char key[GWI_KEY_TEXT_MAX];
    if (query->words != NULL)
        sqlite3_bind_text(statement, BIND_WORDS, query->words, -1, SQLITE_STATIC);
    if (query->has_key)
        sqlite3_bind_text(statement, BIND_KEY, gwi_past_key_text(key, query->key), -1, SQLITE_TRANSIENT);
    if (query->has_start)
        sqlite3_bind_int64(statement, BIND_START, (sqlite3_int64)query->start_realtime_ns);
    sqlite3_bind_int64(statement, BIND_COUNT, query->newest_max == 0 ? -1 : (sqlite3_int64)query->newest_max);
}

/* Fail because of the user's expression, if there is one and the database is not to blame. */
static gw_status fail_query(const gwi_past_db *db, const gwi_past_query *query, gw_error *err)
{
    int code = sqlite3_errcode(db->sqlite);
    if (query->where == NULL)
        return gwi_past_db_fail(db, err);
    if (code == SQLITE_INTERRUPT)
        return gw_fail(err, GW_USAGE, "--where: the query took more than %g s of processor time",
                       (double)time_of(query) / 1000);
    if (code != SQLITE_AUTH && code != SQLITE_ERROR && code != SQLITE_TOOBIG && code != SQLITE_RANGE)
        return gwi_past_db_fail(db, err);
    if (code == SQLITE_AUTH)
        return gw_fail(err, GW_USAGE, "--where: %s: only the columns of the table %s can be read",
                       sqlite3_errmsg(db->sqlite), GWI_PAST_TABLE);
    gw_text columns = {0};
    for (size_t i = 0; i < GWI_COLUMN_COUNT; i++)
        gw_text_addf(&columns, "%s%s", i == 0 ? "" : " ", gwi_past_columns[i].name);
    gw_status st =
        gw_fail(err, GW_USAGE, "--where: %s (columns: %s)", sqlite3_errmsg(db->sqlite), gw_text_str(&columns));
    gw_text_free(&columns);
    return st;
}

/* Prepare one statement. */
static gw_status prepare(const gwi_past_db *db, const gw_text *sql, const gwi_past_query *query,
                         sqlite3_stmt **ret_statement, gw_error *err)
{
    const char *rest = "";
    if (sql->failed)
        return gw_fail(err, GW_NOMEM, "%s", db->path);
    if (sqlite3_prepare_v2(db->sqlite, gw_text_str(sql), -1, ret_statement, &rest) != SQLITE_OK)
        return fail_query(db, query, err);
    if (rest[0] != '\0')
        return gw_fail(err, GW_USAGE, "--where: only one expression is allowed, not several statements");
    return GW_OK;
}

/* Prepare the user's expression alone, so that an error does not name words that the user did not write. */
static gw_status check_where(const gwi_past_db *db, const gwi_past_query *query, gw_error *err)
{
    gw_text sql = {0};
    sqlite3_stmt *statement = NULL;
    if (query->where == NULL)
        return GW_OK;
    if (strlen(query->where) > WHERE_BYTES_MAX)
        return gw_fail(err, GW_USAGE, "--where: longer than %d bytes", (int)WHERE_BYTES_MAX);
    if (db->version < GWI_PAST_SCHEMA)
        add_older_table(db, &sql);
    gw_text_addf(&sql, "SELECT 1 FROM %s WHERE %s", GWI_PAST_TABLE, query->where);
    gw_status st = prepare(db, &sql, query, &statement, err);
    sqlite3_finalize(statement);
    gw_text_free(&sql);
    return st;
}

static gw_status prepare_select(const gwi_past_db *db, const gwi_past_query *query, sqlite3_stmt **ret_statement,
                                gw_error *err)
{
    gw_text sql = {0};
    gw_status st = check_where(db, query, err);
    if (st != GW_OK)
        return st;
    build_select(db, query, &sql);
    st = prepare(db, &sql, query, ret_statement, err);
    gw_text_free(&sql);
    return st;
}

/* take_<type>() fills in the value of a column. It returns false if out of memory. */

static bool is_text(sqlite3_stmt *row, int at, const char *text)
{
    const char *value = (const char *)sqlite3_column_text(row, at);
    return value != NULL && strcmp(value, text) == 0;
}

static bool take_text(sqlite3_stmt *row, int at, char **ret_text)
{
    const char *text = (const char *)sqlite3_column_text(row, at);
    return gw_str_copy(text == NULL ? "" : text, ret_text);
}

static bool take_words(sqlite3_stmt *row, int at, char **ret_text)
{
    return take_text(row, at, ret_text);
}

/* NULL, and a negative number, which cannot be right, are unknown. */
static bool take_number(sqlite3_stmt *row, int at, gwi_column_number *ret_number)
{
    sqlite3_int64 value = sqlite3_column_int64(row, at);
    if (sqlite3_column_type(row, at) != SQLITE_NULL && value >= 0)
        *ret_number = (gwi_column_number){true, (uint64_t)value};
    return true;
}

static bool take_time(sqlite3_stmt *row, int at, uint64_t *ret_ns)
{
    gwi_column_number number = {0};
    (void)take_number(row, at, &number);
    *ret_ns = number.value;
    return true;
}

static bool take_flag(sqlite3_stmt *row, int at, bool *ret_value)
{
    *ret_value = sqlite3_column_int(row, at) != 0;
    return true;
}

static bool take_seconds(sqlite3_stmt *row, int at, double *ret_seconds)
{
    *ret_seconds = sqlite3_column_type(row, at) == SQLITE_NULL ? -1 : sqlite3_column_double(row, at);
    return true;
}

static bool take_key(sqlite3_stmt *row, int at, uint64_t *ret_key)
{
    const char *key = (const char *)sqlite3_column_text(row, at);
    *ret_key = key == NULL ? 0 : strtoull(key, NULL, 16);
    return true;
}

static bool take_kind(sqlite3_stmt *row, int at, gwi_column_kind *ret_kind)
{
    for (gwi_column_kind i = 0; i < GWI_PAST_KINDS; i++)
        if (is_text(row, at, gwi_past_kind_text(i)))
            *ret_kind = i;
    return true;
}

static bool take_status(sqlite3_stmt *row, int at, gw_verdict_status *ret_status)
{
    *ret_status = GW_VERDICT_UNDETERMINED;
    if (is_text(row, at, gw_verdict_status_text(GW_VERDICT_FAULT)))
        *ret_status = GW_VERDICT_FAULT;
    else if (is_text(row, at, gw_verdict_status_text(GW_VERDICT_CLEAN)))
        *ret_status = GW_VERDICT_CLEAN;
    return true;
}

static bool take_certainty(sqlite3_stmt *row, int at, gw_certainty *ret_certainty)
{
    for (gw_certainty i = GW_HYPOTHESIS; i <= GW_ESTABLISHED; i++)
        if (is_text(row, at, gw_certainty_text(i)))
            *ret_certainty = i;
    return true;
}

/* Decode %XX in place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        char digits[3] = "";
        if (from[0] == '%' && isxdigit((unsigned char)from[1]) && isxdigit((unsigned char)from[2])) {
            memcpy(digits, from + 1, 2);
            *to++ = (char)strtoul(digits, NULL, 16);
            from += 3;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

enum { ATTEMPT_FIELDS = 3 };

/* End the field at *at, and move *at to the next field, or to NULL after the last one. */
static char *next_field(char **at)
{
    char *field = *at;
    *at = field == NULL ? NULL : strchr(field, '\t');
    if (*at != NULL)
        *(*at)++ = '\0';
    return field;
}

/* Parse the text of bind_attempts() in past_db.c. Changes it, and skips an incomplete attempt. */
static bool parse_attempts(char *rest, gwi_column_attempts *attempts)
{
    while (rest != NULL) {
        char *field[ATTEMPT_FIELDS];
        for (size_t i = 0; i < ATTEMPT_FIELDS; i++)
            field[i] = next_field(&rest);
        if (field[ATTEMPT_FIELDS - 1] == NULL)
            return true;
        if (!gw_array_more(&attempts->item, attempts->count, sizeof *attempts->item))
            return false;
        gwi_past_attempt *attempt = &attempts->item[attempts->count++];
        char **text[] = {&attempt->cause, &attempt->end, &attempt->recording};
        bool copied = true;
        for (size_t i = 0; i < ATTEMPT_FIELDS; i++) {
            unescape(field[i]);
            *text[i] = strdup(field[i]);
            copied = copied && *text[i] != NULL;
        }
        if (!copied)
            return false;
    }
    return true;
}

static bool take_attempts(sqlite3_stmt *row, int at, gwi_column_attempts *ret_attempts)
{
    char *text = NULL;
    bool is_good = take_text(row, at, &text) && (text[0] == '\0' || parse_attempts(text + 1, ret_attempts));
    free(text);
    return is_good;
}

/* Fill in a run from a row. False: out of memory. */
static bool take_row(sqlite3_stmt *row, gwi_past *past)
{
    bool is_good = true;
#define GWI_COLUMN(type, field, column, json, meaning)                                                                 \
    is_good = is_good && take_##type(row, GWI_COLUMN_##field, &past->field);
#include "past_columns.def"
    return is_good;
}

static bool push(gwi_past_list *list, const gwi_past *past)
{
    if (!gw_array_room(&list->item, list->count, &list->capacity, sizeof *list->item))
        return false;
    list->item[list->count++] = *past;
    return true;
}

static gw_status read_rows(const gwi_past_db *db, sqlite3_stmt *statement, const gwi_past_query *query,
                           gwi_past_list *list, gw_error *err)
{
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        gwi_past past = {0};
        past.number = must_number(query) ? (size_t)sqlite3_column_int64(statement, GWI_COLUMN_COUNT) : list->count + 1;
        if (!take_row(statement, &past) || !push(list, &past)) {
            gwi_past_clear(&past);
            return gw_fail(err, GW_NOMEM, "%s", db->path);
        }
    }
    return code == SQLITE_DONE ? GW_OK : fail_query(db, query, err);
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

/* *ret_needs_writer: a program was killed while it added a run, or the table lacks columns. Only a connection that may
 * write can undo that. */
static gw_status read_once(const char *path, const gwi_past_query *query, gwi_past_list *ret_list,
                           bool *ret_needs_writer, gw_error *err)
{
    gwi_past_db db;
    sqlite3_stmt *statement = NULL;
    uint64_t until_ns;
    *ret_list = (gwi_past_list){0};
    gw_status st = gwi_past_db_open(&db, path, false, query->wait_ms, err);
    if (st == GW_OK && db.version == 0)
        st = gw_fail(err, GW_MISSING, "%s has no runs yet", path);
    if (st == GW_OK) {
        limit_query(db.sqlite, time_of(query), &until_ns);
        st = prepare_select(&db, query, &statement, err);
    }
    if (st == GW_OK) {
        bind_query(statement, query);
        st = read_rows(&db, statement, query, ret_list, err);
    }
    int code = db.sqlite == NULL ? SQLITE_OK : sqlite3_extended_errcode(db.sqlite);
    *ret_needs_writer = st == GW_OK ? db.version < GWI_PAST_SCHEMA : (code & 0xff) == SQLITE_READONLY;
    sqlite3_finalize(statement);
    gwi_past_db_close(&db);
    if (st == GW_OK)
        reverse(ret_list);
    else
        gwi_past_free(ret_list);
    return st;
}

gw_status gwi_past_db_read(const char *path, const gwi_past_query *query, gwi_past_list *ret_list, gw_error *err)
{
    bool needs_writer;
    gwi_past_db db;
    gw_status st = read_once(path, query, ret_list, &needs_writer, err);
    if (!needs_writer)
        return st;
    gw_status opened = gwi_past_db_open(&db, path, true, query->wait_ms, NULL);
    gwi_past_db_close(&db);
    if (opened != GW_OK)
        return st;
    gwi_past_free(ret_list);
    return read_once(path, query, ret_list, &needs_writer, err);
}
