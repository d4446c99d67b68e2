/* Tests the database of past runs: many programs at once, the take-over of the text list, damaged databases, and
 * expressions of the user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "past_testlib.h"

#include <sqlite3.h>
#include <sys/wait.h>

static int64_t ask(const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open_v2(database, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    int code = sqlite3_step(statement);
    assert_true(code == SQLITE_ROW || code == SQLITE_DONE);
    int64_t value = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return value;
}

static void unknown_is_null(void **state)
{
    (void)state;
    add((char[]){"train"}, 5, 0);
    add_with_peak((char[]){"train"}, 6, 1, true, 0);
    assert_int_equal(ask("SELECT count(*) FROM runs"), 2);
    assert_int_equal(ask("SELECT count(*) FROM runs WHERE peak IS NULL AND batch IS NULL AND card IS NULL"), 1);
    assert_int_equal(ask("SELECT count(*) FROM runs WHERE peak = 0 AND cause = 'gpu-oom-leak' AND exit = 1"), 1);
    assert_int_equal(ask("SELECT count(*) FROM runs WHERE cause IS NULL AND certainty IS NULL AND good"), 1);
    gwi_past_list list = list_now();
    assert_false(list.item[0].has_peak);
    assert_true(list.item[1].has_peak && list.item[1].peak_bytes == 0);
    assert_int_equal(list.item[1].certainty, GW_ESTABLISHED);
    gwi_past_free(&list);
}

enum { PROGRAMS = 100 };

/* 100 programs add a run at the same moment, to a database that does not exist yet. */
static void many_programs_at_once(void **state)
{
    (void)state;
    int gate[2];
    pid_t child[PROGRAMS];
    assert_int_equal(pipe(gate), 0);
    for (uint64_t i = 0; i < PROGRAMS; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] == 0) {
            char byte;
            close(gate[1]);
            (void)!read(gate[0], &byte, 1); /* returns when the parent closes its end */
            add((char[]){"train"}, i + 1, 0);
            _exit(0);
        }
    }
    close(gate[0]);
    close(gate[1]);
    for (size_t i = 0; i < PROGRAMS; i++) {
        int status = 1;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    gwi_past_take_over(); /* a program that had to wait too long has added its run to the text list */
    assert_int_equal(ask("SELECT count(DISTINCT start_ns) FROM runs"), PROGRAMS);
    assert_int_equal(ask("SELECT count(*) FROM runs"), PROGRAMS);
}

static const char old_list[] =
    "1\t5\t00000000000000aa\tf\t0\t1.500\tgpu-oom-leak\texited 1\t/r.gpuwhy\t/srv\ttrain a\n"
    "1\t6\t00000000000000aa\tc\t1\tnan\t\texited 0\t\t/srv\ttrain a\n"
    "nonsense\n"
    "1\t7\t00000000000000aa\tc\t1n\t2\t\texited 0\t\t/srv\ttrain a\n"
    "1\t8\t00000000000000aa\tf\t0\t2\t\tdied of signal 9\t\t/srv\ttrain a\tx\texited 3\t/1\n";

static void the_text_list_is_taken_over_once(void **state)
{
    (void)state;
    write_file(runs, old_list);
    gwi_past_list list = list_now(); /* before: from the list */
    assert_int_equal(list.count, 3);
    gwi_past_free(&list);
    add((char[]){"other"}, 9, 0);
    assert_int_equal(access(runs, F_OK), -1);
    assert_int_equal(access(runs_old, F_OK), 0);
    assert_int_equal(ask("SELECT count(*) FROM runs"), 4); /* the damaged lines are left out */
    assert_int_equal(ask("SELECT count(*) FROM runs WHERE start_ns = 5 AND exit = 1 AND seconds = 1.5"), 1);
    assert_int_equal(ask("SELECT count(*) FROM runs WHERE start_ns = 7 AND NOT observed AND good"), 1);
    assert_int_equal(ask("SELECT count(*) FROM runs WHERE start_ns = 8 AND signal = 9 AND exit IS NULL"), 1);
    list = list_now();
    assert_int_equal(list.count, 4);
    assert_int_equal(list.item[2].attempt_count, 1);
    assert_string_equal(list.item[2].attempt[0].end, "exited 3");
    gwi_past_free(&list);
}

/* As after a crash between the insertion and the renaming, or if two programs take the list over. */
static void the_same_list_again_adds_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        write_file(runs, old_list);
        gwi_past_take_over();
        assert_int_equal(access(runs, F_OK), -1);
        assert_int_equal(ask("SELECT count(*) FROM runs"), 3);
    }
}

static gw_status status_where(const char *where, gw_error *err)
{
    gwi_past_list list;
    gw_status st = gwi_past_read(&(gwi_past_query){.where = where, .wait_ms = 60000}, &list, err);
    if (st == GW_OK)
        gwi_past_free(&list);
    return st;
}

static void expect_count(size_t count, const char *where)
{
    gwi_past_list list = list_where(where);
    if (list.count != count)
        fail_msg("%zu runs instead of %zu: %s", list.count, count, where);
    gwi_past_free(&list);
}

static void expressions_choose_runs(void **state)
{
    (void)state;
    add_with_peak((char[]){"small"}, 5, 0, true, 1000000);
    add_with_peak((char[]){"large"}, 6, 1, true, 9000000000);
    add((char[]){"unknown"}, 7, 1);
    expect_count(1, "peak > 8e9 and cause like 'gpu-oom%'");
    expect_count(2, "peak > 0");
    expect_count(1, "peak is null -- a comment");
    expect_count(2, "command like '%l%' and start_ns < 7");
    expect_count(1, "peak = (select max(peak) from Runs)");
    gwi_past_list list = list_where("peak > 8e9");
    assert_string_equal(list.item[0].command, "large two\twords\n");
    gwi_past_free(&list);
}

static void expect_refused(const char *where, const char *reason)
{
    gw_error err = {""};
    if (status_where(where, &err) != GW_USAGE || strstr(err.text, reason) == NULL)
        fail_msg("%s: %s", where, err.text);
}

static void expressions_can_only_read_runs(void **state)
{
    (void)state;
    add((char[]){"train"}, 5, 0);
    expect_refused("peek > 8", "no such column: peek (columns: start_ns");
    expect_refused("peak >", "incomplete input");
    expect_refused("1); delete from runs; select (1", "near \")\": syntax error");
    expect_refused("1; delete from runs", "one expression");
    expect_refused("1 limit 1", "syntax error");
    expect_refused("1) union select * from runs; --", "syntax error");
    expect_refused("1 union select 1", "compound");
    expect_refused("(select count(*) from sqlite_master) > 0", "not authorized: only the columns");
    expect_refused("load_extension('x') is null", "not authorized");
    expect_refused("(select name from pragma_table_info('runs')) is null", "");
    expect_refused("(with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n) > 0", "");
    char *longer = calloc(1, 10000);
    memset(longer, ' ', 9999);
    expect_refused(longer, "longer than");
    free(longer);
    assert_int_equal(ask("SELECT count(*) FROM runs"), 1);
}

/* Four tables of 300 rows have 8,100,000,000 combinations. */
static void an_endless_query_is_ended(void **state)
{
    (void)state;
    add((char[]){"train"}, 5, 0);
    (void)ask(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300) INSERT INTO "
        "runs(start_ns,key,kind,status,good,observed,ended,folder,command) SELECT i,'1','run','clean',1,1,'','','' "
        "FROM n");
    gwi_past_list list;
    gw_error err = {""};
    const gwi_past_query query = {
        .where = "(select count(*) from runs a, runs b, runs c, runs d where a.id + b.id > c.id * d.id) < 0",
        .wait_ms = 60000,
        .time_ms = 50};
    assert_int_equal(gwi_past_read(&query, &list, &err), GW_USAGE);
    assert_non_null(strstr(err.text, "more than 0.05 s of processor time"));
}

static void expect_broken(gw_status status, const char *reason)
{
    gw_error err = {""};
    assert_int_equal(status_where(NULL, &err), status);
    if (strstr(err.text, database) == NULL || strstr(err.text, reason) == NULL)
        fail_msg("%s", err.text);
}

/* A run that the database cannot take is in the text list, and the database stays as it is. */
static void damaged_databases_are_reported(void **state)
{
    (void)state;
    struct stat before, after;
    write_file(database,
               "This is not a database, and it is longer than the header of one, which has 100 bytes. Really.\n");
    assert_int_equal(stat(database, &before), 0);
    expect_broken(GW_CORRUPT, "not a database");
    add((char[]){"train"}, 5, 0);
    assert_int_equal(stat(database, &after), 0);
    assert_true(before.st_size == after.st_size && before.st_ino == after.st_ino);
    assert_int_equal(access(runs, F_OK), 0);
    unlink(database);
    add((char[]){"train"}, 6, 0); /* a new database takes over the run that was in the list */
    assert_int_equal(ask("SELECT count(*) FROM runs"), 2);
}

/* A database that cannot be opened, such as one of another user; here it is a link, which is not followed. */
static void without_an_open_database_the_list_is_used(void **state)
{
    (void)state;
    gw_error err = {""};
    assert_int_equal(symlink("/dev/null", database), 0);
    add((char[]){"train"}, 5, 0);
    assert_int_equal(access(runs, F_OK), 0);
    gwi_past_list list = list_now();
    assert_int_equal(list.count, 1);
    gwi_past_free(&list);
    assert_int_equal(status_where("1", &err), GW_UNSUPPORTED);
    assert_non_null(strstr(err.text, database));
}

/* As in a folder that cannot be written: the database does not exist, and the list cannot be taken over. */
static void an_expression_without_a_database_is_refused(void **state)
{
    (void)state;
    gw_error err = {""};
    expect_count(0, "1"); /* there are no runs at all */
    write_file(runs, old_list);
    assert_int_equal(status_where("1", &err), GW_UNSUPPORTED);
    assert_non_null(strstr(err.text, "needs the database"));
    write_file(database, ""); /* a new database that has no table yet */
    assert_int_equal(status_where("1", &err), GW_UNSUPPORTED);
}

static void truncated_databases_are_reported(void **state)
{
    (void)state;
    struct stat info;
    for (uint64_t i = 0; i < 200; i++)
        add((char[]){"train"}, i + 1, 0);
    assert_int_equal(stat(database, &info), 0);
    assert_int_equal(truncate(database, info.st_size / 3), 0);
    expect_broken(GW_CORRUPT, "");
    add((char[]){"train"}, 1000, 0);
    assert_int_equal(access(runs, F_OK), 0);
}

static void newer_databases_are_left_alone(void **state)
{
    (void)state;
    add((char[]){"train"}, 5, 0);
    (void)ask("PRAGMA user_version = 2");
    expect_broken(GW_VERSION, "newer version");
    add((char[]){"train"}, 6, 0);
    (void)ask("PRAGMA user_version = 1");
    assert_int_equal(ask("SELECT count(*) FROM runs"), 1);
    gwi_past_take_over();
    assert_int_equal(ask("SELECT count(*) FROM runs"), 2);
}

/* Another table with this name is not ours. */
static void other_tables_are_reported(void **state)
{
    (void)state;
    write_file(database, "");
    (void)ask("CREATE TABLE runs(x)");
    (void)ask("PRAGMA user_version = 1");
    expect_broken(GW_CORRUPT, "no such column");
    add((char[]){"train"}, 6, 0);
    assert_int_equal(access(runs, F_OK), 0);
}

static void hostile_values_are_read(void **state)
{
    (void)state;
    add((char[]){"train"}, 5, 0);
    (void)ask("UPDATE runs SET start_ns = -1, peak = -5, batch = 'x', seconds = 1e999, exit = 1 << 40, key = 'zz', "
              "attempts = char(9) || 'a'");
    gwi_past_list list = list_now();
    assert_int_equal(list.count, 1);
    assert_false(list.item[0].has_peak);
    assert_int_equal(list.item[0].attempt_count, 0);
    gwi_past_free(&list);
}

/* A program that is killed while it writes leaves a journal. The next reader undoes what it wrote. */
static void an_unfinished_write_is_undone(void **state)
{
    (void)state;
    add((char[]){"train"}, 5, 0);
    pid_t child = fork();
    if (child == 0) {
        sqlite3 *db;
        sqlite3_open_v2(database, &db, SQLITE_OPEN_READWRITE, NULL);
        sqlite3_exec(
            db,
            "PRAGMA cache_size = 1; BEGIN; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT "
            "5000) INSERT INTO runs(start_ns,key,kind,status,good,observed,ended,folder,command) SELECT "
            "i,'1','run','clean',1,1,'','','' FROM n",
            NULL, NULL, NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(access(journal, F_OK), 0);
    gwi_past_list list = list_now();
    assert_int_equal(list.count, 1);
    gwi_past_free(&list);
    assert_int_equal(access(journal, F_OK), -1);
}

static void no_program_is_waited_for_when_reading(void **state)
{
    (void)state;
    sqlite3 *db;
    gwi_past_list list;
    gw_error err = {""};
    add((char[]){"train"}, 5, 0);
    assert_int_equal(sqlite3_open_v2(database, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(gwi_past_read(&(gwi_past_query){.wait_ms = 1}, &list, &err), GW_IO);
    assert_non_null(strstr(err.text, "locked"));
    sqlite3_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(unknown_is_null, clear),
                                       cmocka_unit_test_setup(many_programs_at_once, clear),
                                       cmocka_unit_test_setup(the_text_list_is_taken_over_once, clear),
                                       cmocka_unit_test_setup(the_same_list_again_adds_nothing, clear),
                                       cmocka_unit_test_setup(expressions_choose_runs, clear),
                                       cmocka_unit_test_setup(expressions_can_only_read_runs, clear),
                                       cmocka_unit_test_setup(an_endless_query_is_ended, clear),
                                       cmocka_unit_test_setup(damaged_databases_are_reported, clear),
                                       cmocka_unit_test_setup(without_an_open_database_the_list_is_used, clear),
                                       cmocka_unit_test_setup(an_expression_without_a_database_is_refused, clear),
                                       cmocka_unit_test_setup(truncated_databases_are_reported, clear),
                                       cmocka_unit_test_setup(newer_databases_are_left_alone, clear),
                                       cmocka_unit_test_setup(other_tables_are_reported, clear),
                                       cmocka_unit_test_setup(hostile_values_are_read, clear),
                                       cmocka_unit_test_setup(an_unfinished_write_is_undone, clear),
                                       cmocka_unit_test_setup(no_program_is_waited_for_when_reading, clear)};
    return cmocka_run_group_tests(tests, begin, end);
}
