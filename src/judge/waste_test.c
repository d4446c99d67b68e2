/* Tests advice about wasted time in runs that end well, and the causes of failures in host, cards and links. Each case
 * has a slightly different counterpart that must get another verdict. */
#include "gw_unit_test.h"
#include "verdict_testlib.h"

static const uint64_t ms_ns = 1000000u;

static bool advises(const char *part)
{
    return list_has(&verdict->advice, part);
}

/* Expect a clean run. Its advice must contain `part`, or must not contain it if `is_there` is false. */
static void expect_advice(const char *part, bool is_there)
{
    gw_feed_exit(&feed, 0, 0);
    judge_open();
    assert_string_equal(gw_verdict_status_text(verdict->status), "clean");
    assert_int_equal(advises(part), is_there);
}

static void open_run(void)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_fact(&feed, "nvml.card", "index=0 pci=0000:01:00.0 uuid=GPU-1 name=Card");
    gw_feed_alloc(&feed, gib);
}

static void busy(uint64_t percent)
{
    gw_feed_sample(&feed, GW_METRIC_CARD_UTILISATION, 0, 0, percent);
}

/* ---- synchronisations ---- */

static void steps(unsigned count, unsigned launches, uint64_t wait_ns, bool waits)
{
    for (unsigned i = 0; i < count; i++) {
        for (unsigned k = 0; k < launches; k++)
            gw_feed_launch(&feed, 1, 0);
        if (waits)
            gw_feed_sync(&feed);
        gw_feed_wait(&feed, wait_ns);
    }
}

GW_TEST(a_wait_after_every_launch)
{
    open_run();
    steps(3000, 1, ms_ns / 10, true);
    expect_advice("sync-storm: 1.0 synchronisations per launch", true);
}

GW_TEST(a_wait_after_every_step)
{
    open_run();
    steps(3000, 20, ms_ns / 10, true);
    expect_advice("sync-storm", false);
}

/* Each kernel takes much longer than the cost of waiting for it, so the waits do no harm. */
GW_TEST(a_wait_for_every_large_kernel)
{
    open_run();
    steps(3000, 1, 20 * ms_ns, true);
    expect_advice("sync-storm", false);
}

GW_TEST(few_waits)
{
    open_run();
    steps(500, 1, ms_ns / 10, true);
    steps(600, 1, ms_ns / 10, false);
    expect_advice("sync-storm", false);
}

/* ---- launches ---- */

static void launch_for(uint64_t percent, uint64_t gap_ns)
{
    open_run();
    busy(0);
    for (unsigned i = 0; i < 400; i++) {
        steps(1000, 1, gap_ns, false);
        busy(percent);
    }
}

GW_TEST(small_kernels)
{
    launch_for(35, 5000);
    expect_advice("launch-bound: one launch every 15.0 us (400000 in total), and the GPU was never more than 35 % busy",
                  true);
}

GW_TEST(small_kernels_on_a_busy_card)
{
    launch_for(97, 5000);
    expect_advice("launch-bound", false);
}

/* The host does other work between launches, so launching does not limit the speed. */
GW_TEST(rare_launches)
{
    launch_for(35, ms_ns);
    expect_advice("launch-bound", false);
}

/* ---- input, copies ---- */

static void load_for(uint64_t percent, uint64_t pause_ns, uint64_t bytes, uint64_t copy_ns)
{
    open_run();
    busy(0);
    for (unsigned i = 0; i < 200; i++) {
        gw_feed_wait(&feed, pause_ns);
        gw_feed_copy(&feed, bytes);
        gw_feed_wait(&feed, copy_ns);
        steps(20, 1, 0, false);
        gw_feed_sync(&feed);
        busy(percent);
    }
}

GW_TEST(pauses_before_input)
{
    load_for(12, 60 * ms_ns, 1 << 20, 0);
    expect_advice("input-bound", true);
}

GW_TEST(input_that_comes_in_time)
{
    load_for(95, 60 * ms_ns, 1 << 20, 0); /* the GPU is busy during the pauses, so they cost nothing */
    expect_advice("input-bound", false);
}

GW_TEST(copies_from_plain_memory)
{
    load_for(90, 0, 8 << 20, 10 * ms_ns);
    expect_advice("pageable-copy", true);
}

GW_TEST(copies_from_locked_memory)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_call(&feed, "cuMemHostAlloc", GW_EV_HOST_ALLOC, 0, 0x7000000, 8 << 20, 0, 0);
    for (unsigned i = 0; i < 200; i++) {
        gw_feed_copy(&feed, 8 << 20);
        gw_feed_wait(&feed, 10 * ms_ns);
        steps(20, 1, 0, false);
        gw_feed_sync(&feed);
    }
    expect_advice("pageable-copy", false);
}

GW_TEST(quick_copies)
{
    load_for(90, 10 * ms_ns, 8 << 20, 0);
    expect_advice("pageable-copy", false);
}

/* ---- allocations ---- */

static void allocate(unsigned count, unsigned launches, bool frees, uint16_t took_us)
{
    feed.took_us = took_us;
    for (unsigned i = 0; i < count; i++) {
        uint64_t address = gw_feed_alloc(&feed, 4096);
        steps(1, launches, 0, false);
        if (frees)
            gw_feed_free(&feed, address);
    }
}

GW_TEST(memory_again_and_again)
{
    open_run();
    allocate(2000, 3, true, 6);
    expect_advice("alloc-churn: the program allocated device memory 2001 times", true);
}

/* Memory is allocated often, but each call takes very little time. */
GW_TEST(memory_in_no_time)
{
    open_run();
    allocate(2000, 3, true, 1);
    expect_advice("alloc-churn", false);
}

GW_TEST(memory_at_the_start)
{
    open_run();
    allocate(1100, 1, true, 6);
    steps(15000, 1, 0, false);
    expect_advice("alloc-churn", false);
}

GW_TEST(memory_that_is_kept)
{
    open_run();
    allocate(2000, 3, false, 6);
    expect_advice("alloc-churn", false);
}

static void managed(uint64_t first_bytes, uint64_t second_bytes, bool together)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_call(&feed, "cuMemAllocManaged", GW_EV_ALLOC, 0, 0x100000000, first_bytes, GW_SPACE_MANAGED, 0);
    if (!together)
        gw_feed_call(&feed, "cuMemFree_v2", GW_EV_FREE, 0, 0x100000000, 0, GW_SPACE_DEVICE, 0);
    gw_feed_call(&feed, "cuMemAllocManaged", GW_EV_ALLOC, 0, 0x2000000000, second_bytes, GW_SPACE_MANAGED, 0);
}

GW_TEST(more_managed_memory_than_there_is)
{
    managed(10 * gib, 10 * gib, true);
    expect_advice("uvm-thrash", true);
}

GW_TEST(managed_memory_in_turn)
{
    managed(10 * gib, 10 * gib, false);
    expect_advice("uvm-thrash", false);
}

/* ---- settings, processors, memory rows, libraries ---- */

GW_TEST(a_knob)
{
    open_run();
    gw_feed_meta(&feed, "env.CUDA_LAUNCH_BLOCKING", "1");
    gw_feed_launch(&feed, 1, 0);
    expect_advice("CUDA_LAUNCH_BLOCKING=1", true);
}

GW_TEST(a_knob_that_is_off)
{
    open_run();
    gw_feed_meta(&feed, "env.CUDA_LAUNCH_BLOCKING", "0");
    gw_feed_launch(&feed, 1, 0);
    expect_advice("CUDA_LAUNCH_BLOCKING", false);
}

static void processors(uint64_t throttled)
{
    gw_feed_open(&feed, gib);
    gw_feed_sample(&feed, GW_METRIC_CGROUP_CPU_LIMIT, GW_NO_DEVICE, 0, 2000);
    gw_feed_sample(&feed, GW_METRIC_CGROUP_CPU_PERIODS, GW_NO_DEVICE, 0, 1000);
    gw_feed_sample(&feed, GW_METRIC_CGROUP_CPU_THROTTLED, GW_NO_DEVICE, 0, 900);
    gw_feed_sample(&feed, GW_METRIC_CGROUP_CPU_THROTTLED_TIME, GW_NO_DEVICE, 0, 0);
    gw_feed_wait(&feed, 10000 * ms_ns);
    gw_feed_sample(&feed, GW_METRIC_CGROUP_CPU_PERIODS, GW_NO_DEVICE, 0, 1100);
    gw_feed_sample(&feed, GW_METRIC_CGROUP_CPU_THROTTLED, GW_NO_DEVICE, 0, 900 + throttled);
    gw_feed_sample(&feed, GW_METRIC_CGROUP_CPU_THROTTLED_TIME, GW_NO_DEVICE, 0, throttled * 50 * ms_ns);
}

GW_TEST(too_few_processors)
{
    processors(60);
    expect_advice("cpu-starved: the control group's limit of 2.00 processors throttled its threads in 60 %", true);
}

/* The advice stands beside what a lack of processor time can explain, and not beside another failure. */
GW_TEST(too_few_processors_at_a_bad_end)
{
    enum { TERM = 15 };
    static const struct {
        const char *printed;
        int code, signal;
        bool is_there;
    } ends[] = {{"", -1, TERM, true},
                {"", 124, 0, true},
                {"", 3, 0, false},
                {"Traceback (most recent call last):\n  File \"t.py\", line 3, in f\nKeyError: 'x'\n", 1, 0, false}};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        processors(60);
        gw_feed_stderr(&feed, ends[i].printed);
        gw_feed_exit(&feed, ends[i].code, ends[i].signal);
        judge_open();
        assert_int_equal(advises("cpu-starved"), ends[i].is_there);
    }
    processors(60);
    gw_feed_no_room(&feed, 2 * gib, 0, gib);
    gw_feed_exit(&feed, 1, 0);
    judge_open();
    assert_false(advises("cpu-starved"));
}

GW_TEST(enough_processors)
{
    processors(5);
    expect_advice("cpu-starved", false);
}

static void waits_for_processors(uint64_t waited_ms, uint64_t of_ms)
{
    open_run();
    gw_feed_sample(&feed, GW_METRIC_PROCESS_CPU_WAIT, GW_NO_DEVICE, GW_FEED_PID, 900 * ms_ns);
    gw_feed_wait(&feed, of_ms * ms_ns);
    gw_feed_sample(&feed, GW_METRIC_PROCESS_CPU_WAIT, GW_NO_DEVICE, GW_FEED_PID, (900 + waited_ms) * ms_ns);
}

GW_TEST(a_crowd)
{
    waits_for_processors(6000, 10000);
    expect_advice(
        "cpu-starved: the first thread of pid 100 was ready to run but had to wait for a processor for 6.0 s of 10.0 s",
        true);
}

/* The process waits for a processor for only 30 % of the time, or for only 1.5 seconds. This is too little for
 * advice. */
GW_TEST(no_crowd)
{
    waits_for_processors(3000, 10000);
    expect_advice("cpu-starved", false);
    waits_for_processors(1500, 2000);
    expect_advice("cpu-starved", false);
}

static void library(const char *line)
{
    gw_feed_fact(&feed, "library", line);
}

static void with_libraries(unsigned capability, const char *first, const char *second)
{
    enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 };
    open_run();
    gw_feed_call(&feed, "cuInit", GW_EV_DEVICE_ATTRIBUTE, 0, 0, CAPABILITY_MAJOR, capability, 0);
    gw_feed_call(&feed, "cuInit", GW_EV_DEVICE_ATTRIBUTE, 0, 0, CAPABILITY_MINOR, 0, 0);
    library(first);
    if (second != NULL)
        library(second);
}

#define CUBLAS(kind, version)                                                                                          \
    "kind=" kind " part= place=wheel version=" version " from=3 major_only=0 path=/v/lib" kind ".so"

GW_TEST(libraries_known_for_wrong_numbers)
{
    with_libraries(10, CUBLAS("cublas", "12.9.1.4"), NULL);
    expect_advice("silent-data-corruption: cuBLAS 12.9.1", true);
    with_libraries(9, CUBLAS("cublasLt", "12.9.1.4"), CUBLAS("cudnn", "9.8.0.87"));
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 0, 0xc1de, 0, 1, GW_CONTEXT_PRIMARY);
    expect_advice("silent-data-corruption: cuDNN 9.8.0", true);
}

/* Known errors of libraries do not apply if the version has the fix, on another card, or with a single GPU. */
GW_TEST(libraries_that_are_not)
{
    with_libraries(10, CUBLAS("cublas", "13.2.0"), NULL);
    expect_advice("silent-data-corruption", false);
    with_libraries(9, CUBLAS("cublas", "12.9.1.4"), NULL);
    expect_advice("silent-data-corruption", false);
    with_libraries(9, CUBLAS("cublasLt", "12.9.1.4"), CUBLAS("cudnn", "9.8.0.87"));
    expect_advice("silent-data-corruption", false);
}

GW_TEST(a_row_waits)
{
    open_run();
    gw_feed_sample(&feed, GW_METRIC_CARD_REMAP_PENDING, 0, 0, 1);
    expect_advice("remap-pending: a row of the memory of GPU 0", true);
}

GW_TEST(no_row_waits)
{
    open_run();
    gw_feed_sample(&feed, GW_METRIC_CARD_REMAP_PENDING, 0, 0, 0);
    expect_advice("remap-pending", false);
}

/* ---- refusals by the host ---- */

static void ends_with(const char *exception)
{
    char text[512];
    snprintf(text, sizeof text, "Traceback (most recent call last):\n  File \"train.py\", line 9, in save\n%s\n",
             exception);
    gw_feed_stderr(&feed, text);
    gw_feed_exit(&feed, 1, 0);
}

static void no_room(uint64_t bytes)
{
    open_run();
    gw_feed_sample(&feed, GW_METRIC_DISK_CWD_FREE, GW_NO_DEVICE, 0, bytes);
    ends_with("OSError: [Errno 28] No space left on device: 'model.pt'");
}

GW_TEST(a_full_disk)
{
    no_room(4096);
    expect_cause("disk-or-quota-full", GW_ESTABLISHED);
    no_room(100 * gib); /* no sampled disk was full, so the message alone shows the cause */
    expect_cause("disk-or-quota-full", GW_SUPPORTED);
}

GW_TEST(a_used_up_quota)
{
    open_run();
    ends_with("OSError: [Errno 122] Disk quota exceeded: 'model.pt'");
    expect_cause("disk-or-quota-full", GW_ESTABLISHED);
}

/* The program printed the message and continued. Another exception ended the run. */
GW_TEST(a_full_disk_is_not_the_end)
{
    open_run();
    gw_feed_stderr(&feed, "warning: cache: No space left on device\n");
    ends_with("ValueError: bad label");
    expect_cause("script-exception", GW_ESTABLISHED);
}

GW_TEST(full_shared_memory_is_no_disk)
{
    open_run();
    gw_feed_sample(&feed, GW_METRIC_SHM_TOTAL, GW_NO_DEVICE, 0, gib);
    gw_feed_sample(&feed, GW_METRIC_SHM_FREE, GW_NO_DEVICE, 0, 0);
    ends_with("OSError: [Errno 28] No space left on device: '/dev/shm/psm_1'");
    expect_cause("shm-exhausted", GW_ESTABLISHED);
}

static void files(uint64_t open, const char *exception)
{
    open_run();
    gw_feed_sample(&feed, GW_METRIC_PROCESS_DESCRIPTORS, GW_NO_DEVICE, GW_FEED_PID, open);
    gw_feed_sample(&feed, GW_METRIC_PROCESS_DESCRIPTORS_LIMIT, GW_NO_DEVICE, GW_FEED_PID, 1024);
    ends_with(exception);
}

GW_TEST(too_many_files)
{
    files(1024, "OSError: [Errno 24] Too many open files: 'a.jpg'");
    expect_cause("fd-or-process-limit", GW_ESTABLISHED);
    files(1020, "RuntimeError: received 0 items of ancdata");
    expect_cause("fd-or-process-limit", GW_ESTABLISHED);
    files(40, "RuntimeError: received 0 items of ancdata");
    expect_cause("fd-or-process-limit", GW_SUPPORTED);
}

GW_TEST(many_files_and_another_end)
{
    files(1020, "ValueError: bad label");
    expect_cause("script-exception", GW_ESTABLISHED);
    /* The message does not show which limit was reached. */
    files(40, "BlockingIOError: [Errno 11] Resource temporarily unavailable");
    expect_cause("fd-or-process-limit", GW_SUPPORTED);
}

GW_TEST(no_more_threads)
{
    open_run();
    gw_feed_sample(&feed, GW_METRIC_CGROUP_PIDS, GW_NO_DEVICE, 0, 512);
    gw_feed_sample(&feed, GW_METRIC_CGROUP_PIDS_LIMIT, GW_NO_DEVICE, 0, 512);
    ends_with("RuntimeError: can't start new thread");
    expect_cause("fd-or-process-limit", GW_ESTABLISHED);
}

/* ---- memory that no call requested ---- */

/* A request is refused. The program has 1 GiB of the card's 16 GiB. `holder` is what NVML reports about a process on
 * the card, or NULL. */
static void run_out(uint64_t wanted_gib, uint64_t free_gib, const char *holder)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_alloc(&feed, gib);
    gw_feed_launch(&feed, 1, 0);
    gw_feed_wait(&feed, 1000 * ms_ns);
    gw_feed_no_room(&feed, wanted_gib * gib, free_gib * gib, 16 * gib);
    if (holder != NULL)
        gw_feed_fact(&feed, "card.holder", holder);
    gw_feed_exit(&feed, 1, 0);
}

static void expect_other(const char *cause)
{
    judge_open();
    assert_true(verdict->cause == NULL || strcmp(verdict->cause, cause) != 0);
    assert_int_equal(certainty_of_alternative(verdict, cause), GW_CERTAINTY_NONE);
}

GW_TEST(memory_of_the_driver)
{
    run_out(10, 7, "pid=100 bytes=9663676416 cmd=program");
    expect_cause("gpu-hidden-driver-growth", GW_SUPPORTED);
    run_out(10, 7, "pid=100 bytes=9663676416 cmd=program"); /* an unobserved process may hold the memory */
    gw_feed_fact(&feed, "unobserved.driver", "pid 300 uses /opt/libcuda.so.1, and its calls were not recorded");
    judge_open();
    assert_int_equal(certainty_of_alternative(verdict, "gpu-hidden-driver-growth"), GW_HYPOTHESIS);
}

GW_TEST(memory_of_somebody)
{
    run_out(10, 7, "pid=4711 bytes=8589934592 cmd=other");
    expect_other("gpu-hidden-driver-growth");
    run_out(10, 7, NULL); /* the recording does not show which processes held memory */
    expect_other("gpu-hidden-driver-growth");
}

GW_TEST(it_would_not_fit_in_any_case)
{
    run_out(16, 7, "pid=100 bytes=9663676416 cmd=program");
    expect_other("gpu-hidden-driver-growth");
    /* the process holds 1 GiB more than it allocated, which a context alone may need */
    run_out(15, 14, "pid=100 bytes=2147483648 cmd=program");
    expect_other("gpu-hidden-driver-growth");
}

/* ---- cards and links ---- */

static void fail_with(uint16_t result, uint64_t xid, uint32_t pid)
{
    open_run();
    gw_feed_launch(&feed, 1, 0);
    gw_feed_drain(&feed);
    if (xid != 0)
        gw_feed_machine(&feed, GW_MACHINE_XID, GW_SOURCE_NVML, 0, pid, xid, 0, "");
    gw_feed_call(&feed, "cuStreamSynchronize", GW_EV_SYNC, result, 0, 0, 0, 0);
    gw_feed_exit(&feed, 1, 0);
}

GW_TEST(links)
{
    fail_with(220, 74, 0);
    expect_cause("nvlink-fault", GW_ESTABLISHED);
    fail_with(220, 0, 0);
    expect_cause("nvlink-fault", GW_SUPPORTED);
}

/* The driver's log has a line about a switch before the context is lost: the verdict shows the line. */
GW_TEST(a_line_about_a_switch)
{
    static const char line[] = "nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 30 LTSSM Fault Up";
    gw_feed_open(&feed, 16 * gib); /* without NVML, the switch may be of this run */
    gw_feed_launch(&feed, 1, 0);
    gw_feed_drain(&feed);
    gw_feed_machine(&feed, GW_MACHINE_DRIVER_LOG, GW_SOURCE_KERNEL_LOG, GW_NO_DEVICE, 0, GW_DRIVER_LINE_SWITCH, 20034,
                    line);
    gw_feed_call(&feed, "cuStreamSynchronize", GW_EV_SYNC, 220, 0, 0, 0, 0);
    expect_failure("nvlink-fault", GW_SUPPORTED);
    assert_true(evidence_has(verdict, "20034"));
}

/* The machine has a single card, which has no NVLink partner, so an NVLink error did not cause the failure. */
GW_TEST(links_of_a_single_card)
{
    fail_with(700, 74, 0);
    expect_cause("illegal-address", GW_ESTABLISHED);
}

GW_TEST(firmware)
{
    fail_with(719, 119, 0);
    expect_cause("gsp-failure", GW_ESTABLISHED);
}

GW_TEST(an_mps_neighbour)
{
    fail_with(810, 31, 4711);
    expect_cause("mps-neighbour-fault", GW_ESTABLISHED);
    fail_with(810, 0, 0);
    expect_cause("mps-neighbour-fault", GW_SUPPORTED);
}

GW_TEST_MAIN(NULL, NULL)
