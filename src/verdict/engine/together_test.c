/* Tests verdicts on recordings of several hosts, with clocks that agree, are shifted, or are not synchronised. */
#include "judge_testlib.h"

#include <inttypes.h>
#include <signal.h>

static const uint64_t gib = 1u << 30, second_ns = 1000000000u;
static const uint64_t noon_ns = 1700000000ull * 1000000000u;

static gw_feed feed; /* too large for the stack */
static gw_verdict *run[3], *whole;

typedef struct host {
    const char *name, *boot;
    uint64_t start_ns;      /* start of the run, by the host's realtime clock */
    uint64_t error_us;      /* error of the clock; UINT64_MAX: not recorded */
    uint64_t trouble_at_ns; /* since the start of the run; 0: no trouble */
    uint16_t result;        /* result of the failing call; 0: the run ends by itself with status 1 */
    int signal;             /* signal that ends the run; 0: none */
} host;

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
    gw_feed_launch(&feed, 0xf1f1, 0);
    gw_feed_wait(&feed, it->trouble_at_ns);
    if (it->result != 0)
        gw_feed_call(&feed, "cuCtxSynchronize", GW_EV_SYNC, it->result, 0, 0, 0, 0);
    else
        gw_feed_sync(&feed);
    gw_feed_exit(&feed, it->signal != 0 ? -1 : it->trouble_at_ns != 0, it->signal);
    return judge_fed(&feed);
}

static gw_status together(const host *a, const host *b)
{
    gw_error err = {0};
    run[0] = judge(a);
    run[1] = judge(b);
    return gw_judge_together((const gw_verdict *const *)run, 2, &whole, &err);
}

static void done(void)
{
    gw_verdict_free(whole);
    gw_verdict_free(run[0]);
    gw_verdict_free(run[1]);
    whole = run[0] = run[1] = NULL;
}

static bool has_evidence(const char *part)
{
    return evidence_has(whole, part);
}

static void the_host_that_failed_first_is_the_root(void **state)
{
    (void)state;
    host a = {"alpha", "a", noon_ns, 5000, 9 * second_ns, 719, 0};
    host b = {"beta", "b", noon_ns + second_ns, 5000, 3 * second_ns, 700, 0};
    assert_int_equal(together(&a, &b), GW_OK);
    assert_int_equal(whole->status, GW_VERDICT_FAULT);
    assert_string_equal(whole->cause, "illegal-address");
    assert_memory_equal(whole->headline, "beta", 4);
    assert_int_equal(whole->certainty, run[1]->certainty);
    assert_true(has_evidence("failed 5.000 s before alpha"));
    assert_true(has_evidence("may differ by 0.010 s"));
    assert_int_equal(whole->part_count, 2);
    assert_true(whole->parts[0].has_offset);
    assert_true(whole->parts[0].offset_s > 4.9 && whole->parts[0].offset_s < 5.1);
    assert_non_null(strstr(whole->consequences.item[whole->consequences.count - 1], "alpha"));
    done();
}

/* Beta fails before alpha, by less than the error of beta's clock, which is not synchronised. The verdict must not
 * claim an order. */
static void an_order_within_the_uncertainty_is_not_claimed(void **state)
{
    (void)state;
    host a = {"alpha", "a", noon_ns, 5000, 9 * second_ns, 719, 0};
    host b = {"beta", "b", noon_ns + second_ns, 16000000, 3 * second_ns, 700, 0};
    assert_int_equal(together(&a, &b), GW_OK);
    assert_true(has_evidence("it is unclear which"));
    assert_true(has_evidence("the clock of beta is not synchronised"));
    assert_true(whole->certainty <= GW_SUPPORTED);
    done();
}

static void an_unrecorded_clock_proves_no_order(void **state)
{
    (void)state;
    host a = {"alpha", "a", noon_ns, UINT64_MAX, 9 * second_ns, 719, 0};
    host b = {"beta", "b", noon_ns + second_ns, 1000, 3 * second_ns, 700, 0};
    assert_int_equal(together(&a, &b), GW_OK);
    assert_true(has_evidence("it is unclear which"));
    assert_true(has_evidence("how accurate the clock of alpha was"));
    done();
}

/* Two supervisors run on one machine. The monotonic clock orders their failures, so the error of the realtime clock
 * does not matter. */
static void one_machine_needs_no_clock(void **state)
{
    (void)state;
    host a = {"alpha", "a", noon_ns, 16000000, 4 * second_ns, 700, 0};
    host b = {"alpha", "a", noon_ns + second_ns, 16000000, 4 * second_ns, 719, 0};
    assert_int_equal(together(&a, &b), GW_OK);
    assert_string_equal(whole->cause, "illegal-address");
    assert_false(has_evidence("not known"));
    assert_true(has_evidence("may differ by 0.000 s"));
    done();
}

static void a_host_that_was_ended_is_not_the_root(void **state)
{
    (void)state;
    host a = {"alpha", "a", noon_ns, 16000000, 3 * second_ns, 0, SIGTERM};
    host b = {"beta", "b", noon_ns, 16000000, 4 * second_ns, 700, 0};
    assert_int_equal(together(&a, &b), GW_OK);
    assert_string_equal(whole->cause, "illegal-address");
    assert_true(has_evidence("was ended from outside"));
    done();
}

static void good_runs_are_clean(void **state)
{
    (void)state;
    host a = {"alpha", "a", noon_ns, 5000, 0, 0, 0}, b = {"beta", "b", noon_ns, 5000, 0, 0, 0};
    assert_int_equal(together(&a, &b), GW_OK);
    assert_int_equal(whole->status, GW_VERDICT_CLEAN);
    assert_int_equal(whole->part_count, 2);
    assert_false(whole->parts[0].has_offset);
    done();
}

static void runs_of_different_days_are_not_one(void **state)
{
    (void)state;
    host a = {"alpha", "a", noon_ns, 5000, second_ns, 700, 0};
    host b = {"beta", "b", noon_ns + 86400 * second_ns, 5000, second_ns, 700, 0};
    assert_int_equal(together(&a, &b), GW_UNSUPPORTED);
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_that_failed_first_is_the_root),
        cmocka_unit_test(an_order_within_the_uncertainty_is_not_claimed),
        cmocka_unit_test(an_unrecorded_clock_proves_no_order),
        cmocka_unit_test(one_machine_needs_no_clock),
        cmocka_unit_test(a_host_that_was_ended_is_not_the_root),
        cmocka_unit_test(good_runs_are_clean),
        cmocka_unit_test(runs_of_different_days_are_not_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
