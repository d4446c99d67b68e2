/* Tests causes in the software around a program, such as the driver and the libraries. Each cause has a run with the
 * cause, and a slightly different run that must get another verdict. */
#include "gw_unit_test.h"
#include "verdict_testlib.h"

static bool says(const char *part)
{
    return why_has(verdict, part);
}

static void expect(const char *cause, gw_certainty certainty, const char *part)
{
    judge_open();
    assert_string_equal(gw_verdict_status_text(verdict->status), "fault");
    assert_string_equal(verdict->cause, cause);
    assert_string_equal(gw_certainty_text(verdict->certainty), gw_certainty_text(certainty));
    if (!says(part))
        fail_msg("nothing says \"%s\"", part);
}

static void expect_not_fault(gw_verdict_status status)
{
    judge_open();
    assert_string_equal(gw_verdict_status_text(verdict->status), gw_verdict_status_text(status));
}

static void library(const char *line)
{
    gw_feed_fact(&feed, "library", line);
}

static void open_with_driver(unsigned api)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_call(&feed, "cuInit", GW_EV_DRIVER, 0, api, 700, 0, 0);
}

#define RUNTIME_13                                                                                                     \
    "kind=cudart part= place=wheel version=13.0.96 from=3 major_only=0 "                                               \
    "path=/v/site-packages/nvidia/cu13/lib/libcudart.so.13"

/* ---- CUDA does not start ---- */

/* Let the program print, as its last line, that this call failed, and exit with status 1. */
static void ends_of(const char *call, uint16_t result)
{
    char words[128];
    snprintf(words, sizeof words, "prog.c:12: %s: %s\n", call, gw_result_name(result));
    gw_feed_stderr(&feed, words);
    gw_feed_exit(&feed, 1, 0);
}

static void init_fails(uint16_t result)
{
    gw_feed_open_bare(&feed);
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/prog");
    gw_feed_call(&feed, "cuInit", GW_EV_INIT, result, 0, 0, 0, 0);
}

GW_TEST(test_codes_of_init_say_what_is_wrong)
{
    static const struct {
        uint16_t result;
        const char *cause;
        gw_certainty certainty;
    } cases[] = {{34, "stub-or-wrong-libcuda", GW_SUPPORTED},      {100, "no-device-visible", GW_ESTABLISHED},
                 {802, "fabric-not-ready", GW_SUPPORTED},          {803, "driver-library-mismatch", GW_ESTABLISHED},
                 {804, "forward-compat-misuse", GW_SUPPORTED},     {46, "device-busy-or-partition", GW_SUPPORTED},
                 {805, "device-busy-or-partition", GW_ESTABLISHED}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        init_fails(cases[i].result);
        ends_of("cuInit", cases[i].result);
        expect(cases[i].cause, cases[i].certainty, "cuInit returned");
        init_fails(cases[i].result); /* the program did not print why it ended */
        gw_feed_exit(&feed, 1, 0);
        expect(cases[i].cause, GW_SUPPORTED, "cuInit returned");
        init_fails(cases[i].result); /* the program continued without a GPU and ended well */
        gw_feed_exit(&feed, 0, 0);
        expect_not_fault(GW_VERDICT_CLEAN);
        init_fails(cases[i].result); /* the program continued and failed for another reason */
        gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\n"
                              "KeyError: 'loss'\n");
        gw_feed_exit(&feed, 1, 0);
        expect("script-exception", GW_SUPPORTED, "KeyError");
    }
}

GW_TEST(test_paths_make_it_certain)
{
    init_fails(34);
    library("kind=driver version=? from=0 major_only=0 path=/usr/local/cuda/lib64/stubs/libcuda.so");
    ends_of("cuInit", 34);
    expect("stub-or-wrong-libcuda", GW_ESTABLISHED, "/stubs/");
    init_fails(804);
    library("kind=driver version=? from=1 major_only=0 path=/usr/local/cuda/compat/libcuda.so.580.65.06");
    ends_of("cuInit", 804);
    expect("forward-compat-misuse", GW_ESTABLISHED, "/compat/");
    init_fails(803); /* the versions agree in the recording, but may have differed during cuInit */
    gw_feed_meta(&feed, "driver.module", "580.65.06");
    library("kind=driver version=580.65.6 from=1 major_only=0 path=/usr/lib/libcuda.so.580.65.06");
    ends_of("cuInit", 803);
    expect("driver-library-mismatch", GW_SUPPORTED, "kernel driver's version is 580.65.06");
}

GW_TEST(test_no_device_says_why)
{
    init_fails(100);
    gw_feed_meta(&feed, "env.CUDA_VISIBLE_DEVICES", "");
    ends_of("cuInit", 100);
    expect("no-device-visible", GW_ESTABLISHED, "hides all of them");
    init_fails(100);
    gw_feed_meta(&feed, "device.files", "nvidiactl nvidia-uvm");
    ends_of("cuInit", 100);
    expect("no-device-visible", GW_ESTABLISHED, "/dev/nvidia0 does not exist");
    init_fails(100);
    gw_feed_meta(&feed, "device.files", "nvidia0 nvidia-uvm");
    gw_feed_meta(&feed, "env.CUDA_VISIBLE_DEVICES", "GPU-1234");
    ends_of("cuInit", 100);
    expect("no-device-visible", GW_ESTABLISHED, "\"GPU-1234\"");
}

/* This was seen on an H200 whose reset did not finish: the device file exists and NVML lists the card, but CUDA finds
 * no card. */
GW_TEST(test_a_card_that_only_nvml_sees)
{
    for (int hidden = 0; hidden < 2; hidden++) {
        init_fails(100);
        gw_feed_meta(&feed, "device.files", "nvidiactl nvidia0 nvidia-uvm");
        if (hidden)
            gw_feed_meta(&feed, "env.CUDA_VISIBLE_DEVICES", "GPU-1234");
        gw_feed_fact(&feed, "nvml.card", "index=0 pci=00000000:00:06.0 uuid= name=NVIDIA H200");
        gw_feed_machine(&feed, GW_MACHINE_DRIVER_LOG, GW_SOURCE_KERNEL_LOG, GW_NO_DEVICE, 0, 0, 0,
                        "NVRM: Assertion failed: NV_ERR_GPU_IN_FULLCHIP_RESET");
        ends_of("cuInit", 100);
        expect("no-device-visible", GW_ESTABLISHED, hidden ? "GPU-1234" : "although NVML sees 1: NVIDIA H200");
    }
}

static void raise_error(const char *line)
{
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\n");
    gw_feed_stderr(&feed, line);
    gw_feed_exit(&feed, 1, 0);
}

/* PyTorch prints its own exception if CUDA does not start. This does not count as a second failure. */
GW_TEST(test_frameworks_words_for_a_failed_start)
{
    init_fails(100);
    raise_error("RuntimeError: No CUDA GPUs are available\n");
    expect("no-device-visible", GW_ESTABLISHED, "cuInit returned 100");
    init_fails(803);
    raise_error("RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: unsupported display driver\n");
    expect("driver-library-mismatch", GW_ESTABLISHED, "803");
    init_fails(802);
    raise_error("RuntimeError: CUDA driver initialization failed, you might not have a CUDA gpu.\n");
    expect("fabric-not-ready", GW_SUPPORTED, "802");
    gw_feed_open_bare(&feed);
    raise_error("AssertionError: Torch not compiled with CUDA enabled\n");
    expect("no-device-visible", GW_SUPPORTED, "built without CUDA");
    gw_feed_open_bare(&feed);
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/python3");
    library("kind=driver version=535.54.3 from=1 major_only=0 path=/usr/lib/libcuda.so.535.54.03");
    library(RUNTIME_13);
    raise_error("RuntimeError: The NVIDIA driver on your system is too old (found version 12020).\n");
    expect("driver-too-old", GW_ESTABLISHED, "needs driver 580");
}

GW_TEST(test_lost_state_needs_the_missing_file)
{
    init_fails(999);
    gw_feed_meta(&feed, "device.files", "nvidia0 nvidiactl");
    gw_feed_exit(&feed, 1, 0);
    expect("driver-state-lost", GW_SUPPORTED, "/dev/nvidia-uvm is missing");
    init_fails(999);
    gw_feed_meta(&feed, "device.files", "nvidia0 nvidiactl nvidia-uvm");
    gw_feed_exit(&feed, 1, 0);
    expect_not_fault(GW_VERDICT_UNDETERMINED);
}

/* ---- code does not load ---- */

GW_TEST(test_modules_that_do_not_load)
{
    static const struct {
        uint16_t result;
        const char *cause;
    } cases[] = {
        {209, "arch-not-in-binary"}, {221, "jit-library-missing"}, {222, "ptx-too-new"}, {223, "jit-library-missing"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        open_with_driver(12020);
        gw_feed_call(&feed, "cuModuleLoadData", GW_EV_MODULE_LOAD, cases[i].result, 0, 0, 0, 0);
        ends_of("cuModuleLoadData", cases[i].result);
        expect(cases[i].cause, GW_ESTABLISHED, "supports CUDA 12.2");
        open_with_driver(12020); /* a second module was loaded and ran, so there is no fault */
        gw_feed_call(&feed, "cuModuleLoadData", GW_EV_MODULE_LOAD, cases[i].result, 0, 0, 0, 0);
        gw_feed_call(&feed, "cuModuleLoadData", GW_EV_MODULE_LOAD, 0, 0x77, 0, 0, 0);
        gw_feed_launch(&feed, 0xf1, 0);
        gw_feed_sync(&feed);
        gw_feed_exit(&feed, 0, 0);
        expect_not_fault(GW_VERDICT_CLEAN);
    }
}

GW_TEST(test_driver_too_old_needs_a_failing_call)
{
    open_with_driver(12020);
    library(RUNTIME_13);
    gw_feed_call(&feed, "cuLibraryLoadData", GW_EV_LIBRARY_LOAD, 222, 0, 0, 0, 0);
    ends_of("cuLibraryLoadData", 222);
    expect("driver-too-old", GW_ESTABLISHED, "needs driver 580");
    open_with_driver(12020);
    library(RUNTIME_13);
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 36, 0, 0, 0, 0);
    ends_of("cuStreamCreate", 36);
    expect("driver-too-old", GW_ESTABLISHED, "13.0.96");
    open_with_driver(12020); /* the versions do not match either, but no call fails */
    library(RUNTIME_13);
    gw_feed_launch(&feed, 0xf1, 0);
    gw_feed_sync(&feed);
    gw_feed_exit(&feed, 0, 0);
    expect_not_fault(GW_VERDICT_CLEAN);
    open_with_driver(12020); /* a call fails, although the driver is only two minor versions older than the runtime */
    library("kind=cudart version=12.4.127 from=1 major_only=0 path=/c/libcudart.so.12.4.127");
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 36, 0, 0, 0, 0);
    ends_of("cuStreamCreate", 36);
    expect("driver-too-old", GW_SUPPORTED, "12.4.127");
    open_with_driver(12020); /* the runtime reports the error without a failing call */
    library(RUNTIME_13);
    gw_feed_stderr(&feed, "CUDA error: CUDA driver version is insufficient for CUDA runtime version\n");
    gw_feed_exit(&feed, 1, 0);
    expect("driver-too-old", GW_ESTABLISHED, "insufficient");
    open_with_driver(13000); /* the same message, but the driver is new enough */
    library(RUNTIME_13);
    gw_feed_stderr(&feed, "CUDA error: CUDA driver version is insufficient for CUDA runtime version\n");
    gw_feed_exit(&feed, 1, 0);
    expect("driver-too-old", GW_SUPPORTED, "insufficient");
}

GW_TEST(test_ordinals)
{
    open_with_driver(13000);
    gw_feed_meta(&feed, "env.CUDA_VISIBLE_DEVICES", "2");
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 101, 0, 0, 3, 0);
    ends_of("cuDevicePrimaryCtxRetain", 101);
    expect("invalid-device-ordinal", GW_ESTABLISHED, "numbers the cards in it from 0");
    open_with_driver(13000); /* the program tried device numbers until one failed, to count the GPUs */
    gw_feed_call(&feed, "cuDeviceGet", GW_EV_CALL, 101, 0, 1, 0, 0);
    gw_feed_launch(&feed, 0xf1, 0);
    gw_feed_sync(&feed);
    gw_feed_exit(&feed, 3, 0);
    expect_not_fault(GW_VERDICT_UNDETERMINED);
}

GW_TEST(test_mixed_cudnn)
{
    const char
        *wheel = "kind=cudnn version=9.1.0.70 from=3 major_only=0 path=/v/site-packages/nvidia/cudnn/lib/libcudnn.so.9",
        *system = "kind=cudnn version=9.3.0 from=1 major_only=0 path=/usr/lib/libcudnn_ops.so.9.3.0",
        *error = "RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH\n",
        *trace = "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\n";
    open_with_driver(13000);
    library(wheel);
    library(system);
    gw_feed_stderr(&feed, trace);
    gw_feed_stderr(&feed, error);
    gw_feed_exit(&feed, 1, 0);
    expect("cudnn-mixed-libraries", GW_ESTABLISHED, "(1002) means");
    open_with_driver(13000); /* two copies of cuDNN are loaded, but the run succeeds */
    library(wheel);
    library(system);
    gw_feed_exit(&feed, 0, 0);
    expect_not_fault(GW_VERDICT_CLEAN);
    open_with_driver(13000); /* one copy of cuDNN, so the error has another cause */
    library(wheel);
    gw_feed_stderr(&feed, trace);
    gw_feed_stderr(&feed, error);
    gw_feed_exit(&feed, 1, 0);
    judge_open();
    assert_true(verdict->cause == NULL || strcmp(verdict->cause, "cudnn-mixed-libraries") != 0);
}

static void advised(bool wanted)
{
    expect_not_fault(GW_VERDICT_CLEAN);
    assert_int_equal(list_has(&verdict->advice, "no-device-visible"), wanted);
}

static void cpu_run(const char *files, const char *runtime)
{
    init_fails(100);
    gw_feed_map(&feed, "/v/site-packages/torch/lib/libtorch_cuda.so");
    gw_feed_meta(&feed, "device.files", files);
    if (runtime != NULL)
        library(runtime);
    gw_feed_exit(&feed, 0, 0);
}

GW_TEST(test_a_gpu_that_nobody_used_is_advice)
{
    cpu_run("nvidia0 nvidiactl", RUNTIME_13);
    advised(true);
    cpu_run("", RUNTIME_13); /* the machine has no GPU: it was not used, either */
    advised(true);
    cpu_run("nvidia0 nvidiactl", NULL); /* the framework is built for the CPU */
    advised(false);
    open_with_driver(13000); /* the program used the GPU */
    gw_feed_map(&feed, "/v/site-packages/torch/lib/libtorch_cuda.so");
    gw_feed_meta(&feed, "device.files", "nvidia0");
    library(RUNTIME_13);
    gw_feed_exit(&feed, 0, 0);
    advised(false);
}

GW_TEST_MAIN(NULL, NULL)
