/* Feeds ordering steps (ORDER events) to the model. Tests which frees are reported as not ordered with a copy.
 * Uncertain cases must not be reported. */
#include "gw_unit_test.h"

#include "gw_feed.h"

enum { A = 0xa000, B = 0xb000, C = 0xc000, EVENT = 0xe000, OTHER = 0xe100, LEGACY = 0, NON_BLOCKING = 1 };
#define MIB     (1ull << 20)
#define BLOCK   0x7000000000ull
#define WEIGHTS 0x7100000000ull
#define HOST    0x10000000ull

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
    gw_feed_extra_call(&feed, "cuStep", GW_EV_ORDER_RANGE, 0, number, to, from, MIB, 0);
}

static void begin(uint64_t flags)
{
    gw_feed_open(&feed, 16ull << 30);
    number = 0;
    const uint64_t streams[] = {A, B, C};
    for (int i = 0; i < 3; i++)
        gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, streams[i], flags, 0, 0);
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 0, WEIGHTS, 8 * MIB, GW_SPACE_DEVICE, 0);
    gw_feed_call(&feed, "cuMemHostAlloc", GW_EV_HOST_ALLOC, 0, HOST, 8 * MIB, 0, 0);
    gw_feed_call(&feed, "cuMemAllocAsync", GW_EV_ALLOC_ASYNC, 0, BLOCK, 8 * MIB, 0, A);
}

static void copy_on(uint64_t stream)
{
    tell_copy(GW_ORDER_COPY, WEIGHTS, BLOCK + MIB, stream);
}

static void free_on(uint64_t stream)
{
    gw_feed_extra_call(&feed, "cuMemFreeAsync", GW_EV_FREE_ASYNC, 0, number, BLOCK, 0, 0, stream);
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
    assert_int_equal(it->address, BLOCK);
    assert_int_equal(it->block_bytes, 8 * MIB);
    assert_int_equal(it->copy_bytes, MIB);
    assert_int_equal(it->copy_stream, B);
    assert_int_equal(it->free_stream, A);
    assert_string_equal(it->copy_fn, "cuStep");
    assert_true(it->t_copy_ns < it->t_free_ns);
    assert_false(it->to_host || it->from_host || it->on_blocking || it->recorded || it->by_free);
    assert_int_equal(it->later_count, 0);
    assert_true(it->launches_known);
    gw_model_free(model);
}

/* ---- calls between the copy and the free ---- */

enum { STEPS_MAX = 5 };

/* An ordering step, with two ranges if it is a copy or a fill; or a step that is missing in the recording. */
typedef struct step {
    enum { NO_STEP, PLAIN_STEP, STEP_WITH_RANGES, LOST_STEP } kind;
    gw_order_step step;
    uint64_t object, stream, from;
} step;

#define STEP(name, object, stream)     PLAIN_STEP, GW_ORDER_##name, object, stream, 0
#define RANGES(name, to, from, stream) STEP_WITH_RANGES, GW_ORDER_##name, to, stream, from
#define COPY(stream)                   RANGES(COPY, WEIGHTS, BLOCK + MIB, stream)
#define GAP                            LOST_STEP, 0, 0, 0, 0

static void take(const step *list)
{
    for (size_t i = 0; i < STEPS_MAX; i++) {
        number += list[i].kind == LOST_STEP;
        if (list[i].kind == STEP_WITH_RANGES)
            tell_copy(list[i].step, list[i].object, list[i].from, list[i].stream);
        else if (list[i].kind == PLAIN_STEP)
            tell(list[i].step, list[i].object, list[i].stream);
    }
}

static void by_freeing_plain_memory(void)
{
    copy_on(B);
    gw_feed_call(&feed, "cuMemFree_v2", GW_EV_FREE, 0, WEIGHTS + 16 * MIB, 0, GW_SPACE_DEVICE, 0);
}

static void by_time(void)
{
    copy_on(B);
    gw_feed_call(&feed, "cuMemFreeAsync", GW_EV_FREE_ASYNC, 0, BLOCK, 0, 0, B);
    gw_feed_call(&feed, "cuMemAllocAsync", GW_EV_ALLOC_ASYNC, 0, BLOCK, 8 * MIB, 0, A);
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
    const step ways[][STEPS_MAX] = {
        {{COPY(A)}}, /* in the stream of the free */
        {{COPY(B)}, {STEP(RECORD, EVENT, B)}, {STEP(WAIT, EVENT, A)}},
        /* through a third stream */
        {{COPY(B)}, {STEP(RECORD, EVENT, B)}, {STEP(WAIT, EVENT, C)}, {STEP(RECORD, OTHER, C)}, {STEP(WAIT, OTHER, A)}},
        {{COPY(B)}, {STEP(RECORD, EVENT, B)}, {STEP(EVENT_DONE, EVENT, 0)}},
        {{COPY(B)}, {STEP(STREAM_DONE, B, 0)}},
        {{COPY(B)}, {STEP(CONTEXT_DONE, 0, 0)}},
        {{COPY(B)}, {STEP(HOST_FUNC, 0x1234, B)}},
        /* the record of the event was not seen, so the event may have been recorded after the copy */
        {{COPY(B)}, {STEP(WAIT, EVENT, A)}},
        {{COPY(B)}, {STEP(UNKNOWN, 0, 0)}},
        {{COPY(B)}, {GAP}, {STEP(RECORD, EVENT, C)}},
        {{COPY(B)}, {PLAIN_STEP, (gw_order_step)200, 0, 0, 0}}, /* a step of later versions */
        {{STEP(COPY, WEIGHTS, B)}},                             /* without ranges */
        {{COPY(B)}, {GAP}},
        {{RANGES(COPY, BLOCK, HOST + 64 * MIB, B)}},    /* pageable memory */
        {{RANGES(COPY, WEIGHTS, BLOCK + 8 * MIB, B)}}}; /* another range */
    static void (*const other_ways[])(void) = {by_freeing_plain_memory, by_time, by_much};
    const size_t way_count = sizeof ways / sizeof ways[0], other_count = sizeof other_ways / sizeof other_ways[0];
    for (size_t i = 0; i < way_count + other_count; i++) {
        begin(NON_BLOCKING);
        if (i < way_count)
            take(ways[i]);
        else
            other_ways[i - way_count]();
        free_on(A);
        expect_count(0);
    }
}

static const step default_stream_between[STEPS_MAX] = {
    {COPY(B)}, {STEP(RECORD, EVENT, LEGACY)}, {STEP(WAIT, EVENT, A)}};
static const step waited_copy_between[STEPS_MAX] = {{COPY(B)}, {RANGES(COPY_WAITED, WEIGHTS, HOST, LEGACY)}};

static void count_after(uint64_t flags, const step *list, uint64_t count)
{
    begin(flags);
    take(list);
    free_on(A);
    expect_count(count);
}

GW_TEST(what_does_not_order_is_noted)
{
    const step ways[][STEPS_MAX] = {
        {{STEP(RECORD, EVENT, B)}, {COPY(B)}, {STEP(WAIT, EVENT, A)}}, /* the event is before the copy */
        {{COPY(B)}, {STEP(RECORD, EVENT, B)}, {STEP(WAIT, EVENT, C)}}, /* the wrong stream waits */
        /* nothing waits for the copy's stream */
        {{COPY(B)},
         {STEP(STREAM_DONE, A, 0)},
         {STEP(HOST_FUNC, 0x1234, C)},
         {STEP(RECORD, EVENT, A)},
         {STEP(EVENT_DONE, EVENT, 0)}},
        {{RANGES(FILL, BLOCK, 0, B)}}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        count_after(NON_BLOCKING, ways[i], 1);
    count_after(NON_BLOCKING, default_stream_between, 1);
    count_after(NON_BLOCKING, waited_copy_between, 1);
}

/* Work in blocking streams waits for earlier work in the default stream, and the other way round. */
GW_TEST(blocking_streams_follow_the_default_stream)
{
    begin(0);
    copy_on(B);
    free_on(A);
    expect_count(1);
    count_after(0, default_stream_between, 0);
    count_after(0, waited_copy_between, 0);
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
    gw_feed_call(&feed, "cuMemAllocAsync", GW_EV_ALLOC_ASYNC, 0, BLOCK + 16 * MIB, MIB, 0, LEGACY);
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
    tell_copy(GW_ORDER_COPY, HOST + MIB, WEIGHTS, B);
    gw_feed_extra_call(&feed, "cuMemFreeHost", GW_EV_HOST_FREE, 0, number, HOST, 0, 0, 0);
    gw_feed_exit(&feed, 0, 0);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->unordered_total, 1);
    assert_int_equal(model->unordered[0].kind, GW_UNORDERED_HOST_FREE);
    assert_true(model->unordered[0].to_host);
    gw_model_free(model);

    begin(NON_BLOCKING);
    tell_copy(GW_ORDER_COPY, WEIGHTS, HOST + MIB, B); /* this copy only reads from the host memory that is freed */
    gw_feed_extra_call(&feed, "cuMemFreeHost", GW_EV_HOST_FREE, 0, number, HOST, 0, 0, 0);
    expect_count(0);
    begin(NON_BLOCKING);
    tell_copy(GW_ORDER_COPY, HOST + MIB, WEIGHTS, B);
    tell(GW_ORDER_STREAM_DONE, B, 0);
    gw_feed_extra_call(&feed, "cuMemFreeHost", GW_EV_HOST_FREE, 0, number, HOST, 0, 0, 0);
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
        gw_feed_call(&feed, "cuMemAllocAsync", GW_EV_ALLOC_ASYNC, 0, BLOCK, 8 * MIB, 0, A);
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
