/* Tests which of several refusals is the root, depending on what the program did later and how it ended. Each case has
 * a slightly different counterpart with another verdict. */
#include "gw_unit_test.h"
#include "verdict_testlib.h"

#include <signal.h>

enum { KERNEL = 7, OTHER_THREAD = 101 };

/* What a thread does with each block that it allocates after a refusal. */
typedef enum rounds { WORKING, NOT_WAITED_FOR, ONLY_MEMORY, IN_A_ROW } rounds;

static void work(int count, rounds how)
{
    for (int i = 0; i < count; i++) {
        uint64_t block = gw_feed_alloc(&feed, mib);
        if (how == WORKING || how == NOT_WAITED_FOR)
            gw_feed_launch(&feed, KERNEL, 0);
        if (how == WORKING)
            gw_feed_hot(&feed, "cuMemcpyDtoH_v2", GW_COUNT_COPY, 64, 0);
        if (how != IN_A_ROW)
            gw_feed_free(&feed, block);
    }
}

static void refuse(void)
{
    gw_feed_no_room(&feed, 20 * gib, 14 * gib, 16 * gib);
}

static void open_refused(void)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_alloc(&feed, gib);
    refuse();
}

static void raise_text(const char *exception)
{
    char text[512];
    snprintf(text, sizeof text, "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\n%s\n", exception);
    gw_feed_stderr(&feed, text);
    gw_feed_drain(&feed);
    gw_feed_exit(&feed, 1, 0);
}

static void expect_raised(const char *exception, const char *cause, gw_certainty certainty)
{
    raise_text(exception);
    expect_cause(cause, certainty);
}

static void end(int status, int signal)
{
    gw_feed_drain(&feed);
    gw_feed_exit(&feed, status, signal);
}

/* Expect an undetermined verdict that lists the refusal as handled and does not rule out the GPU. */
static void expect_undetermined(void)
{
    judge_open();
    assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
    assert_true(list_has(&verdict->advice, "handled"));
    assert_null(strstr(verdict->headline, "ruled out"));
    assert_int_equal(verdict->ruled_out.count, 0);
    assert_true(evidence_has(verdict, "it is unclear whether this ended the run"));
}

/* A program is refused memory, continues, and ends with an exception. The verdict is about memory if the exception
 * repeats the size of the last refusal, or if there is no other reason. An exception about something else is itself the
 * cause. */
GW_TEST(an_exception_in_the_programs_own_words)
{
    static const char *const words[] = {"t.OutOfMemory: plain: out of memory, tried to allocate 682557440 bytes",
                                        "t.NoRoom: 682557440 bytes do not fit", "RuntimeError: step 12 failed"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        open_refused();
        work(20, WORKING);
        gw_feed_alloc(&feed, 14 * gib);
        gw_feed_no_room(&feed, 2 * gib, 500 * mib, 16 * gib);
        raise_text(words[i]);
        judge_open();
        assert_int_equal(verdict->status, GW_VERDICT_FAULT);
        assert_memory_equal(verdict->cause, "gpu-oom", 7);
    }
    open_refused();
    work(20, WORKING);
    expect_raised("KeyError: 'label'", "script-exception", GW_ESTABLISHED);
    open_refused();
    work(20, WORKING);
    expect_raised("t.OutOfMemory: the budget of host memory is used up", "script-exception", GW_SUPPORTED);
}

GW_TEST(a_value_that_is_missing)
{
    open_refused();
    work(2, WORKING);
    expect_raised("AttributeError: 'NoneType' object has no attribute 'ptr'", "gpu-oom-capacity", GW_SUPPORTED);
    open_refused();
    work(2, WORKING);
    expect_raised("AttributeError: 'int' object has no attribute 'ptr'", "script-exception", GW_SUPPORTED);
}

/* An exception raised while the program handles a refusal usually results from the refusal, even if its text is about
 * something else. */
GW_TEST(an_exception_in_a_chain)
{
    for (int chained = 0; chained < 2; chained++) {
        open_refused();
        work(3, WORKING);
        raise_text(chained ? "t.NoRoom: it does not fit\n\nDuring handling of the above exception, another exception "
                             "occurred:\n\nTraceback (most recent call last):\n  File \"t.py\", line 9, in g\n"
                             "RuntimeError: the training failed"
                           : "RuntimeError: the training failed");
        expect_cause(chained ? "gpu-oom-capacity" : "script-exception", GW_SUPPORTED);
    }
}

GW_TEST(work_that_nothing_waited_for)
{
    open_refused();
    work(10, NOT_WAITED_FOR);
    expect_raised("ValueError: label 1204", "script-exception", GW_ESTABLISHED);
    open_refused();
    work(2, NOT_WAITED_FOR);
    expect_raised("ValueError: label 1204", "gpu-oom-capacity", GW_SUPPORTED);
}

/* The next granted request shows whether the program searched for a size that fits. */
GW_TEST(a_search_and_then_an_exception)
{
    static const struct {
        bool is_same_site;
        uint64_t bytes;
        const char *cause;
    } next[] = {{true, gib, "script-exception"}, {false, gib, "gpu-oom-capacity"}, {true, 512, "gpu-oom-capacity"}};
    for (size_t i = 0; i < sizeof next / sizeof next[0]; i++) {
        gw_feed_open(&feed, 16 * gib);
        uint32_t find = gw_feed_site(&feed, "find /data/t.py 7"), load = gw_feed_site(&feed, "load /data/t.py 9");
        feed.site = find;
        refuse();
        feed.site = next[i].is_same_site ? find : load;
        gw_feed_alloc(&feed, next[i].bytes);
        expect_raised("FileNotFoundError: [Errno 2] No such file or directory: 'labels.csv'", next[i].cause,
                      GW_SUPPORTED);
    }
}

/* A program raises an exception in a function that had made the refused request. */
GW_TEST(the_line_of_the_exception)
{
    enum { RAW = 0, TORCH = 1 };
    static const char recursion[] = "forward m.py 10, forward m.py 30, <module> t.py 20", load[] = "load m.py 9";
    static const struct {
        const char *site, *frames;
        int framework;
        bool works;
        const char *cause;
    } rows[] = {
        {recursion, "  File \"m.py\", line 30, in forward\n  File \"m.py\", line 10, in forward\n", TORCH, false,
         "gpu-oom-capacity"},
        {recursion, "  File \"m.py\", line 30, in forward\n  File \"m.py\", line 12, in forward\n", TORCH, false,
         "script-exception"},
        {load, "  File \"m.py\", line 9, in load\n", TORCH, false, "gpu-oom-capacity"},
        {load, "  File \"m.py\", line 11, in load\n", TORCH, false, "script-exception"},
        {load, "  File \"m.py\", line 11, in load\n", RAW, true, "script-exception"},
        {load, "  File \"m.py\", line 11, in load\n", RAW, false, NULL},
        {"take m.py 3, load m.py 9", "  File \"m.py\", line 11, in load\n", RAW, false, "script-exception"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[512];
        gw_feed_open(&feed, 16 * gib);
        if (rows[i].framework == TORCH)
            gw_feed_map(&feed, "/venv/torch/lib/libtorch_cuda.so");
        gw_feed_alloc(&feed, gib);
        feed.site = gw_feed_site(&feed, rows[i].site);
        refuse();
        feed.site = 0;
        if (rows[i].works)
            gw_feed_launch(&feed, KERNEL, 0);
        snprintf(text, sizeof text,
                 "Traceback (most recent call last):\n  File \"t.py\", line 20, in <module>\n%sValueError: no buffer\n",
                 rows[i].frames);
        gw_feed_stderr(&feed, text);
        end(1, 0);
        if (rows[i].cause != NULL) {
            expect_cause(rows[i].cause, GW_SUPPORTED);
            continue;
        }
        judge_open(); /* the program may have checked the result and raised the exception for it */
        assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
        assert_true(evidence_has(verdict, "may report this refusal"));
        assert_int_equal(certainty_of_alternative(verdict, "gpu-oom-capacity"), GW_HYPOTHESIS);
        assert_int_equal(certainty_of_alternative(verdict, "script-exception"), GW_HYPOTHESIS);
    }
}

GW_TEST(a_status_alone)
{
    static const struct {
        int count;
        rounds how;
    } handled[] = {{12, WORKING}, {12, NOT_WAITED_FOR}, {40, ONLY_MEMORY}}, open[] = {{3, WORKING}, {40, IN_A_ROW}};
    for (size_t i = 0; i < sizeof handled / sizeof handled[0]; i++) {
        open_refused();
        work(handled[i].count, handled[i].how);
        feed.is_silent = true;
        end(3, 0);
        expect_undetermined();
    }
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {
        open_refused();
        work(open[i].count, open[i].how);
        feed.is_silent = true;
        end(3, 0);
        judge_open();
        assert_int_equal(verdict->status, GW_VERDICT_FAULT);
        assert_string_equal(verdict->cause, "gpu-oom-capacity");
    }
}

/* Without a word about memory, the program may have handled the refusal on the host. */
GW_TEST(what_the_program_prints_at_its_end)
{
    static const struct {
        const char *printed;
        gw_certainty certainty;
    } ends[] = {{NULL, GW_SUPPORTED},
                {"CUDA error: out of memory\n", GW_ESTABLISHED},
                {"train.c:12: CUDA error 2\n", GW_ESTABLISHED},
                {"this sample is skipped\n", GW_SUPPORTED},
                {"CUDA error: out of memory\nfalling back to the CPU\n", GW_SUPPORTED},
                {"CUDA error: out of memory, using the CPU\nno label 12\n", GW_SUPPORTED}};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        open_refused();
        feed.is_silent = true;
        if (ends[i].printed != NULL)
            gw_feed_stderr(&feed, ends[i].printed);
        end(3, 0);
        expect_cause("gpu-oom-capacity", ends[i].certainty);
    }
}

/* A crash right after a refusal may be its consequence: the program may have used the NULL pointer. An abort is,
 * because an uncaught exception aborts. A crash after much more work has another cause. */
GW_TEST(a_crash)
{
    static const int signals[] = {SIGSEGV, SIGABRT};
    for (size_t i = 0; i < 2; i++) {
        open_refused();
        end(-1, signals[i]);
        expect_cause("gpu-oom-capacity", signals[i] == SIGSEGV ? GW_SUPPORTED : GW_ESTABLISHED);
        open_refused();
        work(40, WORKING);
        end(-1, signals[i]);
        expect_cause("host-crash-of-process", GW_SUPPORTED);
        gw_feed_open(&feed, 16 * gib);
        work(40, WORKING);
        end(-1, signals[i]);
        expect_cause("host-crash-of-process", GW_ESTABLISHED);
    }
}

/* A framework reports a refusal by an exception, so a program that crashes had caught it. */
GW_TEST(a_crash_after_a_framework_was_refused)
{
    open_refused();
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_OOM, 0, 20 * gib, 16 * gib, 14 * gib, 0);
    end(-1, SIGSEGV);
    expect_cause("host-crash-of-process", GW_SUPPORTED);
}

/* The backward pass runs in a thread without a frame of the program, but the exception names the line that began it. */
GW_TEST(the_place_of_a_refusal_in_a_thread_of_the_framework)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_alloc(&feed, gib);
    feed.site = gw_feed_site(&feed, "apply /usr/lib/python3/dist-packages/torch/autograd/function.py 317");
    refuse();
    raise_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.");
    judge_open();
    assert_non_null(verdict->where);
    assert_string_equal(verdict->where->frame[verdict->where->user].text, "t.py:3 in f");
}

/* After the refusal, only another thread continues. The refusal is the root if that thread does little work, but not if
 * it does much. */
GW_TEST(the_work_of_another_thread)
{
    for (int much = 0; much < 2; much++) {
        open_refused();
        feed.tid = OTHER_THREAD;
        work(much ? 800 : 70, WORKING);
        end(-1, SIGABRT);
        expect_cause(much ? "host-crash-of-process" : "gpu-oom-capacity", GW_SUPPORTED);
    }
    for (int worked = 0; worked < 2; worked++) { /* another thread is refused; the main thread raises an exception */
        gw_feed_open(&feed, 16 * gib);
        gw_feed_alloc(&feed, gib);
        feed.tid = OTHER_THREAD;
        refuse();
        feed.tid = GW_FEED_PID;
        work(worked ? 70 : 2, WORKING);
        expect_raised("KeyError: 'b'", worked ? "script-exception" : "gpu-oom-capacity", GW_SUPPORTED);
    }
}

/* If the program does little work between two refusals, the first is the root. If it does more work, the second is the
 * root. */
GW_TEST(several_refusals)
{
    for (int between = 0; between < 2; between++) {
        open_refused();
        work(between ? 6 : 0, WORKING);
        gw_feed_no_room(&feed, 15 * gib, 14 * gib, 16 * gib);
        end(1, 0);
        judge_open();
        assert_int_equal(verdict->status, GW_VERDICT_FAULT);
        assert_true(evidence_has(verdict, between ? "15.00 GiB" : "20.00 GiB"));
        assert_int_equal(list_has(&verdict->advice, "handled"), between);
    }
}

/* Two requests of different sizes are refused. Output that is recorded only in part does not show which refusal ended
 * the program, unless the recorded part is about memory. */
GW_TEST(several_refusals_and_partly_recorded_output)
{
    static const struct {
        const char *text;
        gw_verdict_status status;
    } cases[] = {{NULL, GW_VERDICT_UNDETERMINED},
                 {"W: a warning of a library\n", GW_VERDICT_UNDETERMINED},
                 {"prog: CUDA_ERROR_OUT_OF_MEMORY\n", GW_VERDICT_FAULT}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        open_refused();
        gw_feed_fact(&feed, "stderr.not_recorded", "stderr is a terminal, so only a part was recorded");
        gw_feed_no_room(&feed, 19 * gib, 14 * gib, 16 * gib);
        if (cases[i].text != NULL)
            gw_feed_stderr(&feed, cases[i].text);
        end(1, 0);
        judge_open();
        assert_int_equal(verdict->status, cases[i].status);
    }
}

/* If events of call sites may be lost, nothing shows whether a KeyError was raised at the line of the refused request.
 */
GW_TEST(lost_call_sites)
{
    for (int lost = 0; lost < 2; lost++) {
        open_refused();
        lose((uint64_t)lost, 0);
        raise_text("KeyError: 'label'");
        judge_open();
        assert_int_equal(verdict->status, lost ? GW_VERDICT_UNDETERMINED : GW_VERDICT_FAULT);
    }
}

GW_TEST_MAIN(NULL, NULL)
