/* Tests what the model and the verdict make of a rehearsal's events. */
#include "gw_unit_test.h"
#include "verdict_testlib.h"

#include "gw_fact.h"

static void tell(gw_rehearsal_fact what, uint64_t a, uint64_t b, uint64_t device, const char *text)
{
    if (text != NULL)
        gw_feed_text_call(&feed, "", GW_EV_REHEARSAL, what, a, b, device, text);
    else
        gw_feed_call(&feed, "", GW_EV_REHEARSAL, 0, what, a, b, device);
}

static void open_rehearsal(void)
{
    gw_feed_open(&feed, 140 * gib);
    tell(GW_REHEARSAL_LIMIT, 16 * gib, 140 * gib, 0, NULL);
    tell(GW_REHEARSAL_PEAK, 0, 500 * mib, 0, NULL);
}

static const gw_verdict_rehearsal *judge(int code, int signal)
{
    gw_feed_exit(&feed, code, signal);
    judge_open();
    return verdict->rehearsal;
}

GW_TEST(test_peak_and_place)
{
    open_rehearsal();
    feed.site = gw_feed_site(&feed, "step train.py 31");
    tell(GW_REHEARSAL_PEAK, 4 * gib, 510 * mib, 0, NULL);
    gw_feed_alloc(&feed, 4 * gib);
    feed.site = gw_feed_site(&feed, "other train.py 99");
    gw_feed_alloc(&feed, mib);                            /* made no peak, so the place stays */
    tell(GW_REHEARSAL_PEAK, 1 * gib, 510 * mib, 0, NULL); /* not above the peak */
    const gw_verdict_rehearsal *it = judge(0, 0);
    assert_non_null(it);
    assert_int_equal(it->fits, GW_FITS);
    assert_int_equal(it->peak_bytes, 4 * gib + 510 * mib);
    assert_int_equal(it->asked_bytes, 4 * gib);
    assert_int_equal(it->driver_bytes, 510 * mib);
    assert_int_equal(it->limit_bytes, 16 * gib);
    assert_int_equal(it->real_bytes, 140 * gib);
    assert_int_equal(it->card_count, 1);
    assert_non_null(it->place);
    assert_non_null(strstr(it->place, "train.py:31"));
    assert_false(it->timed || it->was_ended || it->equal_iterations != 0 || it->torch_live_bytes != 0);
}

GW_TEST(test_the_highest_card_counts)
{
    open_rehearsal();
    tell(GW_REHEARSAL_LIMIT, 8 * gib, 140 * gib, 1, NULL);
    tell(GW_REHEARSAL_PEAK, 6 * gib, 500 * mib, 1, NULL);
    feed.pid = 200;
    tell(GW_REHEARSAL_PEAK, 5 * gib, 500 * mib, 0, NULL);
    feed.pid = GW_FEED_PID;
    const gw_verdict_rehearsal *it = judge(0, 0);
    assert_int_equal(it->card_count, 3);
    assert_int_equal(it->device, 1);
    assert_int_equal(it->pid, GW_FEED_PID);
    assert_int_equal(it->limit_bytes, 8 * gib);
}

GW_TEST(test_places_that_read_values)
{
    open_rehearsal();
    const char *const places[] = {"check train.py 57", "mask train.py 40", "check train.py 57"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        feed.site = gw_feed_site(&feed, places[i]);
        tell(GW_REHEARSAL_READ, 4, 0, 0, NULL);
    }
    feed.site = 0;
    tell(GW_REHEARSAL_READ, 4, 0, 0, NULL); /* without a call site */
    const gw_verdict_rehearsal *it = judge(0, 0);
    assert_int_equal(it->sizes.count, 0);
    assert_int_equal(it->values.count, 2);
    assert_non_null(strstr(it->values.item[0], "train.py:57"));
    assert_non_null(strstr(it->values.item[1], "train.py:40"));
}

GW_TEST(test_refused_timed_steady)
{
    open_rehearsal();
    for (int i = 0; i < 3; i++)
        tell(GW_REHEARSAL_REFUSED, 5, 0, 0, "cuIpcGetMemHandle"); /* each process says it once */
    tell(GW_REHEARSAL_REFUSED, 6, 0, 0, "cuGraphAddNode");
    tell(GW_REHEARSAL_TIMED, 0, 0, 0, NULL);
    tell(GW_REHEARSAL_STEADY, 16, 1200, 0, NULL);
    tell(GW_REHEARSAL_TORCH, gib, 2 * gib, 0, NULL);
    tell(GW_REHEARSAL_FACT_COUNT, 1, 2, 0, NULL); /* of a later version */
    gw_feed_fact(&feed, gw_fact_key_text(GW_FACT_REHEARSAL_ENDED), "iterations");
    const gw_verdict_rehearsal *it = judge(0, 15);
    assert_int_equal(it->fits, GW_FITS); /* gpuwhy ended it, so the signal is no failure */
    assert_true(it->was_ended && it->timed);
    assert_int_equal(it->refused.count, 2);
    assert_string_equal(it->refused.item[0], "cuIpcGetMemHandle");
    assert_int_equal(it->equal_iterations, 16);
    assert_int_equal(it->launches_each, 1200);
    assert_int_equal(it->torch_live_bytes, gib);
    assert_int_equal(it->torch_reserved_bytes, 2 * gib);
}

/* Numbers that no hook writes must not overflow. */
GW_TEST(test_wild_numbers)
{
    open_rehearsal();
    tell(GW_REHEARSAL_PEAK, UINT64_MAX, 2, 0, NULL);
    tell(GW_REHEARSAL_PEAK, UINT64_MAX, 0, UINT64_MAX, NULL);
    tell(GW_REHEARSAL_LIMIT, UINT64_MAX, UINT64_MAX, 1000, NULL);
    tell(GW_REHEARSAL_REFUSED, 0, 0, 0, NULL);
    for (int i = 0; i < 2 * GW_REHEARSAL_REFUSED_MAX; i++) {
        char name[32];
        snprintf(name, sizeof name, "cuCall%d", i);
        gw_feed_text_call(&feed, "", GW_EV_REHEARSAL, GW_REHEARSAL_REFUSED, 0, 0, 0, name);
    }
    const gw_verdict_rehearsal *it = judge(0, 0);
    assert_int_equal(it->peak_bytes, 500 * mib);
    assert_int_equal(it->refused.count, GW_REHEARSAL_REFUSED_MAX);
}

GW_TEST(test_does_not_fit)
{
    open_rehearsal();
    gw_feed_alloc(&feed, 15 * gib);
    gw_feed_no_room(&feed, 2 * gib, 500 * mib, 16 * gib);
    judge(1, 0);
    assert_string_equal(verdict->cause, "gpu-oom-capacity");
    assert_int_equal(verdict->rehearsal->fits, GW_FITS_NOT);
}

GW_TEST(test_another_failure_is_no_answer)
{
    open_rehearsal();
    assert_int_equal(judge(1, 0)->fits, GW_FITS_UNKNOWN);
}

GW_TEST(test_a_real_run_has_none)
{
    gw_feed_open(&feed, 140 * gib);
    gw_feed_fact(&feed, gw_fact_key_text(GW_FACT_REHEARSAL_ENDED), "time"); /* damaged: nothing was rehearsed */
    assert_null(judge(1, 0));
    assert_string_not_equal(gw_verdict_status_text(verdict->status), "clean");
}

GW_TEST_MAIN(NULL, NULL)
