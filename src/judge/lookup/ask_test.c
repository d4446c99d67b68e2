/* Tests the answers to questions: the meanings that they list for a code or name, and that a code alone never leads to
 * a fault verdict. */
#include "gw_unit_test.h"
#include "gwi_ask.h"

#include "judge_testlib.h"

/* A question, the kind and the code of its first meaning, its first cause, and a word of the suggested command. "":
 * none. */
static const struct {
    const char *question, *kind;
    int code;
    const char *cause, *command;
} rows[] = {
    {"700", "CUDA error", 700, "illegal-address", "--core"},
    {" 700 ", "CUDA error", 700, "illegal-address", "--core"},
    {"CUDA error 700", "CUDA error", 700, "illegal-address", "--core"},
    {"cuda error: (700)", "CUDA error", 700, "illegal-address", "--core"},
    {"cudaErrorIllegalAddress", "CUDA error", 700, "illegal-address", "--core"},
    {"CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA error", 700, "illegal-address", "--core"},
    {"cuda_error_out_of_memory", "CUDA error", 2, "gpu-oom-capacity", "gpuwhy run"},
    {"CUDA_ERROR_OUT_OF_MEMORY", "CUDA error", 2, "gpu-oom-capacity", "gpuwhy run"},
    {"710", "CUDA error", 710, "device-assert-index", "--blame"},
    {"901", "CUDA error", 901, "graph-capture-violation", "gpuwhy run"},
    {"803", "CUDA error", 803, "driver-library-mismatch", "gpuwhy doctor"},
    {"77", "CUDA error of the runtime before 10.1", 77, "illegal-address", "--core"},
    {"CUDNN_STATUS_NOT_INITIALIZED", "cuDNN 9 status", 1001, "gpu-oom-library-handle", "gpuwhy run"},
    {"cudnn 1", "cuDNN 7 and 8 status", 1, "gpu-oom-library-handle", "gpuwhy run"},
    {"cudnn 4004", "cuDNN 9 status", 4004, "gpu-oom-library-handle", "gpuwhy run"},
    {"CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH", "cuDNN 9 status", 2008, "library-bad-argument", "gpuwhy run"},
    {"CUBLAS_STATUS_ALLOC_FAILED", "cuBLAS status", 3, "gpu-oom-library-handle", "gpuwhy run"},
    {"ncclUnhandledCudaError", "NCCL result", 1, "illegal-address", "every rank"},
    {"nccl 6", "NCCL result", 6, "peer-died", "every rank"},
    {"ncclInProgress", "NCCL result", 7, "", ""},
    {"Xid 79", "Xid", 79, "gpu-off-bus", "gpuwhy run"},
    {"xid: 79", "Xid", 79, "gpu-off-bus", "gpuwhy run"},
    {"79", "Xid", 79, "gpu-off-bus", "gpuwhy run"},
    {"SXid 12028", "SXid", 12028, "nvlink-fault", "every rank"},
    {"exit 137", "exit status", 137, "host-oom-kill", "gpuwhy run"},
    {"137", "exit status", 137, "host-oom-kill", "gpuwhy run"},
    {"exit code -9", "exit status as Python's subprocess reports it", -9, "host-oom-kill", "gpuwhy run"},
    {"exited with code 139", "exit status", 139, "host-crash-of-process", "gpuwhy run"},
    {"signal 9", "signal", 9, "host-oom-kill", "gpuwhy run"},
    {"killed by signal 7", "signal", 7, "shm-exhausted", "gpuwhy run"},
    {"SIGTERM", "signal", 15, "killed-by-scheduler-or-user", "gpuwhy run"},
    {"exit status 127", "exit status", 127, "", ""},
    {"exit 3", "exit status", 3, "", ""},
    {"0", "CUDA error", 0, "", ""},
};

static void check(const char *question, const char *kind, int code, const char *cause, const char *command)
{
    gw_verdict *verdict = NULL;
    gw_error err = {0};
    if (gw_judge_question(question, &verdict, &err) != GW_OK)
        fail_msg("%s: %s", question, err.text);
    assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
    assert_null(verdict->cause);
    const gw_verdict_question *asked = verdict->question;
    assert_true(asked->meaning_count > 0);
    if (strcmp(asked->meaning[0].kind, kind) != 0 || asked->meaning[0].code != code)
        fail_msg("%s: read as %s %d", question, asked->meaning[0].kind, asked->meaning[0].code);
    const char *first = verdict->alternative_count > 0 ? verdict->alternatives[0].cause : "";
    if (strcmp(first, cause) != 0)
        fail_msg("%s: %s first, not %s", question, first, cause);
    if (command[0] == '\0' ? asked->command != NULL : asked->command == NULL || strstr(asked->command, command) == NULL)
        fail_msg("%s: decided by %s", question, asked->command == NULL ? "nothing" : asked->command);
    for (size_t i = 0; i < verdict->alternative_count; i++) {
        assert_int_equal(verdict->alternatives[i].certainty, GW_HYPOTHESIS);
        assert_non_null(verdict->alternatives[i].told_by);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(verdict->alternatives[i].cause, verdict->alternatives[k].cause);
    }
    gw_verdict_free(verdict);
}

GW_TEST(codes_and_names_are_read)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check(rows[i].question, rows[i].kind, rows[i].code, rows[i].cause, rows[i].command);
}

static bool has_kind(const gwi_readings *readings, const char *kind)
{
    for (size_t i = 0; i < readings->count; i++) {
        if (strcmp(readings->reading[i].kind, kind) == 0)
            return true;
    }
    return false;
}

GW_TEST(a_number_with_several_meanings_names_all)
{
    gwi_readings readings;
    assert_true(gwi_read_question("2", &readings));
    assert_true(has_kind(&readings, "CUDA error"));
    assert_true(has_kind(&readings, "cuDNN 7 and 8 status"));
    assert_true(has_kind(&readings, "NCCL result"));
    assert_true(gwi_read_question("CUDNN_STATUS_INTERNAL_ERROR", &readings));
    assert_int_equal(readings.count, 2);
    assert_int_equal(readings.reading[0].code, 4000);
    assert_int_equal(readings.reading[1].code, 4);
    assert_true(gwi_read_question("8", &readings)); /* error 8 of runtimes before 10.1 is 98 today */
    assert_true(has_kind(&readings, "CUDA error of the runtime before 10.1"));
    assert_true(has_kind(&readings, "Xid"));
}

GW_TEST(what_is_no_code_is_left_alone)
{
    static const char *const questions[] = {"",
                                            " ",
                                            "train",
                                            "train.log",
                                            "runs/700",
                                            "700 701",
                                            "slurm-700",
                                            "123456",
                                            "99999999999999999999",
                                            "-",
                                            "--7",
                                            "70x",
                                            "x70",
                                            "7e2",
                                            "0x2bc",
                                            "CUDA_ERROR_",
                                            "CUDNN_STATUS_NO_SUCH",
                                            "Xid",
                                            "exit",
                                            "\xff\xfe 7",
                                            "epoch 700",
                                            "6543"};
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        gw_verdict *verdict = NULL;
        gw_error err = {0};
        if (gw_judge_question(questions[i], &verdict, &err) != GW_MISSING)
            fail_msg("\"%s\" was read as a code", questions[i]);
        assert_null(verdict);
        assert_true(err.text[0] != '\0');
    }
    char *large = malloc(1 << 20);
    assert_non_null(large);
    memset(large, '7', (1 << 20) - 1);
    large[(1 << 20) - 1] = '\0';
    gw_verdict *verdict = NULL;
    assert_int_equal(gw_judge_question(large, &verdict, NULL), GW_MISSING);
    memset(large, ' ', 1 << 19);
    assert_int_equal(gw_judge_question(large, &verdict, NULL), GW_MISSING);
    free(large);
}

static bool has_cudnn_code(unsigned code)
{
    for (size_t i = 0; i < gw_data_cudnn_status_count; i++)
        if (gw_data_cudnn_status[i].code == code)
            return true;
    return false;
}

GW_TEST(every_code_of_the_tables_has_an_answer)
{
    char question[32];
    for (int code = 0; code < 25000; code++) {
        gw_verdict *verdict = NULL;
        snprintf(question, sizeof question, "%d", code);
        gw_status st = gw_judge_question(question, &verdict, NULL);
        bool known = gw_data_cuda_error((unsigned)code) != NULL || gw_data_xid_of((unsigned)code) != NULL ||
                     gw_data_sxid_of((unsigned)code) != NULL || has_cudnn_code((unsigned)code);
        if (known)
            assert_int_equal(st, GW_OK);
        if (st == GW_OK)
            assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
        gw_verdict_free(verdict);
    }
}

/* ---- messages ---- */

static gw_verdict *ask(const char *message)
{
    gw_verdict *verdict = NULL;
    gw_log *log = log_of("the message", message);
    assert_int_equal(gw_judge_message(log, message, &verdict, NULL), GW_OK);
    gw_log_free(log);
    return verdict;
}

/* End the test as skipped if this build has no matcher for text logs. */
static void need_logs(void)
{
    if (gw_logs_are_supported())
        return;
    print_message("skipped: this build reads no text logs\n");
    skip();
}

GW_TEST(a_message_that_is_a_code_in_words_is_no_verdict)
{
    static const struct {
        const char *message, *cause;
    } messages[] = {
        {"RuntimeError: CUDA error: an illegal memory access was encountered", "illegal-address"},
        {"RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", "gpu-oom-library-handle"},
        {"CUDA out of memory", "gpu-oom-capacity"},
        {"slurmstepd: error: task 0: exited with exit code 137", "host-oom-kill"},
    };
    need_logs();
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        gw_verdict *verdict = ask(messages[i].message);
        assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
        assert_null(verdict->cause);
        assert_true(verdict->alternative_count > 0);
        assert_string_equal(verdict->alternatives[0].cause, messages[i].cause);
        assert_non_null(verdict->question->command);
        gw_verdict_free(verdict);
    }
}

GW_TEST(a_message_that_says_why_is_judged)
{
    need_logs();
    gw_verdict *verdict = ask("RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
                              "multiprocessing, you must use the 'spawn' start method");
    assert_int_equal(verdict->status, GW_VERDICT_FAULT);
    assert_string_equal(verdict->cause, "fork-after-init");
    assert_true(verdict->certainty < GW_ESTABLISHED);
    assert_non_null(verdict->question);
    gw_verdict_free(verdict);
    /* this line of the kernel log shows a cause, not only a code */
    verdict = ask("NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.");
    assert_int_equal(verdict->status, GW_VERDICT_FAULT);
    assert_string_equal(verdict->cause, "gpu-off-bus");
    assert_int_equal(verdict->certainty, GW_SUPPORTED);
    gw_verdict_free(verdict);
    verdict = ask("what a lovely day\nnothing here");
    assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
    assert_int_equal(verdict->alternative_count, 0);
    assert_int_equal(verdict->question->meaning_count, 0);
    gw_verdict_free(verdict);
}

GW_TEST_MAIN(NULL, NULL)
