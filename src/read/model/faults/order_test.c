/* Feeds ordering steps (ORDER events) to the model. Tests which frees are reported as not ordered with a copy.
 * Uncertain cases must not be reported. */
#include "gw_unit_test.h"

#include "gw_feed.h"

enum { A = 0xa000, B = 0xb000, C = 0xc000, EVENT = 0xe000, OTHER = 0xe100, LEGACY = 0, NON_BLOCKING = 1 };
static const uint64_t mib = 1 << 20, block = 0x7000000000, weights = 0x7100000000, host = 0x10000000;

static gw_feed feed; /* static, because it is large */
static uint32_t number;

static void tell(gw_order_step step, uint64_t object, uint64_t stream)
{
    gw_feed_extra_call(&feed, "cuStep", GW_EV_ORDER, 0, ++number, (uint64_t)step | (uint64_t)feed.tid << 8, object,
                       stream, 0);
}

static void tell_copy(gw_order_step step, uint64_t to, uint64_t from, uint64_t stream)
{
    tell(step, to, stream);
    gw_feed_extra_call(&feed, "cuStep", GW_EV_ORDER_RANGE, 0, number, to, from, mib, 0);
}

static void begin(uint64_t flags)
{
    gw_feed_open(&feed, 16ull << 30);
    number = 0;
    const uint64_t streams[] = {A, B, C};
    for (int i = 0; i < 3; i++)
        gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, streams[i], flags, 0, 0);
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 0, weights, 8 * mib, GW_SPACE_DEVICE, 0);
    gw_feed_call(&feed, "cuMemHostAlloc", GW_EV_HOST_ALLOC, 0, host, 8 * mib, 0, 0);
    gw_feed_call(&feed, "cuMemAllocAsync", GW_EV_ALLOC_ASYNC, 0, block, 8 * mib, 0, A);
}

static void copy_on(uint64_t stream)
{
    tell_copy(GW_ORDER_COPY, weights, block + mib, stream);
}

static void free_on(uint64_t stream)
{
    gw_feed_extra_call(&feed, "cuMemFreeAsync", GW_EV_FREE_ASYNC, 0, number, block, 0, 0, stream);
}

static void expect_count(uint64_t count)
{
    gw_feed_exit(&feed, 0, 0);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->unordered_total, count);
    gw_model_free(model);
}

GW_TEST(a_free_in_another_order_is_noted)
{
    begin(NON_BLOCKING);
    gw_feed_wait(&feed, 1000000);
    copy_on(B);
    free_on(A);
    gw_feed_exit(&feed, 0, 0);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->unordered_total, 1);
    const gw_unordered *it = &model->unordered[0];
    assert_int_equal(it->kind, GW_UNORDERED_FREE);
    assert_int_equal(it->address, block);
    assert_int_equal(it->block_bytes, 8 * mib);
    assert_int_equal(it->copy_bytes, mib);
    assert_int_equal(it->copy_stream, B);
    assert_int_equal(it->free_stream, A);
    assert_string_equal(it->copy_fn, "cuStep");
    assert_true(it->t_copy_ns < it->t_free_ns);
    assert_false(it->to_host || it->from_host || it->on_blocking || it->recorded || it->by_free);
    assert_int_equal(it->later_count, 0);
    assert_true(it->launches_known);
    gw_model_free(model);
}

/* ---- calls that order the free after the copy ---- */

static void by_same_stream(void)
{
    copy_on(A);
}

static void by_event(void)
{
    copy_on(B);
    tell(GW_ORDER_RECORD, EVENT, B);
    tell(GW_ORDER_WAIT, EVENT, A);
}

static void by_third_stream(void)
{
    copy_on(B);
    tell(GW_ORDER_RECORD, EVENT, B);
    tell(GW_ORDER_WAIT, EVENT, C);
    tell(GW_ORDER_RECORD, OTHER, C);
    tell(GW_ORDER_WAIT, OTHER, A);
}

static void by_waiting_for_the_event(void)
{
    copy_on(B);
    tell(GW_ORDER_RECORD, EVENT, B);
    tell(GW_ORDER_EVENT_DONE, EVENT, 0);
}

static void by_waiting_for_the_stream(void)
{
    copy_on(B);
    tell(GW_ORDER_STREAM_DONE, B, 0);
}

static void by_waiting_for_the_context(void)
{
    copy_on(B);
    tell(GW_ORDER_CONTEXT_DONE, 0, 0);
}

static void by_callback(void)
{
    copy_on(B);
    tell(GW_ORDER_HOST_FUNC, 0x1234, B);
}

/* Stream A waits for an event whose record was not seen. The event may have been recorded after the copy. */
static void by_unknown_event(void)
{
    copy_on(B);
    tell(GW_ORDER_WAIT, EVENT, A);
}

static void by_unknown_means(void)
{
    copy_on(B);
    tell(GW_ORDER_UNKNOWN, 0, 0);
}

static void by_a_gap(void)
{
    copy_on(B);
    number++;
    tell(GW_ORDER_RECORD, EVENT, C);
}

static void by_a_step_of_later_versions(void)
{
    copy_on(B);
    tell((gw_order_step)200, 0, 0);
}

static void by_a_missing_range(void)
{
    tell(GW_ORDER_COPY, weights, B);
}

static void by_unknown_number(void)
{
    copy_on(B);
    number++;
}

static void by_freeing_plain_memory(void)
{
    copy_on(B);
    gw_feed_call(&feed, "cuMemFree_v2", GW_EV_FREE, 0, weights + 16 * mib, 0, GW_SPACE_DEVICE, 0);
}

static void by_pageable_memory(void)
{
    tell_copy(GW_ORDER_COPY, block, host + 64 * mib, B);
}

static void by_another_range(void)
{
    tell_copy(GW_ORDER_COPY, weights, block + 8 * mib, B);
}

static void by_time(void)
{
    copy_on(B);
    gw_feed_call(&feed, "cuMemFreeAsync", GW_EV_FREE_ASYNC, 0, block, 0, 0, B);
    gw_feed_call(&feed, "cuMemAllocAsync", GW_EV_ALLOC_ASYNC, 0, block, 8 * mib, 0, A);
}

/* Records more events after the copy than the model can store, so the model must drop the copy. */
static void by_much(void)
{
    copy_on(B);
    for (uint64_t i = 1; i <= 20; i++)
        tell(GW_ORDER_RECORD, EVENT + i, B);
}

GW_TEST(a_free_in_order_is_not_noted)
{
    static void (*const ways[])(void) = {by_same_stream,
                                         by_event,
                                         by_third_stream,
                                         by_waiting_for_the_event,
                                         by_waiting_for_the_stream,
                                         by_waiting_for_the_context,
                                         by_callback,
                                         by_unknown_event,
                                         by_unknown_means,
                                         by_a_gap,
                                         by_a_step_of_later_versions,
                                         by_a_missing_range,
                                         by_unknown_number,
                                         by_freeing_plain_memory,
                                         by_pageable_memory,
                                         by_another_range,
                                         by_time,
                                         by_much};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        begin(NON_BLOCKING);
        ways[i]();
        free_on(A);
        expect_count(0);
    }
}

/* ---- calls that do not order the free after the copy ---- */

static void with_event_before_the_copy(void)
{
    tell(GW_ORDER_RECORD, EVENT, B);
    copy_on(B);
    tell(GW_ORDER_WAIT, EVENT, A);
}

static void with_wait_of_the_wrong_stream(void)
{
    copy_on(B);
    tell(GW_ORDER_RECORD, EVENT, B);
    tell(GW_ORDER_WAIT, EVENT, C);
}

static void with_wait_for_the_wrong_stream(void)
{
    copy_on(B);
    tell(GW_ORDER_STREAM_DONE, A, 0);
    tell(GW_ORDER_HOST_FUNC, 0x1234, C);
    tell(GW_ORDER_RECORD, EVENT, A);
    tell(GW_ORDER_EVENT_DONE, EVENT, 0);
}

static void with_default_stream_between(void)
{
    copy_on(B);
    tell(GW_ORDER_RECORD, EVENT, LEGACY);
    tell(GW_ORDER_WAIT, EVENT, A);
}

static void with_waited_copy_between(void)
{
    copy_on(B);
    tell_copy(GW_ORDER_COPY_WAITED, weights, host, LEGACY);
}

static void with_the_other_side(void)
{
    tell_copy(GW_ORDER_FILL, block, 0, B);
}

GW_TEST(what_does_not_order_is_noted)
{
    static void (*const ways[])(void) = {with_event_before_the_copy,     with_wait_of_the_wrong_stream,
                                         with_wait_for_the_wrong_stream, with_default_stream_between,
                                         with_waited_copy_between,       with_the_other_side};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        begin(NON_BLOCKING);
        ways[i]();
        free_on(A);
        expect_count(1);
    }
}

/* Work in blocking streams waits for earlier work in the default stream, and the other way round. */
GW_TEST(blocking_streams_follow_the_default_stream)
{
    begin(0);
    copy_on(B);
    free_on(A);
    expect_count(1);
    static void (*const ways[])(void) = {with_default_stream_between, with_waited_copy_between};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        begin(0);
        ways[i]();
        free_on(A);
        expect_count(0);
    }
    begin(0);
    copy_on(B);
    free_on(LEGACY);
    expect_count(0);
    begin(0);
    copy_on(LEGACY);
    free_on(A);
    expect_count(0);
    begin(0);
    copy_on(B);
    gw_feed_call(&feed, "cuMemAllocAsync", GW_EV_ALLOC_ASYNC, 0, block + 16 * mib, mib, 0, LEGACY);
    free_on(A);
    expect_count(0);
    begin(NON_BLOCKING);
    copy_on(LEGACY);
    free_on(A);
    expect_count(1);
}

/* The launches between the copy and the free must be counted with the help of the rings. */
GW_TEST(launches_in_between_are_counted)
{
    begin(0);
    gw_feed_launch(&feed, 0xf, B);
    copy_on(B);
    gw_feed_wait(&feed, 1000);
    gw_feed_launch(&feed, 0xf, B);
    gw_feed_launch(&feed, 0xf, C);
    gw_feed_launch(&feed, 0xf, LEGACY);
    gw_feed_wait(&feed, 1000);
    free_on(A);
    gw_feed_launch(&feed, 0xf, B);
    gw_feed_exit(&feed, 0, 0);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->unordered_total, 1);
    assert_true(model->unordered[0].launches_known);
    assert_true(model->unordered[0].on_blocking);
    assert_int_equal(model->unordered[0].default_count, 1);
    assert_int_equal(model->unordered[0].launch_count, 2); /* one launch in B and one in the default stream */
    gw_model_free(model);

    begin(NON_BLOCKING); /* later work in B and C runs after the copy; the launch in C must count only once */
    copy_on(B);
    tell(GW_ORDER_RECORD, EVENT, B);
    tell(GW_ORDER_WAIT, EVENT, C);
    gw_feed_launch(&feed, 0xf, A);
    gw_feed_launch(&feed, 0xf, C);
    gw_feed_launch(&feed, 0xf, LEGACY);
    free_on(A);
    gw_feed_exit(&feed, 0, 0);
    model = gw_feed_finish(&feed);
    assert_int_equal(model->unordered[0].stream_count, 2);
    assert_int_equal(model->unordered[0].launch_count, 2);
    gw_model_free(model);

    begin(0); /* a fill in the legacy stream has no step, so it must be found in the rings */
    copy_on(B);
    gw_feed_hot(&feed, "cuMemsetD8Async", GW_COUNT_FILL, 4096, LEGACY);
    gw_feed_hot(&feed, "cuMemsetD8Async", GW_COUNT_FILL, 4096, C);
    free_on(A);
    gw_feed_exit(&feed, 0, 0);
    model = gw_feed_finish(&feed);
    assert_int_equal(model->unordered[0].default_count, 1);
    gw_model_free(model);

    begin(NON_BLOCKING);
    copy_on(B);
    free_on(A);
    for (int i = 0; i < 2 * GW_RING_ENTRIES; i++)
        gw_feed_launch(&feed, 0xf, A);
    gw_feed_exit(&feed, 0, 0);
    model = gw_feed_finish(&feed);
    assert_int_equal(model->unordered_total, 1);
    assert_false(model->unordered[0].launches_known);
    gw_model_free(model);
}

GW_TEST(host_memory_given_back_too_early)
{
    begin(NON_BLOCKING);
    tell_copy(GW_ORDER_COPY, host + mib, weights, B);
    gw_feed_extra_call(&feed, "cuMemFreeHost", GW_EV_HOST_FREE, 0, number, host, 0, 0, 0);
    gw_feed_exit(&feed, 0, 0);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->unordered_total, 1);
    assert_int_equal(model->unordered[0].kind, GW_UNORDERED_HOST_FREE);
    assert_true(model->unordered[0].to_host);
    gw_model_free(model);

    begin(NON_BLOCKING);
    tell_copy(GW_ORDER_COPY, weights, host + mib, B); /* this copy only reads from the host memory that is freed */
    gw_feed_extra_call(&feed, "cuMemFreeHost", GW_EV_HOST_FREE, 0, number, host, 0, 0, 0);
    expect_count(0);
    begin(NON_BLOCKING);
    tell_copy(GW_ORDER_COPY, host + mib, weights, B);
    tell(GW_ORDER_STREAM_DONE, B, 0);
    gw_feed_extra_call(&feed, "cuMemFreeHost", GW_EV_HOST_FREE, 0, number, host, 0, 0, 0);
    expect_count(0);
}

/* If there are more reported frees than the model can store, the first and the last ones must be kept. */
GW_TEST(many_are_bounded)
{
    enum { ROUNDS = 500 };
    begin(NON_BLOCKING);
    uint64_t t_last_ns = 0;
    for (int i = 0; i < ROUNDS; i++) {
        copy_on(B);
        free_on(A);
        t_last_ns = feed.t_ns;
        gw_feed_call(&feed, "cuMemAllocAsync", GW_EV_ALLOC_ASYNC, 0, block, 8 * mib, 0, A);
    }
    gw_feed_exit(&feed, 0, 0);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->unordered_total, ROUNDS);
    assert_int_equal(model->unordered_count, GW_UNORDERED_MAX);
    assert_int_equal(model->unordered[GW_UNORDERED_MAX - 1].t_free_ns, t_last_ns);
    for (size_t i = 1; i < model->unordered_count; i++)
        assert_true(model->unordered[i].t_free_ns > model->unordered[i - 1].t_free_ns);
    gw_model_free(model);
}

GW_TEST_MAIN(NULL, NULL)
