/* Tests what is computed from past runs. The tests of the database are in past_db_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gwi_past_runs.h"

static void words_do_not_run_together(void **state)
{
    (void)state;
    char *one[] = {(char[]){"a b"}}, *two[] = {(char[]){"a"}, (char[]){"b"}};
    assert_true(gwi_past_key(&(gw_string_list){one, 1}, "/srv") != gwi_past_key(&(gw_string_list){two, 2}, "/srv"));
    assert_true(gwi_past_key(&(gw_string_list){one, 1}, "/srv") != gwi_past_key(&(gw_string_list){one, 1}, "/tmp"));
}

/* Databases that earlier versions wrote contain keys, so the key of a command must not change. */
static void keys_never_change(void **state)
{
    (void)state;
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_do_not_run_together), cmocka_unit_test(keys_never_change),
                                       cmocka_unit_test(batches_are_found_on_the_command_line),
                                       cmocka_unit_test(peaks_are_compared),
                                       cmocka_unit_test(ages_are_told_in_one_unit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
