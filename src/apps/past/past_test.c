/* Tests the past runs: runs that were added can be read again, and damaged lines of the text list are skipped. The
 * tests of the database are in past_db_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "past_testlib.h"

static void what_is_written_is_read(void **state)
{
    (void)state;
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
    assert_int_equal(stat(GW_HAVE_SQLITE ? database : runs, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

static void attempts_are_part_of_their_run(void **state)
{
    (void)state;
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
    gwi_past_add(&verdict, "", program);
    add((char[]){"other"}, 7, 1);
    gwi_past_list list = list_now();
    assert_int_equal(list.count, 2);
    assert_string_equal(list.item[0].command, "train --batch 8 --token=***"); /* as the user gave it */
    assert_true(list.item[0].has_batch && list.item[0].batch == 4);           /* of the last attempt */
    assert_int_equal(list.item[0].attempt_count, 2);
    assert_string_equal(list.item[0].attempt[0].cause, "gpu-oom-leak");
    assert_string_equal(list.item[0].attempt[0].end, "exited 1");
    assert_string_equal(list.item[0].attempt[0].recording, "/srv/a\t1.gpuwhy");
    assert_string_equal(list.item[0].attempt[1].cause, "");
    assert_string_equal(list.item[0].attempt[1].end, "exited 3");
    assert_int_equal(list.item[1].attempt_count, 0);
    gwi_past_free(&list);
}

static void an_answer_is_no_run(void **state)
{
    (void)state;
    char *words[] = {(char[]){"train"}, (char[]){"{batch}"}};
    gwi_past_add_answer(&(gw_string_list){words, 2}, 9, 35.25, 283, "batch 283");
    add((char[]){"train"}, 10, 0);
    gwi_past_list list = list_now();
    assert_int_equal(list.count, 2);
    assert_true(list.item[0].is_answer && !list.item[1].is_answer);
    assert_int_equal(list.item[0].start_realtime_ns, 9);
    assert_true(list.item[0].seconds == 35.25);
    assert_true(list.item[0].has_batch && list.item[0].batch == 283);
    assert_string_equal(list.item[0].end, "batch 283");
    assert_string_equal(list.item[0].command, "train {batch}");
    gwi_past_free(&list);
}

static void words_do_not_run_together(void **state)
{
    (void)state;
    char *one[] = {(char[]){"a b"}}, *two[] = {(char[]){"a"}, (char[]){"b"}};
    assert_true(gwi_past_key(&(gw_string_list){one, 1}, "/srv") != gwi_past_key(&(gw_string_list){two, 2}, "/srv"));
    assert_true(gwi_past_key(&(gw_string_list){one, 1}, "/srv") != gwi_past_key(&(gw_string_list){one, 1}, "/tmp"));
}

/* Lists that earlier versions wrote contain keys, so the key of a command must not change. */
static void keys_never_change(void **state)
{
    (void)state;
    char *words[] = {(char[]){"python"}, (char[]){"train.py"}};
    assert_true(gwi_past_key(&(gw_string_list){words, 2}, "/home/ann") == UINT64_C(0xdb93c368040ed5f0));
}

static void damaged_lines_are_passed_over(void **state)
{
    (void)state;
    static const char *const lines[] = {"\n\n\t\t\t",
                                        "2\t1\t2\tf\t0\t1\t\t\t\t\t",
                                        "1\tx\ty\tf\t0\t1\t\t\t\t\t",
                                        "1\t5\t6\tf\t0\t1\tcause",
                                        "1\t5\t6\tf\t0\tnan\t\t\t\t\t",
                                        "1\t5\t6\tf\t0\tinf\t\t\t\t\t",
                                        "1\t-5\t6\tf\t0\t1\t\t\t\t\t",
                                        "1\t99999999999999999999\t6\tf\t0\t1\t\t\t\t\t",
                                        "1\t5\t6\tf\t0\t1\t%\t%1\t%zz\t%00\t%41%"};
    FILE *file = fopen(runs, "w");
    assert_non_null(file);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        fprintf(file, "%s\n", lines[i]);
    fputs("no end of line", file);
    fclose(file);
    gwi_past_list list = list_now();
    assert_int_equal(list.count, 1);
    assert_string_equal(list.item[0].command, "A%");
    gwi_past_free(&list);
}

static gwi_past entry(char *command, uint64_t start_ns)
{
    static char none[] = "";
    return (gwi_past){.start_realtime_ns = start_ns,
                      .key = 1,
                      .cause = none,
                      .end = none,
                      .card = none,
                      .recording = none,
                      .folder = none,
                      .command = command};
}

static void the_list_does_not_grow_for_ever(void **state)
{
    (void)state;
    struct stat info;
    char command[1000];
    size_t skipped;
    gwi_past_list list;
    memset(command, 'x', sizeof command - 1);
    command[sizeof command - 1] = '\0';
    for (uint64_t i = 0; i < 2000; i++) {
        gwi_past past = entry(command, i + 1);
        gwi_past_list_add(runs, &past);
    }
    assert_int_equal(stat(runs, &info), 0);
    assert_true(info.st_size < 600 << 10);
    assert_int_equal(gwi_past_list_read(runs, &list, &skipped, NULL), GW_OK);
    assert_int_equal(skipped, 0);
    assert_true(list.count > 100);
    for (size_t i = 1; i < list.count; i++)
        assert_int_equal(list.item[i].start_realtime_ns, list.item[i - 1].start_realtime_ns + 1);
    assert_int_equal(list.item[list.count - 1].start_realtime_ns, 2000);
    gwi_past_free(&list);
}

/* The text list has the peak and the batch, too, where they are known, and older versions can read it. */
static void a_line_has_peak_and_batch(void **state)
{
    (void)state;
    size_t skipped;
    gwi_past_list list;
    gwi_past past = entry((char[]){"x"}, 5), unknown = entry((char[]){"y"}, 6);
    past.has_peak = past.has_batch = past.unobserved = true;
    past.peak_bytes = UINT64_MAX;
    past.batch = 32;
    gwi_past_list_add(runs, &past);
    gwi_past_list_add(runs, &unknown);
    assert_int_equal(gwi_past_list_read(runs, &list, &skipped, NULL), GW_OK);
    assert_int_equal(list.count, 2);
    assert_true(list.item[0].has_peak && list.item[0].peak_bytes == UINT64_MAX);
    assert_true(list.item[0].has_batch && list.item[0].batch == 32 && list.item[0].unobserved);
    assert_false(list.item[1].has_peak || list.item[1].has_batch || list.item[1].unobserved || list.item[1].good);
    gwi_past_free(&list);
}

static void expect_batch(uint64_t batch, char *first, char *second)
{
    char *words[] = {(char[]){"train"}, first, second};
    uint64_t found = 0;
    assert_int_equal(gwi_past_batch(&(gw_string_list){words, second == NULL ? 2 : 3}, &found), batch != 0);
    assert_int_equal(found, batch);
}

static void batches_are_found_on_the_command_line(void **state)
{
    (void)state;
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

static gwi_past peak_of(uint64_t start_ns, bool good, bool has_peak, uint64_t bytes)
{
    return (gwi_past){.start_realtime_ns = start_ns,
                      .key = 1,
                      .good = good,
                      .has_peak = has_peak,
                      .peak_bytes = bytes,
                      .has_exit = true,
                      .exit_code = good ? 0 : 1};
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

static void peaks_are_compared(void **state)
{
    (void)state;
    const uint64_t gib = 1 << 30;
    gwi_past item[16];
    for (uint64_t i = 0; i < 14; i++)
        item[i] = peak_of(i, true, true, i < 4 ? 20 * gib : (i == 4 ? 10 : 11) * gib);
    item[14] = peak_of(14, false, true, 15 * gib); /* a failed run, which is not compared */
    item[15] = peak_of(15, false, true, 16 * gib);
    expect_peaks("the last 10 good runs of this command peaked at 10.00 GiB to 11.00 GiB, this one peaked at 16.00 GiB "
                 "and failed",
                 item, 16);
    item[15].has_exit = false; /* its end is unknown: it may not have failed */
    expect_peaks("the last 10 good runs of this command peaked at 10.00 GiB to 11.00 GiB, this one peaked at 16.00 GiB",
                 item, 16);
    item[15].has_peak = false;
    expect_peaks(
        "the last 10 good runs of this command peaked at 10.00 GiB to 11.00 GiB; the peak of this one is unknown", item,
        16);
    item[0].has_peak = false; /* unknown, and not 0 */
    expect_peaks(NULL, item, 2);
    gwi_past failed[] = {peak_of(1, false, true, 16 * gib), peak_of(2, false, true, 15 * gib)};
    expect_peaks("the last run of this command, which did not end well, peaked at 16.00 GiB, this one peaked at 15.00 "
                 "GiB and failed",
                 failed, 2);
    failed[0].has_exit = false;
    expect_peaks("the last run of this command, which is not known to have ended well, peaked at 16.00 GiB, this one "
                 "peaked at 15.00 GiB and failed",
                 failed, 2);
    gwi_past mixed[] = {peak_of(1, false, true, gib), peak_of(2, false, true, gib), peak_of(3, false, true, gib)};
    expect_peaks("the last 2 runs of this command, none of which ended well, peaked at 1.00 GiB, this one peaked at "
                 "1.00 GiB and failed",
                 mixed, 3);
    mixed[1].has_exit = false;
    expect_peaks("the last 2 runs of this command, none of which is known to have ended well, peaked at 1.00 GiB, this "
                 "one peaked at 1.00 GiB and failed",
                 mixed, 3);
    failed[0].key = 2;
    expect_peaks(NULL, failed, 2);
    gwi_past without[] = {peak_of(1, true, true, 0), peak_of(2, false, true, 0)};
    expect_peaks(NULL, without, 2);
}

static void ages_are_told_in_one_unit(void **state)
{
    (void)state;
    char out[GWI_AGE_TEXT_MAX];
    assert_string_equal(gwi_age_text(out, 0), "0 s");
    assert_string_equal(gwi_age_text(out, UINT64_C(59000000000)), "59 s");
    assert_string_equal(gwi_age_text(out, UINT64_C(7300000000000)), "2 h");
    assert_string_equal(gwi_age_text(out, UINT64_C(86400000000000)), "1 day");
    assert_string_equal(gwi_age_text(out, UINT64_C(864000000000000)), "10 days");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(what_is_written_is_read, clear),
                                       cmocka_unit_test_setup(attempts_are_part_of_their_run, clear),
                                       cmocka_unit_test_setup(an_answer_is_no_run, clear),
                                       cmocka_unit_test(words_do_not_run_together),
                                       cmocka_unit_test(keys_never_change),
                                       cmocka_unit_test_setup(damaged_lines_are_passed_over, clear),
                                       cmocka_unit_test_setup(the_list_does_not_grow_for_ever, clear),
                                       cmocka_unit_test_setup(a_line_has_peak_and_batch, clear),
                                       cmocka_unit_test(batches_are_found_on_the_command_line),
                                       cmocka_unit_test(peaks_are_compared),
                                       cmocka_unit_test(ages_are_told_in_one_unit)};
    return cmocka_run_group_tests(tests, begin, end);
}
