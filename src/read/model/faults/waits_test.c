/* Tests which launches a wait proves to have ended, depending on the streams, and which calls prove nothing. */
#include "gw_unit_test.h"

#include "gw_feed.h"

enum {
    A = 0xa000,
    B = 0xb000,
    BLOCKING = 0xc000,
    BLOCKING_2 = 0xd000,
    UNSEEN = 0xe000,
    EVENT = 0xf000,
    KERNEL = 0x5000
};
enum { LEGACY = 1, PER_THREAD = 2, NON_BLOCKING = 1, OTHER_THREAD = 777 };

typedef enum became { OPEN, MAYBE, OVER } became;

static gw_feed feed; /* static, because it is large */

static void begin(void)
{
    gw_feed_open(&feed, 1u << 30);
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, A, NON_BLOCKING, 0, 0);
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, B, NON_BLOCKING, 0, 0);
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, BLOCKING, 0, 0, 0);
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, BLOCKING_2, 0, 0, 0);
}

static void launch(uint64_t stream)
{
    gw_feed_launch(&feed, KERNEL, stream);
}

static void sync(uint64_t stream)
{
    gw_feed_hot(&feed, "cuStreamSynchronize", GW_COUNT_SYNC, stream, 0);
}

static void record(uint64_t stream)
{
    gw_feed_hot(&feed, "cuEventRecord", GW_COUNT_EVENT_RECORD, EVENT, stream);
}

static void wait_event(uint64_t stream)
{
    gw_feed_hot(&feed, "cuStreamWaitEvent", GW_COUNT_STREAM_WAIT, EVENT, stream);
}

/* Return the state of the launch with index `nth`, counted thread by thread and within a thread by time. */
static became of_launch(const gw_model *model, size_t nth)
{
    for (size_t i = 0; i < model->thread_count; i++) {
        for (size_t k = 0; k < model->thread[i].ring_count; k++) {
            const gw_ring_call *call = &model->thread[i].ring[k];
            if (!call->is_launch || nth-- > 0)
                continue;
            assert_true(!call->waited || call->maybe_waited);
            return call->waited ? OVER : call->maybe_waited ? MAYBE : OPEN;
        }
    }
    fail_msg("there is no such launch");
    return OPEN;
}

static void expect(became first, became second)
{
    gw_feed_drain(&feed);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(of_launch(model, 0), first);
    assert_int_equal(of_launch(model, 1), second);
    gw_model_free(model);
}

static void begin_with(uint64_t first, uint64_t second)
{
    begin();
    launch(first);
    launch(second);
}

/* Launch on two streams, wait for one stream, and check the state of both launches. */
static void two_streams(uint64_t first, uint64_t second, uint64_t waited, became first_is, became second_is)
{
    begin_with(first, second);
    sync(waited);
    expect(first_is, second_is);
}

GW_TEST(a_wait_for_one_stream)
{
    two_streams(A, B, A, OVER, OPEN);
    two_streams(A, B, B, OPEN, OVER);
    two_streams(BLOCKING, BLOCKING_2, BLOCKING, OVER, OPEN);
    two_streams(A, A, A, OVER, OVER);
}

GW_TEST(what_is_launched_after_the_wait_is_open)
{
    begin();
    launch(A);
    sync(A);
    launch(A);
    expect(OVER, OPEN);
}

GW_TEST(the_legacy_stream_and_the_blocking_ones)
{
    two_streams(BLOCKING, 0, 0, OVER, OVER);
    two_streams(BLOCKING, BLOCKING_2, LEGACY, OVER, OVER);
    two_streams(A, 0, 0, OPEN, OVER); /* a wait for the legacy stream proves nothing about a non-blocking stream */
    two_streams(0, BLOCKING, BLOCKING, OVER, OVER);
    two_streams(BLOCKING, 0, BLOCKING, OVER, OPEN);
    two_streams(0, A, A, OPEN, OVER);
    /* The fill in the legacy stream runs between the launches in the blocking streams. So a wait for the second stream
     * covers the first launch, too. */
    begin();
    launch(BLOCKING);
    gw_feed_hot(&feed, "cuMemsetD8Async", GW_COUNT_FILL, 64, 0);
    launch(BLOCKING_2);
    sync(BLOCKING_2);
    expect(OVER, OVER);
}

GW_TEST(the_per_thread_stream)
{
    two_streams(PER_THREAD, A, PER_THREAD, OVER, OPEN);
    two_streams(0, PER_THREAD, PER_THREAD, OVER, OVER); /* the per-thread stream is a blocking stream */
    begin();
    gw_feed_hot(&feed, "cuLaunchKernel_ptsz", GW_COUNT_LAUNCH, KERNEL, 0);
    launch(A);
    gw_feed_hot(&feed, "cuStreamSynchronize_ptsz", GW_COUNT_SYNC, 0, 0);
    expect(OVER, OPEN);
    begin_with(PER_THREAD,
               A); /* each thread has its own default stream, so this wait of another thread proves nothing */
    feed.tid = OTHER_THREAD;
    sync(PER_THREAD);
    expect(OPEN, OPEN);
}

GW_TEST(the_whole_context)
{
    begin_with(A, UNSEEN);
    gw_feed_hot(&feed, "cuCtxSynchronize", GW_COUNT_SYNC, 0, 0);
    expect(OVER, OVER);
    begin(); /* there are two contexts, and it is unknown which one was synchronised */
    feed.context = 0;
    gw_feed_call(&feed, "cuCtxCreate_v2", GW_EV_CTX_CREATE, 0, 0xdddd, 0, 0, GW_CONTEXT_PLAIN);
    launch(A);
    launch(0);
    gw_feed_hot(&feed, "cuCtxSynchronize", GW_COUNT_SYNC, 0, 0);
    expect(MAYBE, MAYBE);
}

GW_TEST(events)
{
    begin(); /* a wait for an event proves only that the work launched before cuEventRecord() has ended */
    launch(A);
    record(A);
    launch(A);
    gw_feed_hot(&feed, "cuEventSynchronize", GW_COUNT_SYNC, EVENT, 0);
    expect(OVER, OPEN);
    begin(); /* A waited for B's work before A's launch, and that launch has ended, so B's work has ended too */
    launch(B);
    record(B);
    wait_event(A);
    launch(A);
    sync(A);
    expect(OVER, OVER);
    begin(); /* A was synchronised before A waited for B, so this proves nothing about B */
    launch(B);
    record(B);
    launch(A);
    sync(A);
    wait_event(A);
    expect(OPEN, OVER);
    begin(); /* only work before the last record of the event has ended */
    launch(A);
    record(A);
    launch(B);
    record(B);
    gw_feed_hot(&feed, "cuEventQuery", GW_COUNT_QUERY, EVENT, 0);
    expect(OPEN, OVER);
}

GW_TEST(queries_and_blocking_copies)
{
    begin_with(A, B);
    gw_feed_hot(&feed, "cuStreamQuery", GW_COUNT_QUERY, B, 0);
    expect(OPEN, OVER);
    begin_with(BLOCKING, A);
    gw_feed_hot(&feed, "cuMemcpyDtoH_v2", GW_COUNT_COPY, 64, 0);
    expect(OVER, OPEN);
    /* a copy into pageable memory waits, one into page-locked memory does not; here the kind of memory is unknown */
    begin_with(A, B);
    gw_feed_hot(&feed, "cuMemcpyDtoHAsync_v2", GW_COUNT_COPY, 64, A);
    expect(MAYBE, OPEN);
    begin_with(A, 0);
    gw_feed_hot(&feed, "cuMemcpyDtoDAsync_v2", GW_COUNT_COPY, 64, 0);
    expect(OPEN, OPEN);
}

GW_TEST(what_is_not_known)
{
    two_streams(UNSEEN, A, 0, MAYBE, OPEN); /* it is unknown whether UNSEEN is a blocking stream */
    /* another thread may have waited in older calls that its ring no longer contains */
    begin_with(A, B);
    feed.tid = OTHER_THREAD;
    sync(A);
    for (int i = 0; i < GW_RING_ENTRIES; i++)
        gw_feed_hot(&feed, "cuMemcpyHtoDAsync_v2", GW_COUNT_COPY, 64, A);
    expect(MAYBE, MAYBE);
    begin_with(A, B); /* now the ring of the other thread contains all of its calls */
    feed.tid = OTHER_THREAD;
    sync(A);
    expect(OVER, OPEN);
}

GW_TEST_MAIN(NULL, NULL)
