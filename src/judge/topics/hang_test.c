/* Tests the verdicts on hangs, with facts that prove each kind of hang, facts that prove nothing, and invalid facts. */
#include "gw_unit_test.h"
#include "verdict_testlib.h"

#include <signal.h>

enum { MAIN = GW_FEED_PID, LEFT = 501, RIGHT = 502 };

static void fact(uint32_t tid, const char *key, const char *value)
{
    fact_of(GW_FEED_PID, tid, key, value);
}

/* Open a program whose last launch is `kernel`, and which has not waited for that launch. */
static void begin(const char *kernel)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, 0xf1f1, 0xabab, GW_OWNER_MODULE, 0, kernel);
    gw_feed_launch(&feed, 0xf1f1, 0x5151);
    gw_feed_drain(&feed);
    gw_feed_wait(&feed, 10 * second_ns);
}

static void hang(const char *cpu)
{
    char text[64];
    snprintf(text, sizeof text, "for_ms=5000%s%s", cpu == NULL ? "" : " cpu_ms=", cpu == NULL ? "" : cpu);
    fact(0, "hang", text);
}

/* Open a program that hangs, and feed what its main thread waits for. */
static void hangs_in(const char *cpu, const char *wait)
{
    begin("spin");
    hang(cpu);
    fact(MAIN, "hang.thread", wait);
}

static void judge(int code, int signal_)
{
    if (signal_ == SIGTERM)
        gw_feed_fact(&feed, "stop.signal", "signal=15 outside=1 pid=7 from=timeout 60");
    if (code != -1 || signal_ != 0)
        gw_feed_exit(&feed, code, signal_);
    judge_open();
}

static bool has_evidence(const char *part)
{
    return evidence_has(verdict, part);
}

static void expect(const char *cause, gw_certainty certainty)
{
    if (cause == NULL) {
        assert_null(verdict->cause);
        return;
    }
    assert_cause(verdict, cause, certainty);
    assert_true(verdict->next.count > 0);
    assert_true(verdict->is_hang);
}

/* Expect this cause of a program that is still running; NULL: none. */
static void expect_stuck(const char *cause, gw_certainty certainty)
{
    judge(-1, 0);
    expect(cause, certainty);
}

GW_TEST(a_kernel_that_is_waited_for)
{
    hangs_in("2", "wait=running owner=0 owner_ended=0 in=cuCtxSynchronize in_ms=5000 questions=0 where= name=main");
    fact(MAIN, "hang.frame", "0x7f00 in libc.so.6");
    fact(MAIN, "hang.frame", "train+0x12 in program");
    judge(-1, 0); /* the program is still running */
    expect("kernel-never-ends", GW_SUPPORTED);
    assert_true(has_evidence("inside cuCtxSynchronize for 5.0 s"));
    assert_true(has_evidence("spin was launched on stream 0x5151"));
    assert_true(has_evidence("is in train+0x12 in program"));
}

/* Each thread has a recorded call site. The verdict's place is the user's line that itself waits. A line that calls a
 * waiting function of Python's threading module is not that place. */
GW_TEST(a_site_is_the_place)
{
    char text[96];
    static const char *const frames[] = {"wait /usr/lib/python3.11/threading.py 320, main /data/train.py 40",
                                         "take /data/train.py 12, run /usr/lib/python3.11/threading.py 982"};
    static const uint32_t tids[] = {MAIN, LEFT};
    begin("spin");
    hang("0");
    for (size_t i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "wait=lock owner=0 site=%u name=t", gw_feed_site(&feed, frames[i]));
        fact(tids[i], "hang.thread", text);
    }
    expect_stuck("host-deadlock", GW_SUPPORTED);
    assert_true(has_evidence("at train.py:40 in main"));
    assert_non_null(verdict->where);
    assert_string_equal(verdict->where->frame[verdict->where->user].text, "train.py:12 in take");
    begin("spin");
    hang("0");
    snprintf(text, sizeof text, "wait=input in=cuCtxSynchronize in_ms=5000 site=%u", gw_feed_site(&feed, frames[0]));
    fact(MAIN, "hang.thread", text);
    expect_stuck("kernel-never-ends", GW_SUPPORTED);
    assert_string_equal(verdict->where->frame[verdict->where->user].text, "train.py:40 in main");
    begin("spin"); /* the recording does not contain the site number of this fact */
    hang("0");
    fact(MAIN, "hang.thread", "wait=input in=cuCtxSynchronize in_ms=5000 site=3221225480");
    expect_stuck("kernel-never-ends", GW_SUPPORTED);
    assert_null(verdict->where);
}

GW_TEST(who_ended_it_is_not_the_cause)
{
    hangs_in("2", "wait=running in=cuCtxSynchronize in_ms=5000 name=main");
    judge(-1, SIGTERM);
    expect("kernel-never-ends", GW_SUPPORTED);
}

GW_TEST(what_went_on_is_no_cause)
{
    hangs_in("2", "wait=running in=cuCtxSynchronize in_ms=5000 name=main");
    gw_feed_wait(&feed, second_ns);
    fact(0, "hang.over", "");
    judge(-1, SIGTERM);
    assert_string_equal(verdict->cause, "killed-by-scheduler-or-user");
}

GW_TEST(a_hang_that_ended_well_is_clean)
{
    hangs_in("2", "wait=running in=cuCtxSynchronize in_ms=5000 name=main");
    judge(0, 0);
    assert_int_equal(verdict->status, GW_VERDICT_CLEAN);
    assert_true(verdict->advice.count > 0);
}

/* The program hangs in cuMemFree, but all its launches have ended, so it does not wait for a kernel. */
GW_TEST(nothing_outstanding_is_no_kernel)
{
    begin("spin");
    gw_feed_sync(&feed);
    gw_feed_drain(&feed);
    gw_feed_wait(&feed, 10 * second_ns);
    hang("2");
    fact(MAIN, "hang.thread", "wait=running in=cuMemFree_v2 in_ms=5000 name=main");
    expect_stuck(NULL, GW_CERTAINTY_NONE);
    assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
    assert_true(has_evidence("is inside cuMemFree"));
}

enum { STREAM_B = 0xb000 };

/* Open a program with an unfinished kernel on stream 0x5151 and a second stream, B. */
static void begin_two_streams(void)
{
    begin("spin");
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, 0x5151, 1, 0, 0);
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, STREAM_B, 1, 0, 0);
}

static void judge_wait(void)
{
    gw_feed_drain(&feed);
    gw_feed_wait(&feed, 10 * second_ns);
    hang("2");
    fact(MAIN, "hang.thread", "wait=running in=cuCtxSynchronize in_ms=5000 name=main");
    judge(-1, 0);
}

GW_TEST(a_wait_for_another_stream_says_nothing)
{
    begin_two_streams();
    gw_feed_launch(&feed, 0xf2f2, STREAM_B);
    gw_feed_hot(&feed, "cuStreamSynchronize", GW_COUNT_SYNC, STREAM_B, 0);
    judge_wait();
    expect("kernel-never-ends", GW_SUPPORTED);
    assert_true(has_evidence("spin was launched on stream 0x5151, and nothing has waited for it since"));
    assert_false(has_evidence("stream 0xb000"));
    begin_two_streams(); /* the verdict shows the kernel's launch, although stream B has many newer launches */
    for (int i = 0; i < 6; i++)
        gw_feed_launch(&feed, 0xf2f2, STREAM_B);
    judge_wait();
    expect("kernel-never-ends", GW_SUPPORTED);
    assert_true(has_evidence("spin was launched on stream 0x5151"));
    assert_true(has_evidence("and 3 earlier launches"));
    begin_two_streams(); /* all work on B has ended, and B had waited for the kernel's stream */
    gw_feed_hot(&feed, "cuEventRecord", GW_COUNT_EVENT_RECORD, 0xe0, 0x5151);
    gw_feed_hot(&feed, "cuStreamWaitEvent", GW_COUNT_STREAM_WAIT, 0xe0, STREAM_B);
    gw_feed_launch(&feed, 0xf2f2, STREAM_B);
    gw_feed_hot(&feed, "cuStreamSynchronize", GW_COUNT_SYNC, STREAM_B, 0);
    judge_wait();
    expect(NULL, GW_CERTAINTY_NONE);
}

/* ---- a stream that nothing waits for ---- */

enum { STREAM_ALONE = 0x5151, STEPS_FEW = 100, STEPS_MANY = 3000 };

/* Launch `spin` on one stream, from train.c:7. Then launch work only on stream B and wait for this work, `steps` times
 * within ten seconds. */
static void begin_alone(int steps)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, 0xf1f1, 0xabab, GW_OWNER_MODULE, 0, "spin");
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, STREAM_ALONE, 1, 0, 0);
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, STREAM_B, 1, 0, 0);
    feed.site = gw_feed_site(&feed, "begin train.c 7");
    gw_feed_call(&feed, "cuLaunchKernel", GW_EV_LAUNCH_SITE, 0, 0xf1f1, 0, 0, STREAM_ALONE);
    feed.site = 0;
    gw_feed_launch(&feed, 0xf1f1, STREAM_ALONE);
    for (int i = 0; i < steps; i++) {
        gw_feed_launch(&feed, 0xf2f2, STREAM_B);
        gw_feed_hot(&feed, "cuStreamSynchronize", GW_COUNT_SYNC, STREAM_B, 0);
        gw_feed_wait(&feed, 10 * second_ns / (uint64_t)steps);
    }
}

static void killed(gw_certainty certainty, gw_certainty hypothesis)
{
    judge(-1, SIGTERM);
    assert_cause(verdict, "killed-by-scheduler-or-user", certainty);
    assert_int_equal(certainty_of_alternative(verdict, "kernel-never-ends"), hypothesis);
}

/* The run was ended from outside, or it still runs. The verdict reports the stream that nothing waited for, but not a
 * hang, because the stream proves nothing. */
GW_TEST(a_stream_left_alone_is_told)
{
    begin_alone(STEPS_FEW);
    killed(GW_SUPPORTED, GW_HYPOTHESIS);
    assert_true(
        has_evidence("spin was launched on stream 0x5151 at train.c:7 in begin 10.0 s before the program ended, and "
                     "the program has not waited for that stream since; meanwhile it waited for other work 100 times"));
    assert_false(list_has(&verdict->ruled_out, "the GPU"));
    assert_false(verdict->is_hang);
    assert_int_equal(verdict->left_alone.count, 1);
    begin_alone(STEPS_FEW); /* the program is still running */
    gw_feed_drain(&feed);
    judge(-1, 0);
    assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
    assert_true(has_evidence("10.0 s ago, and the program has not waited for that stream since"));
    begin_alone(STEPS_FEW); /* ended by timeout(1), which exits with 124 */
    judge(124, 0);
    assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
    assert_true(has_evidence("the program has not waited for that stream since"));
}

/* A stream that nothing waited for is not reported if:
 * - the run ended for a known reason;
 * - the work on the stream has ended;
 * - the work was launched shortly before the end. */
GW_TEST(a_stream_left_alone_is_no_fault)
{
    begin_alone(STEPS_FEW);
    judge(0, 0);
    assert_int_equal(verdict->status, GW_VERDICT_CLEAN);
    assert_int_equal(verdict->advice.count + verdict->left_alone.count + verdict->alternative_count, 0);
    assert_false(has_evidence("spin"));
    begin_alone(STEPS_FEW);
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\nKeyError: 'a'\n");
    judge(1, 0);
    assert_cause(verdict, "script-exception", GW_ESTABLISHED);
    assert_true(list_has(&verdict->ruled_out, "the GPU"));
    assert_false(has_evidence("spin"));
    begin_alone(STEPS_FEW); /* all work on B has ended, and B had waited for `spin`, so `spin` has ended */
    gw_feed_hot(&feed, "cuEventRecord", GW_COUNT_EVENT_RECORD, 0xe0, STREAM_ALONE);
    gw_feed_hot(&feed, "cuStreamWaitEvent", GW_COUNT_STREAM_WAIT, 0xe0, STREAM_B);
    gw_feed_launch(&feed, 0xf2f2, STREAM_B);
    gw_feed_hot(&feed, "cuStreamSynchronize", GW_COUNT_SYNC, STREAM_B, 0);
    killed(GW_ESTABLISHED, GW_CERTAINTY_NONE);
    assert_true(list_has(&verdict->ruled_out, "the GPU"));
    begin_alone(STEPS_FEW); /* 1,100 more launches do not fit in a queue, so most must have ended */
    for (int i = 0; i < 1100; i++)
        gw_feed_launch(&feed, 0xf1f1, STREAM_ALONE);
    killed(GW_ESTABLISHED, GW_CERTAINTY_NONE);
    begin_two_streams(); /* `spin` was launched two seconds before the end */
    gw_feed_launch(&feed, 0xf2f2, STREAM_B);
    gw_feed_hot(&feed, "cuCtxSynchronize", GW_COUNT_SYNC, 0, 0);
    gw_feed_launch(&feed, 0xf1f1, STREAM_ALONE);
    gw_feed_launch(&feed, 0xf2f2, STREAM_B);
    gw_feed_hot(&feed, "cuStreamSynchronize", GW_COUNT_SYNC, STREAM_B, 0);
    gw_feed_wait(&feed, 2 * second_ns);
    killed(GW_ESTABLISHED, GW_CERTAINTY_NONE);
}

/* Later calls have overwritten the launch of `spin` in the ring. The verdict adds that `spin` may have ended. It does
 * not report a stream that was later waited for, queried or destroyed. */
GW_TEST(a_launch_that_left_the_record_is_unknown)
{
    enum { NOTHING, ALL_WAIT, ITS_WAIT, ASKED, DESTROYED, HOW_MANY };
    for (int what = NOTHING; what < HOW_MANY; what++) {
        begin_alone(STEPS_MANY);
        if (what == ALL_WAIT)
            gw_feed_hot(&feed, "cuCtxSynchronize", GW_COUNT_SYNC, 0, 0);
        else if (what == ITS_WAIT)
            gw_feed_hot(&feed, "cuStreamSynchronize", GW_COUNT_SYNC, STREAM_ALONE, 0);
        else if (what == ASKED)
            gw_feed_hot(&feed, "cuStreamQuery", GW_COUNT_QUERY, STREAM_ALONE, 0);
        else if (what == DESTROYED)
            gw_feed_call(&feed, "cuStreamDestroy_v2", GW_EV_STREAM_DESTROY, 0, STREAM_ALONE, 0, 0, 0);
        killed(GW_ESTABLISHED, GW_CERTAINTY_NONE);
        bool told = has_evidence("spin was launched on stream 0x5151 at train.c:7 in begin 10.1 s before the program "
                                 "ended; it may have ended: the recording contains only the last 2048 calls of each "
                                 "thread, and none of these concerned that stream");
        assert_int_equal(told, what == NOTHING);
        assert_int_equal(list_has(&verdict->ruled_out, "the GPU"), what != NOTHING);
    }
    begin_alone(STEPS_MANY);
    judge(0, 0);
    assert_int_equal(verdict->status, GW_VERDICT_CLEAN);
    assert_false(has_evidence("spin"));
}

/* The thread that launched `spin` makes no further call. Another thread works on stream B. If its calls overflow its
 * ring, it may have waited for the stream of `spin`, too. */
GW_TEST(another_thread_may_have_waited)
{
    for (int steps = STEPS_FEW; steps <= STEPS_MANY; steps += STEPS_MANY - STEPS_FEW) {
        for (int waited = 0; waited < 2; waited++) {
            begin_alone(1);
            if (waited)
                gw_feed_hot(&feed, "cuStreamSynchronize", GW_COUNT_SYNC, STREAM_ALONE, 0);
            feed.tid = LEFT;
            for (int i = 0; i < steps; i++) {
                gw_feed_launch(&feed, 0xf2f2, STREAM_B);
                gw_feed_hot(&feed, "cuStreamSynchronize", GW_COUNT_SYNC, STREAM_B, 0);
            }
            feed.tid = MAIN;
            gw_feed_wait(&feed, 10 * second_ns);
            bool sure = steps == STEPS_FEW && !waited;
            killed(sure ? GW_SUPPORTED : GW_ESTABLISHED, sure ? GW_HYPOTHESIS : GW_CERTAINTY_NONE);
            assert_int_equal(has_evidence("the program has not waited for that stream since"), sure);
            assert_int_equal(has_evidence("it may have ended"), steps == STEPS_MANY && !waited);
        }
    }
}

/* Run begin_alone(), then feed a hang. `thread` is the fact "hang.thread": what the thread waits for. With STEPS_FEW,
 * all launched work has ended before the hang. */
static void waits_for(int steps, const char *thread)
{
    begin_alone(steps);
    if (steps == STEPS_FEW) /* wait until all work has ended */
        gw_feed_hot(&feed, "cuCtxSynchronize", GW_COUNT_SYNC, 0, 0);
    gw_feed_drain(&feed);
    gw_feed_wait(&feed, 10 * second_ns);
    hang("2");
    fact(MAIN, "hang.thread", thread);
    judge(-1, 0);
}

GW_TEST(a_wait_for_what_left_the_record)
{
    static const char *const waits[] = {"wait=running in=cuStreamSynchronize in_ms=5000 name=main",
                                        "wait=running in=cuEventSynchronize in_ms=5000 name=main",
                                        "wait=sleep in= questions=900 not_ready=900 name=main"};
    static const char *const others[] = {"wait=sleep in= questions=900 not_ready=0 name=main",
                                         "wait=running in=cuModuleLoadData in_ms=5000 name=main",
                                         "wait=running in=cuStreamSynchronize in_ms=1 name=main"};
    for (size_t i = 0; i < 3; i++) {
        waits_for(STEPS_MANY, waits[i]);
        expect("kernel-never-ends", GW_SUPPORTED);
        assert_true(has_evidence("the work that it waits for is older than the last 2048 calls of each thread"));
        assert_true(has_evidence("spin was launched on stream 0x5151 at train.c:7 in begin"));
        waits_for(STEPS_MANY, others[i]);
        expect(NULL, GW_CERTAINTY_NONE);
        assert_false(verdict->is_hang);
        waits_for(STEPS_FEW, waits[i]); /* all launches are still in the ring, and all have ended */
        expect(NULL, GW_CERTAINTY_NONE);
    }
}

/* The supervisor may look several times at one hang. It is one hang, and it is over as a whole. */
GW_TEST(a_hang_that_is_looked_at_again_is_one)
{
    begin("spin");
    for (int look = 0; look < 3; look++) {
        hang("2");
        fact(MAIN, "hang.thread", "wait=sleep name=main");
        gw_feed_wait(&feed, second_ns);
    }
    fact(0, "hang.over", "");
    gw_feed_exit(&feed, 0, 0);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->hang_count, 1);
    assert_true(model->hang[0].over);
    assert_int_equal(model->hang[0].thread_count, 1);
    gw_model_free(model);
}

/* `gpuwhy poke` inspects a process that does not hang (for_ms=0). This is not reported as a hang. */
GW_TEST(who_goes_on_hangs_not)
{
    begin_alone(STEPS_FEW);
    gw_feed_drain(&feed);
    fact(0, "hang", "for_ms=0 cpu_ms=0");
    fact(MAIN, "hang.thread", "wait=running in=cuStreamSynchronize in_ms=0 name=main");
    expect_stuck(NULL, GW_CERTAINTY_NONE);
    assert_false(verdict->is_hang);
    assert_int_equal(verdict->left_alone.count, 1);
}

GW_TEST(a_circle_of_locks)
{
    begin("spin");
    hang(NULL);
    fact(MAIN, "hang.thread", "wait=input name=main"); /* a thread outside the circle does not matter */
    fact(LEFT, "hang.thread", "wait=lock owner=502 owner_ended=0 name=left");
    fact(RIGHT, "hang.thread", "wait=lock owner=501 owner_ended=0 name=right");
    judge(-1, SIGKILL);
    expect("host-deadlock", GW_ESTABLISHED);
    assert_true(has_evidence("thread 501 (left) waits for a lock that thread 502 (right) holds"));
}

/* Before it waited for the other threads, a thread asked the GPU for something. */
GW_TEST(a_circle_after_a_question)
{
    hangs_in("0", "wait=join owner=501 questions=1 name=main");
    fact(LEFT, "hang.thread", "wait=lock owner=502 owner_ended=0 name=left");
    fact(RIGHT, "hang.thread", "wait=lock owner=501 owner_ended=0 name=right");
    expect_stuck("host-deadlock", GW_ESTABLISHED);
}

GW_TEST(a_lock_whose_owner_ended)
{
    begin("spin");
    hang("0");
    fact(LEFT, "hang.thread", "wait=lock owner=77 owner_ended=1 name=left");
    expect_stuck("host-deadlock", GW_ESTABLISHED);
}

GW_TEST(all_threads_wait_for_each_other)
{
    hangs_in("3", "wait=join owner=501 name=main");
    fact(LEFT, "hang.thread", "wait=lock owner=0 name=left");
    /* A helper thread of the driver always waits. */
    fact(RIGHT, "hang.thread", "wait=input owner=0 name=cuda-EvtHandlr");
    expect_stuck("host-deadlock", GW_SUPPORTED);
}

static void stands(uint32_t tid, const char *name, const char *library, const char *frames)
{
    char text[96];
    snprintf(text, sizeof text, "wait=lock owner=0 site=%u name=%s", gw_feed_site_in(&feed, library, frames), name);
    fact(tid, "hang.thread", text);
}

/* The verdict first reports the threads that wait in a line of the program, sorted by line. All idle workers share one
 * line of evidence. */
GW_TEST(idle_workers_are_one_line)
{
    begin("spin");
    hang("0");
    for (uint32_t i = 0; i < 8; i++)
        stands(600 + i, "python3", "/v/site-packages/numpy.libs/libscipy_openblas64_-ff651d7f.so", "");
    for (uint32_t i = 0; i < 3; i++)
        stands(700 + i, "python3", "/opt/lib/libgomp.so.1", "");
    stands(
        710, "python3", NULL,
        "wait /usr/lib/python3.11/threading.py 320, _worker /usr/lib/python3.11/concurrent/futures/thread.py 81, run "
        "/usr/lib/python3.11/threading.py 975");
    stands(720, "cuda-EvtHandlr", "/usr/lib/libcuda.so.1", "");
    stands(MAIN, "python3", NULL, "join /usr/lib/python3.11/threading.py 1119, main /data/train.py 40");
    stands(LEFT, "left", NULL, "left /data/train.py 12, run /usr/lib/python3.11/threading.py 982");
    stands(RIGHT, "right", NULL, "right /data/train.py 18, run /usr/lib/python3.11/threading.py 982");
    expect_stuck("host-deadlock", GW_SUPPORTED);
    assert_true(has_evidence("13 idle workers of thread pools (OpenBLAS 8, OpenMP 3, Python's executors 1, the CUDA "
                             "driver 1)"));
    assert_non_null(
        strstr(verdict->headline, "all 3 threads of the program, except idle workers, wait for each other"));
    assert_non_null(strstr(verdict->evidence[0].text, "thread 501 (left) waits"));
    assert_non_null(strstr(verdict->evidence[0].text, "at train.py:12 in left"));
    assert_true(has_evidence("thread 502 (right) waits, without a time limit, for another thread of this process at "
                             "train.py:18 in right"));
    assert_false(has_evidence("thread 600"));
    assert_string_equal(verdict->where->frame[verdict->where->user].text, "train.py:12 in left");
}

/* A thread of a pool is not an idle worker if it runs a line of the program, waits for a lock with a known owner, or
 * runs Python code. */
GW_TEST(busy_workers_are_named)
{
    char text[96];
    begin("spin");
    hang("0");
    stands(MAIN, "python3", NULL, "main /data/train.py 40");
    stands(600, "python3", "/opt/lib/libgomp.so.1", "body /data/train.py 9");
    stands(601, "python3", NULL,
           "run /usr/lib/python3.11/concurrent/futures/thread.py 58, _worker "
           "/usr/lib/python3.11/concurrent/futures/thread.py 83");
    stands(602, "pt_autograd_0", "/v/site-packages/torch/lib/libtorch_python.so",
           "backward /v/site-packages/torch/autograd/function.py 300");
    snprintf(text, sizeof text, "wait=lock owner=600 site=%u name=w",
             gw_feed_site_in(&feed, "/opt/lib/libopenblas.so.0", ""));
    fact(603, "hang.thread", text);
    expect_stuck("host-deadlock", GW_SUPPORTED);
    for (uint32_t tid = 600; tid <= 603; tid++) {
        snprintf(text, sizeof text, "thread %u ", tid);
        assert_true(has_evidence(text));
    }
    assert_false(has_evidence("idle worker"));
}

GW_TEST(who_waits_for_input_hangs_not)
{
    static const char *const mains[] = {
        "wait=input name=main",       "wait=sleep name=main",  "wait=child name=main", "wait=timed-lock name=main",
        "wait=shared-lock name=main", "wait=device name=main", "wait= name=main",      "wait=running name=main"};
    for (size_t i = 0; i < sizeof mains / sizeof mains[0]; i++) {
        begin("spin");
        hang("0");
        fact(MAIN, "hang.thread", mains[i]);
        fact(LEFT, "hang.thread", "wait=lock owner=0 name=pool");
        judge(-1, SIGTERM);
        assert_cause(verdict, "killed-by-scheduler-or-user", GW_ESTABLISHED);
        assert_false(verdict->is_hang);
    }
}

/* The owner of the lock is running and may release the lock, so this is no deadlock. */
GW_TEST(a_busy_owner_is_no_deadlock)
{
    hangs_in("4990", "wait=lock owner=501 name=main");
    fact(LEFT, "hang.thread", "wait=running owner=0 name=left");
    expect_stuck(NULL, GW_CERTAINTY_NONE);
}

GW_TEST(a_collective_is_a_hypothesis_that_names_who_is_missing)
{
    begin("ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    fact(0, "process.rank", "rank=0 of=2 by=RANK");
    gw_feed_process(&feed, 300, 1, "/usr/bin/python3");
    fact_of(300, 0, "process.rank", "rank=1 of=2 by=RANK");
    hang("2");
    fact(MAIN, "hang.thread", "wait=running in=cuStreamSynchronize in_ms=5000 name=main");
    judge(-1, 0);
    assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
    assert_true(verdict->alternative_count > 0);
    assert_string_equal(verdict->alternatives[0].cause, "peer-died");
    assert_int_equal(verdict->alternatives[0].certainty, GW_HYPOTHESIS);
    assert_true(has_evidence("rank 1 (pid 300) is missing"));
    assert_true(verdict->is_hang);
    assert_true(verdict->run.has_trouble);
    assert_int_equal(verdict->run.trouble_weight, 0); /* another rank's failure is the root of the job */
    assert_int_equal(verdict->run.world, 2);
    assert_int_equal(verdict->run.rank_count, 2);
}

/* Two ranks in a collective, and NCCL's RAS, which answers twice that they have launched these numbers of calls. */
static void answered(unsigned first, unsigned second, unsigned first_again, unsigned second_again)
{
    const unsigned counts[][2] = {{first, second}, {first_again, second_again}};
    begin("ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    fact(0, "process.rank", "rank=0 of=2 by=RANK");
    gw_feed_process(&feed, 300, 1, "/usr/bin/python3");
    fact_of(300, 0, "process.rank", "rank=1 of=2 by=RANK");
    hang("2");
    fact(MAIN, "hang.thread", "wait=running in=cuStreamSynchronize in_ms=5000 name=main");
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        char answer[512];
        snprintf(
            answer, sizeof answer,
            "{\"nccl_version\": \"2.28.9\", \"communicators\": [{\"hash\": \"0x1f\", \"size\": 2, \"ranks\": "
            "[{\"rank\": "
            "0, \"host\": \"h\", \"pid\": 200, \"collective_counts\": {\"AllReduce\": %u}}, {\"rank\": 1, \"host\": "
            "\"h\", \"pid\": 300, \"collective_counts\": {\"AllReduce\": %u}}]}]}",
            counts[i][0], counts[i][1]);
        fact(0, "nccl.ras", answer);
    }
}

GW_TEST(equal_answers_of_ras_show_who_is_behind)
{
    answered(51, 50, 51, 50);
    expect_stuck("peer-died", GW_SUPPORTED);
    assert_true(has_evidence("rank 1 (pid 300) has launched 50 ncclAllReduce, others 51"));
    assert_true(has_evidence("the same counts twice"));
}

GW_TEST(other_answers_of_ras_prove_nothing)
{
    answered(51, 50, 52, 51);
    judge(-1, 0);
    assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
    answered(51, 51, 51, 51);
    judge(-1, 0);
    assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
    assert_false(has_evidence("RAS"));
}

GW_TEST(a_rank_that_stands_elsewhere_is_the_place)
{
    char text[96];
    begin("ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    fact(0, "process.rank", "rank=0 of=2 by=RANK");
    gw_feed_process(&feed, 300, 1, "/usr/bin/python3");
    fact_of(300, 0, "process.rank", "rank=1 of=2 by=RANK");
    feed.pid = feed.tid = 300;
    snprintf(text, sizeof text, "wait=lock owner=0 site=%u name=python", gw_feed_site(&feed, "step /data/train.py 12"));
    feed.pid = feed.tid = GW_FEED_PID;
    fact_of(300, 0, "hang", "for_ms=0");
    fact_of(300, 300, "hang.thread", text);
    hang("2");
    fact(MAIN, "hang.thread", "wait=running in=cuStreamSynchronize in_ms=5000 name=main");
    expect_stuck("peer-died", GW_SUPPORTED);
    assert_true(
        has_evidence("rank 1 (pid 300) is missing: its main thread is waiting for a lock at train.py:12 in step"));
    assert_non_null(verdict->where);
    assert_string_equal(verdict->where->frame[verdict->where->user].text, "train.py:12 in step");
}

/* Two ranks hang in the same NCCL collective. `peers` is the fact "pci.peers" about the machine's PCIe bus.
 * `nccl_p2p_disable` is the variable NCCL_P2P_DISABLE; NULL: not set. */
static void stuck_on(const char *peers, const char *nccl_p2p_disable)
{
    static const char kernel[] = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
    begin(kernel);
    fact(0, "process.rank", "rank=0 of=2 by=RANK");
    gw_feed_process(&feed, 300, 1, "/usr/bin/python3");
    feed.pid = feed.tid = 300;
    gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, 0xf2f2, 0xacac, GW_OWNER_MODULE, 0, kernel);
    gw_feed_launch(&feed, 0xf2f2, 0x5252);
    gw_feed_drain(&feed);
    feed.pid = feed.tid = GW_FEED_PID;
    fact_of(300, 0, "process.rank", "rank=1 of=2 by=RANK");
    fact(0, "pci.peers", peers);
    if (nccl_p2p_disable != NULL)
        gw_feed_meta(&feed, "env.NCCL_P2P_DISABLE", nccl_p2p_disable);
    hang("2");
    fact(MAIN, "hang.thread", "wait=running in=cuStreamSynchronize in_ms=5000 name=main");
    judge(-1, 0);
}

GW_TEST(copies_are_redirected)
{
    stuck_on("cards=2 nvswitches=0 iommu=DMA-FQ acs=0000:00:01.0", NULL);
    expect("p2p-iommu-acs", GW_SUPPORTED);
    assert_int_equal(verdict->run.trouble_weight, 1); /* a cause of its own */
    assert_true(has_evidence("DMA-FQ") && has_evidence("0000:00:01.0"));
    stuck_on("cards=2 nvswitches=0 iommu=DMA-FQ acs=?", NULL);
    assert_null(verdict->cause);
    assert_int_equal(certainty_of_alternative(verdict, "p2p-iommu-acs"), GW_HYPOTHESIS);
}

/* The verdict must not list p2p-iommu-acs unless the IOMMU is known to redirect copies between cards. Cases: identity
 * mapping, NVSwitch, a single card, peer access switched off, an incomplete fact. */
GW_TEST(copies_are_not_redirected)
{
    static const struct {
        const char *peers, *disable;
    } rows[] = {{"cards=2 nvswitches=0 iommu=identity acs=none", NULL},
                {"cards=8 nvswitches=4 iommu=DMA acs=0000:00:01.0", NULL},
                {"cards=1 nvswitches=0 iommu=DMA acs=0000:00:01.0", NULL},
                {"cards=2 nvswitches=0 iommu=DMA acs=0000:00:01.0", "1"},
                {"cards=2 iommu=DMA", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        stuck_on(rows[i].peers, rows[i].disable);
        assert_null(verdict->cause);
        assert_int_equal(certainty_of_alternative(verdict, "p2p-iommu-acs"), GW_CERTAINTY_NONE);
    }
}

GW_TEST(senseless_facts_do_no_harm)
{
    static const char *const odd[] = {"",
                                      "for_ms=",
                                      "for_ms=99999999999999999999999 cpu_ms=-3",
                                      "wait=",
                                      "wait=lock owner=4294967295 owner_ended=7",
                                      "owner= in_ms=x questions=- name=",
                                      "wait=a-word-that-is-longer-than-any-word-has-ever-been in=b",
                                      "site=99999999999 wait=lock owner=0",
                                      "site=4294967295 wait=lock owner=0",
                                      "name=\xff\xfe wait=lock"};
    enum { ODD = sizeof odd / sizeof odd[0] };
    for (size_t i = 0; i < ODD; i++) {
        begin("spin");
        fact(MAIN, "hang.frame", odd[i]);  /* no thread precedes this frame */
        fact(MAIN, "hang.thread", odd[i]); /* no hang precedes this thread */
        fact(0, "hang.over", odd[i]);
        for (size_t k = 0; k < ODD; k++) {
            fact(0, "hang", odd[k]);
            for (uint32_t tid = 0; tid < 300; tid++)
                fact(tid, "hang.thread", odd[i]);
            for (uint32_t n = 0; n < 100; n++)
                fact(299, "hang.frame", odd[k]);
        }
        judge(-1, SIGTERM);
    }
    /* a thread that waits for its own lock */
    begin("spin");
    hang("0");
    fact(LEFT, "hang.thread", "wait=lock owner=501");
    judge(-1, 0);
}

/* ---- a job whose ranks all stand still ---- */

enum { RANK_PIDS = 700 };

static void still_rank(uint32_t rank, const char *wait, const char *place)
{
    char text[160];
    uint32_t pid = RANK_PIDS + rank;
    snprintf(text, sizeof text, "rank=%u of=2", rank);
    fact_of(pid, 0, "hang.rank", text);
    fact_of(pid, 0, "hang", "for_ms=5000 cpu_ms=0");
    feed.pid = pid;
    uint32_t site = place == NULL ? 0 : gw_feed_site(&feed, place);
    feed.pid = GW_FEED_PID;
    snprintf(text, sizeof text, "wait=%s site=%u name=python3", wait, site);
    fact_of(pid, pid, "hang.thread", text);
}

GW_TEST(a_rank_that_did_not_follow_is_named)
{
    static const struct {
        const char *wait[2], *place[2], *cause, *said;
    } rows[] = {
        {{"sleep", "lock"},
         {"finish train.py 50", "reduce train.py 33"},
         "peer-died",
         "rank 1 waits for rank 0, which"},
        {{"lock", "join"}, {"reduce train.py 33", "finish train.py 50"}, "peer-died", "rank 0 waits for rank 1, which"},
        {{"timed-lock", "lock"},
         {"all_reduce torch/distributed/distributed_c10d.py 9", "finish train.py 50"},
         "peer-died",
         "rank 0 waits for rank 1, which"},
        {{"lock", "lock"}, {"finish train.py 50", "reduce train.py 33"}, "peer-died", "wait, at different places"},
        /* nothing shows that one of them is elsewhere */
        {{"lock", "lock"}, {"reduce train.py 33", "reduce train.py 33"}, NULL, "wait at the same place"},
        {{"lock", "lock"}, {NULL, NULL}, NULL, "wait at the same place"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gw_feed_open(&feed, 16 * gib);
        gw_feed_wait(&feed, 10 * second_ns);
        for (uint32_t rank = 0; rank < 2; rank++)
            still_rank(rank, rows[i].wait[rank], rows[i].place[rank]);
        judge(-1, 0);
        expect(rows[i].cause, GW_SUPPORTED);
        assert_true(verdict->is_hang);
        if (strstr(verdict->headline, rows[i].said) == NULL)
            fail_msg("row %zu: %s", i, verdict->headline);
    }
}

GW_TEST(calls_that_cannot_meet_are_named)
{
    static const struct {
        const char *wait[2], *place[2], *cause, *said;
    } rows[] = {
        {{"lock", "lock"},
         {"all_reduce torch/distributed/distributed_c10d.py 9,step train.py 33",
          "broadcast torch/distributed/distributed_c10d.py 7,main train.py 50"},
         "collective-desync",
         "rank 0 is in all_reduce, rank 1 is in broadcast"},
        {{"timed-lock", "timed-lock"},
         {"recv torch/distributed/distributed_c10d.py 9,main train.py 33",
          "recv torch/distributed/distributed_c10d.py 9,main train.py 33"},
         "collective-desync",
         "all ranks wait in recv, and none of them sends"},
        {{"running", "running"},
         {"PMPI_Recv libmpi 1,main train.py 33", "MPI_Barrier libmpi 1,main train.py 50"},
         "collective-desync",
         "rank 0 is in MPI_Recv, rank 1 is in MPI_Barrier"},
        /* a call made of others has the name that the program used */
        {{"lock", "lock"},
         {"all_reduce torch/distributed/distributed_c10d.py 9,barrier torch/distributed/distributed_c10d.py 8,"
          "main train.py 33",
          "all_reduce torch/distributed/distributed_c10d.py 9,main train.py 50"},
         "collective-desync",
         "rank 0 is in barrier, rank 1 is in all_reduce"},
        /* the same call may meet */
        {{"lock", "lock"},
         {"all_reduce torch/distributed/distributed_c10d.py 9,step train.py 33",
          "all_reduce torch/distributed/distributed_c10d.py 9,main train.py 50"},
         "peer-died",
         "wait, at different places"},
        {{"lock", "lock"},
         {"all_reduce torch/distributed/distributed_c10d.py 9,step train.py 33",
          "all_reduce torch/distributed/distributed_c10d.py 9,step train.py 33"},
         NULL,
         "wait at the same place"},
        {{"running", "running"},
         {"PMPI_Send libmpi 1,main train.py 33", "PMPI_Send libmpi 1,main train.py 33"},
         NULL,
         "wait at the same place"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gw_feed_open(&feed, 16 * gib);
        gw_feed_wait(&feed, 10 * second_ns);
        for (uint32_t rank = 0; rank < 2; rank++)
            still_rank(rank, rows[i].wait[rank], rows[i].place[rank]);
        judge(-1, 0);
        expect(rows[i].cause, GW_SUPPORTED);
        assert_true(verdict->is_hang);
        if (strstr(verdict->headline, rows[i].said) == NULL)
            fail_msg("row %zu: %s", i, verdict->headline);
    }
}

/* A thread that is no daemon keeps the process of a rank whose main thread has left the program. */
GW_TEST(a_rank_that_has_left_its_program_is_shown_with_the_thread_that_keeps_it)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_wait(&feed, 10 * second_ns);
    still_rank(0, "lock", "all_reduce torch/distributed/distributed_c10d.py 9,step train.py 33");
    still_rank(1, "lock", "_shutdown /usr/lib/python3.11/threading.py 1590");
    feed.pid = RANK_PIDS + 1;
    uint32_t site = gw_feed_site(
        &feed, "put /usr/lib/python3.11/queue.py 140,feed train.py 57,run /usr/lib/python3.11/threading.py 975");
    feed.pid = GW_FEED_PID;
    char text[80];
    snprintf(text, sizeof text, "wait=lock site=%u name=python3", site);
    fact_of(RANK_PIDS + 1, LEFT, "hang.thread", text);
    judge(-1, 0);
    expect("peer-died", GW_SUPPORTED);
    assert_true(
        has_evidence("its main thread has left the program, and waits for a thread that is no daemon: tid 501"));
    assert_non_null(verdict->where);
    assert_int_equal(verdict->where->frame[verdict->where->user].line, 57);
}

/* A server of MPI waits for a job that need not run yet. */
GW_TEST(a_rank_that_waits_for_another_job_does_not_hang)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_wait(&feed, 10 * second_ns);
    still_rank(0, "running", "PMPI_Comm_accept libmpi 1,serve train.py 20");
    still_rank(1, "running", "PMPI_Bcast libmpi 1,serve train.py 25");
    judge(-1, 0);
    assert_null(verdict->cause);
    assert_false(verdict->is_hang);
}

GW_TEST(a_job_that_went_on_or_is_not_all_there_does_not_hang)
{
    for (int kind = 0; kind < 2; kind++) {
        gw_feed_open(&feed, 16 * gib);
        gw_feed_wait(&feed, 10 * second_ns);
        still_rank(0, "sleep", "finish train.py 50");
        if (kind == 0) {
            still_rank(1, "lock", "reduce train.py 33");
            fact_of(RANK_PIDS + 1, 0, "hang.over", "");
        }
        judge(-1, 0);
        assert_false(verdict->is_hang);
        assert_null(verdict->cause);
    }
}

GW_TEST_MAIN(NULL, NULL)
