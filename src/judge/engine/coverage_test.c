/* Tests that verdicts make claims about the GPU only if the GPU was observed, and that they quote the program's last
 * output correctly. */
#include "gw_unit_test.h"
#include "verdict_testlib.h"

#include "gw_text.h"

#include <signal.h>

static bool has(const char *part)
{
    return why_has(verdict, part);
}

static bool is_ruled_out(void)
{
    if (strstr(verdict->headline, "ruled out") != NULL || strstr(verdict->headline, "not at fault") != NULL)
        return true;
    for (size_t i = 0; i < verdict->ruled_out.count; i++) {
        if (gw_begins(verdict->ruled_out.item[i], "the GPU"))
            return true;
    }
    return false;
}

static void work(void)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_alloc(&feed, mib);
    gw_feed_launch(&feed, 0xf1, 0);
    gw_feed_sync(&feed);
}

static void end(int code, int signal_)
{
    gw_feed_exit(&feed, code, signal_);
    judge_open();
}

static void expect_end(int code, gw_verdict_status status)
{
    end(code, 0);
    assert_int_equal(verdict->status, status);
}

/* ---- what was observed ---- */

static const char other_child[] =
    "pid 7 (python3) was started with a different environment: its driver calls would not be recorded";
static const char nested[] = "pid 7 is another gpuwhy run; the processes that it started are recorded in /r.gpuwhy";

GW_TEST(test_a_silent_end)
{
    work();
    expect_end(3, GW_VERDICT_UNDETERMINED);
    assert_true(is_ruled_out());
    assert_int_equal(verdict->observed_count, 1);

    static const char *const keys[] = {"unobserved.child", "unobserved.nested", "unobserved.driver", "doors.closed"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        work();
        gw_feed_fact(&feed, keys[i], i == 1 ? nested : i == 3 ? "failed" : other_child);
        expect_end(3, GW_VERDICT_UNDETERMINED);
        assert_false(is_ruled_out());
        assert_true(verdict->unobserved.count == 1);
    }
}

GW_TEST(test_without_a_driver_call)
{
    for (int driver = 0; driver < 2; driver++) {
        gw_feed_open_bare(&feed);
        if (driver == 0)
            gw_feed_fact(&feed, "doors.closed", "no driver");
        expect_end(3, GW_VERDICT_UNDETERMINED);
        assert_false(is_ruled_out());
        assert_true(has("no CUDA driver call was observed"));
        assert_int_equal(verdict->observed_count, 0);
    }
}

GW_TEST(test_a_good_end)
{
    work();
    expect_end(0, GW_VERDICT_CLEAN);
    assert_string_equal(verdict->headline, "no fault found");
    work();
    gw_feed_fact(&feed, "unobserved.child", other_child);
    expect_end(0, GW_VERDICT_CLEAN);
    assert_string_equal(verdict->headline, "no fault found in the processes that were observed");
    assert_true(has("pid 7"));
    gw_feed_open_bare(&feed);
    expect_end(0, GW_VERDICT_UNDETERMINED);
    assert_null(strstr(verdict->headline, "no fault"));
    assert_true(has("no CUDA driver call was observed"));
    gw_feed_open_bare(&feed);
    gw_feed_fact(&feed, "unobserved.nested", nested);
    expect_end(0, GW_VERDICT_UNDETERMINED);
}

/* At a terminal, some of the output is recorded. A line of it does not show that nothing else was printed. */
GW_TEST(test_output_that_is_partly_recorded)
{
    for (int i = 0; i < 4; i++) {
        work();
        gw_feed_fact(&feed, "stderr.not_recorded",
                     "stderr is a terminal, so only text from the C library's functions was recorded");
        if (i % 2 == 1)
            gw_feed_stderr(&feed, "W: a warning of a library\n");
        end(i / 2, 0);
        if (i / 2 == 0)
            assert_int_equal(verdict->status, GW_VERDICT_CLEAN);
        assert_int_equal(verdict->certainty, i / 2 == 0 ? GW_SUPPORTED : GW_CERTAINTY_NONE);
        assert_int_equal(is_ruled_out(), false);
    }
}

/* The program's own exception is the fault, but an unobserved child lowers it to supported. If the exception
 * reports that child, the verdict is undetermined. */
GW_TEST(test_an_exception_beside_it)
{
    static const char own[] =
        "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\nValueError: no\n";
    static const char childs[] = "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\n"
                                 "subprocess.CalledProcessError: Command 'x' returned non-zero exit status 1.\n";
    for (int i = 0; i < 4; i++) {
        work();
        gw_feed_stderr(&feed, i < 2 ? own : childs);
        if (i % 2 == 1)
            gw_feed_fact(&feed, "unobserved.child", other_child);
        end(1, 0);
        if (i == 3) {
            assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
        } else {
            assert_int_equal(verdict->status, GW_VERDICT_FAULT);
            assert_cause(verdict, "script-exception", i == 1 ? GW_SUPPORTED : GW_ESTABLISHED);
        }
        assert_int_equal(is_ruled_out(), i % 2 == 0);
    }
}

GW_TEST(test_ended_inside_a_call)
{
    for (int i = 0; i < 2; i++) {
        work();
        if (i == 1)
            gw_feed_inside(&feed, "cuCtxSynchronize");
        end(-1, SIGTERM);
        assert_int_equal(is_ruled_out(), i == 0);
        if (i == 1)
            assert_true(has("was inside cuCtxSynchronize"));
    }
}

/* The driver refuses a query. The verdict must rule out the GPU if another call follows, but not if the program
 * ends right after the refusal. */
GW_TEST(test_ended_at_a_question)
{
    for (int i = 0; i < 2; i++) {
        work();
        gw_feed_call(&feed, "cuPointerGetAttribute", GW_EV_CALL, 1, 0, 0, 0, 0);
        if (i == 0)
            gw_feed_alloc(&feed, mib);
        end(1, 0);
        assert_int_equal(is_ruled_out(), i == 0);
    }
}

/* The binary lacks a kernel. The program surely does without it only if much work followed. */
GW_TEST(test_a_refused_lookup)
{
    static const int launches[] = {0, 1, 64};
    for (size_t i = 0; i < sizeof launches / sizeof launches[0]; i++) {
        for (int raises = 0; raises < 2; raises++) {
            work();
            gw_feed_call(&feed, "cuLibraryGetKernel", GW_EV_FUNCTION, 209, 0, 0, 0, 0);
            for (int k = 0; k < launches[i]; k++)
                gw_feed_launch(&feed, 0xf1, 0);
            gw_feed_sync(&feed);
            gw_feed_drain(&feed);
            if (raises)
                gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\n"
                                      "ValueError: no\n");
            end(1, 0);
            assert_int_equal(is_ruled_out(), launches[i] == 64);
            if (raises && launches[i] > 0)
                assert_int_equal(verdict->certainty, launches[i] == 64 ? GW_ESTABLISHED : GW_SUPPORTED);
            assert_int_equal(has("little work followed"), launches[i] == 1);
        }
    }
}

GW_TEST(test_a_sibling_was_refused)
{
    for (int i = 0; i < 2; i++) {
        work();
        gw_feed_process(&feed, 900, GW_FEED_PID, "/usr/bin/worker");
        feed.pid = feed.tid = 900;
        gw_feed_begin_cuda(&feed, 16 * gib);
        if (i == 1)
            gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 1, 0, 0, 0, 0);
        gw_feed_exit_of(&feed, 900, 0, 0);
        feed.pid = feed.tid = GW_FEED_PID;
        end(3, 0);
        assert_int_equal(is_ruled_out(), i == 0);
    }
}

/* ---- what is ruled out ---- */

/* A crash. A call in the driver is ruled out only if the process's calls were recorded, to the end of the recording. */
GW_TEST(test_a_crash_that_was_not_observed)
{
    enum { OBSERVED, NO_CALL, NO_DRIVER, NO_END, LOST_FAILURES, CASES };
    for (int i = 0; i < CASES; i++) {
        if (i == NO_CALL || i == NO_DRIVER)
            gw_feed_open_bare(&feed);
        else
            work();
        if (i == NO_DRIVER)
            gw_feed_fact(&feed, "doors.closed", "no driver");
        if (i == LOST_FAILURES)
            lose(0, 1);
        gw_feed_exit(&feed, -1, SIGABRT);
        if (i == NO_END)
            gw_feed_truncated(&feed);
        judge_open();
        assert_int_equal(list_has(&verdict->ruled_out, "a crash inside the driver"), i == OBSERVED);
        assert_int_equal(is_ruled_out(), i == OBSERVED);
        if (i == LOST_FAILURES || i == NO_END)
            assert_int_equal(certainty_of_alternative(verdict, "host-crash-of-process"), GW_HYPOTHESIS);
        else
            assert_cause(verdict, "host-crash-of-process", i == OBSERVED ? GW_ESTABLISHED : GW_SUPPORTED);
        assert_true(i == OBSERVED || verdict->ruled_out.count == 0);
    }
}

/* The shell, which makes no driver call, crashes after its child has ended well. */
GW_TEST(test_a_crash_of_another_process)
{
    gw_feed_open_bare(&feed);
    feed.pid = feed.tid = 300;
    gw_feed_begin_cuda(&feed, 16 * gib);
    gw_feed_exit_of(&feed, 300, 0, 0);
    feed.pid = feed.tid = GW_FEED_PID;
    end(-1, SIGSEGV);
    assert_cause(verdict, "host-crash-of-process", GW_SUPPORTED);
    assert_false(list_has(&verdict->ruled_out, "a crash inside the driver"));
}

GW_TEST(test_a_message_alone)
{
    for (int is_observed = 0; is_observed < 2 && gw_logs_are_supported(); is_observed++) {
        if (is_observed)
            work();
        else
            gw_feed_open_bare(&feed);
        gw_feed_stderr(&feed,
                       "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory\n");
        end(1, 0);
        assert_cause(verdict, "library-not-found", GW_SUPPORTED);
        assert_int_equal(list_has(&verdict->ruled_out, "a failed driver call (none failed)"), is_observed);
        assert_int_equal(verdict->ruled_out.count, is_observed);
    }
}

/* The supervisor was killed, so the recording stops early. The program may have failed after that. */
GW_TEST(test_a_recording_that_stops_early)
{
    work();
    gw_feed_truncated(&feed);
    judge_open();
    assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
    assert_non_null(strstr(verdict->headline, "the recording stops before the program ended"));
    assert_int_equal(verdict->ruled_out.count, 0);
    work(); /* the program may have survived this refusal */
    gw_feed_no_room(&feed, 20 * gib, gib, 16 * gib);
    gw_feed_truncated(&feed);
    judge_open();
    assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
    assert_int_equal(certainty_of_alternative(verdict, "gpu-oom-capacity"), GW_HYPOTHESIS);
    work(); /* it ended well, but failures may be missing */
    gw_feed_exit(&feed, 0, 0);
    gw_feed_truncated(&feed);
    judge_open();
    assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
    assert_true(has("parts of the recording are missing"));
}

/* Without samples, a broken card cannot be ruled out as the reason for a kernel's fault. */
GW_TEST(test_without_samples)
{
    for (int is_sensed = 0; is_sensed < 2; is_sensed++) {
        work();
        if (!is_sensed)
            gw_feed_meta(&feed, "option.no_sense", "1");
        gw_feed_call(&feed, "cuStreamSynchronize", GW_EV_SYNC, 700, 0, 0, 0, 0);
        end(1, 0);
        assert_cause(verdict, "illegal-address", is_sensed ? GW_ESTABLISHED : GW_SUPPORTED);
    }
}

/* ---- the program's output ---- */

GW_TEST(test_last_words)
{
    work();
    gw_feed_stderr(&feed, "one\ntwo\n10%\r20%\r30%\n  three\nfour\n\ngpuwhy: a word of ours\n");
    end(3, 0);
    assert_true(has("last output: 30%") && has("three") && has("four"));
    assert_false(has("two") || has("20%") || has("a word of ours"));
    assert_null(strstr(verdict->headline, "printed no reason"));
    work(); /* nothing on stderr; the reason may be on stdout, which was not recorded */
    end(3, 0);
    assert_null(strstr(verdict->headline, "printed no reason"));
    work();
    gw_feed_fact(&feed, "stderr.with_stdout", "both are the same file or pipe");
    end(3, 0);
    assert_non_null(strstr(verdict->headline, "printed no reason"));
    work();
    gw_feed_fact(&feed, "stderr.not_recorded", "disabled with --no-stderr");
    end(3, 0);
    assert_true(has("the program's output was not recorded: disabled with --no-stderr"));
}

/* ---- exceptions read from the interpreter ---- */

static void raise_inside(const char *const *lines)
{
    for (; *lines != NULL; lines++)
        gw_feed_text_call(&feed, "", GW_EV_PYTHON_RAISED, 0, 0, 0, 0, *lines);
}

static const char *const at_top[] = {"Traceback (most recent call last):",
                                     "  File \"/p/t.py\", line 9, in <module>",
                                     "  File \"/p/t.py\", line 4, in step",
                                     "ValueError: bad labels",
                                     "second line",
                                     NULL};

static bool is_from_python(void)
{
    for (size_t i = 0; i < verdict->evidence_count; i++) {
        if (strstr(verdict->evidence[i].text, "bad labels") != NULL)
            return strcmp(verdict->evidence[i].source, "python") == 0;
    }
    return false;
}

GW_TEST(test_raised_inside)
{
    work();
    gw_feed_stderr(&feed, "epoch 1\n");
    raise_inside(at_top);
    end(1, 0);
    assert_cause(verdict, "script-exception", GW_ESTABLISHED);
    assert_true(has("ValueError: bad labels") && has("line 4, in step") && is_from_python());
    assert_non_null(verdict->where);
    assert_int_equal(verdict->where->frame[0].line, 4);
    assert_string_equal(verdict->where->frame[0].function, "step");
    work(); /* stderr has the same text, so the source of the evidence must be "stderr" */
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"/p/t.py\", line 4, in step\n    x()\n"
                          "ValueError: bad labels\n");
    raise_inside(at_top);
    end(1, 0);
    assert_string_equal(verdict->cause, "script-exception");
    assert_true(has("bad labels"));
    assert_false(is_from_python());
}

/* The program may have caught the interpreter's last exception. The verdict ignores the exception unless the exit
 * status is 1. If the traceback does not begin at the top level, the cause is only supported. */
GW_TEST(test_raised_and_outlived)
{
    static const int code[] = {0, 3};
    for (size_t i = 0; i < 2; i++) {
        work();
        raise_inside(at_top);
        end(code[i], 0);
        assert_int_equal(verdict->status, i == 0 ? GW_VERDICT_CLEAN : GW_VERDICT_UNDETERMINED);
        assert_false(has("bad labels"));
    }
    static const char *const in_a_runner[] = {
        "Traceback (most recent call last):", "  File \"/p/runner.py\", line 341, in from_call",
        "ValueError: bad labels", NULL};
    work();
    raise_inside(in_a_runner);
    end(1, 0);
    assert_cause(verdict, "script-exception", GW_SUPPORTED);
}

GW_TEST(test_raised_out_of_memory)
{
    static const char *const oom[] = {"Traceback (most recent call last):", "  File \"/p/t.py\", line 9, in <module>",
                                      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", NULL};
    work();
    gw_feed_no_room(&feed, 2 * gib, gib, 16 * gib);
    raise_inside(oom);
    expect_end(1, GW_VERDICT_FAULT);
    assert_int_equal(strncmp(verdict->cause, "gpu-oom", 7), 0);
}

GW_TEST_MAIN(NULL, NULL)
