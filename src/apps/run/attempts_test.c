/* Tests the attempts of --restart with a made-up supervisor and made-up verdicts: no process is started. */
#include "gw_unit_test.h"
#include "gwi_attempts.h"
#include "gwi_judge.h"

#include <stdio.h>
#include <string.h>

/* ---- the made-up supervisor ---- */

struct gw_supervisor {
    unsigned number; /* of the attempt, from 1 */
};

static struct {
    gw_supervisor run;
    const char *cause;    /* of the next verdict; NULL: undetermined */
    const char *evidence; /* its deciding evidence */
    uint64_t needed_bytes, waited_for_bytes;
    gw_wait_end wait_end;
    int status;
    bool is_stopped;
    char argv[256]; /* command line of the last attempt that was started */
    gw_text notes;  /* all facts, "attempt number key" and the value on the next lines */
} world;

int gw_supervisor_status(const gw_supervisor *run)
{
    (void)run;
    return world.status;
}

bool gw_supervisor_is_stopped(gw_supervisor *run)
{
    (void)run;
    return world.is_stopped;
}

gw_wait_end gw_supervisor_wait_memory(gw_supervisor *run, int device, uint64_t bytes, uint64_t timeout_ns)
{
    (void)run;
    assert_int_equal(device, 3);
    assert_true(timeout_ns > 0);
    world.waited_for_bytes = bytes;
    return world.wait_end;
}

bool gw_supervisor_pause(gw_supervisor *run, unsigned pause_ms)
{
    (void)run;
    return pause_ms > 0;
}

const char *gw_supervisor_flush(gw_supervisor *run)
{
    (void)run;
    return "/run/folder";
}

const char *gw_supervisor_recording(const gw_supervisor *run, bool *ret_is_kept)
{
    static char path[32];
    *ret_is_kept = true;
    snprintf(path, sizeof path, "/srv/%u.gpuwhy", run->number);
    return path;
}

void gw_supervisor_note(gw_supervisor *run, const char *key, const char *value)
{
    gw_text_addf(&world.notes, "%u %s\n%s", run->number, key, value);
}

int gw_supervisor_next(gw_supervisor **run, const gw_run_options *options, char *const *argv)
{
    (void)options;
    (*run)->number++;
    world.argv[0] = '\0';
    for (size_t i = 0; argv[i] != NULL; i++)
        snprintf(world.argv + strlen(world.argv), sizeof world.argv - strlen(world.argv), i == 0 ? "%s" : " %s",
                 argv[i]);
    return 0;
}

gw_status gwi_judge(const char *path, gw_verdict **ret_verdict, gw_error *err)
{
    (void)err;
    assert_string_equal(path, "/run/folder");
    gw_verdict *verdict = calloc(1, sizeof *verdict);
    verdict->status = world.cause == NULL ? GW_VERDICT_UNDETERMINED : GW_VERDICT_FAULT;
    verdict->cause = world.cause;
    verdict->certainty = GW_SUPPORTED;
    verdict->headline = strdup("what\nhappened");
    verdict->needed_bytes = world.needed_bytes;
    verdict->needed_device = 3;
    assert_true(gw_verdict_add_evidence(verdict, "driver", world.evidence));
    verdict->evidence[0].weight = GW_WEIGHT_DECIDES;
    *ret_verdict = verdict;
    return GW_OK;
}

static gwi_attempts begin(const gw_run_options *options, gwi_cure_find_fn *find_cure)
{
    gwi_attempts attempts;
    char *program[] = {(char[]){"train"}, (char[]){"--batch"}, (char[]){"8"}, NULL};
    gw_text_free(&world.notes);
    memset(&world, 0, sizeof world);
    world.run.number = 1;
    world.status = 1 << 8;
    world.evidence = "";
    gw_error err;
    if (gwi_attempts_begin(&attempts, options, program, &err) != GW_OK)
        fail_msg("%s", err.text);
    attempts.find_cure = find_cure;
    return attempts;
}

static void expect_note(const char *text)
{
    if (strstr(gw_text_str(&world.notes), text) == NULL)
        fail_msg("no \"%s\" in:\n%s", text, gw_text_str(&world.notes));
}

/* End the attempt with a failure. If another attempt follows, start it. */
static bool fail_once(gwi_attempts *attempts, const char *cause)
{
    gw_supervisor *run = &world.run;
    world.cause = cause;
    if (!gwi_attempts_again(attempts, run))
        return false;
    assert_int_equal(gwi_attempts_next(attempts, &run), 0);
    return true;
}

/* ---- tests ---- */

GW_TEST(without_the_option_nothing_is_judged)
{
    gwi_attempts attempts = begin(&(gw_run_options){0}, NULL);
    world.evidence = NULL; /* a judgement would crash */
    assert_false(fail_once(&attempts, "illegal-address"));
    assert_int_equal(world.notes.bytes, 0);
    gwi_attempts_free(&attempts);
}

GW_TEST(the_batch_is_halved_until_the_program_succeeds)
{
    const gw_run_options options = {.restart_count = 5, .on = {{"gpu-oom:batch=/2"}, 1}};
    gwi_attempts attempts = begin(&options, NULL);
    gw_supervisor *run = &world.run;
    assert_true(fail_once(&attempts, "gpu-oom-capacity"));
    assert_string_equal(world.argv, "train --batch 4");
    assert_true(fail_once(&attempts, "gpu-oom-leak"));
    assert_string_equal(world.argv, "train --batch 2");
    world.status = 0;
    assert_false(gwi_attempts_again(&attempts, run));
    expect_note("1 attempt\nnumber=1\nmost=6\nagain=1\ncause=gpu-oom-capacity\nheadline=what happened\n"
                "ended=exited 1\nwhy=the command is changed\nchange=--batch 4 instead of 8\n"
                "recording=/srv/1.gpuwhy\n");
    expect_note("3 attempt\nnumber=1\n"); /* the last recording contains all attempts */
    expect_note("3 attempt\nnumber=2\n");
    expect_note("3 attempt\nnumber=3\nmost=6\nagain=0\nended=exited 0\nrecording=/srv/3.gpuwhy\n");
    gwi_attempts_free(&attempts);
}

GW_TEST(a_batch_of_one_ends_the_run)
{
    const gw_run_options options = {.restart_count = 9, .on = {{"gpu-oom-capacity:batch=/2"}, 1}};
    gwi_attempts attempts = begin(&options, NULL);
    for (int i = 0; i < 3; i++)
        assert_true(fail_once(&attempts, "gpu-oom-capacity"));
    assert_string_equal(world.argv, "train --batch 1");
    assert_false(fail_once(&attempts, "gpu-oom-capacity"));
    expect_note("4 attempt\nnumber=4\nmost=10\nagain=0\n");
    gwi_attempts_free(&attempts);
}

GW_TEST(equal_failures_are_recognised_despite_other_numbers)
{
    const gw_run_options options = {.restart_count = 9};
    gwi_attempts attempts = begin(&options, NULL);
    world.evidence = "kernel k_90 of pid 17 read 0x7f00aa at 1.25 s";
    assert_true(fail_once(&attempts, "illegal-address"));
    world.evidence = "kernel k_91 of pid 18 read 0x7f00aa at 1.25 s";
    assert_true(fail_once(&attempts, "illegal-address")); /* another kernel */
    world.evidence = "kernel k_91 of pid 19 read 0x7fbb00 at 31.5 s";
    assert_false(fail_once(&attempts, "illegal-address"));
    gwi_attempts_free(&attempts);
}

GW_TEST(another_process_is_waited_for)
{
    const gw_run_options options = {.restart_count = 9};
    gwi_attempts attempts = begin(&options, NULL);
    world.needed_bytes = 4711;
    world.wait_end = GW_WAIT_FREE;
    assert_true(fail_once(&attempts, "gpu-oom-other-process"));
    assert_int_equal(world.waited_for_bytes, 4711);
    assert_true(fail_once(&attempts, "gpu-oom-other-process"));
    world.wait_end = GW_WAIT_STOPPED;
    assert_false(fail_once(&attempts, "gpu-oom-other-process"));
    expect_note("why=a signal asked the run to end\n");
    gwi_attempts_free(&attempts);
}

GW_TEST(a_stopped_run_is_not_repeated)
{
    const gw_run_options options = {.restart_count = 9, .on = {{"illegal-address:batch=/2"}, 1}};
    gwi_attempts attempts = begin(&options, NULL);
    world.is_stopped = true;
    assert_false(fail_once(&attempts, "illegal-address"));
    gwi_attempts_free(&attempts);
}

/* ---- cures ---- */

static bool find_one(const char *recording, const gw_verdict *verdict, gwi_cure *ret_cure)
{
    assert_string_equal(recording, "/run/folder");
    assert_string_equal(verdict->cause, "gpu-oom-fragmentation");
    *ret_cure = (gwi_cure){.name = "GW_TEST_ALLOC_CONF",
                           .value = "expandable_segments:True",
                           .peak_bytes = UINT64_C(5) << 30,
                           .peak_bytes_before = UINT64_C(6) << 30};
    return true;
}

GW_TEST(a_cure_is_applied_once)
{
    const gw_run_options options = {.cure = true}; /* implies one more attempt */
    gwi_attempts attempts = begin(&options, find_one);
    unsetenv("GW_TEST_ALLOC_CONF");
    assert_true(fail_once(&attempts, "gpu-oom-fragmentation"));
    assert_string_equal(getenv("GW_TEST_ALLOC_CONF"), "expandable_segments:True");
    assert_string_equal(world.argv, "train --batch 8");
    expect_note("change=GW_TEST_ALLOC_CONF=expandable_segments:True in the environment (replayed: peak of 5.00 GiB "
                "instead of 6.00 GiB)\n");
    expect_note("2 cure\nname=GW_TEST_ALLOC_CONF\nvalue=expandable_segments:True\npeak_bytes=5368709120\n"
                "peak_bytes_before=6442450944\n");
    assert_false(fail_once(&attempts, "gpu-oom-fragmentation")); /* the setting is used already */
    gwi_attempts_free(&attempts);
}

GW_TEST(without_a_known_cure_the_run_ends)
{
    const gw_run_options options = {.cure = true, .restart_count = 3};
    gwi_attempts attempts = begin(&options, NULL);
    assert_false(fail_once(&attempts, "gpu-oom-fragmentation"));
    expect_note("1 cure\n1 attempt\n");
    gwi_attempts_free(&attempts);
}

GW_TEST(on_needs_restart)
{
    gw_run_options options = {.on = {{"gpu-oom:batch=/2"}, 1}};
    gwi_attempts attempts;
    gw_error err;
    char *program[] = {(char[]){"train"}, NULL};
    assert_int_equal(gwi_attempts_begin(&attempts, &options, program, &err), GW_USAGE);
    assert_string_equal(err.text, "--on needs --restart N");
    gwi_attempts_free(&attempts);
    options.restart_count = 1;
    assert_int_equal(gwi_attempts_begin(&attempts, &options, program, &err), GW_USAGE);
    gwi_attempts_free(&attempts);
}

/* Tests the decisions of --restart, without processes. */

static gwi_attempt_end failure_of(gw_again again, uint64_t evidence)
{
    return (gwi_attempt_end){.has_failed = true, .has_cause = true, .again = again, .evidence = evidence};
}

static void expect(const gwi_decision *decision, bool again, const char *why)
{
    if (strstr(decision->why, why) == NULL)
        fail_msg("expected \"%s\" in \"%s\"", why, decision->why);
    assert_int_equal(decision->again, again);
}

#define ENDED(machine, ...) gwi_restart_ended(machine, &(gwi_attempt_end)__VA_ARGS__)

GW_TEST(success_ends_the_run)
{
    gwi_restart machine;
    gwi_restart_begin(&machine, 3);
    gwi_decision decision = ENDED(&machine, {.has_failed = false});
    expect(&decision, false, "succeeded");
}

GW_TEST(transient_failures_are_repeated_as_often_as_allowed)
{
    gwi_restart machine;
    gwi_restart_begin(&machine, 3);
    for (uint64_t i = 0; i < 4; i++) { /* each failure has other evidence */
        gwi_attempt_end end = failure_of(GW_AGAIN_TRANSIENT, i);
        gwi_decision decision = gwi_restart_ended(&machine, &end);
        expect(&decision, i < 3, i < 3 ? "may not happen again" : "last attempt");
        assert_false(decision.waits_for_memory);
        assert_int_equal(decision.pause_ms, 0);
    }
}

GW_TEST(the_same_failure_twice_is_permanent)
{
    gwi_restart machine;
    gwi_attempt_end end = failure_of(GW_AGAIN_TRANSIENT, 7), other = failure_of(GW_AGAIN_TRANSIENT, 8);
    gwi_restart_begin(&machine, 10);
    gwi_decision decision = gwi_restart_ended(&machine, &end);
    expect(&decision, true, "may not happen again");
    decision = gwi_restart_ended(&machine, &other);
    expect(&decision, true, "may not happen again");
    decision = gwi_restart_ended(&machine, &other);
    expect(&decision, false, "in the same way");
}

GW_TEST(evidence_of_zero_is_no_earlier_failure)
{
    gwi_restart machine;
    gwi_attempt_end end = failure_of(GW_AGAIN_TRANSIENT, 0);
    gwi_restart_begin(&machine, 1);
    gwi_decision decision = gwi_restart_ended(&machine, &end);
    expect(&decision, true, "may not happen again");
}

GW_TEST(permanent_causes_are_not_repeated)
{
    gwi_restart machine;
    gwi_attempt_end end = failure_of(GW_AGAIN_PERMANENT, 1);
    gwi_restart_begin(&machine, 3);
    gwi_decision decision = gwi_restart_ended(&machine, &end);
    expect(&decision, false, "would fail in the same way");
}

GW_TEST(an_unknown_cause_is_not_repeated)
{
    gwi_restart machine;
    gwi_restart_begin(&machine, 3);
    gwi_decision decision = ENDED(&machine, {.has_failed = true});
    expect(&decision, false, "not determined");
}

GW_TEST(a_stopped_run_is_never_repeated)
{
    gwi_restart machine;
    gwi_attempt_end end = failure_of(GW_AGAIN_TRANSIENT, 1);
    end.is_stopped = end.can_change = true;
    gwi_restart_begin(&machine, 3);
    gwi_decision decision = gwi_restart_ended(&machine, &end);
    expect(&decision, false, "a signal");
}

GW_TEST(a_change_allows_another_attempt_until_nothing_is_left_to_change)
{
    gwi_restart machine;
    gwi_attempt_end end = failure_of(GW_AGAIN_PERMANENT, 1);
    end.can_change = true;
    gwi_restart_begin(&machine, 10);
    for (int i = 0; i < 4; i++) { /* the same evidence each time: only the batch size differs */
        gwi_decision decision = gwi_restart_ended(&machine, &end);
        expect(&decision, true, "the command is changed");
    }
    end.can_change = false;
    gwi_decision decision = gwi_restart_ended(&machine, &end);
    expect(&decision, false, "would fail in the same way");
}

GW_TEST(a_changed_command_may_fail_once_in_the_old_way)
{
    gwi_restart machine;
    gwi_attempt_end end = failure_of(GW_AGAIN_TRANSIENT, 1);
    gwi_restart_begin(&machine, 10);
    end.can_change = true;
    gwi_decision decision = gwi_restart_ended(&machine, &end);
    expect(&decision, true, "the command is changed");
    end.can_change = false;
    decision = gwi_restart_ended(&machine, &end);
    expect(&decision, true, "may not happen again");
    decision = gwi_restart_ended(&machine, &end);
    expect(&decision, false, "in the same way");
}

GW_TEST(a_change_helps_after_equal_failures_too)
{
    gwi_restart machine;
    gwi_attempt_end end = failure_of(GW_AGAIN_TRANSIENT, 1);
    gwi_restart_begin(&machine, 10);
    gwi_decision decision = gwi_restart_ended(&machine, &end);
    expect(&decision, true, "may not happen again");
    end.can_change = true;
    decision = gwi_restart_ended(&machine, &end);
    expect(&decision, true, "the command is changed");
}

GW_TEST(memory_of_others_is_waited_for)
{
    gwi_restart machine;
    gwi_attempt_end end = failure_of(GW_AGAIN_WAIT, 1);
    end.is_memory = true;
    gwi_restart_begin(&machine, 10);
    for (int i = 0; i < 3; i++) { /* the memory became free each time, so the situation was another one */
        gwi_decision decision = gwi_restart_ended(&machine, &end);
        expect(&decision, true, "released");
        assert_true(decision.waits_for_memory);
        assert_int_equal(decision.pause_ms, 0);
        decision = gwi_restart_waited(&machine, GWI_WAITED_FREE);
        expect(&decision, true, "free now");
    }
    gwi_decision decision = gwi_restart_ended(&machine, &end);
    decision = gwi_restart_waited(&machine, GWI_WAITED_TIMEOUT);
    expect(&decision, false, "in time");
}

GW_TEST(unknown_memory_allows_one_attempt)
{
    gwi_restart machine;
    gwi_attempt_end end = failure_of(GW_AGAIN_WAIT, 1);
    end.is_memory = true;
    gwi_restart_begin(&machine, 10);
    gwi_decision decision = gwi_restart_ended(&machine, &end);
    decision = gwi_restart_waited(&machine, GWI_WAITED_UNKNOWN);
    expect(&decision, true, "unknown");
    decision = gwi_restart_ended(&machine, &end);
    expect(&decision, false, "in the same way");
}

GW_TEST(a_signal_during_the_wait_ends_the_run)
{
    gwi_restart machine;
    gwi_attempt_end end = failure_of(GW_AGAIN_WAIT, 1);
    end.is_memory = true;
    gwi_restart_begin(&machine, 10);
    (void)gwi_restart_ended(&machine, &end);
    gwi_decision decision = gwi_restart_waited(&machine, GWI_WAITED_STOPPED);
    expect(&decision, false, "a signal");
}

GW_TEST(a_busy_card_is_tried_again_later)
{
    gwi_restart machine;
    gwi_attempt_end end = failure_of(GW_AGAIN_WAIT, 1);
    gwi_restart_begin(&machine, 10);
    gwi_decision decision = gwi_restart_ended(&machine, &end);
    expect(&decision, true, "released");
    assert_false(decision.waits_for_memory);
    assert_true(decision.pause_ms > 0);
}

static int free_notes(void **state)
{
    gw_text_free(&world.notes);
    return 0;
}

GW_TEST_MAIN(NULL, free_notes)
