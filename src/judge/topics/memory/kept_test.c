/* Tests the report of live memory by phase, which needs a program that names its phases. If an earlier phase ran out of
 * memory and still holds memory, the verdict is a leak. */
#include "gw_unit_test.h"
#include "verdict_testlib.h"

static void phase(const char *name)
{
    gw_feed_wait(&feed, 1000000000);
    gw_feed_text_call(&feed, "", GW_EV_PHASE, 0, 0, 0, 0, name);
}

/* Judge one phase alone, or the whole run if `alone` is NULL. */
static void judge(const char *alone)
{
    gw_error err;
    if (alone != NULL)
        assert_int_equal(gw_model_end_phase(feed.model, alone, "x\n", 2, &err), GW_OK);
    judge_open();
    assert_int_equal(verdict->status, GW_VERDICT_FAULT);
}

static bool says(const char *part)
{
    return evidence_has(verdict, part);
}

/* Feed a run that requests 4 GiB while 12 GiB are live and 2 GiB are free. Phase `first` allocated `first_bytes` of the
 * live memory, and phase `second` allocated the rest. A NULL phase is unnamed. If `failed`, a request in the first
 * phase was refused. */
static void run(const char *first, const char *second, bool failed, uint64_t first_bytes)
{
    gw_feed_open(&feed, 16 * gib);
    if (first != NULL)
        phase(first);
    gw_feed_alloc(&feed, first_bytes);
    if (failed)
        gw_feed_no_room(&feed, 20 * gib, 2 * gib, 16 * gib);
    if (second != NULL)
        phase(second);
    gw_feed_alloc(&feed, 12 * gib - first_bytes);
    gw_feed_no_room(&feed, 4 * gib, 2 * gib, 16 * gib);
}

GW_TEST(test_a_failed_phase_left_its_memory)
{
    run("In [1]", "In [2]", true, 9 * gib);
    judge("In [2]");
    assert_string_equal(verdict->cause, "gpu-oom-leak");
    assert_string_equal(gw_certainty_text(verdict->certainty), "supported");
    assert_non_null(strstr(verdict->headline, "In [1] failed for lack of memory, and 9.00 GiB"));
    assert_true(says("9.00 GiB in 1 block allocated in In [1], 1.0 s earlier"));
    assert_true(says("3.00 GiB in 1 block allocated in In [2], 0.0 s earlier"));
    assert_string_equal(verdict->failure_phase, "In [2]");
    assert_int_equal(verdict->kept_count, 2);
    assert_string_equal(verdict->kept[0].phase, "In [1]");
    assert_int_equal(verdict->kept[0].bytes, 9 * gib);
    assert_false(verdict->exit_known); /* the phase ended, not the program */
    assert_int_equal(verdict->kept[0].block_count, 1);
    assert_int_equal(verdict->kept[0].block[0].bytes, 9 * gib);
    assert_true(verdict->kept[0].block[0].t_ns < verdict->t_failure_ns);
}

static void expect_no_leak(const char *alone)
{
    judge(alone);
    assert_string_equal(verdict->cause, "gpu-oom-capacity");
}

GW_TEST(test_near_it_did_not_fail)
{
    run("In [1]", "In [2]", false, 9 * gib);
    expect_no_leak("In [2]");
}

GW_TEST(test_near_its_share_would_not_do)
{
    run("In [1]", "In [2]", true, gib);
    expect_no_leak("In [2]");
}

GW_TEST(test_near_it_was_the_same_phase)
{
    run("In [1]", NULL, true, 9 * gib);
    expect_no_leak("In [1]");
}

/* The whole run is judged: its first refusal is the root, and no individual blocks are listed. */
GW_TEST(test_the_whole_run)
{
    run("In [1]", "In [2]", true, 9 * gib);
    judge(NULL);
    assert_string_equal(verdict->failure_phase, "In [1]");
    assert_true(says("9.00 GiB in 1 block allocated in In [1]"));
    assert_int_equal(verdict->kept_count, 1);
    assert_int_equal(verdict->kept[0].block_count, 0);
}

GW_TEST(test_no_phases_no_words)
{
    run(NULL, NULL, true, 9 * gib);
    judge(NULL);
    assert_false(says("allocated in"));
    assert_int_equal(verdict->kept_count, 0);
    assert_null(verdict->failure_phase);
    assert_true(verdict->has_failure);
}

/* If only one phase is judged, earlier failures do not count, because they were already reported. A context that was
 * lost earlier still counts. */
GW_TEST(test_one_phase_alone)
{
    gw_error err;
    static const char script[] = "\nTraceback (most recent call last):\n  File \"<cell>\", line 1, in <module>\n"
                                 "ZeroDivisionError: division by zero\n";
    run("In [1]", "In [2]", true, 9 * gib);
    phase("In [3]");
    assert_int_equal(gw_model_end_phase(feed.model, "In [3]", script, sizeof script - 1, &err), GW_OK);
    judge(NULL);
    assert_string_equal(verdict->cause, "script-exception");
    assert_false(verdict->has_failure);

    gw_feed_open(&feed, 16 * gib);
    phase("In [1]");
    gw_feed_call(&feed, "cuCtxSynchronize", GW_EV_SYNC, 700, 0, 0, 0, 0);
    phase("In [2]");
    assert_int_equal(gw_model_end_phase(feed.model, "In [2]", script, sizeof script - 1, &err), GW_OK);
    judge(NULL);
    assert_string_equal(verdict->cause, "illegal-address");
    assert_true(verdict->context_lost);
    assert_string_equal(verdict->failure_phase, "In [1]");
}

GW_TEST_MAIN(NULL, NULL)
