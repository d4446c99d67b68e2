/* Tests calls that fail because they use an object of another GPU, and calls that fail in the same way for another
 * reason. */
#include "gw_unit_test.h"
#include "verdict_testlib.h"

enum { FIRST = 0xc0de, SECOND = 0xc1de, MODULE = 0xa0d0, KERNEL = 0xf000, EVENT = 0xe000, STREAM = 0x5000 };
enum { INVALID_VALUE = 1, INVALID_HANDLE = 400, ILLEGAL_ADDRESS = 700 };
static const char id[] = "wrong-current-device";
static const uint64_t block = 0x7000000000;

/* Open a run with a kernel, an event and a block on GPU 0, and a stream on GPU 1. GPU 1 is current. */
static void begin(void)
{
    gw_feed_open(&feed, 16ull << 30);
    gw_feed_call(&feed, "cuModuleLoadData", GW_EV_MODULE_LOAD, 0, MODULE, 0, 0, 0);
    gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, KERNEL, MODULE, GW_OWNER_MODULE, 0, "train");
    gw_feed_call(&feed, "cuEventCreate", GW_EV_EVENT_CREATE, 0, EVENT, 0, 0, 0);
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 0, block, mib, GW_SPACE_DEVICE, 0);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 0, SECOND, 0, 1, GW_CONTEXT_PRIMARY);
    feed.context = SECOND;
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, STREAM, 0, 0, 0);
}

static void expect(gw_certainty certainty)
{
    gw_feed_exit(&feed, 1, 0);
    judge_open();
    bool is_first = verdict->cause != NULL && strcmp(verdict->cause, id) == 0;
    gw_certainty found = is_first ? verdict->certainty : certainty_of_alternative(verdict, id);
    assert_int_equal(found, certainty);
}

GW_TEST(handles_of_another_gpu)
{
    begin(); /* GPU 1 is current, but the kernel belongs to GPU 0 */
    gw_feed_call(&feed, "cuLaunchKernel", GW_EV_LAUNCH, INVALID_HANDLE, KERNEL, 1, 1, 0);
    expect(GW_SUPPORTED);
    begin(); /* the kernel's GPU is current, but the stream belongs to the other GPU */
    feed.context = FIRST;
    gw_feed_call(&feed, "cuLaunchKernel", GW_EV_LAUNCH, INVALID_HANDLE, KERNEL, 1, 1, STREAM);
    expect(GW_SUPPORTED);
    begin();
    gw_feed_call(&feed, "cuEventRecord", GW_EV_EVENT_RECORD, INVALID_HANDLE, EVENT, 0, 0, STREAM);
    expect(GW_SUPPORTED);
}

GW_TEST(the_same_answer_for_another_reason)
{
    begin();
    feed.context = FIRST; /* the current context and the kernel both belong to GPU 0 */
    gw_feed_call(&feed, "cuLaunchKernel", GW_EV_LAUNCH, INVALID_HANDLE, KERNEL, 1, 1, 0);
    expect(GW_CERTAINTY_NONE);
    begin(); /* the recording does not show which GPU this kernel belongs to */
    gw_feed_call(&feed, "cuLaunchKernel", GW_EV_LAUNCH, INVALID_HANDLE, KERNEL + 16, 1, 1, 0);
    expect(GW_CERTAINTY_NONE);
    begin(); /* the driver loads kernels of a library on every GPU */
    gw_feed_text_call(&feed, "cuLibraryGetKernel", GW_EV_FUNCTION, KERNEL + 32, MODULE, GW_OWNER_LIBRARY, 0, "any");
    feed.context = FIRST;
    gw_feed_call(&feed, "cuLaunchKernel", GW_EV_LAUNCH, INVALID_HANDLE, KERNEL + 32, 1, 1, STREAM);
    expect(GW_CERTAINTY_NONE);
    begin(); /* the launch fails because its grid is invalid */
    gw_feed_call(&feed, "cuLaunchKernel", GW_EV_LAUNCH, INVALID_VALUE, KERNEL, 1, 1ull << 50, 0);
    expect(GW_CERTAINTY_NONE);
    begin(); /* the recording does not show the current context */
    feed.context = 0;
    gw_feed_call(&feed, "cuLaunchKernel", GW_EV_LAUNCH, INVALID_HANDLE, KERNEL, 1, 1, 0);
    expect(GW_CERTAINTY_NONE);
}

GW_TEST(memory_of_another_gpu_is_a_hypothesis)
{
    begin();
    gw_feed_call(&feed, "cuMemsetD8_v2", GW_EV_FILL, INVALID_VALUE, block, 0, mib, 0);
    expect(GW_HYPOTHESIS);
    begin();
    gw_feed_call(&feed, "cuCtxSynchronize", GW_EV_SYNC, ILLEGAL_ADDRESS, 0, 0, 0, 0);
    expect(GW_HYPOTHESIS);
    begin(); /* all memory is on the GPU that is current */
    feed.context = FIRST;
    gw_feed_call(&feed, "cuCtxSynchronize", GW_EV_SYNC, ILLEGAL_ADDRESS, 0, 0, 0, 0);
    expect(GW_CERTAINTY_NONE);
}

/* Which block the address of a refused call lies in. Before the call, one block of 4 MiB is freed and one lives. */
GW_TEST(what_a_refused_address_refers_to)
{
    enum { OLD = 0x6000000, LIVE = 0x5000000, HOST = 0x7ff, PAGES = 0x99 };
    static const struct {
        const char *call, *said; /* `said` NULL: nothing is known about the addresses */
        gw_event_kind again;     /* the kind of memory that now has the freed block's address; 0: none */
        gw_event_kind kind;
        uint64_t arg[3];
    } rows[] = {
        {"cuMemcpyHtoD_v2", "a NULL address", 0, GW_EV_COPY, {0, HOST, 64}},
        {"cuMemcpyHtoD_v2", "already freed", 0, GW_EV_COPY, {OLD + 64, HOST, 64}},
        {"cuMemFree_v2", "already freed", 0, GW_EV_FREE, {OLD}},
        {"cuMemcpyHtoD_v2", "5.00 MiB for a smaller block", 0, GW_EV_COPY, {LIVE, HOST, 5 << 20}},
        {"cuMemcpyDtoH_v2", "4.00 MiB for a smaller block", 0, GW_EV_COPY, {HOST, LIVE + 1, 4 << 20}},
        {"cuMemcpyHtoD_v2", NULL, 0, GW_EV_COPY, {LIVE, HOST, 4 << 20}},
        {"cuMemcpyBatchAsync_v2", NULL, 0, GW_EV_COPY, {LIVE, HOST, 5 << 20}}, /* the sum of several copies */
        {"cuMemcpyBatchAsync_v2", NULL, 0, GW_EV_COPY, {0, 0, 0}},
        {"cuMemcpy2D_v2", NULL, 0, GW_EV_COPY, {0, 0, 0}}, /* pCopy is NULL */
        {"cuMemcpyHtoD_v2", NULL, GW_EV_ALLOC_ASYNC, GW_EV_COPY, {OLD, HOST, 64}},
        {"cuMemcpyHtoD_v2", "8.00 MiB for a smaller block", GW_EV_ALLOC_ASYNC, GW_EV_COPY, {OLD, HOST, 8 << 20}},
        {"cuMemcpyHtoD_v2", NULL, GW_EV_VMM_MAP, GW_EV_COPY, {OLD, HOST, 8 << 20}}, /* the next mapping may follow */
        {"cuMemcpyHtoD_v2", NULL, GW_EV_IPC_OPEN, GW_EV_COPY, {OLD, HOST, 8 << 20}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gw_feed_open(&feed, 16ull << 30);
        gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 0, LIVE, 4 * mib, GW_SPACE_DEVICE, 0);
        gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 0, OLD, 4 * mib, GW_SPACE_DEVICE, 0);
        gw_feed_call(&feed, "cuMemFree_v2", GW_EV_FREE, 0, OLD, 0, GW_SPACE_DEVICE, 0);
        gw_feed_call(&feed, "cuMemCreate", GW_EV_VMM_CREATE, 0, PAGES, 4 * mib, 0, 1);
        if (rows[i].again != 0)
            gw_feed_call(&feed, "?", rows[i].again, 0, OLD, 4 * mib, 0, PAGES);
        const uint64_t *arg = rows[i].arg;
        gw_feed_call(&feed, rows[i].call, rows[i].kind, INVALID_VALUE, arg[0], arg[1], arg[2], 0);
        gw_feed_exit(&feed, 1, 0);
        judge_open();
        if (strstr(verdict->headline, rows[i].said == NULL ? "the reason is unknown" : rows[i].said) == NULL)
            fail_msg("row %zu, %s: %s", i, rows[i].call, verdict->headline);
    }
}

GW_TEST(a_framework_says_so)
{
    begin();
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\n"
                          "ValueError: Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)\n");
    expect(GW_SUPPORTED);
    begin();
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\n"
                          "ValueError: Pointer argument (at 0) is no pointer\n");
    expect(GW_CERTAINTY_NONE);
}

GW_TEST_MAIN(NULL, NULL)
