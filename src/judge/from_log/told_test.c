/* Judges recordings with messages on stderr. The verdict may use the messages only if no driver call shows the
 * cause. */
#include "judge_testlib.h"

#include "gw_logs.h"
#include "gw_model.h"

static const uint64_t gib = (uint64_t)1 << 30;

static gw_feed feed;
static gw_model *model;
static gw_verdict *verdict;

static void judge(void)
{
    gw_error err;
    model = gw_feed_finish(&feed);
    assert_int_equal(gw_judge(model, &verdict, &err), GW_OK);
}

static void judge_close(void)
{
    gw_verdict_free(verdict);
    gw_model_free(model);
}

/* Judge a program that used the GPU without errors, printed `text`, and ended with this exit code or signal. */
static void judge_run(const char *text, int code, int signal)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_alloc(&feed, gib);
    gw_feed_launch(&feed, 0x10, 0);
    gw_feed_sync(&feed);
    gw_feed_stderr(&feed, text);
    gw_feed_exit(&feed, code, signal);
    judge();
}

static bool has_alternative(const char *cause)
{
    return certainty_of_alternative(verdict, cause) != GW_CERTAINTY_NONE;
}

static bool says(const char *text)
{
    return evidence_has(verdict, text);
}

#define TRACEBACK "Traceback (most recent call last):\n  File \"train.py\", line 9, in step\n"

static const struct {
    const char *text, *cause;
    int signal;
} cases[] = {
    {TRACEBACK "RuntimeError: Function 'PowBackward1' returned nan values in its 1st output.\n", "numeric-divergence",
     0},
    {TRACEBACK "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running ALLREDUCE\n",
     "collective-desync", 0},
    {"[rank1]: Detected mismatch between collectives on ranks. Rank 0 is running ALLREDUCE\n"
     "terminate called after throwing an instance of 'c10::Error'\n",
     "collective-desync", 6},
    {TRACEBACK "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory\n",
     "library-not-found", 0},
    {"E cuda_dnn.cc:456] Loaded runtime CuDNN library: 8.0.4 but source was compiled with: 8.1.0.\n" TRACEBACK
     "UnknownError: Failed to get convolution algorithm.\n",
     "library-version-mismatch", 0},
    {"The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).\n" TRACEBACK
     "torch.distributed.DistNetworkError: The server socket has failed to listen.\n",
     "rendezvous-port-clash", 0},
    {TRACEBACK
     "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 106496, Hardware limit: "
     "101376.\n",
     "launch-config-invalid", 0},
};

static void words_tell_what_no_call_does(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        judge_run(cases[i].text, cases[i].signal == 0, cases[i].signal);
        if (verdict->cause == NULL || strcmp(verdict->cause, cases[i].cause) != 0)
            fail_msg("%s: taken for %s", cases[i].text, verdict->cause);
        assert_int_equal(verdict->status, GW_VERDICT_FAULT);
        assert_int_equal(verdict->certainty, GW_SUPPORTED);
        if (strstr(cases[i].text, "returned nan") != NULL)
            assert_true(has_alternative("script-exception"));
        assert_true(says("stderr:"));
        judge_close();
    }
}

static void a_good_end_outweighs_words(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        judge_run(cases[i].text, 0, 0);
        assert_int_equal(verdict->status, GW_VERDICT_CLEAN);
        judge_close();
    }
}

static void events_outweigh_words(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_feed_open(&feed, 16 * gib);
        gw_feed_alloc(&feed, 15 * gib);
        gw_feed_no_room(&feed, 5 * gib, gib, 16 * gib);
        gw_feed_stderr(&feed, cases[i].text);
        gw_feed_stderr(&feed, TRACEBACK "torch.OutOfMemoryError: CUDA out of memory.\n");
        gw_feed_exit(&feed, 1, 0);
        judge();
        assert_true(verdict->cause == NULL || strcmp(verdict->cause, cases[i].cause) != 0);
        assert_true(has_alternative("gpu-oom-capacity") || verdict->cause != NULL);
        assert_false(has_alternative(cases[i].cause));
        judge_close();
    }
}

static void an_early_warning_is_no_reason(void **state)
{
    enum { LINES = 200, BYTES = 16 << 10 };
    char *text = calloc(1, BYTES);
    assert_non_null(text);
    strcat(text, "WARNING: NaN detected in the input, replaced\n");
    for (int i = 0; i < LINES; i++)
        strcat(text, "reading the next shard\n");
    strcat(text, TRACEBACK "ValueError: no labels\n");
    judge_run(text, 1, 0);
    assert_string_equal(verdict->cause, "script-exception");
    assert_int_equal(verdict->certainty, GW_ESTABLISHED);
    judge_close();
    free(text);
}

static void of_much_the_end_is_read(void **state)
{
    enum { MIB = 1 << 20, LINE = 64 };
    char *text = malloc(MIB + 1);
    assert_non_null(text);
    for (size_t i = 0; i < MIB; i++)
        text[i] = i % LINE == LINE - 1 ? '\n' : 'x';
    text[MIB] = '\0';
    gw_feed_open(&feed, 16 * gib);
    for (int i = 0; i < 3; i++)
        gw_feed_stderr(&feed, text);
    gw_feed_stderr(&feed, cases[0].text);
    gw_feed_exit(&feed, 1, 0);
    judge();
    const gw_log *log = model->stderr_facts.log;
    assert_int_equal(log->file_count, 2); /* the begin and the end of the text, in whole lines */
    assert_true(log->file[0].bytes > LINE && log->file[0].bytes + log->file[1].bytes <= MIB);
    assert_int_equal(log->file[0].bytes % LINE, 0);
    assert_string_equal(verdict->cause, cases[0].cause);
    assert_true(says("end of stderr:"));
    judge_close();
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_tell_what_no_call_does), cmocka_unit_test(a_good_end_outweighs_words),
        cmocka_unit_test(events_outweigh_words),        cmocka_unit_test(an_early_warning_is_no_reason),
        cmocka_unit_test(of_much_the_end_is_read),
    };
    if (!gw_logs_are_supported()) {
        print_message("skipped: this build cannot read text logs\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
