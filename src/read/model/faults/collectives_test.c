/* Tests what the model makes of the facts about NCCL, and what proves that a call has completed. Each proof has a twin
 * with less evidence, which leaves the call enqueued. */
#include "gw_unit_test.h"

#include "gw_feed.h"

#include <stdio.h>

enum { STREAM = 0xa000, OTHER = 0xb000, NCCL_KERNEL = 0x5000, KERNEL = 0x6000, EVENT = 0xf000 };

static gw_feed feed; /* static, because it is large */
static uint64_t called_ns, returned_ns;

static void begin(void)
{
    gw_feed_open(&feed, 1u << 30);
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, STREAM, 1, 0, 0);
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, OTHER, 1, 0, 0);
    gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, NCCL_KERNEL, 0xabab, GW_OWNER_MODULE, 0,
                      "_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE");
}

/* A call of NCCL. `launches`: whether it launches its kernel. */
static void call_nccl(bool launches)
{
    called_ns = feed.t_ns;
    if (launches)
        gw_feed_launch(&feed, NCCL_KERNEL, STREAM);
    returned_ns = feed.t_ns + 1;
    gw_feed_wait(&feed, 2);
}

static void sync(uint64_t stream)
{
    gw_feed_hot(&feed, "cuStreamSynchronize", GW_COUNT_SYNC, stream, 0);
}

static void fact_comm(unsigned place, unsigned generation)
{
    char text[300];
    snprintf(text, sizeof text,
             "handle=0x1000 id=0xabc size=2 rank=1 device=0 place=%u generation=%u init_ns=5 end_ns=0 ready=1 "
             "aborted=0 captured=1 "
             "site=0 collectives=7 p2p=2 calls=7,0,0,0,0,0,0,0,2,0",
             place, generation);
    gw_feed_fact(&feed, "nccl.comm", text);
}

static void fact_call(const char *state)
{
    char text[300];
    snprintf(text, sizeof text,
             "call=ncclAllReduce number=7 t_ns=%llu end_ns=%llu elements=100 stream=0xa000 type=7 op=0 root_or_peer=-1 "
             "result=0 site=0 group=3 state=%s",
             (unsigned long long)called_ns, (unsigned long long)returned_ns, state);
    gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = feed.t_ns, .pid = feed.pid, .tid = feed.tid};
    item.pair.key = "nccl.call";
    item.pair.value = text;
    gw_error err;
    assert_int_equal(gw_model_feed(feed.model, &item, &err), GW_OK);
}

static gw_model *end(const char *state)
{
    gw_feed_drain(&feed);
    fact_comm(0, 1);
    fact_call(state);
    return gw_feed_finish(&feed);
}

static void expect(gw_collective_state state)
{
    gw_model *model = end("enqueued");
    assert_int_equal(model->process[0].communicator_count, 1);
    assert_int_equal(model->process[0].communicator[0].last_count, 1);
    assert_int_equal(model->process[0].communicator[0].last[0].state, state);
    gw_model_free(model);
}

GW_TEST(facts_are_read)
{
    begin();
    call_nccl(true);
    gw_model *model = end("entered");
    const gw_communicator *c = model->process[0].communicator;
    assert_int_equal(c->handle, 0x1000);
    assert_int_equal(c->id, 0xabc);
    assert_true(c->size == 2 && c->rank == 1 && c->device == 0 && c->is_ready && !c->is_aborted && c->has_captured &&
                c->t_end_ns == 0);
    assert_true(c->collectives == 7 && c->p2p == 2);
    assert_true(c->calls[GW_NCCL_ALL_REDUCE] == 7 && c->calls[GW_NCCL_SEND] == 2 && c->calls[GW_NCCL_RECV] == 0);
    const gw_collective *call = c->last;
    assert_int_equal(call->call, GW_NCCL_ALL_REDUCE);
    assert_true(call->number == 7 && call->elements == 100 && call->stream == STREAM && call->type == 7);
    assert_true(call->op == 0 && call->root_or_peer == -1 && call->group == 3);
    assert_int_equal(call->state, GW_COLLECTIVE_ENTERED);
    assert_false(model->process[0].nccl_unseen);
    gw_model_free(model);
}

/* A later table replaces the last calls; another generation is another communicator. */
GW_TEST(later_facts_replace_earlier_ones)
{
    begin();
    call_nccl(false);
    fact_comm(0, 1);
    fact_call("entered");
    fact_comm(3, 1);
    gw_model *model = end("refused");
    assert_int_equal(model->process[0].communicator_count, 2);
    assert_int_equal(model->process[0].communicator[0].last_count, 1);
    assert_int_equal(model->process[0].communicator[0].last[0].state, GW_COLLECTIVE_REFUSED);
    assert_int_equal(model->process[0].communicator[1].last_count, 0);
    gw_model_free(model);
    begin();
    fact_comm(0, 1);
    fact_comm(0, 2);
    model = end("captured");
    assert_int_equal(model->process[0].communicator_count, 2);
    gw_model_free(model);
}

GW_TEST(damaged_facts_are_skipped)
{
    begin();
    gw_feed_fact(&feed, "nccl.call", "call=ncclAllReduce state=entered");
    gw_feed_fact(&feed, "nccl.comm", "");
    gw_feed_fact(&feed, "nccl.comm",
                 "place=0 generation=1 device=4294967295 calls=1,x,,99999999999999999999999,1,1,1,1,1,1,1,1");
    gw_feed_fact(&feed, "nccl.call", "call=ncclNothing state=entered");
    gw_feed_fact(&feed, "nccl.call", "call=ncclAllReduce state=broken");
    gw_feed_fact(&feed, "nccl.call", "");
    for (int i = 0; i < 200; i++)
        gw_feed_fact(&feed, "nccl.call", "call=ncclRecv state=entered");
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->process[0].communicator_count, 1);
    assert_int_equal(model->process[0].communicator[0].device, -1);
    assert_true(model->process[0].communicator[0].last_count > 0);
    assert_true(model->process[0].communicator[0].last_count < 200);
    gw_model_free(model);
}

GW_TEST(a_wait_for_the_stream_completes_a_call)
{
    begin();
    call_nccl(true);
    sync(STREAM);
    expect(GW_COLLECTIVE_COMPLETED);
    begin();
    call_nccl(true);
    sync(OTHER);
    expect(GW_COLLECTIVE_ENQUEUED);
    begin();
    call_nccl(true);
    expect(GW_COLLECTIVE_ENQUEUED);
    begin();
    sync(STREAM); /* before the call */
    call_nccl(true);
    expect(GW_COLLECTIVE_ENQUEUED);
}

/* NCCL may use other means than a kernel on this stream. Then only later calls on the stream prove anything. */
GW_TEST(a_call_without_a_kernel)
{
    begin();
    call_nccl(false);
    sync(STREAM);
    expect(GW_COLLECTIVE_COMPLETED);
    begin();
    call_nccl(false);
    gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_hot(&feed, "cuCtxSynchronize", GW_COUNT_SYNC, 0, 0);
    expect(GW_COLLECTIVE_COMPLETED);
    begin();
    call_nccl(false);
    gw_feed_launch(&feed, KERNEL, OTHER);
    gw_feed_hot(&feed, "cuCtxSynchronize", GW_COUNT_SYNC, 0, 0);
    expect(GW_COLLECTIVE_ENQUEUED);
}

/* PyTorch never waits for NCCL's stream: it records an event and queries it. */
GW_TEST(an_event_after_the_kernel_completes_a_call)
{
    begin();
    call_nccl(true);
    gw_feed_hot(&feed, "cuEventRecord", GW_COUNT_EVENT_RECORD, EVENT, STREAM);
    gw_feed_hot(&feed, "cuEventQuery", GW_COUNT_QUERY, EVENT, 0);
    expect(GW_COLLECTIVE_COMPLETED);
    begin();
    call_nccl(true);
    gw_feed_hot(&feed, "cuEventRecord", GW_COUNT_EVENT_RECORD, EVENT, STREAM);
    expect(GW_COLLECTIVE_ENQUEUED);
    begin(); /* an event before the kernel */
    gw_feed_hot(&feed, "cuEventRecord", GW_COUNT_EVENT_RECORD, EVENT, STREAM);
    call_nccl(true);
    gw_feed_hot(&feed, "cuEventQuery", GW_COUNT_QUERY, EVENT, 0);
    expect(GW_COLLECTIVE_ENQUEUED);
}

/* Calls in other states are what they are, whatever the program waited for. */
GW_TEST(only_accepted_calls_complete)
{
    static const char *const words[] = {"entered", "refused", "captured"};
    static const gw_collective_state states[] = {GW_COLLECTIVE_ENTERED, GW_COLLECTIVE_REFUSED, GW_COLLECTIVE_CAPTURED};
    for (int i = 0; i < 3; i++) {
        begin();
        call_nccl(true);
        sync(STREAM);
        gw_model *model = end(words[i]);
        assert_int_equal(model->process[0].communicator[0].last[0].state, states[i]);
        gw_model_free(model);
    }
}

/* A kernel that was launched long after the only call that was recorded, and before the table was read. */
GW_TEST(kernels_outside_of_the_calls)
{
    for (int is_outside = 0; is_outside < 2; is_outside++) {
        begin();
        call_nccl(true);
        gw_feed_wait(&feed, 1000000);
        gw_feed_launch(&feed, is_outside ? NCCL_KERNEL : KERNEL, STREAM);
        gw_feed_wait(&feed, 1000000);
        gw_model *model = end("enqueued");
        assert_int_equal(model->process[0].nccl_unseen, is_outside);
        gw_model_free(model);
    }
    begin();
    fact_comm(0, 1);
    gw_feed_fact(&feed, "nccl.lost", "3");
    gw_model *model = end("enqueued");
    assert_true(model->process[0].nccl_unseen);
    gw_model_free(model);
}

GW_TEST(kernels_of_nccl_without_its_calls)
{
    begin();
    call_nccl(true);
    gw_feed_drain(&feed);
    gw_model *model = gw_feed_finish(&feed);
    assert_true(model->process[0].nccl_unseen);
    gw_model_free(model);
    begin();
    gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_drain(&feed);
    model = gw_feed_finish(&feed);
    assert_false(model->process[0].nccl_unseen);
    gw_model_free(model);
}

GW_TEST(names_of_types)
{
    uint32_t bytes;
    assert_string_equal(gw_nccl_type_name(9, &bytes), "bfloat16");
    assert_int_equal(bytes, 2);
    assert_string_equal(gw_nccl_type_name(12, &bytes), "unknown type");
    assert_int_equal(bytes, 0);
    assert_string_equal(gw_nccl_type_name(-1, NULL), "unknown type");
    assert_string_equal(gw_nccl_call_name(GW_NCCL_RECV), "ncclRecv");
}

GW_TEST_MAIN(NULL, NULL)
