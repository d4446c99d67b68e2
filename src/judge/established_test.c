/* Tests programs that show nearly all the evidence for a cause but ended for another reason. The verdict must not
 * establish the cause. A counterpart shows all the evidence, and there the cause must be established. */
#include "gw_unit_test.h"
#include "verdict_testlib.h"

#define TRACE "Traceback (most recent call last):\n  File \"train.py\", line 9, in step\n"

/* Expect that the verdict does not establish this cause. Other tests check the rest of the verdict. */
static void expect_unproven(const char *cause)
{
    judge_open();
    if (verdict->cause != NULL && strcmp(verdict->cause, cause) == 0)
        assert_int_not_equal(verdict->certainty, GW_ESTABLISHED);
}

/* Expect that the cause is only supported, because the earlier trouble is still an alternative. */
static void expect_beside(const char *cause)
{
    expect_cause(cause, GW_SUPPORTED);
    assert_true(verdict->alternative_count > 0);
}

static void open_run(void)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_alloc(&feed, gib);
    gw_feed_launch(&feed, 0xf1, 0x51);
    gw_feed_sync(&feed);
}

/* ---- failures at the start that a program may survive ---- */

static void start_without_a_card(void)
{
    gw_feed_open_bare(&feed);
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/prog");
    gw_feed_call(&feed, "cuInit", GW_EV_INIT, 100, 0, 0, 0, 0);
}

/* The program starts without a GPU. The cause is established only if the last output is about this failure. */
GW_TEST(no_card_and_another_end)
{
    start_without_a_card(); /* silent: the program may have gone on without a GPU */
    expect_failure("no-device-visible", GW_SUPPORTED);
    start_without_a_card();
    expect_failure_told("prog: cuInit: CUDA_ERROR_NO_DEVICE\n", "no-device-visible", GW_ESTABLISHED);
    start_without_a_card();
    expect_failure_told("prog: no CUDA device, using the processor\nprog: cannot open input.bin\n", "no-device-visible",
                        GW_SUPPORTED);
    start_without_a_card();
    gw_feed_wait(&feed, 600 * second_ns);
    expect_failure("no-device-visible", GW_SUPPORTED);
    start_without_a_card(); /* stderr was not recorded */
    gw_feed_fact(&feed, "stderr.not_recorded", "disabled with --no-stderr");
    expect_failure("no-device-visible", GW_SUPPORTED);
    start_without_a_card(); /* still running */
    expect_unproven("no-device-visible");
    start_without_a_card(); /* the last lines on stderr are from gpuwhy itself and do not count */
    expect_failure_told("prog: cuInit: CUDA_ERROR_NO_DEVICE\ngpuwhy: recording to a file\n\n", "no-device-visible",
                        GW_ESTABLISHED);
}

/* A program may continue without the failed feature, and soon end for a reason that it does not print. So the last
 * output must be about the failure. */
GW_TEST(went_on_and_ended_in_silence)
{
    static const struct {
        const char *words;
        int code;
        gw_certainty certainty;
    } rows[] = {
        {"", 1, GW_SUPPORTED},
        {"prog: cuInit failed: CUDA_ERROR_NO_DEVICE, falling back to the CPU\n", 1, GW_SUPPORTED},
        {"prog: no CUDA device: using the CPU instead\n", 1, GW_SUPPORTED},
        {"Training on GPU 0\n", 1, GW_SUPPORTED}, /* not about the failure, although it names the GPU */
        {"loaded 100 images\n", 1, GW_SUPPORTED},
        {"2026-01-02 10:11:12.123456: E cuda_platform.cc:51] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no "
         "CUDA-capable device is detected\n",
         1, GW_SUPPORTED},
        {"E0000 00:00:1700000000.1 12 cuda_platform.cc:51] failed call to cuInit: CUDA_ERROR_NO_DEVICE\n", 1,
         GW_SUPPORTED},
        {"ERROR:train:cuInit failed: CUDA_ERROR_NO_DEVICE\n", 1, GW_SUPPORTED},
        {"UserWarning: CUDA initialization: cuInit failed\n", 1, GW_SUPPORTED},
        {TRACE "RuntimeError: No CUDA GPUs are available\nfalling back to CPU\n", 1, GW_SUPPORTED},
        {TRACE "RuntimeError: No CUDA GPUs are available\n", 3, GW_SUPPORTED}, /* os._exit(3) ended the program */
        /* counterparts: the program itself prints that this failure ended it */
        {"prog: cuInit failed: CUDA_ERROR_NO_DEVICE\n", 1, GW_ESTABLISHED},
        {"prog: cuInit returned 100\n", 2, GW_ESTABLISHED},
        {"CUDA error: no CUDA-capable device is detected\n", 1, GW_ESTABLISHED},
        {"loading data\nprog: cuInit failed\n", 255, GW_ESTABLISHED},
        {"no fallback kernel: using the CPU\n" TRACE "RuntimeError: No CUDA GPUs are available\n", 1, GW_ESTABLISHED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        start_without_a_card();
        gw_feed_wait(&feed, 2 * second_ns);
        if (rows[i].words[0] != '\0')
            gw_feed_stderr(&feed, rows[i].words);
        gw_feed_exit(&feed, rows[i].code, 0);
        judge_open();
        if (verdict->cause == NULL || strcmp(verdict->cause, "no-device-visible") != 0 ||
            verdict->certainty != rows[i].certainty)
            fail_msg("%s: %s (%s)", rows[i].words, verdict->cause, gw_certainty_text(verdict->certainty));
    }
}

/* Python prints the same traceback whether or not the program caught the exception. Only the interpreter's own report,
 * which gpuwhy records, distinguishes the two. */
GW_TEST(a_traceback_that_was_printed)
{
    static const char *const raised[] = {"Traceback (most recent call last):", "  File \"train.py\", line 9, in step",
                                         "RuntimeError: No CUDA GPUs are available"};
    for (int uncaught = 0; uncaught < 2; uncaught++) {
        gw_feed_open_bare(&feed);
        gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/python3.12");
        gw_feed_call(&feed, "cuInit", GW_EV_INIT, 100, 0, 0, 0, 0);
        gw_feed_stderr(&feed, TRACE "RuntimeError: No CUDA GPUs are available\n");
        for (size_t i = 0; uncaught && i < sizeof raised / sizeof raised[0]; i++)
            gw_feed_text_call(&feed, "", GW_EV_PYTHON_RAISED, 0, 0, 0, 0, raised[i]);
        gw_feed_wait(&feed, second_ns);
        expect_failure("no-device-visible", uncaught ? GW_ESTABLISHED : GW_SUPPORTED);
    }
}

/* The program was killed by a signal, directly or with the exit status that a shell reports for a signal. */
GW_TEST(went_on_and_was_killed)
{
    for (int direct = 0; direct < 2; direct++) {
        start_without_a_card();
        gw_feed_stderr(&feed, "prog: cuInit failed: CUDA_ERROR_NO_DEVICE\n");
        gw_feed_wait(&feed, 2 * second_ns);
        gw_feed_exit(&feed, direct ? -1 : 128 + 15, direct ? 15 : 0);
        expect_unproven("no-device-visible");
    }
}

static void library(const char *line)
{
    gw_feed_fact(&feed, "library", line);
}

static void refused_by_the_runtime_of(const char *exe)
{
    gw_feed_open_bare(&feed);
    gw_feed_process(&feed, GW_FEED_PID, 1, exe);
    gw_feed_begin_cuda(&feed, 16 * gib);
    gw_feed_call(&feed, "cuInit", GW_EV_DRIVER, 0, 12020, 700, 0, 0);
    library("kind=cudart part= place=wheel version=13.0.96 from=3 major_only=0 "
            "path=/v/site-packages/nvidia/cu13/lib/libcudart.so.13");
    gw_feed_stderr(&feed, "CUDA error: CUDA driver version is insufficient for CUDA runtime version\n");
}

static void refused_by_the_runtime(void)
{
    refused_by_the_runtime_of("/usr/bin/prog");
}

GW_TEST(an_old_driver_that_was_outlived)
{
    refused_by_the_runtime();
    gw_feed_stderr(&feed, TRACE "KeyError: 'loss'\n");
    gw_feed_exit(&feed, 1, 0);
    expect_beside("script-exception");
    refused_by_the_runtime(); /* the last output is about something else */
    expect_failure_told("prog: cannot open input.bin\n", "driver-too-old", GW_SUPPORTED);
    refused_by_the_runtime();
    expect_failure("driver-too-old", GW_ESTABLISHED);
    refused_by_the_runtime();
    gw_feed_wait(&feed, 600 * second_ns);
    expect_failure("driver-too-old", GW_SUPPORTED);
}

/* An exception about the driver is no proof if the program caught it and ended for another reason. */
GW_TEST(an_old_driver_in_an_exception)
{
#define TOO_OLD "RuntimeError: The NVIDIA driver on your system is too old (found version 12020)."
    static const char *const raised[] = {"Traceback (most recent call last):", "  File \"train.py\", line 9, in step",
                                         TOO_OLD};
    static const struct {
        const char *exe, *words;
        bool uncaught;
        int code;
        gw_certainty certainty;
    } rows[] = {
        {"/usr/bin/python3.12", TRACE TOO_OLD "\n", false, 1, GW_SUPPORTED},
        {"/usr/bin/python3.12", TRACE TOO_OLD "\n", true, 1, GW_ESTABLISHED},
        {"/usr/bin/prog", TRACE TOO_OLD "\n", false, 3, GW_SUPPORTED}, /* os._exit(3) ended the program */
        {"/usr/bin/prog", TRACE TOO_OLD "\nfalling back to CPU\n", false, 1, GW_SUPPORTED},
        {"/usr/bin/prog", TRACE TOO_OLD "\n", false, 1, GW_ESTABLISHED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        refused_by_the_runtime_of(rows[i].exe);
        gw_feed_stderr(&feed, rows[i].words);
        for (size_t k = 0; rows[i].uncaught && k < sizeof raised / sizeof raised[0]; k++)
            gw_feed_text_call(&feed, "", GW_EV_PYTHON_RAISED, 0, 0, 0, 0, raised[k]);
        gw_feed_wait(&feed, second_ns);
        gw_feed_exit(&feed, rows[i].code, 0);
        expect_cause("driver-too-old", rows[i].certainty);
    }
#undef TOO_OLD
}

static void with_two_cudnn_until(const char *words, uint64_t wait_ns, int code)
{
    open_run();
    library("kind=cudnn version=9.1.0.70 from=3 major_only=0 "
            "path=/v/site-packages/nvidia/cudnn/lib/libcudnn.so.9");
    library("kind=cudnn version=9.3.0 from=1 major_only=0 path=/usr/lib/libcudnn_ops.so.9.3.0");
    gw_feed_stderr(&feed, words);
    gw_feed_wait(&feed, wait_ns);
    gw_feed_exit(&feed, code, 0);
}

static void with_two_cudnn(const char *words)
{
    with_two_cudnn_until(words, 0, 1);
}

GW_TEST(two_cudnn_and_another_end)
{
    with_two_cudnn("warning: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH, doing without\n" TRACE "KeyError: 'loss'\n");
    expect_beside("script-exception");
    with_two_cudnn(TRACE "RuntimeError: NCCL error: peer VERSION_MISMATCH\n");
    expect_unproven("cudnn-mixed-libraries");
    with_two_cudnn(TRACE "RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED\n");
    expect_cause("cudnn-mixed-libraries", GW_SUPPORTED); /* a missing file causes the same message */
}

/* The status proves nothing if the program caught the exception, or went on for long after the message. */
GW_TEST(two_cudnn_that_were_outlived)
{
#define MISMATCH "cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH"
    with_two_cudnn(TRACE "RuntimeError: " MISMATCH "\n");
    expect_cause("cudnn-mixed-libraries", GW_ESTABLISHED);
    with_two_cudnn(TRACE "RuntimeError: " MISMATCH "\nfalling back to the CPU\n");
    expect_cause("cudnn-mixed-libraries", GW_SUPPORTED);
    with_two_cudnn_until(TRACE "RuntimeError: " MISMATCH "\n", 0, 3); /* os._exit(3) ended the program */
    expect_cause("cudnn-mixed-libraries", GW_SUPPORTED);
    with_two_cudnn_until(MISMATCH "\n", second_ns, 1);
    expect_cause("cudnn-mixed-libraries", GW_ESTABLISHED);
    with_two_cudnn_until(MISMATCH "\n", 3600 * second_ns, 1);
    expect_cause("cudnn-mixed-libraries", GW_SUPPORTED);
#undef MISMATCH
}

/* ---- failed calls that a program may survive ---- */

/* PyTorch refuses to use CUDA in the forked child. The parent ends immediately for this reason, or an hour later for
 * another one. */
GW_TEST(a_forked_child_that_was_told)
{
    for (int hours = 0; hours < 2; hours++) {
        gw_feed_open_bare(&feed);
        gw_feed_begin_cuda(&feed, 16 * gib);
        gw_feed_stderr(&feed, "Process Process-1:\n" TRACE
                              "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
                              "multiprocessing, you must use the 'spawn' start method\n");
        gw_feed_wait(&feed, (uint64_t)hours * 3600 * second_ns);
        expect_failure("fork-after-init", hours == 0 ? GW_ESTABLISHED : GW_SUPPORTED);
    }
}

/* The first image was not built for this card, but the second one loads. So the failure of the first one did not end
 * the program. */
GW_TEST(a_second_image_that_loads)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_call(&feed, "cuModuleLoadData", GW_EV_MODULE_LOAD, 209, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuModuleLoadData", GW_EV_MODULE_LOAD, 0, 0x77, 0, 0, 0);
    gw_feed_launch(&feed, 0xf1, 0x51);
    gw_feed_sync(&feed);
    gw_feed_exit(&feed, 1, 0);
    expect_unproven("arch-not-in-binary");
}

/* Start a program whose forked worker calls the driver, is refused, and exits with status `end_of_child`. */
static void forked_worker_asks(int end_of_child)
{
    gw_feed_open_bare(&feed);
    gw_feed_begin_cuda(&feed, 16 * gib);
    feed.pid = feed.tid = 300;
    feed.context = 0;
    gw_feed_process(&feed, 300, GW_FEED_PID, "/usr/bin/program");
    gw_feed_call(&feed, "?", GW_EV_FORK, 0, GW_FEED_PID, 1, 0, 0);
    gw_feed_call(&feed, "cuInit", GW_EV_INIT, 3, 0, 0, 0, 0);
    gw_feed_exit_of(&feed, 300, end_of_child, 0);
    feed.pid = feed.tid = GW_FEED_PID;
}

GW_TEST(a_forked_child_that_coped)
{
    forked_worker_asks(0);
    gw_feed_wait(&feed, 600 * second_ns);
    gw_feed_stderr(&feed, TRACE "KeyError: 'loss'\n");
    gw_feed_exit(&feed, 1, 0);
    expect_beside("script-exception");
    forked_worker_asks(0);
    gw_feed_wait(&feed, 600 * second_ns);
    gw_feed_exit(&feed, 1, 0);
    expect_unproven("fork-after-init");
    forked_worker_asks(0); /* a pool raises the worker's exception in the parent */
    expect_failure_told(TRACE "RuntimeError: CUDA error: initialization error\n", "fork-after-init", GW_ESTABLISHED);
}

/* A destructor frees memory that a reset had already freed. With `told`, the exception of a failed test is the cause of
 * the end. */
GW_TEST(a_free_after_the_reset_at_the_end)
{
    for (int told = 0; told < 2; told++) {
        gw_feed_open(&feed, 16 * gib);
        uint64_t block = gw_feed_alloc(&feed, gib);
        gw_feed_launch(&feed, 0xf1, 0x51);
        gw_feed_sync(&feed);
        gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 0, 0, 0, 0, 0);
        gw_feed_call(&feed, "cuMemFree_v2", GW_EV_FREE, 1, block, 0, 0, 0);
        if (told)
            gw_feed_stderr(&feed, TRACE "AssertionError: 3 is not 4\n");
        gw_feed_exit(&feed, 1, 0);
        if (told)
            expect_cause("script-exception", GW_SUPPORTED);
        else
            expect_cause("context-destroyed", GW_SUPPORTED);
    }
}

/* Feed a launch that requests too much shared memory, as autotuning does when it tries kernels. */
static void launch_too_large(void)
{
    open_run();
    gw_feed_call(&feed, "?", GW_EV_DEVICE_ATTRIBUTE, 0, 0, 1, 1024, 0);
    gw_feed_call(&feed, "?", GW_EV_DEVICE_ATTRIBUTE, 0, 0, 8, 49152, 0);
    gw_feed_extra_call(&feed, "cuLaunchKernel", GW_EV_LAUNCH, 1, 400000, 0xf2, 1 | 1ull << 32 | 1ull << 48,
                       32 | 1ull << 21 | 1ull << 42, 0x51);
}

GW_TEST(a_refused_launch_and_another_end)
{
    launch_too_large();
    for (int i = 0; i < 100; i++) {
        gw_feed_launch(&feed, 0xf1, 0x51);
        gw_feed_sync(&feed);
    }
    expect_failure_told(TRACE "KeyError: 'loss'\n", "script-exception", GW_SUPPORTED);
    launch_too_large();
    gw_feed_wait(&feed, 600 * second_ns);
    expect_failure("launch-config-invalid", GW_SUPPORTED);
}

GW_TEST(no_page_locked_memory_and_another_end)
{
    open_run();
    gw_feed_call(&feed, "cuMemHostRegister_v2", GW_EV_HOST_REGISTER, 712, 0x1000, gib, 0, 0);
    expect_failure_told(TRACE "KeyError: 'loss'\n", "script-exception", GW_SUPPORTED);
    open_run();
    gw_feed_call(&feed, "cuMemHostAlloc", GW_EV_HOST_ALLOC, 2, 0, gib, 0, 0);
    gw_feed_wait(&feed, 600 * second_ns);
    expect_failure("pinned-memory-failure", GW_SUPPORTED);
}

/* ---- memory ---- */

/* One process fills the card by itself. Two helpers that use a little of its memory must not be the cause. */
GW_TEST(small_helpers_on_the_card)
{
    gw_feed_open_bare(&feed);
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/launcher");
    for (uint32_t worker = 0; worker < 3; worker++) {
        feed.pid = feed.tid = 200 + worker;
        gw_feed_begin_cuda(&feed, 16 * gib);
        gw_feed_text_call(&feed, "cuInit", GW_EV_DEVICE, 1, 16 * gib, 16 * gib, 0, "Test card");
        if (worker < 2)
            gw_feed_alloc(&feed, 300 * mib);
    }
    for (uint64_t i = 0; i < 14; i++)
        gw_feed_alloc(&feed, gib + i * mib);
    gw_feed_no_room(&feed, 64 * mib, 16 * mib, 16 * gib);
    gw_feed_exit_of(&feed, 202, 1, 0);
    gw_feed_exit(&feed, 1, 0);
    expect_unproven("gpu-context-pileup");
}

/* Another process holds less than a tenth of the card, but its memory would have sufficed. So the card's capacity is
 * not established. */
GW_TEST(a_small_neighbour_that_mattered)
{
    gw_feed_open(&feed, 16 * gib);
    for (uint64_t i = 0; i < 14; i++)
        gw_feed_alloc(&feed, gib + i * mib);
    gw_feed_no_room(&feed, gib, 256 * mib, 16 * gib);
    gw_feed_fact(&feed, "card.holder", "pid=4711 bytes=1288490188 cmd=python other.py");
    expect_failure("gpu-oom-capacity", GW_SUPPORTED);
}

/* Two blocks of 690 KiB leave a third of each 2 MiB page unused, without any free. This must not establish
 * fragmentation. */
GW_TEST(pages_wasted_by_rounding)
{
    gw_feed_open(&feed, 8 * gib);
    const uint64_t first = 0x7e0000000000, page = 2 * mib;
    for (uint64_t i = 0; i < 7000; i++)
        gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 0, first + i / 2 * page + i % 2 * 690 * kib, 690 * kib, 0, 0);
    gw_feed_no_room(&feed, gib, 600 * mib, 8 * gib);
    gw_feed_exit(&feed, 1, 0);
    expect_unproven("gpu-oom-fragmentation");
}

/* The process keeps a block in every step. Even without the other process, it would soon have filled the card. */
GW_TEST(a_neighbour_of_what_may_be_a_leak)
{
    gw_feed_open(&feed, 16 * gib);
    for (int i = 0; i < 16; i++) {
        gw_feed_alloc(&feed, 512 * mib);
        gw_feed_launch(&feed, 0xf1, 0x51);
    }
    gw_feed_no_room(&feed, 512 * mib, 256 * mib, 16 * gib);
    gw_feed_fact(&feed, "card.holder", "pid=4711 bytes=6979321856 cmd=python notebook.py");
    gw_feed_exit(&feed, 1, 0);
    expect_unproven("gpu-oom-other-process");
}

/* Feed 20 steps. Each step frees all its memory, except that the last `keeping_steps` steps keep 256 MiB each. */
static void run_beside_a_neighbour(int keeping_steps)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_alloc(&feed, 3 * gib);
    uint32_t batch = gw_feed_site(&feed, "train step.c 5"), kept = gw_feed_site(&feed, "train step.c 9");
    for (int i = 0; i < 20; i++) {
        feed.site = batch;
        uint64_t block = gw_feed_alloc(&feed, gib);
        gw_feed_launch(&feed, 0xf1, 0x51);
        gw_feed_launch(&feed, 0xf2, 0x51);
        gw_feed_sync(&feed);
        feed.site = kept;
        uint64_t metrics = gw_feed_alloc(&feed, 256 * mib);
        feed.site = 0;
        if (i < 20 - keeping_steps)
            gw_feed_free(&feed, metrics);
        gw_feed_free(&feed, block);
    }
    feed.site = batch;
    gw_feed_no_room(&feed, gib, 512 * mib, 16 * gib);
    feed.site = 0;
    gw_feed_fact(&feed, "card.holder", "pid=4711 bytes=8589934592 cmd=python notebook.py");
    gw_feed_exit(&feed, 1, 0);
}

GW_TEST(a_neighbour_of_a_small_leak)
{
    run_beside_a_neighbour(5);
    expect_unproven("gpu-oom-other-process");
    run_beside_a_neighbour(0);
    expect_cause("gpu-oom-other-process", GW_ESTABLISHED);
}

/* Feed another process of this run that allocates `bytes` of the card's 2,000 MiB. The program's first context is then
 * refused for lack of memory. */
static void start_beside(uint64_t bytes)
{
    gw_feed_open(&feed, 2000 * mib);
    gw_feed_process(&feed, 300, 1, "/usr/bin/other");
    feed.pid = feed.tid = 300;
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 0, 0xc2, 0, 0, GW_CONTEXT_PRIMARY);
    gw_feed_alloc(&feed, bytes);
    gw_feed_process(&feed, 301, 1, "/usr/bin/program");
    feed.pid = feed.tid = 301;
    gw_feed_call(&feed, "cuInit", GW_EV_INIT, 0, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 2, 0, 0, 0, GW_CONTEXT_PRIMARY);
    feed.pid = feed.tid = GW_FEED_PID;
    gw_feed_exit(&feed, 1, 0);
}

/* The recording contains the context and the allocations of the other process. This memory counts even if the card was
 * not sampled. */
GW_TEST(no_context_beside_a_recorded_process)
{
    start_beside(gib);
    expect_cause("gpu-oom-other-process", GW_ESTABLISHED);
    start_beside(gib / 4);
    expect_unproven("gpu-oom-other-process");
}

/* ---- cards ---- */

static void xid(uint64_t number)
{
    gw_feed_machine(&feed, GW_MACHINE_XID, GW_SOURCE_NVML, 1, 0, number, 0, "");
}

/* An error of the card long before the failure, or one that does not end a process, must not be the cause. */
GW_TEST(an_old_error_of_the_card)
{
    open_card_run();
    xid(48);
    gw_feed_wait(&feed, 3600 * second_ns);
    lose_context(700);
    expect_beside("illegal-address");
    open_card_run();
    xid(64);
    lose_context(700);
    expect_beside("illegal-address");
    open_card_run();
    xid(119);
    gw_feed_wait(&feed, 3600 * second_ns);
    lose_context(700);
    expect_beside("illegal-address");
}

GW_TEST(a_full_card_after_an_error_of_the_card)
{
    open_card_run();
    xid(119);
    for (int i = 0; i < 7; i++)
        gw_feed_alloc(&feed, 2 * gib);
    gw_feed_no_room(&feed, 4 * gib, gib / 2, 16 * gib);
    expect_failure("gpu-oom-capacity", GW_SUPPORTED);
}

/* A kernel had a fault of its own, and the card was lost ten minutes later. The fault is the cause. */
GW_TEST(a_card_that_was_lost_later)
{
    open_card_run();
    gw_feed_sample(&feed, GW_METRIC_CARD_STATUS, 1, 0, 0);
    gw_feed_call(&feed, "cuCtxSynchronize", GW_EV_SYNC, 700, 0, 0, 0, 0);
    gw_feed_wait(&feed, 600 * second_ns);
    gw_feed_sample(&feed, GW_METRIC_CARD_STATUS, 1, 0, 15);
    expect_failure("illegal-address", GW_ESTABLISHED);
}

GW_TEST(a_fault_after_an_unchecked_refusal)
{
    static const uint16_t results[] = {710, 716};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        gw_feed_open(&feed, 4 * gib);
        for (int k = 0; k < 3; k++)
            gw_feed_alloc(&feed, gib);
        gw_feed_launch(&feed, 0xf1, 0x51);
        gw_feed_read(&feed, mib);
        gw_feed_no_room(&feed, 2 * gib, gib / 2, 4 * gib);
        gw_feed_launch(&feed, 0xf1, 0x51);
        gw_feed_stderr(&feed, "a.cu:9: f: block: [0,0,0], thread: [3,0,0] Assertion `p != nullptr` failed.\n");
        lose_context(results[i]);
        expect_cause("gpu-oom-capacity", GW_SUPPORTED);
    }
}

static void start_fails(uint16_t result, uint64_t mode)
{
    gw_feed_open_bare(&feed);
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/prog");
    gw_feed_call(&feed, "cuInit", GW_EV_DEVICE_ATTRIBUTE, 0, 0, 20, mode, 0);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, result, 0, 0, 0, 0);
}

/* Errors 802 and 46 have several possible causes. A second fact establishes the cause:
 * - for 802: an NVSwitch
 * - for 46: a process that holds the card, or a compute mode that forbids contexts */
GW_TEST(refusals_of_several_meanings)
{
    enum { PROHIBITED = 2, EXCLUSIVE = 3 };
    start_fails(802, 0);
    expect_failure_told("prog: cuInit failed: 802\n", "fabric-not-ready", GW_SUPPORTED);
    start_fails(802, 0);
    gw_feed_meta(&feed, "device.files", "nvidia0 nvidiactl nvidia-nvswitchctl");
    expect_failure_told("prog: cuInit failed: 802\n", "fabric-not-ready", GW_ESTABLISHED);
    start_fails(46, EXCLUSIVE);
    expect_failure_told("prog: cuCtxCreate: CUDA_ERROR_DEVICE_UNAVAILABLE\n", "device-busy-or-partition", GW_SUPPORTED);
    start_fails(46, EXCLUSIVE);
    gw_feed_fact(&feed, "card.holder", "pid=4711 bytes=13958643712 cmd=python notebook.py");
    expect_failure_told("prog: cuCtxCreate: CUDA_ERROR_DEVICE_UNAVAILABLE\n", "device-busy-or-partition",
                        GW_ESTABLISHED);
    start_fails(46, PROHIBITED);
    expect_failure_told("prog: cuCtxCreate: CUDA_ERROR_DEVICE_UNAVAILABLE\n", "device-busy-or-partition",
                        GW_ESTABLISHED);
}

/* ---- the machine ---- */

static void shm(uint64_t room)
{
    gw_feed_sample(&feed, GW_METRIC_SHM_TOTAL, GW_NO_DEVICE, 0, gib);
    gw_feed_sample(&feed, GW_METRIC_SHM_FREE, GW_NO_DEVICE, 0, room);
}

GW_TEST(shared_memory_that_was_full_once)
{
    open_run();
    shm(0);
    gw_feed_wait(&feed, 600 * second_ns);
    shm(gib);
    gw_feed_wait(&feed, 600 * second_ns);
    gw_feed_exit(&feed, -1, 7);
    expect_unproven("shm-exhausted");
    open_run();
    shm(0);
    gw_feed_stderr(&feed, TRACE "FileNotFoundError: [Errno 2] No such file or directory: '/dev/shm/weights'\n");
    gw_feed_exit(&feed, 1, 0);
    expect_unproven("shm-exhausted");
}

/* The program has few open files, so a limit of inotify may be the reason for the message. */
GW_TEST(too_many_files_with_few_open)
{
    open_run();
    gw_feed_sample(&feed, GW_METRIC_PROCESS_DESCRIPTORS, GW_NO_DEVICE, GW_FEED_PID, 40);
    gw_feed_sample(&feed, GW_METRIC_PROCESS_DESCRIPTORS_LIMIT, GW_NO_DEVICE, GW_FEED_PID, 1024);
    expect_failure_told(TRACE "OSError: [Errno 24] Too many open files\n", "fd-or-process-limit", GW_SUPPORTED);
}

/* SIGTERM follows an exception. The signal need not be from outside: the failing program may have signalled its own
 * process group. */
GW_TEST(a_signal_after_an_exception)
{
    open_run();
    gw_feed_stderr(&feed, TRACE "KeyError: 'loss'\n");
    gw_feed_exit(&feed, -1, 15);
    expect_cause("killed-by-scheduler-or-user", GW_SUPPORTED);
    open_run();
    gw_feed_fact(&feed, "stderr.not_recorded", "disabled with --no-stderr");
    gw_feed_exit(&feed, -1, 15);
    expect_cause("killed-by-scheduler-or-user", GW_SUPPORTED);
    open_run();
    gw_feed_stderr(&feed, TRACE "KeyboardInterrupt\n");
    gw_feed_fact(&feed, "stop.signal", "signal=2 outside=1 from=the terminal");
    gw_feed_exit(&feed, -1, 2);
    expect_cause("killed-by-scheduler-or-user", GW_ESTABLISHED);
}

/* Only Ctrl-C in the terminal of a program that shows no other trouble needs no explanation. */
GW_TEST(an_interrupt_from_the_keyboard)
{
    static const struct {
        const char *printed, *sender;
        int signal;
        bool is_interrupt;
    } ends[] = {{TRACE "KeyboardInterrupt\n", "signal=2 outside=1 from=the terminal", 2, true},
                {"", "signal=2 outside=1 early_s=3 from=the terminal", 2, true},
                {"", "signal=2 outside=1 pid=7 from=bash", 2, false},
                {"", "signal=15 outside=1 from=the terminal", 15, false},
                {"", "signal=1 outside=1 from=the terminal", 1, false}};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        open_run();
        gw_feed_stderr(&feed, ends[i].printed);
        gw_feed_fact(&feed, "stop.signal", ends[i].sender);
        gw_feed_exit(&feed, -1, ends[i].signal);
        judge_open();
        assert_int_equal(verdict->is_interrupt, ends[i].is_interrupt);
    }
    open_run();
    gw_feed_no_room(&feed, 20 * gib, gib, 16 * gib);
    gw_feed_fact(&feed, "stop.signal", "signal=2 outside=1 from=the terminal");
    gw_feed_exit(&feed, -1, 2);
    judge_open();
    assert_false(verdict->is_interrupt);
}

/* A worker was killed for lack of host memory, but the parent replaced it. An exception an hour later ended the run. */
GW_TEST(a_killed_worker_that_was_replaced)
{
    open_run();
    gw_feed_process(&feed, 300, GW_FEED_PID, "/usr/bin/worker");
    gw_feed_machine(&feed, GW_MACHINE_OOM_KILL, GW_SOURCE_KERNEL_LOG, GW_NO_DEVICE, 300, 0, 1,
                    "Out of memory: Killed process 300 (worker) total-vm:9000kB");
    gw_feed_wait(&feed, 3600 * second_ns);
    gw_feed_stderr(&feed, TRACE "KeyError: 'loss'\n");
    gw_feed_exit(&feed, 1, 0);
    expect_beside("script-exception");
}

GW_TEST_MAIN(NULL, NULL)
