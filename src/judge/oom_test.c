/* Tests refused requests for memory: one request or one phase that is too large, and the consequences of a refusal. */
#include "run_testlib.h"

static void feed_capacity(void)
{
    open_program(16 * gib);
    run it = {0};
    run_begin(&it);
    for (int i = 0; i < 5; i++)
        gw_feed_alloc(&feed, (2 + (uint64_t)i % 2) * gib + (uint64_t)i * mib);
    gw_feed_no_room(&feed, 5 * gib, 3 * gib, 16 * gib);
    close_program(1);
}

static void name_phase(const char *name)
{
    gw_feed_text_call(&feed, "", GW_EV_PHASE, 0, 0, 0, 0, name);
    gw_feed_wait(&feed, 1000000);
}

static void test_capacity_in_a_phase(void **state)
{
    for (int named = 0; named < 2; named++) {
        open_program(16 * gib);
        name_phase("load");
        for (int i = 0; i < 5; i++)
            gw_feed_alloc(&feed, 3 * gib - (uint64_t)i * mib);
        name_phase(named ? "validation" : "");
        gw_feed_no_room(&feed, 5 * gib, gib, 16 * gib);
        gw_feed_exit(&feed, 1, 0);
        expect_fault("gpu-oom-capacity", GW_ESTABLISHED);
        assert_int_equal(says("this happened in phase validation"), named);
        assert_false(says("this happened in phase load"));
    }
}

static void feed_capacity_near_the_failure_was_handled(void)
{
    open_program(16 * gib);
    uint64_t batch = gw_feed_alloc(&feed, 12 * gib);
    gw_feed_no_room(&feed, 5 * gib, 3 * gib, 16 * gib);
    gw_feed_free(&feed, batch);
    iterate(8);
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\nValueError: labels\n");
    close_program(1);
}

static void feed_one_block_holds_most(void)
{
    open_program(2 * gib);
    gw_feed_alloc(&feed, 1200 * mib);
    run it = {0};
    run_begin(&it);
    gw_feed_alloc(&feed, 300 * mib);
    gw_feed_no_room(&feed, 400 * mib, 20 * mib, 2 * gib);
    close_program(1);
}

static void feed_unchecked_allocation(void)
{
    open_program(8 * gib);
    gw_feed_alloc(&feed, 5 * gib);
    gw_feed_no_room(&feed, 4 * gib, 2 * gib, 8 * gib);
    for (int i = 0; i < 4; i++) { /* smaller blocks still fit */
        uint64_t workspace = gw_feed_alloc(&feed, 16 * mib);
        gw_feed_launch(&feed, KERNEL, STREAM);
        gw_feed_free(&feed, workspace);
    }
    gw_feed_call(&feed, "cuStreamSynchronize", GW_EV_SYNC, 700, STREAM, 0, 0, 0);
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 700, 0, mib, 0, 0);
    close_program(1);
}

static void feed_unchecked_near_handled_then_an_unrelated_fault(void)
{
    open_program(8 * gib);
    uint64_t batch = gw_feed_alloc(&feed, 5 * gib);
    gw_feed_no_room(&feed, 4 * gib, 2 * gib, 8 * gib);
    gw_feed_free(&feed, batch);
    iterate(10);
    gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_call(&feed, "cuStreamSynchronize", GW_EV_SYNC, 700, STREAM, 0, 0, 0);
    close_program(1);
}

static void feed_jax_says_it_itself(void)
{
    open_program(16 * gib);
    gw_feed_map(&feed, "/venv/jaxlib/libjax_common.so");
    gw_feed_alloc(&feed, 12 * gib);
    iterate(4);
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 9, in step\n"
                          "jaxlib._jax.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
                          "2147483648 bytes.\n");
    close_program(1);
}

/* Feed an out-of-memory error of XLA. XLA prints a whole instruction before its message. The exception that follows
 * gives the size only in its second line. */
static void judge_jax_exception(const char *second_line)
{
    char long_line[700];
    open_program(4 * gib);
    gw_feed_map(&feed, "/venv/jaxlib/libjax_common.so");
    gw_feed_alloc(&feed, gib);
    iterate(4);
    snprintf(long_line, sizeof long_line, "Could not get config for HLO: %0500d. Status: RESOURCE_EXHAUSTED: %s", 0,
             second_line);
    gw_feed_stderr(&feed, long_line);
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 9, in step\n"
                          "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Failed to get configs for: 5 out of 28 "
                          "instructions. See logs for all failures. Example failure: \n");
    gw_feed_stderr(&feed, second_line);
    close_program(1);
}

static void feed_jax_size_in_the_second_line(void)
{
    judge_jax_exception("Out of memory while trying to allocate 4.02GiB with allocator GPU_0_bfc on device 0.\n");
}

static void feed_jax_near_no_size(void)
{
    judge_jax_exception("\n");
}

static void feed_torch_without_its_observer(void)
{
    open_torch(16 * gib);
    gw_feed_alloc(&feed, 12 * gib);
    gw_feed_no_room(&feed, 5 * gib, 3 * gib, 16 * gib);
    torch_oom_message();
    close_program(1);
}

static void feed_the_same_request_again(void)
{
    open_program(16 * gib);
    for (int i = 0; i < 5; i++)
        gw_feed_alloc(&feed, 3 * gib - (uint64_t)i * mib);
    gw_feed_no_room(&feed, 4 * gib, gib, 16 * gib);
    for (int i = 0; i < 100; i++)
        gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_sync(&feed);
    gw_feed_wait(&feed, 3000000000);
    gw_feed_no_room(&feed, 4 * gib, gib, 16 * gib);
    close_program(1);
}

static void observe_peaks(uint64_t flat, uint64_t last)
{
    for (uint64_t i = 0; i < 40; i++)
        gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_HISTORY, 0, GW_ACTION_LIVE_PEAK, 0,
                     i < 36 ? flat : flat + (last - flat) * (i - 35) / 4, (40 - i) * 1000);
}

static void feed_peak_phase(void)
{
    open_torch(4 * gib);
    gw_feed_wait(&feed, 1000000000);
    gw_feed_alloc(&feed, 3900 * mib);
    observe_oom(200 * mib, 3890 * mib, 3900 * mib, 4 * mib);
    observe_peaks(gib, 3890 * mib);
    torch_oom_message();
    close_program(1);
}

static void feed_peak_phase_near_always_high(void)
{
    open_torch(4 * gib);
    gw_feed_wait(&feed, 1000000000);
    gw_feed_alloc(&feed, 3900 * mib);
    observe_oom(200 * mib, 3890 * mib, 3900 * mib, 4 * mib);
    observe_peaks(3800 * mib, 3890 * mib);
    torch_oom_message();
    close_program(1);
}

/* A single request is too large for a nearly empty card. This is not a peak phase, even if memory use was level
 * before. */
static void feed_peak_phase_near_one_large_request(void)
{
    open_torch(4 * gib);
    gw_feed_wait(&feed, 1000000000);
    gw_feed_alloc(&feed, 300 * mib);
    observe_oom(3900 * mib, 290 * mib, 300 * mib, 4 * mib);
    observe_peaks(120 * mib, 290 * mib);
    torch_oom_message();
    close_program(1);
}

/* One step has a much larger batch. It fills the card with a few requests as large as the refused one. */
static void feed_peak_phase_near_one_larger_step(void)
{
    open_torch(4 * gib);
    gw_feed_wait(&feed, 1000000000);
    gw_feed_alloc(&feed, 2600 * mib);
    observe_oom(2450 * mib, 2570 * mib, 2600 * mib, 4 * mib);
    observe_peaks(110 * mib, 2570 * mib);
    torch_oom_message();
    close_program(1);
}

static void feed_address_space_limit(void)
{
    gw_feed_open_bare(&feed);
    gw_feed_meta(&feed, "rlimit.as", "4294967296");
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/program");
    gw_feed_call(&feed, "cuInit", GW_EV_INIT, 2, 0, 0, 0, 0);
    feed.is_silent = true;
    gw_feed_exit(&feed, 1, 0);
}

static void test_address_space_limit_at_the_first_context(void **state)
{
    for (int limited = 0; limited < 2; limited++) {
        gw_feed_open_bare(&feed);
        gw_feed_meta(&feed, "rlimit.as", limited ? "4294967296" : "unlimited");
        gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/program");
        gw_feed_call(&feed, "cuInit", GW_EV_INIT, 0, 0, 0, 0, 0);
        gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 2, 0, 0, 0, GW_CONTEXT_PRIMARY);
        feed.is_silent = true;
        gw_feed_exit(&feed, 1, 0);
        expect_status(GW_VERDICT_UNDETERMINED);
        assert_int_equal(says("address-space limit of 4.00 GiB"), limited);
        assert_int_equal(has_alternative("gpu-oom-capacity"), !limited);
    }
}

static void feed_a_live_run_with_a_failure(void)
{
    open_program(16 * gib);
    for (int i = 0; i < 5; i++)
        gw_feed_alloc(&feed, 3 * gib - (uint64_t)i * mib);
    gw_feed_no_room(&feed, 5 * gib, gib, 16 * gib);
    gw_feed_drain(&feed);
}

static void also_a_live_run_with_a_failure(void)
{
    assert_false(verdict->exit_known);
}

static void feed_the_guards_refusal(void)
{
    open_program(140 * gib);
    for (int i = 0; i < 5; i++)
        gw_feed_alloc(&feed, 3 * gib - (uint64_t)i * mib);
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_GUARD_REFUSED, 0, 5 * gib, 16 * gib, 15 * gib, 0);
    gw_event event = {.t_ns = feed.t_ns,
                      .pid = feed.pid,
                      .tid = feed.tid,
                      .kind = GW_EV_ALLOC,
                      .flags = GW_EVF_GUARD,
                      .result = 2,
                      .context = feed.context,
                      .arg = {0, 5 * gib, 0, 0}};
    gw_feed_event(&feed, &event);
    /* another process on the same card, which the guard's limit does not count */
    gw_feed_fact(&feed, "card.holder", "pid=4711 bytes=13958643712 cmd=python notebook.py");
    close_program(1);
}

static void also_the_guards_refusal(void)
{
    assert_int_equal(verdict->gpus[0].bytes_limit, 16 * gib);
}

static const char xla_message[] = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6.00GiB.\n";

static void judge_told(const char *between, const char *exception)
{
    open_program(4 * gib);
    gw_feed_map(&feed, "/venv/jaxlib/libjax_common.so");
    iterate(4);
    gw_feed_stderr(&feed, xla_message);
    gw_feed_stderr(&feed, between);
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 9, in <module>\n");
    gw_feed_stderr(&feed, exception);
    close_program(1);
}

static void feed_told_and_unwritten(void)
{
    judge_told("", "TypeError: unsupported operand type(s) for *: 'NoneType' and 'int'\n");
}

static void feed_told_near_an_unrelated_exception(void)
{
    judge_told("", "ValueError: no entry for epoch 3\n");
}

static void feed_told_near_work_went_on(void)
{
    judge_told("epoch 1\nepoch 2\nepoch 3\n", "TypeError: 'NoneType' object is not iterable\n");
}

static void judge_no_context(const char *data_limit, const char *gpu)
{
    gw_feed_open_bare(&feed);
    gw_feed_meta(&feed, "rlimit.as", "unlimited");
    gw_feed_meta(&feed, "rlimit.data", data_limit);
    gw_feed_meta(&feed, "option.gpu", gpu);
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/program");
    gw_feed_call(&feed, "cuInit", GW_EV_INIT, 0, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 2, 0, 0, 0, GW_CONTEXT_PRIMARY);
    gw_feed_exit(&feed, 1, 0);
}

static void feed_no_context_fits(void)
{
    judge_no_context("unlimited", "real");
}

static void test_no_context_near_a_host_limit(void **state)
{
    judge_no_context("1000000", "real");
    expect_open("gpu-oom-other-process");
    judge_no_context("unlimited", "virtual:h200");
    expect_status(GW_VERDICT_UNDETERMINED);
}

static void feed_no_context_near_memory_is_free(void)
{
    gw_feed_open_bare(&feed);
    gw_feed_meta(&feed, "rlimit.as", "unlimited");
    gw_feed_meta(&feed, "rlimit.data", "unlimited");
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/program");
    gw_feed_call(&feed, "cuInit", GW_EV_INIT, 0, 0, 0, 0, 0);
    gw_feed_text_call(&feed, "cuInit", GW_EV_DEVICE, 0, 16 * gib, 15 * gib, 0, "Test card");
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 2, 0, 0, 0, GW_CONTEXT_PRIMARY);
    gw_feed_exit(&feed, 1, 0);
}

static const row rows[] = {
    /* a leak is not ruled out, because there were no balanced iterations */
    FAULT(capacity, "gpu-oom-capacity", GW_ESTABLISHED, .value = {{(double)(5 * gib), "bytes"}},
          .not_ruled_out = {"a leak"}),
    FAULT(capacity_near_the_failure_was_handled, "script-exception", GW_ESTABLISHED,
          .no_alternative = {"gpu-oom-capacity"}),
    FAULT(one_block_holds_most, "gpu-oom-capacity", GW_ESTABLISHED, .value = {{(double)(1200 * mib), "bytes"}},
          .says = {"copy one batch at a time"}),
    FAULT(unchecked_allocation, "gpu-oom-capacity", GW_ESTABLISHED, .says = {"cuMemAlloc", "NULL"},
          .no_alternative = {"illegal-address"}, .then = {"700"}),
    FAULT(unchecked_near_handled_then_an_unrelated_fault, "illegal-address", GW_ESTABLISHED,
          .no_alternative = {"gpu-oom-capacity"}),
    FAULT(jax_says_it_itself, "gpu-oom-capacity", GW_SUPPORTED, .value = {{(double)(2 * gib), "bytes"}}),
    FAULT(jax_size_in_the_second_line, "gpu-oom-capacity", GW_ESTABLISHED, .says = {"4.02 GiB is larger"}),
    /* unknown how much of its segments PyTorch uses, because the driver sees only whole segments */
    NO_FAULT(torch_without_its_observer, GW_VERDICT_UNDETERMINED, .alternative = {"gpu-oom-capacity"}),
    FAULT(the_same_request_again, "gpu-oom-capacity", GW_ESTABLISHED, .says = {"refused 2 times, first at 0.00 s"}),
    FAULT(peak_phase, "gpu-oom-peak-phase", GW_SUPPORTED, .says = {"no_grad"}),
    FAULT(peak_phase_near_always_high, "gpu-oom-capacity", GW_SUPPORTED),
    FAULT(peak_phase_near_one_large_request, "gpu-oom-capacity", GW_SUPPORTED),
    FAULT(peak_phase_near_one_larger_step, "gpu-oom-capacity", GW_SUPPORTED),
    NO_FAULT(address_space_limit, GW_VERDICT_UNDETERMINED, .says = {"address-space limit of 4.00 GiB"},
             .no_alternative = {"gpu-oom-capacity"}),
    FAULT(a_live_run_with_a_failure, "gpu-oom-capacity", GW_ESTABLISHED, .also = also_a_live_run_with_a_failure),
    FAULT(the_guards_refusal, "gpu-oom-capacity", GW_ESTABLISHED, .says = {"limit set by gpuwhy", "16.00 GiB"},
          .silent = {"4711"}, .also = also_the_guards_refusal),
    FAULT(told_and_unwritten, "gpu-oom-capacity", GW_SUPPORTED, .says = {"never been written"},
          .alternative = {"script-exception"}),
    FAULT(told_near_an_unrelated_exception, "gpu-oom-capacity", GW_HYPOTHESIS, .alternative = {"script-exception"},
          .not_ruled_out = {"the GPU"}),
    FAULT(told_near_work_went_on, "gpu-oom-capacity", GW_HYPOTHESIS, .alternative = {"script-exception"}),
    FAULT(no_context_fits, "gpu-oom-other-process", GW_SUPPORTED),
    NO_FAULT(jax_near_no_size, GW_VERDICT_UNDETERMINED, .not_ruled_out = {"the GPU", "a shortage of GPU memory"}),
    NO_FAULT(no_context_near_memory_is_free, GW_VERDICT_UNDETERMINED, .no_alternative = {"gpu-oom-other-process"}),
    TEST(test_capacity_in_a_phase),
    TEST(test_address_space_limit_at_the_first_context),
    TEST(test_no_context_near_a_host_limit),
};

ROWS_MAIN(rows)
