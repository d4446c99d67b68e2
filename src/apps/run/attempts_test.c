/* Tests the attempts of --restart with a made-up supervisor and made-up verdicts: no process is started. */
#include "gw_unit_test.h"
#include "gwi_attempts.h"
#include "gwi_judge.h"
#include "gwi_rehearsals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    bool is_stopped, lacks_memory;
    char argv[256]; /* command line of the last attempt that was started */
    gw_text notes;  /* all facts, "attempt number key" and the value on the next lines */
} world;

int gw_supervisor_status(const gw_supervisor *run)
{
    return world.status;
}

bool gw_supervisor_is_stopped(gw_supervisor *run)
{
    return world.is_stopped;
}

gw_wait_end gw_supervisor_wait_memory(gw_supervisor *run, int device, uint64_t bytes, uint64_t timeout_ns)
{
    assert_int_equal(device, 3);
    assert_true(timeout_ns > 0);
    world.waited_for_bytes = bytes;
    return world.wait_end;
}

bool gw_supervisor_pause(gw_supervisor *run, unsigned pause_ms)
{
    return pause_ms > 0;
}

const char *gw_supervisor_flush(gw_supervisor *run)
{
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

bool gwi_rehearsal_lacks_memory(const gwi_rescue *rescue, gw_supervisor *run)
{
    return world.lacks_memory;
}

bool gwi_numbers_change(gwi_rescue *rescue, gw_supervisor *run, gwi_rescued *rescued)
{
    gwi_place *batch = gwi_places_find(&rescue->places, "batch");
    rescued->why_not = "there is no value left";
    if (batch == NULL || batch->number == 1)
        return false;
    gw_text_addf(&rescued->change, "batch %d", (int)batch->number / 2);
    gw_text_add_str(&rescued->proof, "rehearsed");
    return gwi_place_set(batch, batch->number / 2);
}

int gw_supervisor_next(gw_supervisor **run, const gw_run_options *options, char *const *argv)
{
    (*run)->number++;
    world.argv[0] = '\0';
    for (size_t i = 0; argv[i] != NULL; i++)
        snprintf(world.argv + strlen(world.argv), sizeof world.argv - strlen(world.argv), i == 0 ? "%s" : " %s",
                 argv[i]);
    return 0;
}

gw_status gwi_judge(const char *path, gw_verdict **ret_verdict, gw_error *err)
{
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

static gwi_attempts attempts;

static void begin(const gw_run_options *options, gwi_cure_find_fn *find_cure)
{
    char *program[] = {(char[]){"train"}, (char[]){"--batch"}, (char[]){"8"}, NULL};
    memset(&world, 0, sizeof world);
    world.run.number = 1;
    world.status = 1 << 8;
    world.evidence = "";
    gw_error err;
    if (gwi_attempts_begin(&attempts, options, program, &err) != GW_OK)
        fail_msg("%s", err.text);
    attempts.find_cure = find_cure;
}

static void expect_note(const char *text)
{
    if (strstr(gw_text_str(&world.notes), text) == NULL)
        fail_msg("no \"%s\" in:\n%s", text, gw_text_str(&world.notes));
}

/* End the attempt with a failure. If another attempt follows, start it. */
static bool fail_once(const char *cause)
{
    gw_supervisor *run = &world.run;
    world.cause = cause;
    if (!gwi_attempts_again(&attempts, run))
        return false;
    assert_int_equal(gwi_attempts_next(&attempts, &run), 0);
    return true;
}

static int end(void **state)
{
    gwi_attempts_free(&attempts);
    gw_text_free(&world.notes);
    return 0;
}

/* ---- tests ---- */

GW_TEST_WITH(without_the_option_nothing_is_judged, NULL, end)
{
    begin(&(gw_run_options){0}, NULL);
    world.evidence = NULL; /* a judgement would crash */
    assert_false(fail_once("illegal-address"));
    assert_int_equal(world.notes.bytes, 0);
}

GW_TEST_WITH(the_batch_is_halved_until_the_program_succeeds, NULL, end)
{
    const gw_run_options options = {.restart_count = 5, .on = {{"gpu-oom:batch=/2"}, 1}};
    begin(&options, NULL);
    gw_supervisor *run = &world.run;
    assert_true(fail_once("gpu-oom-capacity"));
    assert_string_equal(world.argv, "train --batch 4");
    assert_true(fail_once("gpu-oom-leak"));
    assert_string_equal(world.argv, "train --batch 2");
    world.status = 0;
    assert_false(gwi_attempts_again(&attempts, run));
    expect_note("1 attempt\nnumber=1\nmost=6\nagain=1\ncause=gpu-oom-capacity\nheadline=what happened\n"
                "ended=exited 1\nwhy=the command is changed\nchange=--batch 4 instead of 8\n"
                "recording=/srv/1.gpuwhy\n");
    expect_note("3 attempt\nnumber=1\n"); /* the last recording contains all attempts */
    expect_note("3 attempt\nnumber=2\n");
    expect_note("3 attempt\nnumber=3\nmost=6\nagain=0\nended=exited 0\nrecording=/srv/3.gpuwhy\n");
}

GW_TEST_WITH(a_batch_of_one_ends_the_run, NULL, end)
{
    const gw_run_options options = {.restart_count = 9, .on = {{"gpu-oom-capacity:batch=/2"}, 1}};
    begin(&options, NULL);
    for (int i = 0; i < 3; i++)
        assert_true(fail_once("gpu-oom-capacity"));
    assert_string_equal(world.argv, "train --batch 1");
    assert_false(fail_once("gpu-oom-capacity"));
    expect_note("4 attempt\nnumber=4\nmost=10\nagain=0\n");
}

GW_TEST_WITH(equal_failures_are_recognised_despite_other_numbers, NULL, end)
{
    begin(&(gw_run_options){.restart_count = 9}, NULL);
    world.evidence = "kernel k_90 of pid 17 read 0x7f00aa at 1.25 s";
    assert_true(fail_once("illegal-address"));
    world.evidence = "kernel k_91 of pid 18 read 0x7f00aa at 1.25 s";
    assert_true(fail_once("illegal-address")); /* another kernel */
    world.evidence = "kernel k_91 of pid 19 read 0x7fbb00 at 31.5 s";
    assert_false(fail_once("illegal-address"));
}

GW_TEST_WITH(another_process_is_waited_for, NULL, end)
{
    begin(&(gw_run_options){.restart_count = 9}, NULL);
    world.needed_bytes = 4711;
    world.wait_end = GW_WAIT_FREE;
    assert_true(fail_once("gpu-oom-other-process"));
    assert_int_equal(world.waited_for_bytes, 4711);
    assert_true(fail_once("gpu-oom-other-process"));
    world.wait_end = GW_WAIT_STOPPED;
    assert_false(fail_once("gpu-oom-other-process"));
    expect_note("why=a signal asked the run to end\n");
}

GW_TEST_WITH(a_stopped_run_is_not_repeated, NULL, end)
{
    const gw_run_options options = {.restart_count = 9, .on = {{"illegal-address:batch=/2"}, 1}};
    begin(&options, NULL);
    world.is_stopped = true;
    assert_false(fail_once("illegal-address"));
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

GW_TEST_WITH(a_cure_is_applied_once, NULL, end)
{
    const gw_run_options options = {.cure = true}; /* implies one more attempt */
    begin(&options, find_one);
    unsetenv("GW_TEST_ALLOC_CONF");
    assert_true(fail_once("gpu-oom-fragmentation"));
    assert_string_equal(getenv("GW_TEST_ALLOC_CONF"), "expandable_segments:True");
    assert_string_equal(world.argv, "train --batch 8");
    expect_note("change=GW_TEST_ALLOC_CONF=expandable_segments:True in the environment\n");
    expect_note("proof=replayed: peak of 5.00 GiB instead of 6.00 GiB\n");
    expect_note("2 cure\nname=GW_TEST_ALLOC_CONF\nvalue=expandable_segments:True\npeak_bytes=5368709120\n"
                "peak_bytes_before=6442450944\n");
    assert_false(fail_once("gpu-oom-fragmentation")); /* the setting is used already */
}

GW_TEST_WITH(without_a_known_cure_the_run_ends, NULL, end)
{
    const gw_run_options options = {.cure = true, .restart_count = 3};
    begin(&options, NULL);
    assert_false(fail_once("gpu-oom-fragmentation"));
    expect_note("1 cure\n1 attempt\n");
}

GW_TEST_WITH(on_needs_restart, NULL, end)
{
    gw_run_options options = {.on = {{"gpu-oom:batch=/2"}, 1}};
    gw_error err;
    char *program[] = {(char[]){"train"}, NULL};
    assert_int_equal(gwi_attempts_begin(&attempts, &options, program, &err), GW_USAGE);
    assert_string_equal(err.text, "--on needs --restart N");
    gwi_attempts_free(&attempts);
    options.restart_count = 1;
    assert_int_equal(gwi_attempts_begin(&attempts, &options, program, &err), GW_USAGE);
}

/* ---- --rescue ---- */

static void begin_rescue(const char *option, char *const *program)
{
    static gw_run_options options;
    gw_error err;
    options = (gw_run_options){.rescue = option};
    begin(&options, NULL);
    gwi_attempts_free(&attempts);
    if (gwi_attempts_begin(&attempts, &options, program, &err) != GW_OK)
        fail_msg("%s", err.text);
    attempts.find_cure = NULL;
}

GW_TEST_WITH(the_batch_of_a_placeholder_is_changed, NULL, end)
{
    char *program[] = {(char[]){"train"}, (char[]){"--batch={batch:8}"}, NULL};
    begin_rescue("", program);
    assert_string_equal(attempts.command.argv[1], "--batch=8");
    assert_true(fail_once("gpu-oom-capacity"));
    assert_string_equal(world.argv, "train --batch=4");
    expect_note("change=batch 4\n");
    expect_note("proof=rehearsed\n");
}

GW_TEST_WITH(a_setting_that_a_rehearsal_refutes_is_not_tried, NULL, end)
{
    char *program[] = {(char[]){"train"}, (char[]){"{batch:8}"}, NULL};
    begin_rescue("", program);
    attempts.find_cure = find_one;
    world.lacks_memory = true;
    setenv("GW_TEST_ALLOC_CONF", "as before", 1);
    assert_true(fail_once("gpu-oom-fragmentation"));
    assert_string_equal(getenv("GW_TEST_ALLOC_CONF"), "as before");
    expect_note("change=batch 4\n");
    world.lacks_memory = false;
    assert_true(fail_once("gpu-oom-fragmentation"));
    assert_string_equal(getenv("GW_TEST_ALLOC_CONF"), "expandable_segments:True");
    unsetenv("GW_TEST_ALLOC_CONF");
}

GW_TEST_WITH(what_cannot_be_helped_ends_at_once, NULL, end)
{
    char *program[] = {(char[]){"train"}, (char[]){"--batch={batch:8}"}, NULL};
    begin_rescue("5", program);
    assert_false(fail_once("script-exception"));
    expect_note("why=the same command would fail in the same way\n");
    assert_false(fail_once("gpu-oom-leak"));
    expect_note("why=a leak fills the card again; --rescue=leak");
}

GW_TEST_WITH(a_transient_failure_is_tried_once_more, NULL, end)
{
    char *program[] = {(char[]){"train"}, NULL};
    begin_rescue("5", program);
    assert_true(fail_once("illegal-address"));
    assert_false(fail_once("illegal-address"));
    expect_note("why=the last two attempts failed in the same way");
}

GW_TEST_WITH(preallocation_is_switched_off, NULL, end)
{
    char *program[] = {(char[]){"train"}, NULL};
    unsetenv("XLA_PYTHON_CLIENT_PREALLOCATE");
    begin_rescue("", program);
    assert_true(fail_once("gpu-oom-preallocation"));
    assert_string_equal(getenv("XLA_PYTHON_CLIENT_PREALLOCATE"), "false");
    assert_false(fail_once("gpu-oom-preallocation")); /* there is no placeholder */
}

GW_TEST_WITH(the_folder_of_the_wrong_library_is_left_out, NULL, end)
{
    char *program[] = {(char[]){"train"}, NULL}, folder[] = "/tmp/gw_attempts_XXXXXX", path[128];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/libcuda.so", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    char value[256];
    snprintf(value, sizeof value, "/opt/lib:%s:/usr/lib", folder);
    setenv("LD_LIBRARY_PATH", value, 1);
    begin_rescue("", program);
    assert_true(fail_once("stub-or-wrong-libcuda"));
    assert_string_equal(getenv("LD_LIBRARY_PATH"), "/opt/lib:/usr/lib");
    assert_false(fail_once("stub-or-wrong-libcuda"));
    unsetenv("LD_LIBRARY_PATH");
    unlink(path);
    rmdir(folder);
}

GW_TEST_WITH(wrong_options_of_rescue_are_refused, NULL, end)
{
    char *program[] = {(char[]){"train"}, NULL};
    static const struct {
        gw_run_options options;
        const char *why;
    } wrong[] = {{{.rescue = "x"}, "--rescue=x: expected a number of attempts from 1 to 1000, leak or rehearse"},
                 {{.rescue = "0"}, "--rescue=0: expected a number"},
                 {{.resume_with = "--resume"}, "--resume-with needs --rescue"},
                 {{.rescue = "", .resume_with = "--resume {last}"}, "{last} needs --checkpoints"},
                 {{.rescue = "", .checkpoints = "*.pt"}, "--checkpoints needs --resume-with"},
                 {{.rescue = "", .restart_count = 2}, "--rescue=2 allows 2 more attempts"},
                 {{.rescue = "", .on = {{"gpu-oom:batch=/2"}, 1}}, "--rescue and --on cannot be combined"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        gw_error err;
        assert_int_equal(gwi_attempts_begin(&attempts, &wrong[i].options, program, &err), GW_USAGE);
        if (strstr(err.text, wrong[i].why) == NULL)
            fail_msg("expected \"%s\" in \"%s\"", wrong[i].why, err.text);
        gwi_attempts_free(&attempts);
    }
}

/* Tests the decisions of --restart, without processes. Each failed attempt and each wait must lead to the given
 * decision with the given reason. */

static gwi_restart machine;
static gwi_decision decision; /* the last one */

static gwi_attempt_end failure_of(gw_again again, uint64_t evidence)
{
    return (gwi_attempt_end){.has_failed = true, .has_cause = true, .again = again, .evidence = evidence};
}

static void expect(bool again, const char *why)
{
    if (strstr(decision.why, why) == NULL)
        fail_msg("expected \"%s\" in \"%s\"", why, decision.why);
    assert_int_equal(decision.again, again);
}

static void ended(gwi_attempt_end end, bool again, const char *why)
{
    decision = gwi_restart_ended(&machine, &end);
    expect(again, why);
}

static void waited(gwi_waited how, bool again, const char *why)
{
    decision = gwi_restart_waited(&machine, how);
    expect(again, why);
}

GW_TEST(success_ends_the_run)
{
    gwi_restart_begin(&machine, 3);
    ended((gwi_attempt_end){.has_failed = false}, false, "succeeded");
}

GW_TEST(transient_failures_are_repeated_as_often_as_allowed)
{
    gwi_restart_begin(&machine, 3);
    for (uint64_t i = 0; i < 4; i++) { /* each failure has other evidence */
        ended(failure_of(GW_AGAIN_TRANSIENT, i), i < 3, i < 3 ? "may not happen again" : "last attempt");
        assert_false(decision.waits_for_memory);
        assert_int_equal(decision.pause_ms, 0);
    }
}

GW_TEST(the_same_failure_twice_is_permanent)
{
    gwi_restart_begin(&machine, 10);
    ended(failure_of(GW_AGAIN_TRANSIENT, 7), true, "may not happen again");
    ended(failure_of(GW_AGAIN_TRANSIENT, 8), true, "may not happen again");
    ended(failure_of(GW_AGAIN_TRANSIENT, 8), false, "in the same way");
}

GW_TEST(evidence_of_zero_is_no_earlier_failure)
{
    gwi_restart_begin(&machine, 1);
    ended(failure_of(GW_AGAIN_TRANSIENT, 0), true, "may not happen again");
}

GW_TEST(permanent_causes_are_not_repeated)
{
    gwi_restart_begin(&machine, 3);
    ended(failure_of(GW_AGAIN_PERMANENT, 1), false, "would fail in the same way");
}

GW_TEST(an_unknown_cause_is_not_repeated)
{
    gwi_restart_begin(&machine, 3);
    ended((gwi_attempt_end){.has_failed = true}, false, "not determined");
}

GW_TEST(a_stopped_run_is_never_repeated)
{
    gwi_attempt_end end = failure_of(GW_AGAIN_TRANSIENT, 1);
    end.is_stopped = end.can_change = true;
    gwi_restart_begin(&machine, 3);
    ended(end, false, "a signal");
}

GW_TEST(a_change_allows_another_attempt_until_nothing_is_left_to_change)
{
    gwi_attempt_end end = failure_of(GW_AGAIN_PERMANENT, 1);
    end.can_change = true;
    gwi_restart_begin(&machine, 10);
    for (int i = 0; i < 4; i++) /* the same evidence each time: only the batch size differs */
        ended(end, true, "the command is changed");
    ended(failure_of(GW_AGAIN_PERMANENT, 1), false, "would fail in the same way");
}

GW_TEST(a_changed_command_may_fail_once_in_the_old_way)
{
    gwi_attempt_end end = failure_of(GW_AGAIN_TRANSIENT, 1);
    gwi_restart_begin(&machine, 10);
    end.can_change = true;
    ended(end, true, "the command is changed");
    end.can_change = false;
    ended(end, true, "may not happen again");
    ended(end, false, "in the same way");
}

GW_TEST(a_change_helps_after_equal_failures_too)
{
    gwi_attempt_end end = failure_of(GW_AGAIN_TRANSIENT, 1);
    gwi_restart_begin(&machine, 10);
    ended(end, true, "may not happen again");
    end.can_change = true;
    ended(end, true, "the command is changed");
}

static gwi_attempt_end memory_missed(void)
{
    gwi_attempt_end end = failure_of(GW_AGAIN_WAIT, 1);
    end.is_memory = true;
    return end;
}

GW_TEST(memory_of_others_is_waited_for)
{
    gwi_restart_begin(&machine, 10);
    for (int i = 0; i < 3; i++) { /* the memory became free each time, so the situation was another one */
        ended(memory_missed(), true, "released");
        assert_true(decision.waits_for_memory);
        assert_int_equal(decision.pause_ms, 0);
        waited(GWI_WAITED_FREE, true, "free now");
    }
    ended(memory_missed(), true, "released");
    waited(GWI_WAITED_TIMEOUT, false, "in time");
}

GW_TEST(unknown_memory_allows_one_attempt)
{
    gwi_restart_begin(&machine, 10);
    ended(memory_missed(), true, "released");
    waited(GWI_WAITED_UNKNOWN, true, "unknown");
    ended(memory_missed(), false, "in the same way");
}

GW_TEST(a_signal_during_the_wait_ends_the_run)
{
    gwi_restart_begin(&machine, 10);
    ended(memory_missed(), true, "released");
    waited(GWI_WAITED_STOPPED, false, "a signal");
}

GW_TEST(a_busy_card_is_tried_again_later)
{
    gwi_restart_begin(&machine, 10);
    ended(failure_of(GW_AGAIN_WAIT, 1), true, "released");
    assert_false(decision.waits_for_memory);
    assert_true(decision.pause_ms > 0);
}

GW_TEST_MAIN(NULL, NULL)
