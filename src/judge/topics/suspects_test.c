/* Tests which kernels are suspected if a fault is reported late, and from which places they were launched. */
#include "gw_unit_test.h"
#include "verdict_testlib.h"

enum { STREAM = 0x5151, MINE = 0xf1f1, OTHER = 0xf2f2, LIBRARY = 0xf300 };

static void name(uint64_t function, const char *text)
{
    gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, function, 0x77, GW_OWNER_MODULE, 0, text);
}

static void launched_at(uint64_t function, const char *library, const char *frames)
{
    uint32_t site = gw_feed_site_in(&feed, library, frames);
    feed.site = site;
    gw_feed_call(&feed, "cuLaunchKernel", GW_EV_LAUNCH_SITE, 0, function, 0, 0, STREAM);
    feed.site = 0;
}

static void open_program(void)
{
    gw_feed_open(&feed, 16 * gib);
    name(MINE, "_Z4losePf");
    name(OTHER, "_Z4finePf");
}

static void wait_for_all(void)
{
    gw_feed_hot(&feed, "cuCtxSynchronize", GW_COUNT_SYNC, 0, 0);
}

/* Let a synchronisation report the error `result`, and expect this cause. */
static void expect_reported(uint16_t result, const char *cause)
{
    gw_feed_wait(&feed, 20000000);
    feed.site = gw_feed_site(&feed, "report train.py 99");
    gw_feed_call(&feed, "cuCtxSynchronize", GW_EV_SYNC, result, 0, 0, 0, 0);
    feed.site = 0;
    gw_feed_exit(&feed, 1, 0);
    judge_open();
    assert_non_null(verdict->cause);
    assert_string_equal(verdict->cause, cause);
}

static const char *place(void)
{
    assert_non_null(verdict->where);
    return verdict->where->frame[verdict->where->user].text;
}

static bool says(const char *part)
{
    return why_has(verdict, part) || list_has(&verdict->next, part);
}

static size_t position(const char *part)
{
    for (size_t i = 0; i < verdict->evidence_count; i++)
        if (strstr(verdict->evidence[i].text, part) != NULL)
            return i;
    fail_msg("no evidence with \"%s\"", part);
    return 0;
}

/* ---- places of launches ---- */

GW_TEST(test_only_kernel)
{
    open_program();
    launched_at(OTHER, NULL, "warm train.py 3");
    gw_feed_launch(&feed, OTHER, STREAM);
    wait_for_all();
    launched_at(MINE, NULL, "loss train.py 7");
    gw_feed_launch(&feed, MINE, STREAM);
    expect_reported(700, "illegal-address");
    assert_true(says("last launch: lose on"));
    assert_true(says("first launched at train.py:7 in loss"));
    assert_string_equal(place(), "train.py:7 in loss");
    assert_string_equal(verdict->where->what,
                        "where the only kernel since the last good synchronisation was first launched");
}

/* The program waited for only one of two streams, so a kernel on the other stream may be at fault. This kernel is
 * ruled out if the first stream had waited for an event recorded after it. */
GW_TEST(test_wait_for_another_stream)
{
    enum { OTHER_STREAM = 0x6161, EVENT = 0x99 };
    for (int i = 0; i < 3; i++) {
        open_program();
        launched_at(OTHER, NULL, "copy train.py 3");
        gw_feed_launch(&feed, OTHER, OTHER_STREAM);
        if (i == 1) { /* the awaited stream had waited for the other stream */
            gw_feed_hot(&feed, "cuEventRecord", GW_COUNT_EVENT_RECORD, EVENT, OTHER_STREAM);
            gw_feed_hot(&feed, "cuStreamWaitEvent", GW_COUNT_STREAM_WAIT, EVENT, STREAM);
        }
        if (i == 2) { /* the event precedes the last launch, so the awaited stream did not wait for that launch */
            gw_feed_hot(&feed, "cuEventRecord", GW_COUNT_EVENT_RECORD, EVENT, OTHER_STREAM);
            gw_feed_launch(&feed, OTHER, OTHER_STREAM);
            gw_feed_hot(&feed, "cuStreamWaitEvent", GW_COUNT_STREAM_WAIT, EVENT, STREAM);
        }
        gw_feed_hot(&feed, "cuStreamSynchronize", GW_COUNT_SYNC, STREAM, 0);
        launched_at(MINE, NULL, "loss train.py 7");
        gw_feed_launch(&feed, MINE, STREAM);
        expect_reported(700, "illegal-address");
        assert_string_equal(place(), i == 1 ? "train.py:7 in loss" : "train.py:99 in report");
    }
}

/* Either of two kernels may be at fault, so the verdict's place is the call that reported the fault. */
GW_TEST(test_two_kernels)
{
    open_program();
    wait_for_all();
    launched_at(MINE, NULL, "loss train.py 7");
    gw_feed_launch(&feed, MINE, STREAM);
    launched_at(OTHER, NULL, "step train.py 9");
    gw_feed_launch(&feed, OTHER, STREAM);
    expect_reported(700, "illegal-address");
    assert_true(says("first launched at train.py:7 in loss"));
    assert_true(says("first launched at train.py:9 in step"));
    assert_string_equal(place(), "train.py:99 in report");
}

GW_TEST(test_several_places)
{
    open_program();
    wait_for_all();
    launched_at(MINE, NULL, "loss train.py 7");
    launched_at(MINE, NULL, "check train.py 8");
    launched_at(MINE, NULL, "loss train.py 7"); /* another call site with the same line: not another place */
    launched_at(MINE, NULL, "eval train.py 30");
    gw_feed_launch(&feed, MINE, STREAM);
    expect_reported(700, "illegal-address");
    assert_true(says("launched at 3 places: train.py:7 in loss, train.py:8 in check, train.py:30 in eval"));
    assert_string_equal(place(), "train.py:99 in report");
}

/* The ring no longer contains the first launches since the synchronisation. One of these unknown launches may be at
 * fault. */
GW_TEST(test_only_kernel_of_a_cut_window)
{
    open_program();
    wait_for_all();
    launched_at(MINE, NULL, "loss train.py 7");
    for (int i = 0; i < GW_RING_ENTRIES + 10; i++)
        gw_feed_launch(&feed, MINE, STREAM);
    expect_reported(700, "illegal-address");
    assert_string_equal(place(), "train.py:99 in report");
}

GW_TEST(test_kernel_of_the_dump)
{
    open_program();
    wait_for_all();
    launched_at(MINE, NULL, "loss train.py 7");
    gw_feed_launch(&feed, MINE, STREAM);
    gw_feed_launch(&feed, OTHER, STREAM);
    gw_feed_fact(&feed, "gpucore.fault", "exception=14\nname=WARP_ILLEGAL_ADDRESS\nresult=700\nkernel=_Z4losePf\n");
    expect_reported(700, "illegal-address");
    assert_string_equal(place(), "train.py:7 in loss");
    assert_true(list_has(&verdict->next, "first launched at train.py:7 in loss"));
    assert_true(position("lose launched") < position("last launch: fine on"));
}

GW_TEST(test_kernel_of_the_assertion)
{
    gw_feed_open(&feed, 16 * gib);
    name(MINE, "_ZN2at6native12_GLOBAL__N_138nll_loss_forward_reduce_cuda_kernel_2dIfflEEvPT_S4_S4_PlS4_bbllll");
    name(OTHER, "_ZN2at6native29vectorized_elementwise_kernelILi4EEEvi");
    launched_at(MINE, "/v/site-packages/torch/lib/libtorch_cuda.so", "loss train.py 7");
    launched_at(OTHER, "/v/site-packages/torch/lib/libtorch_cuda.so", "step train.py 9");
    gw_feed_launch(&feed, MINE, STREAM);
    gw_feed_launch(&feed, OTHER, STREAM);
    gw_feed_stderr(&feed, "/pytorch/aten/src/ATen/native/cuda/Loss.cu:245: nll_loss_forward_reduce_cuda_kernel_2d: "
                          "block: [0,0,0], thread: [3,0,0] Assertion `t >= 0 && t < n_classes` failed.\n");
    expect_reported(710, "device-assert-index");
    assert_string_equal(place(), "train.py:7 in loss");
    assert_string_equal(verdict->where->what, "where the kernel that the assertion names was first launched");
}

/* The assertion does not name one kernel: it is in a lambda, which has no name, or its function's name matches two
 * kernels. */
GW_TEST(test_assertion_without_a_kernel)
{
    static const char *const functions[] = {"operator()", "void at::operator()(int)", "gather"};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        char text[256];
        gw_feed_open(&feed, 16 * gib);
        name(MINE, "_Z6gatherIfEvPT_");
        name(OTHER, "_Z6gatherIdEvPT_");
        launched_at(MINE, NULL, "loss train.py 7");
        launched_at(OTHER, NULL, "step train.py 9");
        gw_feed_launch(&feed, MINE, STREAM);
        gw_feed_launch(&feed, OTHER, STREAM);
        snprintf(text, sizeof text, "/p/Index.cu:93: %s: block: [1,0,0], thread: [3,0,0] Assertion `index` failed.\n",
                 functions[i]);
        gw_feed_stderr(&feed, text);
        expect_reported(710, "device-assert-index");
        assert_string_equal(place(), "train.py:99 in report");
    }
}

/* ---- owners of kernels ---- */

GW_TEST(test_own_before_libraries)
{
    open_program();
    wait_for_all();
    launched_at(MINE, "/tmp/triton/launcher.so", "loss train.py 7");
    gw_feed_launch(&feed, MINE, STREAM);
    for (unsigned i = 0; i < 15; i++) {
        char kernel[32];
        snprintf(kernel, sizeof kernel, "gemm_%u", i);
        name(LIBRARY + i, kernel);
        launched_at(LIBRARY + i, i % 2 == 0 ? "/usr/lib/libcublasLt.so.12" : "/v/torch/lib/libtorch_cuda.so",
                    "forward train.py 5");
        gw_feed_launch(&feed, LIBRARY + i, STREAM);
    }
    expect_reported(700, "illegal-address");
    size_t first = position("lose launched on");
    assert_int_equal(first + 1, position("last launch: gemm_14 on"));
    assert_int_equal(first + 2, position("and 14 other kernels since the last good synchronisation, in 14 launches"));
    assert_false(says("gemm_3")); /* the report has at most three lines and does not name each kernel */
}

/* The recording has no launch sites, so the newest kernel comes first. */
GW_TEST(test_nothing_known)
{
    open_program();
    wait_for_all();
    gw_feed_launch(&feed, MINE, STREAM);
    gw_feed_launch(&feed, OTHER, STREAM);
    expect_reported(700, "illegal-address");
    assert_true(position("last launch: fine") < position("lose launched"));
    assert_false(says("first launched"));
    assert_string_equal(place(), "train.py:99 in report");
}

/* The same handle belonged to another kernel until its module was unloaded. The launch site of that other kernel must
 * not count. */
GW_TEST(test_handle_used_again)
{
    open_program();
    launched_at(MINE, NULL, "old train.py 1");
    gw_feed_call(&feed, "cuModuleUnload", GW_EV_MODULE_UNLOAD, 0, 0x77, 0, 0, 0);
    name(MINE, "_Z5otherPf");
    wait_for_all();
    launched_at(MINE, NULL, "fresh train.py 7");
    gw_feed_launch(&feed, MINE, STREAM);
    expect_reported(700, "illegal-address");
    assert_string_equal(place(), "train.py:7 in fresh");
}

GW_TEST_MAIN(NULL, NULL)
