/* Tests verdicts on destroyed contexts, forks, exceptions, crashes and signals. */
#include "run_testlib.h"

enum { OLD_EVENT = 0xe7e7e7 };

static uint64_t reset_with_things_kept(void)
{
    open_program(16 * gib);
    uint64_t weights = gw_feed_alloc(&feed, 4 * mib);
    gw_feed_call(&feed, "cuEventCreate", GW_EV_EVENT_CREATE, 0, OLD_EVENT, 0, 0, 0);
    gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_sync(&feed);
    gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 0, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 0, 0xc0de, 0, 0, GW_CONTEXT_PRIMARY);
    return weights;
}

static void test_context_destroyed(void **state)
{
    uint64_t weights = reset_with_things_kept();
    gw_feed_call(&feed, "cuMemFree_v2", GW_EV_FREE, 1, weights, 0, 0, 0);
    /* the message is needed, because a failed free alone rarely ends a program */
    gw_feed_stderr(&feed, "program: cuMemFree: CUDA_ERROR_INVALID_VALUE\n");
    close_program(1);
    expect_fault("context-destroyed", GW_ESTABLISHED);
    assert_true(says("reset"));
    assert_true(has_value((double)(4 * mib), "bytes"));

    reset_with_things_kept();
    gw_feed_call(&feed, "cuEventRecord", GW_EV_EVENT_RECORD, 201, OLD_EVENT, 0, 0, 0);
    gw_feed_stderr(&feed, "program: cuEventRecord: CUDA_ERROR_INVALID_CONTEXT\n");
    close_program(1);
    expect_fault("context-destroyed", GW_ESTABLISHED);
    assert_true(says("event"));

    reset_with_things_kept();
    gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_call(&feed, "cuStreamSynchronize", GW_EV_SYNC, 700, 0, 0, 0, 0);
    close_program(1);
    expect_fault("context-destroyed", GW_SUPPORTED);
    assert_true(has_alternative("illegal-address"));

    reset_with_things_kept();
    gw_feed_inside(&feed, "cuLaunchKernel");
    gw_feed_exit(&feed, 0, 11);
    expect_fault("context-destroyed", GW_SUPPORTED);
    assert_true(has_alternative("host-crash-of-process"));
}

/* For each kind of object: create it, destroy its context, and then use the object by its handle or by a pointer into
 * it. This last call fails. */
static void test_context_destroyed_by_kind(void **state)
{
    enum { HANDLE = 0x7f120000, OWNER = 0x7f130000 };
    static const struct {
        const char *make, *use, *said;
        gw_event_kind made, used;
        uint16_t result;
        uint64_t into;
    } rows[] = {
        {"cuMemAlloc_v2", "cuMemcpyHtoD_v2", "the block of 1.00 MiB allocated at", GW_EV_ALLOC, GW_EV_COPY, 1, 4096},
        {"cuMemAllocAsync", "cuMemFreeAsync", "the block of 1.00 MiB allocated at", GW_EV_ALLOC_ASYNC, GW_EV_FREE_ASYNC,
         1, 0},
        {"cuStreamCreate", "cuStreamQuery", "the stream created at", GW_EV_STREAM_CREATE, GW_EV_SYNC, 400, 0},
        {"cuEventCreate", "cuEventRecord", "the event created at", GW_EV_EVENT_CREATE, GW_EV_EVENT_RECORD, 201, 0},
        {"cuModuleLoadData", "cuModuleUnload", "the module created at", GW_EV_MODULE_LOAD, GW_EV_MODULE_UNLOAD, 400, 0},
        {"cuModuleGetFunction", "cuLaunchKernel", "the function created at", GW_EV_FUNCTION, GW_EV_LAUNCH, 400, 0},
        {"cuGraphInstantiateWithFlags", "cuGraphLaunch", "the executable graph created at", GW_EV_GRAPH_EXEC_CREATE,
         GW_EV_GRAPH_LAUNCH, 400, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int anew = 0; anew < 2; anew++) { /* 1: the object is created again */
            open_program(16 * gib);
            feed.site = gw_feed_site(&feed, "build model.py 5");
            uint64_t bytes = rows[i].made == GW_EV_FUNCTION ? OWNER : mib;
            gw_feed_call(&feed, rows[i].make, rows[i].made, 0, HANDLE, bytes, 0, 0);
            feed.site = 0;
            gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 0, 0, 0, 0, 0);
            gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 0, 0xc0de, 0, 0, GW_CONTEXT_PRIMARY);
            if (anew)
                gw_feed_call(&feed, rows[i].make, rows[i].made, 0, HANDLE, bytes, 0, 0);
            /* another object with the same handle must not explain the failure */
            if (rows[i].made != GW_EV_STREAM_CREATE)
                gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, HANDLE, 0, 0, 0);
            feed.tid++;
            gw_feed_call(&feed, rows[i].use, rows[i].used, rows[i].result, HANDLE + rows[i].into, 0, 0, 0);
            close_program(1);
            judge_open();
            bool found = verdict->cause != NULL && strcmp(verdict->cause, "context-destroyed") == 0;
            if (found == (anew != 0))
                fail_msg("%s, %d: %s", rows[i].use, anew, verdict->headline);
            if (found && !(says(rows[i].said) && says("at model.py:5 in build") && says("still used it")))
                fail_msg("%s: not said", rows[i].use);
        }
    }
}

/* The thread's current context was destroyed. The verdict shows where that context was created. */
static void feed_context_destroyed_and_still_current(void)
{
    gw_feed_open_bare(&feed);
    feed.site = gw_feed_site(&feed, "start main.py 3");
    gw_feed_begin_cuda(&feed, 2 * gib);
    feed.site = gw_feed_site(&feed, "close lib.py 9");
    gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 0, 0, 0, 0, 0);
    feed.site = 0;
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 709, 0, mib, 0, 0);
    close_program(1);
}

static void also_context_destroyed_and_still_current(void)
{
    expect_place("lib.py:9 in close", "reset");
}

static void feed_context_destroyed_near_nothing_kept(void)
{
    open_program(16 * gib);
    uint64_t weights = gw_feed_alloc(&feed, 4 * mib);
    gw_feed_free(&feed, weights);
    gw_feed_call(&feed, "cuStreamDestroy_v2", GW_EV_STREAM_DESTROY, 0, STREAM, 0, 0, 0);
    gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 0, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 0, 0xc0de, 0, 0, GW_CONTEXT_PRIMARY);
    gw_feed_launch(&feed, KERNEL, 0);
    gw_feed_call(&feed, "cuStreamSynchronize", GW_EV_SYNC, 700, 0, 0, 0, 0);
    close_program(1);
}

static void pinned(uint16_t result, int exit_code)
{
    open_program(16 * gib);
    gw_feed_call(&feed, "cuMemHostRegister_v2", GW_EV_HOST_REGISTER, 0, 0x1000, gib, 0, 0);
    gw_feed_call(&feed, "cuMemHostRegister_v2", GW_EV_HOST_REGISTER, result, 0x1000, gib, 0, 0);
    if (exit_code != 0)
        gw_feed_stderr(&feed, "program: cuMemHostRegister failed\n");
    close_program(exit_code);
}

static void test_pinned_memory(void **state)
{
    pinned(712, 1);
    expect_fault("pinned-memory-failure", GW_ESTABLISHED);
    assert_true(says("already registered"));
    pinned(2, 1);
    expect_fault("pinned-memory-failure", GW_ESTABLISHED);
    assert_true(list_has(&verdict->ruled_out, "GPU memory"));
}

static void feed_pinned_memory_near_it_was_a_probe(void)
{
    pinned(712, 0);
}

static void forked_child_asks(bool parent_had_initialised, const char *call, gw_event_kind kind)
{
    gw_feed_open_bare(&feed);
    if (parent_had_initialised)
        gw_feed_begin_cuda(&feed, 16 * gib);
    else
        gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/program");
    uint32_t site = gw_feed_site(&feed, "start main.py 8"); /* where the parent forked */
    feed.pid = feed.tid = 300;
    feed.context = 0;
    gw_feed_process(&feed, 300, GW_FEED_PID, "/usr/bin/program");
    gw_feed_call(&feed, "?", GW_EV_FORK, 0, GW_FEED_PID, parent_had_initialised, site, 0);
    gw_feed_call(&feed, call, kind, 3, 0, mib, 0, 0);
}

static void forked_child_calls(bool parent_had_initialised, const char *call, gw_event_kind kind, int end_of_child)
{
    forked_child_asks(parent_had_initialised, call, kind);
    gw_feed_exit_of(&feed, 300, end_of_child, 0);
}

static void forked(bool parent_had_initialised)
{
    forked_child_calls(parent_had_initialised, "cuMemAlloc_v2", GW_EV_ALLOC, 1);
    gw_feed_exit(&feed, 1, 0);
}

/* In the child, cudaMalloc() fails because its first driver call, a query, fails. The parent ends with status 0 or
 * 1. */
static void test_fork_after_init_by_a_question(void **state)
{
    for (int end = 0; end < 2; end++) {
        forked_child_calls(true, "cuCtxGetCurrent", GW_EV_CALL, 1);
        gw_feed_exit(&feed, end, 0);
        expect_fault("fork-after-init", end == 0 ? GW_SUPPORTED : GW_ESTABLISHED);
    }
}

/* A driver call of the child failed, but the child went on. It was killed at once, was killed after 100 s, or exited
 * with status 77 after 100 s. */
static void test_fork_near_the_child_worked_on(void **state)
{
    for (int i = 0; i < 3; i++) {
        forked_child_asks(true, "cuCtxGetCurrent", GW_EV_CALL);
        gw_feed_wait(&feed, i == 0 ? 0 : 100000000000u);
        gw_feed_exit_of(&feed, 300, i == 2 ? 77 : 0, i == 2 ? 0 : 9);
        gw_feed_exit(&feed, 0, 0);
        expect_status(GW_VERDICT_CLEAN);
    }
}

static void feed_fork_near_the_child_did_without(void)
{
    forked_child_calls(true, "cuCtxGetCurrent", GW_EV_CALL, 0);
    gw_feed_exit(&feed, 0, 0);
}

static void feed_fork_after_init(void)
{
    forked(true);
}

static void feed_fork_near_the_parent_had_not_initialised(void)
{
    forked(false);
}

/* PyTorch itself refuses to use CUDA in the child, so the child makes no driver call. `last` is the end of stderr. */
static void told_of_a_fork(const char *last)
{
    gw_feed_open_bare(&feed);
    gw_feed_begin_cuda(&feed, 16 * gib);
    gw_feed_stderr(&feed,
                   "Process Process-1:\nTraceback (most recent call last):\n"
                   "  File \"/project/train.py\", line 7, in worker\n"
                   "  File \"/venv/lib/python3.12/site-packages/torch/cuda/__init__.py\", line 398, in _lazy_init\n"
                   "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, "
                   "you must use the 'spawn' start method\n");
    gw_feed_stderr(&feed, last);
    gw_feed_exit(&feed, 1, 0);
}

static void test_fork_after_init_told(void **state)
{
    told_of_a_fork("");
    expect_fault("fork-after-init", GW_ESTABLISHED);
    assert_true(says("raised at train.py:7 in worker"));
    assert_true(says("initialised CUDA"));
    told_of_a_fork("Traceback (most recent call last):\n  File \"/project/train.py\", line 30, in <module>\n"
                   "KeyError: 'labels'\n");
    expect_fault("script-exception", GW_ESTABLISHED); /* the program continued after the refusal */
}

static void feed_script_exception(void)
{
    gw_feed_open_bare(&feed);
    gw_feed_stderr(&feed,
                   "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\nValueError: no\n");
    gw_feed_exit(&feed, 1, 0);
}

static void also_script_exception(void)
{
    assert_int_equal(verdict->alternative_count, 0);
}

static void feed_script_exception_near_cuda_words(void)
{
    gw_feed_open_bare(&feed);
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\n"
                          "RuntimeError: CUDA error: no kernel image is available for execution on the device\n");
    gw_feed_exit(&feed, 1, 0);
}

static void feed_silent_exit_is_undetermined(void)
{
    open_program(16 * gib);
    iterate(3);
    gw_feed_exit(&feed, 3, 0);
}

static void also_silent_exit_is_undetermined(void)
{
    assert_int_equal(verdict->exit_code, 3);
}

static void end_by(int signal, bool after_failure)
{
    open_program(16 * gib);
    iterate(3);
    if (after_failure)
        gw_feed_no_room(&feed, 20 * gib, 15 * gib, 16 * gib);
    gw_feed_exit(&feed, 0, signal);
}

static void test_host_crash(void **state)
{
    end_by(11, false);
    expect_fault("host-crash-of-process", GW_ESTABLISHED);
    end_by(6, false);
    expect_fault("host-crash-of-process", GW_ESTABLISHED);
    end_by(6, false); /* an uncaught exception aborts, too, and only stderr shows it */
    gw_feed_fact(&feed, "stderr.not_recorded", "disabled with --no-stderr");
    expect_fault("host-crash-of-process", GW_SUPPORTED);
}

static void feed_host_crash_near_an_allocation_failed(void)
{
    end_by(6, true); /* abort(), as by an uncaught exception after the refusal */
}

static void test_killed(void **state)
{
    static const struct {
        const char *sender;
        gw_certainty certainty;
    } terms[] = {{NULL, GW_SUPPORTED}, /* the program may have sent it */
                 {"signal=15 outside=0 pid=9 from=python watchdog.py", GW_SUPPORTED},
                 {"signal=2 outside=1 from=the terminal", GW_SUPPORTED},
                 {"signal=15 outside=1 early_s=40 from=timeout 9", GW_SUPPORTED}, /* it had survived that one */
                 {"signal=15 outside=1 early_s=2 pid=8 from=timeout 60", GW_SUPPORTED},
                 {"signal=15 outside=1 early_s=1 pid=7 from=timeout 60", GW_ESTABLISHED},
                 {"signal=15 outside=1 pid=7 from=timeout 60", GW_ESTABLISHED}};
    for (size_t i = 0; i < sizeof terms / sizeof terms[0]; i++) {
        end_by(15, false);
        if (terms[i].sender != NULL)
            gw_feed_fact(&feed, "stop.signal", terms[i].sender);
        expect_fault("killed-by-scheduler-or-user", terms[i].certainty);
        assert_int_equal(says("sent by pid 7, timeout 60"), terms[i].certainty == GW_ESTABLISHED);
        bool is_early =
            terms[i].certainty == GW_SUPPORTED && terms[i].sender != NULL && strstr(terms[i].sender, "early");
        assert_int_equal(says("may have sent itself another"), is_early);
    }
    end_by(9, false);
    expect_fault("killed-by-scheduler-or-user", GW_SUPPORTED); /* the Linux kernel may have sent SIGKILL */
}

static void feed_killed_near_a_lost_context(void)
{
    fault_with(700);
    gw_feed_exit(&feed, 0, 15);
}

static void feed_a_childs_death_is_a_fault(void)
{
    open_program(16 * gib);
    feed.pid = feed.tid = 200;
    gw_feed_begin_cuda(&feed, 16 * gib);
    gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_call(&feed, "cuStreamSynchronize", GW_EV_SYNC, 700, 0, 0, 0, 0);
    gw_feed_exit_of(&feed, 200, 1, 0);
    feed.pid = feed.tid = GW_FEED_PID;
    gw_feed_exit(&feed, 0, 0);
}

static void feed_a_dead_thread_beside_a_usual_end(void)
{
    open_program(16 * gib);
    gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_sync(&feed);
    gw_feed_stderr(&feed, "Exception in thread Thread-1 (f):\nTraceback (most recent call last):\n"
                          "  File \"t.py\", line 3, in f\nKeyError: 'x'\n"
                          "Exception in thread Thread-2 (g):\nTraceback (most recent call last):\n"
                          "  File \"u.py\", line 4, in g\nEOFError\n");
    gw_feed_exit(&feed, 0, 0);
}

static const row rows[] = {
    NAMED(context_destroyed_and_still_current, "context-destroyed",
          .says = {"at main.py:3 in start is still current there"}, .also = also_context_destroyed_and_still_current),
    FAULT(context_destroyed_near_nothing_kept, "illegal-address", GW_ESTABLISHED,
          .no_alternative = {"context-destroyed"}),
    NO_FAULT(pinned_memory_near_it_was_a_probe, GW_VERDICT_CLEAN),
    FAULT(fork_after_init, "fork-after-init", GW_ESTABLISHED,
          .says = {"300", "100", "the fork was at main.py:8 in start"}),
    NO_FAULT(fork_near_the_child_did_without, GW_VERDICT_CLEAN),
    NO_FAULT(fork_near_the_parent_had_not_initialised, GW_VERDICT_UNDETERMINED, .no_alternative = {"fork-after-init"}),
    /* the GPU is not ruled out, because no driver call was recorded */
    FAULT(script_exception, "script-exception", GW_ESTABLISHED, .says = {"no CUDA driver call was observed"},
          .not_ruled_out = {"the GPU"}, .also = also_script_exception),
    FAULT(script_exception_near_cuda_words, "arch-not-in-binary", GW_SUPPORTED),
    NO_FAULT(silent_exit_is_undetermined, GW_VERDICT_UNDETERMINED, .ruled_out = {"the GPU"},
             .also = also_silent_exit_is_undetermined),
    FAULT(host_crash_near_an_allocation_failed, "gpu-oom-capacity", GW_ESTABLISHED,
          .no_alternative = {"host-crash-of-process"}),
    FAULT(killed_near_a_lost_context, "illegal-address", GW_ESTABLISHED,
          .no_alternative = {"killed-by-scheduler-or-user"}),
    FAULT(a_childs_death_is_a_fault, "illegal-address", GW_ESTABLISHED),
    FAULT(a_dead_thread_beside_a_usual_end, "script-exception", GW_SUPPORTED,
          .says = {"KeyError", "this exception ended a thread"}),
    TEST(test_context_destroyed),
    TEST(test_context_destroyed_by_kind),
    TEST(test_pinned_memory),
    TEST(test_fork_after_init_by_a_question),
    TEST(test_fork_near_the_child_worked_on),
    TEST(test_fork_after_init_told),
    TEST(test_host_crash),
    TEST(test_killed),
};

ROWS_MAIN(rows)
