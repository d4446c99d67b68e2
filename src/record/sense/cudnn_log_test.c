/* Tests the cuDNN log parser. Some logs have level letters and some have none. Each is passed in pieces of various
 * sizes. */
#include "gw_cudnn_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static gw_cudnn_message told[8];
static size_t told_count;

static void take(void *user, const gw_cudnn_message *message)
{
    (void)user;
    if (told_count < sizeof told / sizeof told[0])
        told[told_count] = *message;
    told_count++;
}

/* Pass the text to the parser in pieces of `piece` bytes. */
static void read_text(const char *text, size_t piece)
{
    gw_cudnn_log log = {0};
    size_t bytes = strlen(text);
    told_count = 0;
    for (size_t at = 0; at < bytes; at += piece)
        gw_cudnn_log_feed(&log, text + at, piece < bytes - at ? piece : bytes - at, take, NULL);
    gw_cudnn_log_end(&log, take, NULL);
}

static const char version_9[] =
    "E! CuDNN (v90300 75) function cudnnBackendFinalize() called:\n"
    "e!         Error: CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED; Reason: ptrDesc->finalize()\n"
    "e! Time: 2025-01-21T05:14:40.853014 (0d+0h+0m+10s since start)\n"
    "e! Process=1856706; Thread=1856707; GPU=NULL; Handle=NULL; StreamId=NULL.\n\n";

static void version_9_in_any_pieces(void **state)
{
    (void)state;
    for (size_t piece = 1; piece < sizeof version_9; piece++) {
        read_text(version_9, piece);
        assert_int_equal(told_count, 1);
        assert_true(told[0].is_error);
        assert_int_equal(told[0].version, 90300);
        assert_int_equal(told[0].pid, 1856706);
        assert_string_equal(told[0].function, "cudnnBackendFinalize");
        assert_string_equal(told[0].status, "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED");
        assert_string_equal(told[0].reason, "ptrDesc->finalize()");
        assert_int_equal(told[0].more, 0);
    }
}

static void version_8_with_a_traceback(void **state)
{
    (void)state;
    read_text("W! CuDNN (v8902) function cudnnBackendFinalize() called:\n"
              "w!     Info: Traceback contains 3 message(s)\n"
              "w!         Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: numUserNodes != 5\n"
              "w!         Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: checkGraph\n"
              "w!         Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: finalize_internal()\n"
              "w! Time: 2022-11-25T08:47:48.178932 (0d+0h+0m+2s since start)\n"
              "w! Process=391; Thread=391; GPU=NULL; Handle=NULL; StreamId=NULL.\n",
              7);
    assert_int_equal(told_count, 1);
    assert_false(told[0].is_error);
    assert_int_equal(told[0].version, 8902);
    assert_int_equal(told[0].more, 2);
    assert_string_equal(told[0].reason, "numUserNodes != 5");
}

/* If an entry has a warning and then an error, the parser must report the error. */
static void an_error_counts_more(void **state)
{
    (void)state;
    read_text("E! CuDNN (v8700) function cudnnCreate() called:\n"
              "e!     Warning: CUDNN_STATUS_ALLOC_FAILED; Reason: host side\n"
              "e!     Error: CUDNN_STATUS_NOT_INITIALIZED; reason: cudaMalloc failed\n",
              64);
    assert_int_equal(told_count, 1);
    assert_true(told[0].is_error);
    assert_string_equal(told[0].status, "CUDNN_STATUS_NOT_INITIALIZED");
    assert_string_equal(told[0].reason, "cudaMalloc failed");
    assert_int_equal(told[0].more, 1);
    assert_int_equal(told[0].pid, 0);
}

/* An entry as in NVIDIA's documentation: without a level letter on each line. Its error has no status. */
static void without_letters(void **state)
{
    (void)state;
    read_text("cuDNN (v90000) function cudnnCreate() called:\n    Error: something else\n"
              "Time: 2024-01-21T14:14:21.366171 (0d+0h+1m+5s since start)\n"
              "Process: 21264, Thread: 21264, cudnn_handle: NULL, cudnn_stream: NULL.\n",
              1000);
    assert_int_equal(told_count, 1);
    assert_string_equal(told[0].status, "");
    assert_string_equal(told[0].reason, "something else");
    assert_int_equal(told[0].pid, 21264);
}

static void calls_are_no_messages(void **state)
{
    (void)state;
    read_text("I! CuDNN (v90100 17) function cudnnSetActivationDescriptor() called:\n"
              "i!     mode: type=cudnnActivationMode_t; val=CUDNN_ACTIVATION_RELU (1);\n"
              "i! Time: 2024-01-21T14:14:21.366171 (0d+0h+1m+5s since start)\n"
              "i! Process=5; Thread=5; GPU=NULL; Handle=NULL; StreamId=NULL.\n",
              1000);
    assert_int_equal(told_count, 0);
    read_text("an Error: of somebody else's\nProcess=5\n\n", 3);
    assert_int_equal(told_count, 0);
}

static void hostile_lines(void **state)
{
    static char text[3 * GW_CUDNN_LINE_MAX];
    (void)state;
    memset(text, 'x', sizeof text - 1);
    static const char *const heads[] = {"E! CuDNN (v", "e! Error: CUDNN_STATUS_",
                                        "e! Error: CUDNN_STATUS_A; Reason: ", "e! Process=99999999999999999999",
                                        "E! CuDNN (v1) function "};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        memcpy(text, heads[i], strlen(heads[i]));
        read_text(text, 100);
        assert_true(told_count <= 1);
        memset(text, 'x', strlen(heads[i]));
    }
    read_text("e! Error: \ne! Error: CUDNN_STATUS_;\n!!\nE!\n", 2);
    assert_int_equal(told_count, 1);
    assert_string_equal(told[0].status, "CUDNN_STATUS_");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_9_in_any_pieces), cmocka_unit_test(version_8_with_a_traceback),
        cmocka_unit_test(an_error_counts_more),    cmocka_unit_test(without_letters),
        cmocka_unit_test(calls_are_no_messages),   cmocka_unit_test(hostile_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
