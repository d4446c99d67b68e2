/* Tests verdicts on crashes of host code with GPU memory, and on unchecked errors. Each case has a similar one with
 * another verdict. */
#include "gw_unit_test.h"
#include "verdict_testlib.h"

#include <signal.h>

enum { MAPERR = 1, BY_KERNEL = 0x80, SENT = 0 };

static bool says(const char *part)
{
    return why_has(verdict, part);
}

static gw_certainty alternative(const char *cause)
{
    return certainty_of_alternative(verdict, cause);
}

static uint64_t open_run(void)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_alloc(&feed, gib);
    uint64_t block = gw_feed_alloc(&feed, 48 << 20);
    gw_feed_launch(&feed, 1, 0);
    gw_feed_sync(&feed);
    gw_feed_drain(&feed);
    return block;
}

static void crash_at(uint64_t address, int code)
{
    gw_feed_call(&feed, "?", GW_EV_CRASH, 0, SIGSEGV, address, (uint64_t)(int64_t)code, 0x401000);
}

static void expect_crash(const char *cause, gw_certainty certainty)
{
    gw_feed_exit(&feed, -1, SIGSEGV);
    expect_cause(cause, certainty);
}

GW_TEST(inside_a_block)
{
    crash_at(open_run() + 4096, MAPERR);
    expect_crash("host-touched-device-memory", GW_ESTABLISHED);
    assert_true(says("48.00 MiB") && says("4096 bytes into the block"));
    assert_int_equal(verdict->alternative_count, 0);
}

static void core_at(uint64_t address, int code)
{
    char value[256];
    snprintf(value, sizeof value, "path=/w/core\nsignal=%d\ntid=%u\ncode=%d\naddress=0x%llx\ninstruction=0x401000\n",
             SIGSEGV, GW_FEED_PID, code, (unsigned long long)address);
    fact_of(GW_FEED_PID, 0, "host.core", value);
}

static bool core_says(const char *part)
{
    for (size_t i = 0; i < verdict->evidence_count; i++)
        if (strcmp(verdict->evidence[i].source, "core dump") == 0 && strstr(verdict->evidence[i].text, part) != NULL)
            return true;
    return false;
}

GW_TEST(by_a_core_dump)
{
    core_at(open_run() + 4096, MAPERR);
    expect_crash("host-touched-device-memory", GW_ESTABLISHED);
    assert_true(core_says("signal 11 at address") && says("4096 bytes into the block"));
}

/* These core dumps do not prove that host code used device memory. The fault address is not in a block or missing,
 * or a process sent the signal. */
GW_TEST(by_a_core_dump_of_another_crash)
{
    static const struct {
        uint64_t offset;
        int code;
    } rows[] = {{1ull << 40, MAPERR}, {0, BY_KERNEL}, {0, SENT}, {0, -6}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        core_at(open_run() + rows[i].offset, rows[i].code);
        /* an unknown address may be one of GPU memory */
        expect_crash("host-crash-of-process", rows[i].code == BY_KERNEL ? GW_SUPPORTED : GW_ESTABLISHED);
        assert_int_equal(core_says("the fault was at address"), i == 0);
    }
}

GW_TEST(a_handler_says_more_than_a_core)
{
    uint64_t block = open_run();
    crash_at(block + 4096, MAPERR);
    core_at(block + 8192, MAPERR);
    expect_crash("host-touched-device-memory", GW_ESTABLISHED);
    assert_true(says("4096 bytes into the block") && !core_says(""));
}

GW_TEST(behind_a_block)
{
    crash_at(open_run() + (1ull << 40), MAPERR);
    expect_crash("host-crash-of-process", GW_ESTABLISHED);
    assert_int_equal(alternative("host-touched-device-memory"), GW_CERTAINTY_NONE);
    assert_true(list_has(&verdict->ruled_out, "is in none of its blocks"));
}

GW_TEST(in_a_block_that_is_gone)
{
    uint64_t block = open_run();
    gw_feed_free(&feed, block);
    crash_at(block, MAPERR);
    expect_crash("host-crash-of-process", GW_ESTABLISHED);
}

/* Host code may access managed memory, so a fault address in such a block is not the reason for the crash. */
GW_TEST(in_managed_memory)
{
    (void)open_run();
    gw_feed_call(&feed, "cuMemAllocManaged", GW_EV_ALLOC, 0, 0x600000000000, gib, GW_SPACE_MANAGED, 0);
    crash_at(0x600000000010, MAPERR);
    expect_crash("host-crash-of-process", GW_ESTABLISHED);
}

/* A general protection fault, or a signal that a process sent, has no fault address. */
GW_TEST(without_an_address)
{
    static const int codes[] = {BY_KERNEL, SENT, -6};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        uint64_t block = open_run();
        crash_at(codes[i] == BY_KERNEL ? 0 : block, codes[i]);
        expect_crash("host-crash-of-process", codes[i] == BY_KERNEL ? GW_SUPPORTED : GW_ESTABLISHED);
        assert_int_equal(alternative("host-touched-device-memory"), codes[i] == BY_KERNEL ? GW_HYPOTHESIS : 0);
        assert_int_equal(says("was sent"), codes[i] != BY_KERNEL);
    }
}

GW_TEST(nobody_told)
{
    (void)open_run();
    expect_crash("host-crash-of-process", GW_SUPPORTED);
    assert_int_equal(alternative("host-touched-device-memory"), GW_HYPOTHESIS);
    assert_true(list_has(&verdict->next, "--catch-crash"));
}

GW_TEST(by_the_kernel_log)
{
    uint64_t block = open_run();
    gw_feed_machine(&feed, GW_MACHINE_CRASH, GW_SOURCE_KERNEL_LOG, GW_NO_DEVICE, GW_FEED_PID, SIGSEGV, block + 64,
                    "program[100]: segfault at 7f0000000040 ip 0000000000401000 sp 00007ffc0 error 4 in program");
    expect_crash("host-touched-device-memory", GW_ESTABLISHED);
    /* the kernel log reports the crash of another process */
    block = open_run();
    gw_feed_machine(&feed, GW_MACHINE_CRASH, GW_SOURCE_KERNEL_LOG, GW_NO_DEVICE, 4711, SIGSEGV, block + 64,
                    "other[4711]: segfault at 7f0000000040 ip 0000000000401000 sp 00007ffc0 error 4 in other");
    expect_crash("host-crash-of-process", GW_SUPPORTED);
}

GW_TEST(the_program_copes)
{
    crash_at(open_run() + 4096, MAPERR);
    gw_feed_exit(&feed, 0, 0);
    expect_cause("none", GW_ESTABLISHED);
    assert_int_equal(verdict->status, GW_VERDICT_CLEAN);
    crash_at(open_run() + 4096, MAPERR);
    gw_feed_exit(&feed, 7, 0);
    expect_cause("host-touched-device-memory", GW_SUPPORTED);
}

/* The program survived the recorded fault: it made another call and exited with a status. */
GW_TEST(an_earlier_fault)
{
    crash_at(open_run() + 4096, MAPERR);
    gw_feed_alloc(&feed, 4096);
    gw_feed_exit(&feed, 3, 0);
    expect_cause("none", GW_CERTAINTY_NONE);
}

GW_TEST(the_null_of_a_refusal)
{
    (void)open_run();
    gw_feed_no_room(&feed, 30 * gib, 14 * gib, 16 * gib);
    crash_at(0, MAPERR);
    expect_crash("gpu-oom-capacity", GW_ESTABLISHED);
    assert_true(list_has(&verdict->consequences, "the NULL pointer of the failed cuMemAlloc"));
    /* a fault address far from NULL has nothing to do with the refused request */
    (void)open_run();
    gw_feed_no_room(&feed, 30 * gib, 14 * gib, 16 * gib);
    crash_at(0x700000000000, MAPERR);
    expect_crash("gpu-oom-capacity", GW_SUPPORTED);
    assert_false(list_has(&verdict->consequences, "NULL"));
}

/* ---- first-error-lost ---- */

static void fail_a_copy(unsigned launches, const char *printed, int status)
{
    gw_feed_open(&feed, 16 * gib);
    uint64_t block = gw_feed_alloc(&feed, gib);
    gw_feed_call(&feed, "cuMemcpyHtoD_v2", GW_EV_COPY, 1, block, 0x7000, 2 * gib, 0);
    for (unsigned i = 0; i < launches; i++)
        gw_feed_launch(&feed, 1, 0);
    gw_feed_sync(&feed);
    gw_feed_drain(&feed);
    gw_feed_stderr(&feed, printed);
    gw_feed_exit(&feed, status, 0);
}

GW_TEST(a_lost_error)
{
    static const char *const texts[] = {"launch failed: CUDA_ERROR_INVALID_VALUE\n",
                                        "CUDA error at train.cu:88: invalid argument\n",
                                        "Error: cudaErrorInvalidValue\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fail_a_copy(20, texts[i], 1);
        expect_cause("first-error-lost", GW_SUPPORTED);
        assert_true(says("cuMemcpyHtoD"));
    }
}

GW_TEST(an_error_without_a_word)
{
    fail_a_copy(20, "something went wrong\n", 1);
    expect_cause("none", GW_CERTAINTY_NONE);
    fail_a_copy(20, "CUDA error: invalid resource handle\n", 1); /* the printed error is not the error of the copy */
    expect_cause("none", GW_CERTAINTY_NONE);
    fail_a_copy(20, "CUDA error: invalid argument\n", 0);
    expect_cause("none", GW_ESTABLISHED);
    assert_int_equal(verdict->status, GW_VERDICT_CLEAN);
}

/* The program printed the error immediately, so it did check the failed call. */
GW_TEST(an_error_that_was_looked_at)
{
    gw_feed_open(&feed, 16 * gib);
    uint64_t block = gw_feed_alloc(&feed, gib);
    gw_feed_launch(&feed, 1, 0);
    gw_feed_call(&feed, "cuMemcpyHtoD_v2", GW_EV_COPY, 1, block, 0x7000, 2 * gib, 0);
    expect_failure_told("copy: CUDA_ERROR_INVALID_VALUE\n", "none", GW_CERTAINTY_NONE);
}

GW_TEST_MAIN(NULL, NULL)
