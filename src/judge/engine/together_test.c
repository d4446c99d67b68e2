/* Tests verdicts on recordings of several hosts, with clocks that agree, are shifted, or are not synchronised. */
#include "gw_together.h"
#include "gw_unit_test.h"
#include "judge_testlib.h"
#include "ranks_testlib.h"

#include <inttypes.h>
#include <signal.h>

static const uint64_t gib = 1u << 30, second_ns = 1000000000u;
static const uint64_t noon_ns = 1700000000ull * 1000000000u;

static gw_feed feed; /* too large for the stack */
static gw_verdict *run[4], *whole;

typedef struct host {
    const char *name, *boot;
    uint64_t start_ns;      /* start of the run, by the host's realtime clock */
    uint64_t error_us;      /* error of the clock; UINT64_MAX: not recorded */
    uint64_t trouble_at_ns; /* since the start of the run; 0: no trouble */
    uint16_t result;        /* result of the failing call; 0: the run ends by itself with status 1 */
    int signal;             /* signal that ends the run; 0: none */
    int rank;               /* of `of` ranks, if that is not 0 */
    int of;
    bool is_cut; /* the recording has no end */
} host;

/* The launch of the scheduler that all recordings belong to; NULL: none. */
static const char *slurm_job, *slurm_step;

static void feed_number(const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    gw_feed_meta(&feed, key, text);
}

static gw_verdict *judge(const host *it)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_meta(&feed, "host", it->name);
    feed_number("start_realtime_ns", it->start_ns);
    feed_number("start_monotonic_ns", it->start_ns % (1000 * second_ns));
    gw_feed_meta(&feed, "boot_id", it->boot);
    if (it->error_us != UINT64_MAX) {
        feed_number("clock.error_max_us", it->error_us);
        gw_feed_meta(&feed, "clock.synchronised", it->error_us < 1000000 ? "1" : "0");
    }
    if (it->of != 0) {
        feed_number("env.SLURM_PROCID", (uint64_t)it->rank);
        feed_number("env.SLURM_NTASKS", (uint64_t)it->of);
    }
    if (slurm_job != NULL)
        gw_feed_meta(&feed, "env.SLURM_JOB_ID", slurm_job);
    if (slurm_step != NULL)
        gw_feed_meta(&feed, "env.SLURM_STEP_ID", slurm_step);
    gw_feed_launch(&feed, 0xf1f1, 0);
    gw_feed_wait(&feed, it->trouble_at_ns);
    if (it->is_cut) {
        gw_feed_sync(&feed);
        gw_feed_truncated(&feed);
        return judge_fed(&feed);
    }
    if (it->result != 0)
        gw_feed_call(&feed, "cuCtxSynchronize", GW_EV_SYNC, it->result, 0, 0, 0, 0);
    else
        gw_feed_sync(&feed);
    gw_feed_exit(&feed, it->signal != 0 ? -1 : it->trouble_at_ns != 0, it->signal);
    return judge_fed(&feed);
}

/* Judge the first runs of `run` together. */
static gw_status judge_runs(size_t count, gw_error *err)
{
    gw_brief brief[sizeof run / sizeof run[0]];
    const gw_job job = {.brief = brief, .count = count};
    size_t first = 0;
    for (size_t i = 0; i < count; i++)
        assert_int_equal(gw_brief_of(run[i], &brief[i], err), GW_OK);
    gw_status st = gw_job_check(&job, err);
    if (st == GW_OK)
        st = gw_job_first(&job, &first, err);
    if (st == GW_OK)
        st = gw_judge_together(&job, run[first], &whole, err);
    for (size_t i = 0; i < count; i++)
        gw_brief_free(&brief[i]);
    return st;
}

static gw_status together(const host *a, const host *b)
{
    gw_error err = {0};
    run[0] = judge(a);
    run[1] = judge(b);
    return judge_runs(2, &err);
}

static void done(void)
{
    gw_verdict_free(whole);
    for (size_t i = 0; i < sizeof run / sizeof run[0]; i++) {
        gw_verdict_free(run[i]);
        run[i] = NULL;
    }
    whole = NULL;
    slurm_job = slurm_step = NULL;
}

static bool has_evidence(const char *part)
{
    return evidence_has(whole, part);
}

GW_TEST(the_host_that_failed_first_is_the_root)
{
    host a = {"alpha", "a", noon_ns, 5000, 9 * second_ns, 719, 0, 0, 0, false};
    host b = {"beta", "b", noon_ns + second_ns, 5000, 3 * second_ns, 700, 0, 0, 0, false};
    assert_int_equal(together(&a, &b), GW_OK);
    assert_int_equal(whole->status, GW_VERDICT_FAULT);
    assert_string_equal(whole->cause, "illegal-address");
    assert_memory_equal(whole->headline, "beta", 4);
    assert_int_equal(whole->certainty, run[1]->certainty);
    assert_true(has_evidence("failed 5.000 s before alpha"));
    assert_int_equal(whole->ruled_out.count, run[1]->ruled_out.count);
    assert_true(has_evidence("may differ by 0.010 s"));
    assert_int_equal(whole->part_count, 2);
    assert_true(whole->parts[0].has_offset);
    assert_true(whole->parts[0].offset_s > 4.9 && whole->parts[0].offset_s < 5.1);
    assert_non_null(strstr(whole->consequences.item[whole->consequences.count - 1], "alpha"));
    done();
}

/* Beta fails before alpha, by less than the error of beta's clock, which is not synchronised. The verdict must not
 * claim an order. */
GW_TEST(an_order_within_the_uncertainty_is_not_claimed)
{
    host a = {"alpha", "a", noon_ns, 5000, 9 * second_ns, 719, 0, 0, 0, false};
    host b = {"beta", "b", noon_ns + second_ns, 16000000, 3 * second_ns, 700, 0, 0, 0, false};
    assert_int_equal(together(&a, &b), GW_OK);
    assert_true(has_evidence("it is unclear which"));
    assert_true(has_evidence("the clock of beta is not synchronised"));
    assert_true(whole->certainty <= GW_SUPPORTED);
    done();
}

GW_TEST(an_unrecorded_clock_proves_no_order)
{
    host a = {"alpha", "a", noon_ns, UINT64_MAX, 9 * second_ns, 719, 0, 0, 0, false};
    host b = {"beta", "b", noon_ns + second_ns, 1000, 3 * second_ns, 700, 0, 0, 0, false};
    assert_int_equal(together(&a, &b), GW_OK);
    assert_true(has_evidence("it is unclear which"));
    assert_true(has_evidence("how accurate the clock of alpha was"));
    done();
}

/* In nanoseconds the error of alpha's clock does not fit into 64 bits. */
GW_TEST(a_very_wrong_clock_proves_no_order)
{
    host a = {"alpha", "a", noon_ns, 18446744073709552u, 9 * second_ns, 719, 0, 0, 0, false};
    host b = {"beta", "b", noon_ns + second_ns, 1000, 3 * second_ns, 700, 0, 0, 0, false};
    assert_int_equal(together(&a, &b), GW_OK);
    assert_true(has_evidence("it is unclear which"));
    done();
}

/* Two supervisors run on one machine. The monotonic clock orders their failures, so the error of the realtime clock
 * does not matter. */
GW_TEST(one_machine_needs_no_clock)
{
    host a = {"alpha", "a", noon_ns, 16000000, 4 * second_ns, 700, 0, 0, 0, false};
    host b = {"alpha", "a", noon_ns + second_ns, 16000000, 4 * second_ns, 719, 0, 0, 0, false};
    assert_int_equal(together(&a, &b), GW_OK);
    assert_string_equal(whole->cause, "illegal-address");
    assert_false(has_evidence("not known"));
    assert_true(has_evidence("may differ by 0.000 s"));
    done();
}

GW_TEST(a_host_that_was_ended_is_not_the_root)
{
    host a = {"alpha", "a", noon_ns, 16000000, 3 * second_ns, 0, SIGTERM, 0, 0, false};
    host b = {"beta", "b", noon_ns, 16000000, 4 * second_ns, 700, 0, 0, 0, false};
    assert_int_equal(together(&a, &b), GW_OK);
    assert_string_equal(whole->cause, "illegal-address");
    assert_true(has_evidence("was ended from outside"));
    done();
}

GW_TEST(good_runs_are_clean)
{
    host a = {"alpha", "a", noon_ns, 5000, 0, 0, 0, 0, 0, false},
         b = {"beta", "b", noon_ns, 5000, 0, 0, 0, 0, 0, false};
    assert_int_equal(together(&a, &b), GW_OK);
    assert_int_equal(whole->status, GW_VERDICT_CLEAN);
    assert_int_equal(whole->part_count, 2);
    assert_false(whole->parts[0].has_offset);
    done();
}

GW_TEST(runs_of_different_days_are_not_one)
{
    host a = {"alpha", "a", noon_ns, 5000, second_ns, 700, 0, 0, 0, false};
    host b = {"beta", "b", noon_ns + 86400 * second_ns, 5000, second_ns, 700, 0, 0, 0, false};
    assert_int_equal(together(&a, &b), GW_UNSUPPORTED);
    done();
}

static gw_status together_of(const host *hosts, size_t count)
{
    gw_error err = {0};
    for (size_t i = 0; i < count; i++)
        run[i] = judge(&hosts[i]);
    return judge_runs(count, &err);
}

/* The clocks order alpha before beta, but not gamma. The order of the arguments must not matter. */
GW_TEST(the_order_of_the_recordings_does_not_matter)
{
    const host a = {"alpha", "a", noon_ns, 1000, 3 * second_ns, 719, 0, 0, 0, false};
    const host b = {"beta", "b", noon_ns, 1000, 4 * second_ns, 700, 0, 0, 0, false};
    const host c = {"gamma", "c", noon_ns, 16000000, 5 * second_ns, 716, 0, 0, 0, false};
    const host orders[][3] = {{a, b, c}, {a, c, b}, {b, a, c}, {b, c, a}, {c, a, b}, {c, b, a}};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        assert_int_equal(together_of(orders[i], 3), GW_OK);
        assert_memory_equal(whole->headline, "alpha", 5);
        assert_true(has_evidence("it is unclear which"));
        assert_true(whole->certainty <= GW_SUPPORTED);
        done();
    }
}

GW_TEST(a_missing_rank_may_be_the_first)
{
    const host hosts[] = {{"alpha", "a", noon_ns, 1000, 3 * second_ns, 700, 0, 0, 4, false},
                          {"beta", "b", noon_ns, 1000, 9 * second_ns, 0, SIGTERM, 2, 4, false}};
    assert_int_equal(together_of(hosts, 2), GW_OK);
    assert_string_equal(whole->cause, "illegal-address");
    assert_int_equal(whole->certainty, GW_SUPPORTED);
    assert_true(has_evidence("2 of 4 ranks are in no readable recording: 1, 3"));
    assert_int_equal(whole->job->missing_count, 2);
    assert_true(run[0]->ruled_out.count > 0 && whole->ruled_out.count == 0);
    done();
    const host all[] = {{"alpha", "a", noon_ns, 1000, 3 * second_ns, 700, 0, 0, 2, false},
                        {"beta", "b", noon_ns, 1000, 9 * second_ns, 0, SIGTERM, 1, 2, false}};
    assert_int_equal(together_of(all, 2), GW_OK);
    assert_int_equal(whole->certainty, run[0]->certainty);
    done();
}

/* A step starts all its ranks at once, but one of them may fail before another one has started. */
GW_TEST(the_ranks_of_a_step_need_not_overlap)
{
    host a = {"alpha", "a", noon_ns, 1000, second_ns, 700, 0, 0, 2, false};
    host b = {"beta", "b", noon_ns + 5 * second_ns, 1000, second_ns, 0, SIGTERM, 1, 2, false};
    slurm_job = "12";
    slurm_step = "0";
    assert_int_equal(together(&a, &b), GW_OK);
    assert_string_equal(whole->cause, "illegal-address");
    done();
}

/* A batch script may start one program after the other. */
GW_TEST(programs_of_a_batch_script_are_not_one_launch)
{
    host a = {"alpha", "a", noon_ns, 1000, second_ns, 700, 0, 0, 0, false};
    host b = {"alpha", "a", noon_ns + 5 * second_ns, 1000, second_ns, 719, 0, 0, 0, false};
    slurm_job = "12";
    assert_int_equal(together(&a, &b), GW_UNSUPPORTED);
    done();
}

GW_TEST(a_rank_that_a_step_runs_twice_is_not_one_launch)
{
    host a = {"alpha", "a", noon_ns, 1000, second_ns, 700, 0, 1, 2, false};
    host b = {"alpha", "a", noon_ns + 5 * second_ns, 1000, second_ns, 719, 0, 1, 2, false};
    slurm_job = "12";
    slurm_step = "0";
    assert_int_equal(together(&a, &b), GW_UNSUPPORTED);
    done();
}

/* The scheduler cancels a job, and has to kill one rank together with gpuwhy. The clocks do not show that the rank
 * stopped before. */
GW_TEST(a_cancelled_job_has_no_lost_machine)
{
    const host hosts[] = {{"alpha", "a", noon_ns, 16000000, 9 * second_ns, 0, SIGTERM, 0, 2, false},
                          {"beta", "b", noon_ns, 16000000, 12 * second_ns, 0, 0, 1, 2, true}};
    assert_int_equal(together_of(hosts, 2), GW_OK);
    assert_string_equal(whole->cause, "killed-by-scheduler-or-user");
    assert_true(has_evidence("perhaps before the first failure"));
    done();
}

/* As when a scheduler loses a machine and ends the others: the clocks agree with it, but they may be wrong. */
GW_TEST(a_loss_that_the_clocks_do_not_prove_is_a_hypothesis)
{
    host hosts[] = {{"alpha", "a", noon_ns, 16000000, 20 * second_ns, 0, SIGTERM, 0, 2, false},
                    {"beta", "b", noon_ns, 16000000, 3 * second_ns, 0, 0, 1, 2, true}};
    assert_int_equal(together_of(hosts, 2), GW_OK);
    assert_string_equal(whole->cause, "host-lost");
    assert_int_equal(whole->certainty, GW_HYPOTHESIS);
    done();
    hosts[0].error_us = hosts[1].error_us = 1000;
    assert_int_equal(together_of(hosts, 2), GW_OK);
    assert_int_equal(whole->certainty, GW_SUPPORTED);
    done();
}

/* One rank of beta stops early, but another one shows that the machine was alive when alpha failed. */
GW_TEST(a_machine_that_outlives_the_failure_is_not_its_cause)
{
    const host hosts[] = {{"alpha", "a", noon_ns, 1000, 20 * second_ns, 0, 0, 0, 3, false},
                          {"beta", "b", noon_ns, 1000, 3 * second_ns, 0, 0, 1, 3, true},
                          {"beta", "b", noon_ns, 1000, 19 * second_ns, 0, 0, 2, 3, true}};
    assert_int_equal(together_of(hosts, 3), GW_OK);
    assert_true(whole->cause == NULL || strcmp(whole->cause, "host-lost") != 0);
    assert_memory_equal(whole->headline, "alpha", 5);
    done();
}

GW_TEST(a_machine_whose_recordings_all_stop_is_lost)
{
    host hosts[] = {{"alpha", "a", noon_ns, 1000, 30 * second_ns, 0, SIGTERM, 0, 4, false},
                    {"beta", "b", noon_ns, 1000, 3 * second_ns, 0, 0, 1, 4, true},
                    {"beta", "b", noon_ns, 1000, 3 * second_ns, 0, 0, 2, 4, true},
                    {"gamma", "c", noon_ns, 1000, 30 * second_ns, 0, SIGTERM, 3, 4, false}};
    assert_int_equal(together_of(hosts, 4), GW_OK);
    assert_string_equal(whole->cause, "host-lost");
    assert_int_equal(whole->certainty, GW_SUPPORTED);
    assert_memory_equal(whole->headline, "beta: its 2 recordings stop", 27);
    done();
    hosts[2].is_cut = false; /* gpuwhy was killed for one rank; the machine lives */
    hosts[2].signal = SIGTERM;
    hosts[2].trouble_at_ns = 30 * second_ns;
    assert_int_equal(together_of(hosts, 4), GW_OK);
    assert_string_not_equal(whole->cause, "host-lost");
    assert_true(has_evidence("1 recording stops without an end, perhaps before the first failure"));
    done();
    hosts[2] = hosts[1]; /* two machines: a scheduler that kills the job does that */
    hosts[2].name = "gamma";
    hosts[2].boot = "c";
    assert_int_equal(together_of(hosts, 4), GW_OK);
    assert_string_not_equal(whole->cause, "host-lost");
    done();
}

/* As when a scheduler kills programs that ignore SIGTERM, and gpuwhy with them. */
GW_TEST(a_job_without_any_end_is_not_determined)
{
    const host hosts[] = {{"alpha", "a", noon_ns, 1000, 3 * second_ns, 0, 0, 0, 2, true},
                          {"beta", "b", noon_ns, 1000, 3 * second_ns, 0, 0, 1, 2, true}};
    assert_int_equal(together_of(hosts, 2), GW_OK);
    assert_int_equal(whole->status, GW_VERDICT_UNDETERMINED);
    assert_memory_equal(whole->headline, "2 of 2 recordings stop without an end", 37);
    done();
}

/* A lost peer has no such effect, so the lost machine is no explanation. */
GW_TEST(a_refused_rank_is_before_a_lost_machine)
{
    const host hosts[] = {{"alpha", "a", noon_ns, 1000, 30 * second_ns, 700, 0, 0, 2, false},
                          {"beta", "b", noon_ns, 1000, 3 * second_ns, 0, 0, 1, 2, true}};
    assert_int_equal(together_of(hosts, 2), GW_OK);
    assert_string_equal(whole->cause, "illegal-address");
    assert_int_equal(whole->certainty, GW_SUPPORTED);
    assert_true(has_evidence("perhaps before the first failure"));
    done();
}

GW_TEST(a_job_that_was_ended_as_a_whole_has_no_first)
{
    const host hosts[] = {{"alpha", "a", noon_ns, 16000000, 9 * second_ns, 0, SIGTERM, 0, 2, false},
                          {"beta", "b", noon_ns, 16000000, 9 * second_ns, 0, SIGTERM, 1, 2, false}};
    assert_int_equal(together_of(hosts, 2), GW_OK);
    assert_string_equal(whole->cause, "killed-by-scheduler-or-user");
    assert_memory_equal(whole->headline, "all 2 recordings", 16);
    assert_int_equal(whole->certainty, run[0]->certainty);
    done();
}

/* ---- ranks that wait for each other in NCCL ---- */

/* Judge one recording for each rank, on machines of their own whose clocks are not synchronised. */
static void together_with_calls(const char *const calls[], size_t count, int signal_, bool is_one_host)
{
    static const char *const names[] = {"alpha", "beta", "gamma"};
    gw_error err = {0};
    for (size_t i = 0; i < count; i++) {
        const char *one[] = {calls[i], NULL};
        const host it = {names[is_one_host ? 0 : i],
                         names[is_one_host ? 0 : i],
                         noon_ns,
                         16000000,
                         9 * second_ns,
                         0,
                         signal_,
                         (int)i,
                         (int)count,
                         false};
        run[i] = judge(&it);
        gw_ranks ranks = ranks_of_texts(one, 1);
        ranks.item[0].rank = (uint32_t)i;
        ranks.item[0].pid = 100 + (uint32_t)i;
        ranks.item[0].world = (uint32_t)count;
        gw_ranks_free(&run[i]->ranks);
        run[i]->ranks = ranks;
    }
    assert_int_equal(judge_runs(count, &err), GW_OK);
    if (getenv("GW_TEST_PRINT") != NULL)
        verdict_print(whole);
    verdict_expect_sound(whole);
}

GW_TEST(numbers_need_no_clock)
{
    const char *const asleep[] = {"stuck ended@9 A:0/2 ar41@57~", "sleep ended@9 A:1/2 ar40."};
    together_with_calls(asleep, 2, SIGTERM, false);
    assert_cause(whole, "straggler", GW_ESTABLISHED);
    assert_memory_equal(whole->headline, "beta: rank 1 (pid 101) has not called all_reduce #41", 51);
    assert_true(has_evidence("rank 0 waits in all_reduce #41 (4.00 KiB, float32) at train.py:57"));
    assert_false(has_evidence("unclear"));
    assert_true(whole->next.count > 0);
    done();
    const char *const differ[] = {"stuck A:0/3 ar41~", "stuck A:1/3 ag41~", "stuck A:2/3 ar41~"};
    together_with_calls(differ, 3, SIGTERM, false);
    assert_cause(whole, "collective-desync", GW_ESTABLISHED);
    assert_memory_equal(whole->headline, "beta: rank 1 (pid 101) called all_gather #41", 44);
    done();
    const char *const alike[] = {"stuck A:0/2 ar41~", "sleep A:1/2 ar41~"}; /* the repaired twin */
    together_with_calls(alike, 2, SIGTERM, false);
    assert_string_equal(whole->cause, "killed-by-scheduler-or-user");
    done();
}

/* Of two machines nothing shows whether an error came before a rank gave up; on one machine the clock does. */
GW_TEST(an_error_elsewhere_is_the_root)
{
    const char *const failed[] = {"stuck died@7000000000 A:0/2 ar41~",
                                  "sleep died@9000000000 error@9000000000 A:1/2 ar40."};
    together_with_calls(failed, 2, 0, false);
    assert_true(whole->cause == NULL || strcmp(whole->cause, "straggler") != 0);
    done();
    together_with_calls(failed, 2, 0, true);
    assert_cause(whole, "straggler", GW_SUPPORTED);
    done();
}

GW_TEST_MAIN(NULL, NULL)
