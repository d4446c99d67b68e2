/* Tests how a verdict reports attempts and interventions, from the facts that the supervisor records. */
#include "gw_unit_test.h"
#include "verdict_testlib.h"

/* Feed one fact in a run that ended well, and expect one intervention with this text. */
static void expect_intervention(const char *key, const char *fact, const char *text)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_free(&feed, gw_feed_alloc(&feed, 5 * gib));
    gw_feed_fact(&feed, key, fact);
    gw_feed_exit(&feed, 0, 0);
    judge_open();
    assert_int_equal(verdict->status, GW_VERDICT_CLEAN);
    assert_int_equal(verdict->interventions.count, 1);
    if (strstr(verdict->interventions.item[0], text) == NULL)
        fail_msg("expected \"%s\" in \"%s\"", text, verdict->interventions.item[0]);
}

GW_TEST(waits_are_reported)
{
    expect_intervention(
        "memory.wait",
        "bytes=12884901888\nwaited_ms=3200\nfree_bytes=13958643712\nend=free\ncards=0 1\n"
        "held=pid 7 (serve): 9.00 GiB\n",
        "waited 3.2 s for 12.00 GiB of free memory on GPU 0 1; when the wait began, the memory was held by "
        "pid 7 (serve): 9.00 GiB");
    expect_intervention("memory.wait", "bytes=12884901888\nwaited_ms=60000\nend=timeout\ncards=0\n",
                        "but it did not become free (timeout)");
    expect_intervention("memory.wait", "bytes=12884901888\nwaited_ms=1\nend=unknown\nwhy=no NVML here\n",
                        "did not wait for 12.00 GiB of free memory: no NVML here");
}

GW_TEST(alarms_are_reported)
{
    expect_intervention(
        "memory.alarm",
        "device=1\nheld_bytes=15032385536\nlimit_bytes=17179869184\nbytes_per_minute=1073741824\n"
        "full_s=120\nlines=train.py:31 in step (1.10 GiB)\ncommand=1\n",
        "the program held 14.00 GiB of 16.00 GiB on GPU 1, which it could not give back, and grew by 1.00 "
        "GiB a minute: the card would have been full 120 s later; it grew at train.py:31 in step (1.10 "
        "GiB); the command was started");
    expect_intervention("memory.alarm", "why=it is not known\n", "could not judge the growth: it is not known");
}

GW_TEST(a_cure_is_reported_with_its_effect)
{
    expect_intervention("cure", "name=A_CONF\nvalue=x:True\npeak_bytes=5368709120\npeak_bytes_before=6442450944\n",
                        "this run had A_CONF=x:True; it allocated at most 5.00 GiB (expected: 5.00 GiB; without the "
                        "setting: 6.00 GiB) and succeeded");
    expect_intervention("cure", "", "no cure is known");
}

GW_TEST(attempts_are_listed_in_order)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_fact(&feed, "attempt",
                 "number=1\nmost=4\nagain=1\ncause=illegal-address\nheadline=a kernel failed\nended=exited 1\n"
                 "why=the failure may not happen again\nrecording=/srv/1.gpuwhy\n");
    gw_feed_fact(&feed, "attempt", "number=2\nmost=4\nagain=0\nended=exited 0\nnew_field=1\n");
    gw_feed_exit(&feed, 0, 0);
    judge_open();
    assert_int_equal(verdict->attempt_count, 2);
    assert_int_equal(verdict->attempts_max, 4);
    assert_string_equal(verdict->attempts[0].cause, "illegal-address");
    assert_string_equal(verdict->attempts[0].recording, "/srv/1.gpuwhy");
    assert_true(verdict->attempts[0].again && !verdict->attempts[1].again);
    assert_null(verdict->attempts[0].change);
    assert_null(verdict->attempts[1].cause);
}

GW_TEST(the_needed_memory_is_known_after_a_refusal)
{
    gw_feed_open(&feed, 16 * gib);
    (void)gw_feed_alloc(&feed, 3 * gib);
    gw_feed_no_room(&feed, 2 * gib, gib, 16 * gib);
    gw_feed_exit(&feed, 1, 0);
    judge_open();
    assert_true(verdict->needed_bytes > 5 * gib && verdict->needed_bytes < 6 * gib); /* and a context */
    gw_feed_open(&feed, 16 * gib);
    gw_feed_exit(&feed, 1, 0);
    judge_open();
    assert_int_equal(verdict->needed_bytes, 0);
}

GW_TEST(every_cause_says_whether_a_restart_helps)
{
    size_t count = 0, again[3] = {0};
    const gw_cause_info *causes = gw_causes(&count);
    for (size_t i = 0; i < count; i++) {
        again[causes[i].again]++;
        if (causes[i].is_advice)
            assert_int_equal(causes[i].again, GW_AGAIN_PERMANENT);
    }
    assert_true(again[GW_AGAIN_TRANSIENT] > 0 && again[GW_AGAIN_WAIT] > 0);
    assert_int_equal(gw_cause_find("illegal-address")->again, GW_AGAIN_TRANSIENT);
    assert_int_equal(gw_cause_find("gpu-oom-other-process")->again, GW_AGAIN_WAIT);
    assert_int_equal(gw_cause_find("gpu-oom-capacity")->again, GW_AGAIN_PERMANENT);
    assert_int_equal(gw_cause_find("killed-by-scheduler-or-user")->again, GW_AGAIN_PERMANENT);
    assert_null(gw_cause_find("gpu-oom"));
}

GW_TEST_MAIN(NULL, NULL)
