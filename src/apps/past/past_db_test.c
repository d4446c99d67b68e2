/* Tests the database of past runs: runs that were added can be read again, many programs at once, damaged databases,
 * and expressions of the user. */
#include "gw_test_folder.h"
#include "gwi_past_db.h"
#include "gwi_past_runs.h"

#include "gw_clock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static gw_path folder, database, journal, lock;

static void remove_all(void)
{
    unlink(database);
    unlink(journal);
    rmdir(lock);
}

static int begin(void **state)
{
    if (gw_test_folder_make(state) != 0 || setenv("XDG_STATE_HOME", gw_test_folder, 1) != 0)
        return -1;
    bool is_good = gw_path_format(folder, NULL, "%s/gpuwhy", gw_test_folder) == GW_OK &&
                   gw_path_format(database, NULL, "%s/runs.db", folder) == GW_OK &&
                   gw_path_format(journal, NULL, "%s-journal", database) == GW_OK &&
                   gw_path_format(lock, NULL, "%s.lock", database) == GW_OK;
    return is_good ? 0 : -1;
}

static int clear(void **state)
{
    remove_all();
    return 0;
}

static void add_with_peak(char *command, uint64_t start_ns, int exit_code, bool has_peak, uint64_t peak_bytes)
{
    char *words[] = {command, (char[]){"two\twords\n"}};
    gw_verdict verdict = {.status = exit_code == 0 ? GW_VERDICT_CLEAN : GW_VERDICT_FAULT,
                          .cause = exit_code == 0 ? NULL : "gpu-oom-leak",
                          .certainty = GW_ESTABLISHED,
                          .argv = {words, 2},
                          .exit_known = true,
                          .exit_code = exit_code,
                          .seconds = 1.5};
    verdict.run.has_start = true;
    verdict.run.start_realtime_ns = start_ns;
    verdict.peak.is_known = has_peak;
    verdict.peak.bytes = peak_bytes;
    gwi_past_add(&verdict, "/srv/100%/a.gpuwhy", NULL, NULL);
}

static void add(char *command, uint64_t start_ns, int exit_code)
{
    add_with_peak(command, start_ns, exit_code, false, 0);
}

static gwi_past_list list_where(const char *where)
{
    gwi_past_list list;
    gw_error err = {""};
    if (gwi_past_read(&(gwi_past_query){.where = where, .wait_ms = 60000}, &list, &err) != GW_OK)
        fail_msg("%s", err.text);
    return list;
}

static gwi_past_list list_now(void)
{
    return list_where(NULL);
}

GW_TEST_WITH(what_is_written_is_read, clear, NULL)
{
    gwi_past_list list = list_now();
    assert_int_equal(list.count, 0);
    add((char[]){"train"}, 5, 0);
    add((char[]){"train"}, 6, 1);
    add((char[]){"other"}, 7, 1);
    list = list_now();
    assert_int_equal(list.count, 3);
    assert_true(list.item[0].good && !list.item[1].good);
    assert_int_equal(list.item[0].start_realtime_ns, 5);
    assert_string_equal(list.item[0].command, "train two\twords\n");
    assert_string_equal(list.item[0].recording, "/srv/100%/a.gpuwhy");
    assert_string_equal(list.item[1].cause, "gpu-oom-leak");
    assert_string_equal(list.item[1].end, "exited 1");
    assert_true(list.item[0].key == list.item[1].key && list.item[1].key != list.item[2].key);
    gwi_past_free(&list);
    struct stat info;
    assert_int_equal(stat(database, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

GW_TEST_WITH(attempts_are_part_of_their_run, clear, NULL)
{
    char *words[] = {(char[]){"train"}, (char[]){"--batch"}, (char[]){"4"}};
    char *const program[] = {(char[]){"train"}, (char[]){"--batch"}, (char[]){"8"}, (char[]){"--token=abc"}, NULL};
    gw_verdict_attempt attempts[] = {{.number = 1,
                                      .cause = (char[]){"gpu-oom-leak"},
                                      .ended = (char[]){"exited 1"},
                                      .recording = (char[]){"/srv/a\t1.gpuwhy"}},
                                     {.number = 2, .ended = (char[]){"exited 3"}},
                                     {.number = 3, .ended = (char[]){"exited 0"}}};
    gw_verdict verdict = {
        .status = GW_VERDICT_CLEAN, .argv = {words, 3}, .exit_known = true, .attempts = attempts, .attempt_count = 3};
    verdict.run.has_start = true;
    verdict.run.start_realtime_ns = 6;
    gwi_past_add(&verdict, "", program, NULL);
    add((char[]){"other"}, 7, 1);
    gwi_past_list list = list_now();
    assert_int_equal(list.count, 2);
    assert_string_equal(list.item[0].command, "train --batch 8 --token=***");  /* as the user gave it */
    assert_true(list.item[0].batch.is_known && list.item[0].batch.value == 4); /* of the last attempt */
    assert_int_equal(list.item[0].attempts.count, 2);
    assert_string_equal(list.item[0].attempts.item[0].cause, "gpu-oom-leak");
    assert_string_equal(list.item[0].attempts.item[0].end, "exited 1");
    assert_string_equal(list.item[0].attempts.item[0].recording, "/srv/a\t1.gpuwhy");
    assert_string_equal(list.item[0].attempts.item[1].cause, "");
    assert_string_equal(list.item[0].attempts.item[1].end, "exited 3");
    assert_int_equal(list.item[1].attempts.count, 0);
    gwi_past_free(&list);
}

GW_TEST_WITH(an_answer_is_no_run, clear, NULL)
{
    char *words[] = {(char[]){"train"}, (char[]){"{batch}"}, NULL};
    gwi_past_add_answer(words, 9, 35.25, 283, true, "batch 283");
    add((char[]){"train"}, 10, 0);
    gwi_past_list list = list_now();
    assert_int_equal(list.count, 2);
    assert_true(list.item[0].kind == GWI_PAST_FIT && list.item[1].kind == GWI_PAST_RUN);
    assert_int_equal(list.item[0].start_realtime_ns, 9);
    assert_true(list.item[0].seconds == 35.25);
    assert_true(list.item[0].batch.is_known && list.item[0].batch.value == 283);
    assert_string_equal(list.item[0].end, "batch 283");
    assert_string_equal(list.item[0].command, "train {batch}");
    gwi_past_free(&list);
}

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

GW_TEST_WITH(unknown_is_null, clear, NULL)
{
    add((char[]){"train"}, 5, 0);
    add_with_peak((char[]){"train"}, 6, 1, true, 0);
    assert_int_equal(ask("SELECT count(*) FROM runs"), 2);
    assert_int_equal(ask("SELECT count(*) FROM runs WHERE peak IS NULL AND batch IS NULL AND card IS NULL"), 1);
    assert_int_equal(ask("SELECT count(*) FROM runs WHERE peak = 0 AND cause = 'gpu-oom-leak' AND exit = 1"), 1);
    assert_int_equal(ask("SELECT count(*) FROM runs WHERE cause IS NULL AND certainty IS NULL AND good"), 1);
    gwi_past_list list = list_now();
    assert_false(list.item[0].peak.is_known);
    assert_true(list.item[1].peak.is_known && list.item[1].peak.value == 0);
    assert_int_equal(list.item[1].certainty, GW_ESTABLISHED);
    gwi_past_free(&list);
}

static gwi_past run_at(uint64_t start_ns)
{
    static char none[] = "";
    return (gwi_past){.start_realtime_ns = start_ns, .end = none, .folder = none, .command = none};
}

enum { PROGRAMS = 100 };

/* 100 programs add a run at the same moment, to a database that does not exist yet. */
GW_TEST_WITH(many_programs_at_once, clear, NULL)
{
    gwi_past_list none = list_now(); /* creates the state folder */
    assert_int_equal(none.count, 0);
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
            gwi_past past = run_at(i + 1);
            gw_error err = {""};
            bool is_added = gwi_past_db_add(database, &past, 60000, &err) == GW_OK;
            if (!is_added)
                fprintf(stderr, "%s\n", err.text);
            _exit(!is_added);
        }
    }
    close(gate[0]);
    close(gate[1]);
    for (size_t i = 0; i < PROGRAMS; i++) {
        int status = 1;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(ask("SELECT count(DISTINCT start_ns) FROM runs"), PROGRAMS);
    assert_int_equal(ask("SELECT count(*) FROM runs"), PROGRAMS);
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

GW_TEST_WITH(expressions_choose_runs, clear, NULL)
{
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

GW_TEST_WITH(expressions_can_only_read_runs, clear, NULL)
{
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
GW_TEST_WITH(an_endless_query_is_ended, clear, NULL)
{
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

/* The database stays as it is, and the run is missing. */
GW_TEST_WITH(damaged_databases_are_reported, clear, NULL)
{
    struct stat before, after;
    static const char other[] =
        "This is not a database, and it is longer than the header of one, which has 100 bytes. Really.\n";
    gw_test_write(database, other, sizeof other - 1);
    assert_int_equal(stat(database, &before), 0);
    expect_broken(GW_CORRUPT, "not a database");
    add((char[]){"train"}, 5, 0);
    assert_int_equal(stat(database, &after), 0);
    assert_true(before.st_size == after.st_size && before.st_ino == after.st_ino);
    unlink(database);
    add((char[]){"train"}, 6, 0); /* creates a new database */
    assert_int_equal(ask("SELECT count(*) FROM runs"), 1);
}

GW_TEST_WITH(truncated_databases_are_reported, clear, NULL)
{
    struct stat info;
    for (uint64_t i = 0; i < 200; i++)
        add((char[]){"train"}, i + 1, 0);
    assert_int_equal(stat(database, &info), 0);
    assert_int_equal(truncate(database, info.st_size / 3), 0);
    expect_broken(GW_CORRUPT, "");
    add((char[]){"train"}, 1000, 0);
    expect_broken(GW_CORRUPT, "");
}

GW_TEST_WITH(newer_databases_are_left_alone, clear, NULL)
{
    add((char[]){"train"}, 5, 0);
    (void)ask("PRAGMA user_version = 1000");
    expect_broken(GW_VERSION, "newer version");
    add((char[]){"train"}, 6, 0);
    assert_int_equal(ask("SELECT count(*) FROM runs"), 1);
}

/* Another table with this name is not ours. */
GW_TEST_WITH(other_tables_are_reported, clear, NULL)
{
    gw_test_write(database, "", 0);
    (void)ask("CREATE TABLE runs(x)");
    (void)ask("INSERT INTO runs VALUES(1)");
    (void)ask("PRAGMA user_version = 1");
    expect_broken(GW_CORRUPT, "column");
    gwi_past past = run_at(6);
    gw_error err = {""};
    assert_int_equal(gwi_past_db_add(database, &past, 60000, &err), GW_CORRUPT);
    assert_int_equal(ask("SELECT count(*) FROM pragma_table_info('runs')"), 1);
}

GW_TEST_WITH(hostile_values_are_read, clear, NULL)
{
    add((char[]){"train"}, 5, 0);
    (void)ask("UPDATE runs SET start_ns = -1, peak = -5, batch = 'x', seconds = 1e999, exit = 1 << 40, key = 'zz', "
              "attempts = char(9) || 'a'");
    gwi_past_list list = list_now();
    assert_int_equal(list.count, 1);
    assert_false(list.item[0].peak.is_known);
    assert_int_equal(list.item[0].attempts.count, 0);
    gwi_past_free(&list);
}

/* A program that is killed while it writes leaves a journal. The next reader undoes what it wrote. */
GW_TEST_WITH(an_unfinished_write_is_undone, clear, NULL)
{
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

/* A link is not followed, and a database that cannot be opened is no empty list. */
GW_TEST_WITH(links_are_refused, clear, NULL)
{
    assert_int_equal(symlink("/dev/null", database), 0);
    expect_broken(GW_IO, "not a regular file");
}

/* SQLite would wait for ever for a program that writes to the FIFO. */
GW_TEST_WITH(fifos_are_refused, clear, NULL)
{
    assert_int_equal(mkfifo(database, 0600), 0);
    expect_broken(GW_IO, "not a regular file");
    assert_int_equal(unlink(database), 0);
    add((char[]){"train"}, 5, 0);
    assert_int_equal(mkfifo(journal, 0600), 0);
    expect_broken(GW_IO, "not a regular file");
}

GW_TEST_WITH(no_program_is_waited_for_when_reading, clear, NULL)
{
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

/* Return how long a reader waits for a program that keeps its lock and changes the file all the time. */
static uint64_t waited_ns(int wait_ms)
{
    gwi_past_list list;
    gw_error err = {""};
    uint64_t begin_ns = gw_monotonic_ns();
    assert_int_equal(gwi_past_read(&(gwi_past_query){.wait_ms = wait_ms}, &list, &err), GW_IO);
    assert_non_null(strstr(err.text, "locked"));
    return gw_monotonic_ns() - begin_ns;
}

GW_TEST_WITH(a_busy_program_is_not_waited_for_long, clear, NULL)
{
    sqlite3 *db;
    add((char[]){"train"}, 5, 0);
    assert_int_equal(sqlite3_open_v2(database, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    pid_t child = fork();
    while (child == 0) {
        (void)!utimensat(AT_FDCWD, database, NULL, 0);
        usleep(1000);
    }
    uint64_t short_ns = waited_ns(1), long_ns = waited_ns(1000);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    sqlite3_close(db);
    assert_true(short_ns < long_ns);
}

GW_TEST(words_do_not_run_together)
{
    char *one[] = {(char[]){"a b"}}, *two[] = {(char[]){"a"}, (char[]){"b"}};
    assert_true(gwi_past_key(&(gw_string_list){one, 1}, "/srv") != gwi_past_key(&(gw_string_list){two, 2}, "/srv"));
    assert_true(gwi_past_key(&(gw_string_list){one, 1}, "/srv") != gwi_past_key(&(gw_string_list){one, 1}, "/tmp"));
}

/* Databases that earlier versions wrote contain keys, so the key of a command must not change. */
GW_TEST(keys_never_change)
{
    char *words[] = {(char[]){"python"}, (char[]){"train.py"}};
    assert_true(gwi_past_key(&(gw_string_list){words, 2}, "/home/ann") == UINT64_C(0xdb93c368040ed5f0));
}

static void expect_batch(uint64_t batch, char *first, char *second)
{
    char *words[] = {(char[]){"train"}, first, second};
    uint64_t found = 0;
    assert_int_equal(gwi_past_batch(&(gw_string_list){words, second == NULL ? 2 : 3}, &found), batch != 0);
    assert_int_equal(found, batch);
}

GW_TEST(batches_are_found_on_the_command_line)
{
    expect_batch(32, (char[]){"--batch-size"}, (char[]){"32"});
    expect_batch(32, (char[]){"--batch-size=32"}, NULL);
    expect_batch(8, (char[]){"-b"}, (char[]){"8"});
    expect_batch(8, (char[]){"--batch"}, (char[]){"8"});
    expect_batch(9, (char[]){"--batch=8"}, (char[]){"--batch=9"});
    expect_batch(0, (char[]){"--batch-size"}, NULL);
    expect_batch(0, (char[]){"--batch-size"}, (char[]){"auto"});
    expect_batch(0, (char[]){"--batch-size"}, (char[]){"-4"});
    expect_batch(0, (char[]){"--batch-size"}, (char[]){"0"});
    expect_batch(0, (char[]){"--batch-size"}, (char[]){"99999999999999999999"});
    expect_batch(0, (char[]){"--batches"}, (char[]){"8"});
    expect_batch(0, (char[]){"32"}, NULL);
}

static gwi_past peak_of(uint64_t start_ns, bool good, bool is_known, uint64_t bytes)
{
    return (gwi_past){
        .start_realtime_ns = start_ns, .key = 1, .good = good, .peak = {is_known, bytes}, .exit = {true, good ? 0 : 1}};
}

static void expect_peaks(const char *text, gwi_past *item, size_t count)
{
    gwi_peaks peaks;
    gw_text out = {0};
    gwi_peaks_find(&(gwi_past_list){item, count, count}, &item[count - 1], &peaks);
    assert_int_equal(gwi_peaks_text(&peaks, "this one", &out), text != NULL);
    assert_string_equal(gw_text_str(&out), text == NULL ? "" : text);
    gw_text_free(&out);
}

GW_TEST(peaks_are_compared)
{
    const uint64_t gib = 1 << 30;
    gwi_past item[16];
    for (uint64_t i = 0; i < 14; i++)
        item[i] = peak_of(i, true, true, i < 4 ? 20 * gib : (i == 4 ? 10 : 11) * gib);
    item[14] = peak_of(14, false, true, 15 * gib); /* a failed run, which is not compared */
    item[15] = peak_of(15, false, true, 16 * gib);
    expect_peaks("the last 10 good runs of this command peaked at 10.00 GiB to 11.00 GiB, this one peaked at 16.00 GiB "
                 "and failed",
                 item, 16);
    item[15].exit.is_known = false; /* its end is unknown: it may not have failed */
    expect_peaks("the last 10 good runs of this command peaked at 10.00 GiB to 11.00 GiB, this one peaked at 16.00 GiB",
                 item, 16);
    item[15].peak.is_known = false;
    expect_peaks(
        "the last 10 good runs of this command peaked at 10.00 GiB to 11.00 GiB; the peak of this one is unknown", item,
        16);
    item[0].peak.is_known = false; /* unknown, and not 0 */
    expect_peaks(NULL, item, 2);
    gwi_past failed[] = {peak_of(1, false, true, 16 * gib), peak_of(2, false, true, 15 * gib)};
    expect_peaks("the last run of this command, which did not end well, peaked at 16.00 GiB, this one peaked at 15.00 "
                 "GiB and failed",
                 failed, 2);
    failed[0].exit.is_known = false;
    expect_peaks("the last run of this command, which is not known to have ended well, peaked at 16.00 GiB, this one "
                 "peaked at 15.00 GiB and failed",
                 failed, 2);
    gwi_past mixed[] = {peak_of(1, false, true, gib), peak_of(2, false, true, gib), peak_of(3, false, true, gib)};
    expect_peaks("the last 2 runs of this command (none of them ended well) peaked at 1.00 GiB, this one peaked at "
                 "1.00 GiB and failed",
                 mixed, 3);
    mixed[1].exit.is_known = false;
    expect_peaks("the last 2 runs of this command (none of them is known to have ended well) peaked at 1.00 GiB, this "
                 "one peaked at 1.00 GiB and failed",
                 mixed, 3);
    failed[0].key = 2;
    expect_peaks(NULL, failed, 2);
    gwi_past without[] = {peak_of(1, true, true, 0), peak_of(2, false, true, 0)};
    expect_peaks(NULL, without, 2);
}

GW_TEST(ages_are_told_in_one_unit)
{
    char out[GWI_AGE_TEXT_MAX];
    assert_string_equal(gwi_age_text(out, 0), "0 s");
    assert_string_equal(gwi_age_text(out, UINT64_C(59000000000)), "59 s");
    assert_string_equal(gwi_age_text(out, UINT64_C(7300000000000)), "2 h");
    assert_string_equal(gwi_age_text(out, UINT64_C(86400000000000)), "1 day");
    assert_string_equal(gwi_age_text(out, UINT64_C(864000000000000)), "10 days");
}

GW_TEST_MAIN(begin, gw_test_folder_remove)
