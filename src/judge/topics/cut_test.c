/* Tests what is said of a recording without an end, and of other ends without a word. */
#include "gw_unit_test.h"
#include "verdict_testlib.h"

static const uint64_t start_ns = UINT64_C(1700000000000000000), minute_ns = UINT64_C(60000000000);

/* Open a run of 10 s on the machine "here" with the boot_id "one". */
static void open_run(void)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_meta(&feed, "host", "here");
    gw_feed_meta(&feed, "boot_id", "one");
    gw_feed_meta(&feed, "start_realtime_ns", "1700000000000000000");
    (void)gw_feed_alloc(&feed, gib);
    gw_feed_wait(&feed, 10 * second_ns);
}

static void judge_on(const char *host, const char *boot_id, uint64_t boot_ns)
{
    gw_error err;
    const gw_later later = {.host = host, .boot_id = boot_id, .boot_realtime_ns = boot_ns};
    judge_close();
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(gw_judge_later(model, &later, &verdict, &err), GW_OK);
    gw_model_free(model);
}

GW_TEST(the_boot_id_shows_whether_the_machine_stopped)
{
    static const struct {
        const char *host, *boot_id;
        uint64_t after_ns; /* from the start of the run to the start of the machine; 0: not known */
        const char *said, *cut;
    } rows[] = {
        {"here", "one", 0, "gpuwhy itself was killed", "gpuwhy was killed"},
        {"here", "two", 3 * UINT64_C(60000000000), "the machine probably stopped during this run",
         "the machine stopped"},
        /* restarted days later: gpuwhy may have been killed before */
        {"here", "two", 5000 * UINT64_C(60000000000), "gpuwhy was killed, or the machine stopped", "no end recorded"},
        {"here", "two", 0, "gpuwhy was killed, or the machine stopped", "no end recorded"},
        /* a clock that was set back */
        {"here", "two", 1, "gpuwhy was killed, or the machine stopped", "no end recorded"},
        {"there", "two", 3 * UINT64_C(60000000000), "the recording stops before the program ended", "no end recorded"},
        {"here", "", 0, "the recording stops before the program ended", "no end recorded"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_run();
        gw_feed_truncated(&feed);
        judge_on(rows[i].host, rows[i].boot_id, rows[i].after_ns == 0 ? 0 : start_ns + rows[i].after_ns);
        assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
        assert_non_null(verdict->run.cut);
        if (strstr(verdict->headline, rows[i].said) == NULL || strcmp(verdict->run.cut, rows[i].cut) != 0)
            fail_msg("row %zu: %s; %s", i, verdict->headline, verdict->run.cut);
    }
}

GW_TEST(a_recording_with_an_end_is_not_cut)
{
    open_run();
    gw_feed_exit(&feed, 0, 0);
    judge_on("here", "two", start_ns + 3 * minute_ns);
    assert_null(verdict->run.cut);
    assert_null(strstr(verdict->headline, "stop"));
}

GW_TEST(sleep_is_told_and_is_no_fault)
{
    open_run();
    gw_feed_fact(&feed, "machine.suspended", "for_ms=90000");
    gw_feed_fact(&feed, "machine.suspended", "for_ms=30000");
    gw_feed_exit(&feed, 0, 0);
    judge_on("here", "one", 0);
    assert_int_equal(verdict->status, GW_VERDICT_CLEAN);
    assert_true(list_has(&verdict->advice, "slept for 120 s"));
}

GW_TEST(a_signal_from_outside_explains_an_exit_status)
{
    static const struct {
        const char *stop, *words;
        int code;
        const char *cause;
    } rows[] = {
        {"signal=15 outside=1 pid=7 early_s=0 from=timeout 60", NULL, 5, "killed-by-scheduler-or-user"},
        {"signal=15 outside=1 pid=7 early_s=9 from=timeout 60", NULL, 5, NULL}, /* it went on for long */
        {"signal=15 outside=0 pid=7 early_s=0 from=own", NULL, 5, NULL},        /* it may have sent it itself */
        {NULL, NULL, 5, NULL},
        {"signal=15 outside=1 pid=7 early_s=0 from=timeout 60", "terminate called without an active exception\n", 5,
         NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_run();
        if (rows[i].stop != NULL)
            gw_feed_fact(&feed, "stop.signal", rows[i].stop);
        if (rows[i].words != NULL)
            gw_feed_stderr(&feed, rows[i].words);
        gw_feed_exit(&feed, rows[i].code, 0);
        judge_on("here", "one", 0);
        bool is_cause = verdict->cause != NULL && strcmp(verdict->cause, "killed-by-scheduler-or-user") == 0;
        if (is_cause != (rows[i].cause != NULL))
            fail_msg("row %zu: %s", i, verdict->headline);
    }
}

/* The verdict that was reached before gpuwhy intervened stays, whatever the program does then. */
GW_TEST(an_intervention_displaces_no_earlier_cause)
{
    /* gpuwhy's own stop, and signals that it received and passed on */
    static const struct {
        const char *key, *value;
        bool is_own;
    } acts[] = {
        {"own.stop", "--kill-on-hang: gpuwhy sent SIGTERM to pid 300", true},
        {"stop.signal", "signal=2 outside=1 early_s=0 from=the terminal", false},
        {"stop.signal", "signal=15 outside=1 pid=7 early_s=0 from=gpuwhy, because its own parent had ended", false}};
    static const char *const words[] = {
        "", "RuntimeError: CUDA error: out of memory\n",
        "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\nValueError: got signal 15\n"};
    static const int codes[] = {0, 1, 5, -1};
    for (size_t act = 0; act < sizeof acts / sizeof acts[0]; act++)
        for (size_t word = 0; word < sizeof words / sizeof words[0]; word++)
            for (size_t code = 0; code < sizeof codes / sizeof codes[0]; code++) {
                if (!acts[act].is_own && codes[code] == 0)
                    continue; /* it ended well: there is nothing to explain */
                open_run();
                gw_feed_no_room(&feed, 20 * gib, gib, 16 * gib);
                gw_feed_stderr(&feed, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY\n");
                gw_feed_fact(&feed, acts[act].key, acts[act].value);
                gw_feed_stderr(&feed, words[word]);
                if (acts[act].is_own)
                    gw_feed_call(&feed, "cuCtxSynchronize", GW_EV_SYNC, 700, 0, 0, 0, 0);
                gw_feed_exit(&feed, codes[code], codes[code] < 0 ? 15 : 0);
                judge_on("here", "one", 0);
                if (verdict->cause != NULL && strcmp(verdict->cause, "illegal-address") == 0)
                    fail_msg("%s, %s: %s", acts[act].value, words[word], verdict->headline);
                if (verdict->cause == NULL || strncmp(verdict->cause, "gpu-oom", 7) != 0)
                    fail_msg("%s, %zu, %d: %s", acts[act].value, word, codes[code], verdict->headline);
                assert_int_equal(verdict->interventions.count, acts[act].is_own);
            }
}

GW_TEST(the_command_of_an_alarm_may_have_sent_the_signal)
{
    for (int command = 0; command < 2; command++) {
        open_run();
        gw_feed_fact(&feed, "memory.alarm", command ? "held_bytes=5\nlimit_bytes=6\ncommand=1\n" : "held_bytes=5\n");
        gw_feed_exit(&feed, -1, 15);
        judge_on("here", "one", 0);
        assert_cause(verdict, "killed-by-scheduler-or-user", GW_SUPPORTED);
        assert_int_equal(why_has(verdict, "the command of --alarm-at was started"), command);
        assert_int_equal(list_has(&verdict->next, "watchdogs"), !command);
    }
}

GW_TEST_MAIN(NULL, NULL)
