/* Tests verdicts on memory that is freed while a copy may still use it: faults, hypotheses and harmless cases. */
#include "gw_unit_test.h"
#include "verdict_testlib.h"

enum { A = 0xa000, B = 0xb000, EVENT = 0xe000, NON_BLOCKING = 1, LEGACY = 0 };
static const uint64_t us = 1000, block = 0x7000000000, weights = 0x7100000000, host = 0x10000000;
static const char race_id[] = "cross-stream-use-after-free", read_id[] = "host-read-not-ordered";

static uint32_t number;

static void tell(gw_order_step step, uint64_t object, uint64_t stream, uint64_t age_ns)
{
    gw_feed_extra_call(&feed, "cuMemcpyDtoDAsync_v2", GW_EV_ORDER, 0, ++number,
                       (uint64_t)step | (uint64_t)feed.tid << 8, object, stream, age_ns);
}

static void copy(uint64_t to, uint64_t from, uint64_t bytes)
{
    tell(GW_ORDER_COPY, to, B, 5 * us);
    gw_feed_extra_call(&feed, "cuMemcpyDtoDAsync_v2", GW_EV_ORDER_RANGE, 0, number, to, from, bytes, 0);
}

static void begin(uint64_t flags)
{
    number = 0;
    gw_feed_open(&feed, 16ull << 30);
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, A, flags, 0, 0);
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, B, flags, 0, 0);
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 0, weights, 8192 * mib, GW_SPACE_DEVICE, 0);
    gw_feed_call(&feed, "cuMemHostAlloc", GW_EV_HOST_ALLOC, 0, host, 8192 * mib, 0, 0);
    gw_feed_call(&feed, "cuMemAllocAsync", GW_EV_ALLOC_ASYNC, 0, block, 8192 * mib, 0, A);
    gw_feed_wait(&feed, 100 * us);
}

static void give_back(void)
{
    gw_feed_extra_call(&feed, "cuMemFreeAsync", GW_EV_FREE_ASYNC, 0, number, block, 0, 0, A);
}

static bool is_alternative(const char *cause)
{
    return certainty_of_alternative(verdict, cause) == GW_HYPOTHESIS;
}

static bool is_advised(const char *part)
{
    return list_has(&verdict->advice, part);
}

/* Judge the run and check the verdict:
 * - GW_SUPPORTED: the cause must be the verdict
 * - GW_HYPOTHESIS: the run must be clean, with the cause as an alternative
 * - GW_CERTAINTY_NONE: the run must be clean, without alternatives */
static void expect(const char *cause, gw_certainty certainty)
{
    gw_feed_exit(&feed, 0, 0);
    judge_open();
    if (certainty == GW_SUPPORTED) {
        assert_int_equal(verdict->status, GW_VERDICT_FAULT);
        assert_cause(verdict, cause, certainty);
        assert_true(verdict->evidence_count > 2 && verdict->next.count > 0);
    } else {
        assert_int_equal(verdict->status, GW_VERDICT_CLEAN);
        assert_int_equal(is_alternative(cause), certainty == GW_HYPOTHESIS);
        assert_int_equal(is_advised(cause), certainty == GW_HYPOTHESIS);
        assert_true(certainty == GW_HYPOTHESIS || verdict->alternative_count == 0);
    }
}

GW_TEST(nobody_can_have_known)
{
    begin(NON_BLOCKING);
    gw_feed_launch(&feed, 0xf, B); /* launched before the copy, so it cannot show that the copy has ended */
    copy(weights, block, mib);
    give_back();
    expect(race_id, GW_SUPPORTED);
}

GW_TEST(a_slow_host_changes_nothing)
{
    begin(NON_BLOCKING);
    copy(weights, block, mib);
    gw_feed_wait(&feed, 500000 * us);
    give_back();
    expect(race_id, GW_SUPPORTED);
}

GW_TEST(the_host_may_have_looked)
{
    begin(NON_BLOCKING);
    copy(host, block, mib);
    give_back();
    expect(race_id, GW_HYPOTHESIS);

    begin(NON_BLOCKING);
    copy(weights, block, mib);
    copy(host, weights, 64);
    give_back();
    expect(race_id, GW_HYPOTHESIS);

    begin(NON_BLOCKING);
    copy(weights, block, mib);
    tell(GW_ORDER_RECORD, EVENT, B, 0); /* cuEventElapsedTime() on this event may have shown that the copy has ended */
    give_back();
    expect(race_id, GW_HYPOTHESIS);

    begin(NON_BLOCKING);
    copy(weights, block, mib);
    gw_feed_wait(&feed, us);
    gw_feed_launch(&feed, 0xf, B);
    give_back();
    expect(race_id, GW_HYPOTHESIS);
}

GW_TEST(so_much_is_not_copied_so_soon)
{
    begin(NON_BLOCKING);
    copy(host, block, 4096 * mib);
    tell(GW_ORDER_RECORD, EVENT, B, 0);
    give_back();
    expect(race_id, GW_SUPPORTED);

    begin(NON_BLOCKING);
    copy(host, block, 4096 * mib);
    gw_feed_wait(&feed, us);
    gw_feed_launch(&feed, 0xf, B); /* through shared memory, the kernel may order the free after the copy */
    give_back();
    expect(race_id, GW_HYPOTHESIS);
}

GW_TEST(unknown_work_may_put_it_in_order)
{
    begin(0);
    copy(weights, block, mib);
    gw_feed_wait(&feed, us);
    gw_feed_launch(&feed, 0xf, LEGACY);
    give_back();
    expect(race_id, GW_CERTAINTY_NONE);

    begin(0);
    copy(weights, block, mib);
    give_back();
    for (int i = 0; i < 2 * GW_RING_ENTRIES; i++)
        gw_feed_launch(&feed, 0xf, A);
    expect(race_id, GW_CERTAINTY_NONE);

    begin(NON_BLOCKING);
    copy(weights, block, mib);
    give_back();
    for (int i = 0; i < 2 * GW_RING_ENTRIES; i++)
        gw_feed_launch(&feed, 0xf, A);
    expect(race_id, GW_HYPOTHESIS);

    begin(NON_BLOCKING);
    gw_feed_meta(&feed, "env.CUDA_LAUNCH_BLOCKING", "1");
    copy(weights, block, mib);
    give_back();
    expect(race_id, GW_CERTAINTY_NONE);
}

GW_TEST(what_was_lost_may_put_it_in_order)
{
    begin(NON_BLOCKING);
    copy(weights, block, mib);
    give_back();
    lose(1, 0);
    gw_feed_exit(&feed, 0, 0);
    judge_open();
    assert_int_equal(verdict->status, GW_VERDICT_CLEAN);
    assert_int_equal(verdict->alternative_count, 0);
}

GW_TEST(a_result_may_have_been_read_too_early)
{
    begin(NON_BLOCKING);
    copy(host, weights, mib);
    gw_feed_extra_call(&feed, "cuMemFreeHost", GW_EV_HOST_FREE, 0, number, host, 0, 0, 0);
    expect(read_id, GW_HYPOTHESIS);

    begin(NON_BLOCKING);
    copy(host, weights, mib);
    tell(GW_ORDER_STREAM_DONE, B, 0, 0);
    gw_feed_extra_call(&feed, "cuMemFreeHost", GW_EV_HOST_FREE, 0, number, host, 0, 0, 0);
    expect(read_id, GW_CERTAINTY_NONE);
}

GW_TEST_MAIN(NULL, NULL)
