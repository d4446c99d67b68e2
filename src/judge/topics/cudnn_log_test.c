/* Tests conclusions from cuDNN's own log. Each case has a counterpart that differs a little and must get another
 * verdict. */
#include "verdict_testlib.h"

#include "gw_text.h"

#include <signal.h>

static void logged_of(uint32_t pid, const char *severity, const char *status, const char *reason, unsigned count)
{
    char value[512];
    snprintf(value, sizeof value,
             "severity=%s\nversion=90300\ncount=%u\nmore=1\nfunction=cudnnBackendFinalize\nstatus=%s\nreason=%s\n",
             severity, count, status, reason);
    fact_of(pid, 0, "cudnn.log", value);
}

static void logged(const char *severity, const char *status, const char *reason)
{
    logged_of(GW_FEED_PID, severity, status, reason, 1);
}

/* Count the evidence lines from cuDNN's log that contain `part`. */
static size_t library_lines(const char *part)
{
    size_t count = 0;
    for (size_t i = 0; i < verdict->evidence_count; i++)
        count +=
            strcmp(verdict->evidence[i].source, "library log") == 0 && strstr(verdict->evidence[i].text, part) != NULL;
    return count;
}

static void open_run(void)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_launch(&feed, 1, 0);
    gw_feed_sync(&feed);
    gw_feed_wait(&feed, 1000000000u);
}

static void refused_memory(void)
{
    open_run();
    for (int i = 0; i < 3; i++)
        gw_feed_alloc(&feed, 5 * gib);
    gw_feed_no_room(&feed, 64u << 20, 32u << 20, 16 * gib);
}

static void a_handle_without_room(void **state)
{
    refused_memory();
    logged("error", "CUDNN_STATUS_NOT_INITIALIZED", "cudaMalloc(&p) != cudaSuccess");
    expect_failure("gpu-oom-library-handle", GW_SUPPORTED);
    assert_int_equal(library_lines("cudnnBackendFinalize: CUDNN_STATUS_NOT_INITIALIZED, cudaMalloc"), 1);
}

/* A line of cuDNN's log is not about the refused request if it was logged long after the refusal or by another process,
 * or if it is a warning. */
static void not_about_that_request(void **state)
{
    for (int which = 0; which < 3; which++) {
        refused_memory();
        if (which == 0)
            gw_feed_wait(&feed, 60000000000u);
        gw_feed_process(&feed, 222, GW_FEED_PID, "/usr/bin/other");
        logged_of(which == 1 ? 222 : GW_FEED_PID, which == 2 ? "warning" : "error", "CUDNN_STATUS_NOT_INITIALIZED", "",
                  1);
        expect_failure("gpu-oom-capacity", GW_SUPPORTED);
        assert_int_equal(library_lines(""), 0);
    }
}

static void refused_arguments(void **state)
{
    open_run();
    logged("warning", "CUDNN_STATUS_NOT_SUPPORTED", "numUserNodes != 5");
    logged("error", "CUDNN_STATUS_BAD_PARAM", "xDesc.strideA[1] < 1");
    logged_of(GW_FEED_PID, "error", "CUDNN_STATUS_BAD_PARAM", "xDesc.strideA[1] < 1", 2);
    expect_failure("library-bad-argument", GW_SUPPORTED);
    assert_int_equal(library_lines("strideA[1] < 1 (2 times)"), 1);
    assert_int_equal(library_lines(""), 1);
}

static void another_reason_came_after(void **state)
{
    open_run();
    logged("error", "CUDNN_STATUS_BAD_PARAM", "xDesc.strideA[1] < 1");
    expect_failure_told("Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\nKeyError: 'x'\n",
                        "script-exception", GW_SUPPORTED); /* cuDNN's error may still be the reason */
}

/* The logged error did not end a program that continued for a long time, died of a signal, or exited with 0. */
static void not_the_end(void **state)
{
    for (int which = 0; which < 3; which++) {
        open_run();
        logged("error", "CUDNN_STATUS_BAD_PARAM", "xDesc.strideA[1] < 1");
        gw_feed_wait(&feed, which == 0 ? 60000000000u : 1000);
        gw_feed_exit(&feed, which == 1 ? -1 : which == 0, which == 1 ? SIGKILL : 0);
        judge_open();
        assert_true(verdict->cause == NULL || !gw_begins(verdict->cause, "library"));
    }
}

static void a_card_that_is_not_served(void **state)
{
    open_run();
    logged("error", "CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH", "deviceVer < 700");
    expect_failure("library-too-old-or-dropped-gpu", GW_SUPPORTED);
}

static void map_library(const char *value)
{
    gw_feed_fact(&feed, "library", value);
}

static void two_versions(void **state)
{
    for (int same = 0; same < 2; same++) {
        open_run();
        map_library(
            "kind=cudnn part= place=wheel version=9.1.0 from=3 major_only=0 path=/v/nvidia/cudnn/libcudnn.so.9");
        map_library(same ? "kind=cudnn part=ops place=wheel version=9.1.0 from=3 major_only=0 "
                           "path=/v/nvidia/cudnn/libcudnn_ops.so.9"
                         : "kind=cudnn part=ops place=system version=9.3.0 from=3 major_only=0 "
                           "path=/usr/lib/libcudnn_ops.so.9");
        logged("error", "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", "ops");
        gw_feed_exit(&feed, 1, 0);
        if (same) {
            judge_open();
            assert_null(verdict->cause);
        } else {
            expect_cause("cudnn-mixed-libraries", GW_ESTABLISHED);
            /* cuDNN's line itself, and the verdict's line about its status */
            assert_int_equal(library_lines("SUBLIBRARY_VERSION_MISMATCH"), 2);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handle_without_room), cmocka_unit_test(not_about_that_request),
        cmocka_unit_test(refused_arguments),     cmocka_unit_test(another_reason_came_after),
        cmocka_unit_test(not_the_end),           cmocka_unit_test(a_card_that_is_not_served),
        cmocka_unit_test(two_versions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
