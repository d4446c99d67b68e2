/* Tests the list of past runs: runs that were added can be read again, and damaged lines are skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gwi_past.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char place[] = "/tmp/gpuwhy-past-XXXXXX";
static gw_path runs;

static int begin(void **state)
{
    (void)state;
    if (mkdtemp(place) == NULL || setenv("XDG_STATE_HOME", place, 1) != 0)
        return -1;
    return gw_path_format(runs, NULL, "%s/gpuwhy/runs", place) == GW_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    unlink(runs);
    *strrchr(runs, '/') = '\0';
    rmdir(runs);
    return rmdir(place);
}

static int clear(void **state)
{
    (void)state;
    unlink(runs);
    return 0;
}

static void add(char *command, uint64_t start_ns, int exit_code)
{
    char *words[] = {command, (char[]){"two\twords\n"}};
    gw_verdict verdict = {.status = exit_code == 0 ? GW_VERDICT_CLEAN : GW_VERDICT_FAULT,
                          .cause = exit_code == 0 ? NULL : "gpu-oom-leak",
                          .argv = {words, 2},
                          .exit_known = true,
                          .exit_code = exit_code,
                          .seconds = 1.5};
    verdict.run.has_start = true;
    verdict.run.start_realtime_ns = start_ns;
    gwi_past_add(&verdict, "/srv/100%/a.gpuwhy", NULL);
}

static gwi_past_list list_now(void)
{
    gwi_past_list list;
    gw_error err;
    assert_int_equal(gwi_past_read(&list, &err), GW_OK);
    return list;
}

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
    assert_int_equal(stat(runs, &info), 0);
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
    gwi_past_add(&verdict, "", program);
    add((char[]){"other"}, 7, 1);
    gwi_past_list list = list_now();
    assert_int_equal(list.count, 2);
    assert_string_equal(list.item[0].command, "train --batch 8 --token=***"); /* as the user gave it */
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
    gwi_past_add_answer(&(gw_string_list){words, 2}, 9, 35.25, "batch 283");
    add((char[]){"train"}, 10, 0);
    gwi_past_list list = list_now();
    assert_int_equal(list.count, 2);
    assert_true(list.item[0].is_answer && !list.item[1].is_answer);
    assert_int_equal(list.item[0].start_realtime_ns, 9);
    assert_true(list.item[0].seconds == 35.25);
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
    static const char *const lines[] = {"\n\n\t\t\t", "2\t1\t2\tf\t0\t1\t\t\t\t\t", "1\tx\ty\tf\t0\t1\t\t\t\t\t",
                                        "1\t5\t6\tf\t0\t1\tcause", "1\t5\t6\tf\t0\t1\t%\t%1\t%zz\t%00\t%41%"};
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

static void the_list_does_not_grow_for_ever(void **state)
{
    (void)state;
    struct stat info;
    char command[1000];
    memset(command, 'x', sizeof command - 1);
    command[sizeof command - 1] = '\0';
    for (uint64_t i = 0; i < 2000; i++)
        add(command, i + 1, 0);
    assert_int_equal(stat(runs, &info), 0);
    assert_true(info.st_size < 600 << 10);
    gwi_past_list list = list_now();
    assert_true(list.count > 100);
    for (size_t i = 1; i < list.count; i++)
        assert_int_equal(list.item[i].start_realtime_ns, list.item[i - 1].start_realtime_ns + 1);
    assert_int_equal(list.item[list.count - 1].start_realtime_ns, 2000);
    gwi_past_free(&list);
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
                                       cmocka_unit_test(ages_are_told_in_one_unit)};
    return cmocka_run_group_tests(tests, begin, end);
}
