/* Tests calls that fail because they use an object of another GPU, and calls that fail in the same way for another
 * reason. */
#include "gw_unit_test.h"
#include "judge_testlib.h"

enum { FIRST = 0xc0de, SECOND = 0xc1de, MODULE = 0xa0d0, KERNEL = 0xf000, EVENT = 0xe000, STREAM = 0x5000 };
enum { INVALID_VALUE = 1, INVALID_HANDLE = 400, ILLEGAL_ADDRESS = 700 };
static const char id[] = "wrong-current-device";
static const uint64_t mib = 1 << 20, block = 0x7000000000;

static gw_feed feed; /* too large for the stack */

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
    gw_verdict *verdict = judge_fed(&feed);
    bool is_first = verdict->cause != NULL && strcmp(verdict->cause, id) == 0;
    gw_certainty found = is_first ? verdict->certainty : certainty_of_alternative(verdict, id);
    gw_verdict_free(verdict);
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
