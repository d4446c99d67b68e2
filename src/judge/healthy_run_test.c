/* Tests that the verdict on a healthy run reports no fault. Also tests runs that look healthy but were not observed
 * completely. */
#include "run_testlib.h"

static void feed_healthy_run(void)
{
    open_program(16 * gib);
    run it = {0};
    run_begin(&it);
    iterate(20);
    run_end(&it);
    close_program(0);
}

static void also_healthy_run(void)
{
    assert_int_equal(verdict->advice.count, 0);
    assert_int_equal(verdict->alternative_count, 0);
}

static void feed_left_to_process_exit_is_no_leak(void)
{
    open_program(16 * gib);
    run it = {0};
    run_begin(&it);
    it.saved = gw_feed_alloc(&feed, gib);
    iterate(20);
    gw_feed_exit(&feed, 0, 0);
}

static void feed_leak_list_of_a_clean_run(void)
{
    open_program(16 * gib);
    run it = {0};
    run_begin(&it);
    for (int i = 0; i < 60; i++) {
        iterate(1);
        gw_feed_alloc(&feed, 16 * mib);
    }
    run_end(&it);
    close_program(0);
}

static void feed_pool_reuse_is_said(void)
{
    open_program(16 * gib);
    for (int i = 0; i < 30; i++) {
        gw_feed_call(&feed, "cuMemAllocAsync", GW_EV_ALLOC_ASYNC, 0, 0xa000, gib, 0, STREAM);
        gw_feed_launch(&feed, KERNEL, STREAM);
        gw_feed_call(&feed, "cuMemFreeAsync", GW_EV_FREE_ASYNC, 0, 0xa000, 0, 0, STREAM);
    }
    close_program(0);
}

static void feed_handled_failure_of_a_clean_run(void)
{
    open_program(16 * gib);
    uint64_t batch = gw_feed_alloc(&feed, gib);
    gw_feed_no_room(&feed, 20 * gib, 15 * gib, 16 * gib);
    gw_feed_free(&feed, batch);
    iterate(5);
    close_program(0);
}

static void feed_unobserved_is_never_clean(void)
{
    open_program(16 * gib);
    gw_feed_fact(&feed, "unobserved.driver", "pid 100 uses /opt/libcuda.so.1, and its calls were not recorded");
    close_program(0);
}

static void feed_program_without_cuda(void)
{
    gw_feed_open_bare(&feed);
    gw_feed_exit(&feed, 0, 0);
}

static void feed_fell_back(const char *package, const char *line, int code)
{
    gw_feed_open_bare(&feed);
    if (package != NULL)
        gw_feed_fact(&feed, "package", package);
    gw_feed_stderr(&feed, line);
    gw_feed_exit(&feed, code, 0);
}

static void feed_torch_fell_back(void)
{
    feed_fell_back(NULL, "UserWarning: CUDA initialization: Found no NVIDIA driver on your system.\n", 0);
}

static void feed_jax_fell_back(void)
{
    feed_fell_back(NULL, "WARNING: No GPU/TPU found, falling back to CPU.\n", 0);
}

static void feed_a_cuda_build_without_calls(void)
{
    feed_fell_back("torch 2.9.0+cu128", "epoch 1\n", 0);
}

static void feed_near_a_cpu_build(void)
{
    feed_fell_back("torch 2.9.0+cpu", "epoch 1\n", 0);
}

static void feed_fell_back_and_failed(void)
{
    feed_fell_back(NULL, "Using device: cpu\n", 1);
}

/* It died before it could use a GPU: a CUDA build alone shows nothing. */
static void feed_near_a_cuda_build_that_failed(void)
{
    feed_fell_back("torch 2.9.0+cu128", "epoch 1\n", 1);
}

static void feed_fell_back_after_a_query(void)
{
    gw_feed_open_bare(&feed);
    gw_feed_call(&feed, "cuInit", GW_EV_INIT, 100, 0, 0, 0, 0);
    gw_feed_stderr(&feed, "Using device: cpu\n");
    gw_feed_exit(&feed, 0, 0);
}

static void feed_near_it_used_the_card(void)
{
    open_program(16 * gib);
    gw_feed_stderr(&feed, "Using device: cpu\n");
    iterate(2);
    close_program(0);
}

static void feed_empty_recording(void)
{
    gw_feed_open_bare(&feed);
}

static void also_empty_recording(void)
{
    assert_false(verdict->exit_known);
}

static void the_peak_of_a_run(void **state)
{
    open_program(16 * gib);
    gw_feed_free(&feed, gw_feed_alloc(&feed, 3 * gib));
    gw_feed_alloc(&feed, gib);
    close_program(0);
    judge_open();
    assert_true(verdict->peak.is_known);
    assert_true(verdict->peak.bytes >= 3 * gib && verdict->peak.bytes < 4 * gib);
    assert_int_equal(verdict->peak.pid, GW_FEED_PID);
}

/* An event that is missing may have been the largest allocation. */
static void the_peak_of_a_partly_recorded_run_is_unknown(void **state)
{
    open_program(16 * gib);
    gw_feed_alloc(&feed, gib);
    lose(1, 0);
    close_program(0);
    judge_open();
    assert_false(verdict->peak.is_known);
}

/* The driver frees the memory of the old program at exec(), so the memory of both programs is never held at once. */
static void the_peak_after_exec_is_that_of_one_program(void **state)
{
    open_program(16 * gib);
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/python3");
    gw_feed_alloc(&feed, 3 * gib);
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/python3");
    gw_feed_alloc(&feed, 2 * gib);
    close_program(0);
    judge_open();
    assert_true(verdict->peak.is_known);
    assert_true(verdict->peak.bytes >= 3 * gib && verdict->peak.bytes < 4 * gib);
}

static void judge_on_virtual_card(const char *fn, uint16_t result, int code)
{
    gw_feed_open_bare(&feed);
    gw_feed_meta(&feed, "option.gpu", "virtual:h200");
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/program");
    gw_feed_begin_cuda(&feed, 16 * gib);
    gw_feed_call(&feed, fn, GW_EV_CALL, result, 0, 0, 0, 0);
    gw_feed_exit(&feed, code, 0);
    expect_status(GW_VERDICT_UNDETERMINED);
}

static void test_runtime_api_on_a_virtual_card(void **state)
{
    for (int code = 0; code < 2; code++) {
        judge_on_virtual_card("cuGetExportTable", 1, code);
        assert_true(says("runtime API"));
        assert_int_equal(verdict->ruled_out.count + verdict->alternative_count, 0);
    }
}

static void test_a_virtual_card_lacks_a_call(void **state)
{
    judge_on_virtual_card("cuTensorMapEncodeTiled", 801, 1);
    assert_true(says("cuTensorMapEncodeTiled"));
    assert_int_equal(verdict->ruled_out.count, 0);
}

static void feed_runtime_api_near_a_real_card(void)
{
    open_program(16 * gib);
    gw_feed_call(&feed, "cuGetExportTable", GW_EV_CALL, 1, 0, 0, 0, 0);
    close_program(0);
}

/* Feed calls that fail at the start and at the end of healthy programs, too. */
static void ask_harmless(void)
{
    gw_feed_call(&feed, "cuCtxGetDevice_v2", GW_EV_CALL, 201, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuMemCreate", GW_EV_VMM_CREATE, 800, 0, 2 * mib, 0, 1);
    iterate(3);
    gw_feed_call(&feed, "cuLibraryUnload", GW_EV_CALL, 4, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRelease_v2", GW_EV_CTX_RELEASE, 4, 0, 0, 0, 0);
}

static void test_harmless_failures(void **state)
{
    open_program(16 * gib);
    ask_harmless();
    gw_feed_exit(&feed, 0, 0);
    expect_status(GW_VERDICT_CLEAN);
    assert_int_equal(verdict->alternative_count, 0);
    open_program(16 * gib);
    ask_harmless();
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 1, in f\nValueError: no\n");
    gw_feed_exit(&feed, 1, 0);
    expect_fault("script-exception", GW_ESTABLISHED);
    assert_true(list_has(&verdict->ruled_out, "the GPU"));
    assert_true(list_has(&verdict->next, "Read the exception above"));
    open_program(16 * gib);
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 1, in f\n"
                          "ValueError: LossScaleOptimizer does not support arguments: `loss_scale`.\n");
    gw_feed_exit(&feed, 1, 0);
    expect_fault("script-exception", GW_ESTABLISHED);
    assert_true(list_has(&verdict->next, "initial_scale"));
    assert_false(list_has(&verdict->next, "Read the exception above"));
}

static void feed_a_childs_end_is_not_known(void)
{
    open_program(4 * gib);
    feed.pid = feed.tid = 200;
    gw_feed_begin_cuda(&feed, 4 * gib);
    gw_feed_alloc(&feed, 3 * gib);
    gw_feed_no_room(&feed, 2 * gib, gib, 4 * gib);
    feed.pid = feed.tid = GW_FEED_PID;
    gw_feed_exit(&feed, 0, 0);
}

static void also_a_childs_end_is_not_known(void)
{
    assert_string_equal(gw_certainty_text(verdict->certainty), "supported");
}

static const row rows[] = {
    NO_FAULT(healthy_run, GW_VERDICT_CLEAN, .also = also_healthy_run),
    NO_FAULT(left_to_process_exit_is_no_leak, GW_VERDICT_CLEAN, .advice = {"was not freed before"},
             .no_advice = {"leak"}),
    NO_FAULT(leak_list_of_a_clean_run, GW_VERDICT_CLEAN, .advice = {"960.00 MiB", "60 blocks"}),
    NO_FAULT(pool_reuse_is_said, GW_VERDICT_CLEAN, .advice = {"reused"}),
    NO_FAULT(handled_failure_of_a_clean_run, GW_VERDICT_CLEAN, .advice = {"handled"}),
    NO_FAULT(unobserved_is_never_clean, GW_VERDICT_UNDETERMINED, .says = {"not observed"}),
    NO_FAULT(program_without_cuda, GW_VERDICT_UNDETERMINED, .says = {"no CUDA driver call was observed"}),
    NO_FAULT(torch_fell_back, GW_VERDICT_UNDETERMINED, .says = {"computed on the CPU", "Found no NVIDIA"}),
    NO_FAULT(jax_fell_back, GW_VERDICT_UNDETERMINED, .says = {"computed on the CPU", "No GPU/TPU found"}),
    NO_FAULT(a_cuda_build_without_calls, GW_VERDICT_UNDETERMINED, .says = {"computed on the CPU"},
             .advice = {"is built for CUDA"}),
    NO_FAULT(near_a_cpu_build, GW_VERDICT_UNDETERMINED, .no_advice = {"on the CPU"}),
    NO_FAULT(fell_back_and_failed, GW_VERDICT_UNDETERMINED, .advice = {"computed on the CPU"}),
    NO_FAULT(near_a_cuda_build_that_failed, GW_VERDICT_UNDETERMINED, .no_advice = {"on the CPU"}),
    NO_FAULT(fell_back_after_a_query, GW_VERDICT_CLEAN, .says = {"computed on the CPU"}),
    NO_FAULT(near_it_used_the_card, GW_VERDICT_CLEAN, .no_advice = {"on the CPU"}),
    NO_FAULT(empty_recording, GW_VERDICT_UNDETERMINED, .also = also_empty_recording),
    NO_FAULT(runtime_api_near_a_real_card, GW_VERDICT_CLEAN),
    NO_FAULT(a_childs_end_is_not_known, GW_VERDICT_CLEAN, .says = {"not handled"},
             .also = also_a_childs_end_is_not_known),
    TEST(test_runtime_api_on_a_virtual_card),
    TEST(test_a_virtual_card_lacks_a_call),
    TEST(test_harmless_failures),
    TEST(the_peak_of_a_run),
    TEST(the_peak_of_a_partly_recorded_run_is_unknown),
    TEST(the_peak_after_exec_is_that_of_one_program),
};

ROWS_MAIN(rows)
