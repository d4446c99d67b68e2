/* Tests the decisions of --restart, without processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gwi_restart.h"

#include <string.h>

static gwi_attempt_end failed(gw_again again, uint64_t evidence)
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

static void success_ends_the_run(void **state)
{
    (void)state;
    gwi_restart machine;
    gwi_restart_begin(&machine, 3);
    gwi_decision decision = ENDED(&machine, {.has_failed = false});
    expect(&decision, false, "succeeded");
}

static void transient_failures_are_repeated_as_often_as_allowed(void **state)
{
    (void)state;
    gwi_restart machine;
    gwi_restart_begin(&machine, 3);
    for (uint64_t i = 0; i < 4; i++) { /* each failure has other evidence */
        gwi_attempt_end end = failed(GW_AGAIN_TRANSIENT, i);
        gwi_decision decision = gwi_restart_ended(&machine, &end);
        expect(&decision, i < 3, i < 3 ? "may not happen again" : "last attempt");
        assert_false(decision.waits_for_memory);
        assert_int_equal(decision.pause_ms, 0);
    }
}

static void the_same_failure_twice_is_permanent(void **state)
{
    (void)state;
    gwi_restart machine;
    gwi_attempt_end end = failed(GW_AGAIN_TRANSIENT, 7), other = failed(GW_AGAIN_TRANSIENT, 8);
    gwi_restart_begin(&machine, 10);
    gwi_decision decision = gwi_restart_ended(&machine, &end);
    expect(&decision, true, "may not happen again");
    decision = gwi_restart_ended(&machine, &other);
    expect(&decision, true, "may not happen again");
    decision = gwi_restart_ended(&machine, &other);
    expect(&decision, false, "in the same way");
}

static void evidence_of_zero_is_no_earlier_failure(void **state)
{
    (void)state;
    gwi_restart machine;
    gwi_attempt_end end = failed(GW_AGAIN_TRANSIENT, 0);
    gwi_restart_begin(&machine, 1);
    gwi_decision decision = gwi_restart_ended(&machine, &end);
    expect(&decision, true, "may not happen again");
}

static void permanent_causes_are_not_repeated(void **state)
{
    (void)state;
    gwi_restart machine;
    gwi_attempt_end end = failed(GW_AGAIN_PERMANENT, 1);
    gwi_restart_begin(&machine, 3);
    gwi_decision decision = gwi_restart_ended(&machine, &end);
    expect(&decision, false, "would fail in the same way");
}

static void an_unknown_cause_is_not_repeated(void **state)
{
    (void)state;
    gwi_restart machine;
    gwi_restart_begin(&machine, 3);
    gwi_decision decision = ENDED(&machine, {.has_failed = true});
    expect(&decision, false, "not determined");
}

static void a_stopped_run_is_never_repeated(void **state)
{
    (void)state;
    gwi_restart machine;
    gwi_attempt_end end = failed(GW_AGAIN_TRANSIENT, 1);
    end.is_stopped = end.can_change = true;
    gwi_restart_begin(&machine, 3);
    gwi_decision decision = gwi_restart_ended(&machine, &end);
    expect(&decision, false, "a signal");
}

static void a_change_allows_another_attempt_until_nothing_is_left_to_change(void **state)
{
    (void)state;
    gwi_restart machine;
    gwi_attempt_end end = failed(GW_AGAIN_PERMANENT, 1);
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

static void a_changed_command_may_fail_once_in_the_old_way(void **state)
{
    (void)state;
    gwi_restart machine;
    gwi_attempt_end end = failed(GW_AGAIN_TRANSIENT, 1);
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

static void a_change_helps_after_equal_failures_too(void **state)
{
    (void)state;
    gwi_restart machine;
    gwi_attempt_end end = failed(GW_AGAIN_TRANSIENT, 1);
    gwi_restart_begin(&machine, 10);
    gwi_decision decision = gwi_restart_ended(&machine, &end);
    expect(&decision, true, "may not happen again");
    end.can_change = true;
    decision = gwi_restart_ended(&machine, &end);
    expect(&decision, true, "the command is changed");
}

static void memory_of_others_is_waited_for(void **state)
{
    (void)state;
    gwi_restart machine;
    gwi_attempt_end end = failed(GW_AGAIN_WAIT, 1);
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

static void unknown_memory_allows_one_attempt(void **state)
{
    (void)state;
    gwi_restart machine;
    gwi_attempt_end end = failed(GW_AGAIN_WAIT, 1);
    end.is_memory = true;
    gwi_restart_begin(&machine, 10);
    gwi_decision decision = gwi_restart_ended(&machine, &end);
    decision = gwi_restart_waited(&machine, GWI_WAITED_UNKNOWN);
    expect(&decision, true, "unknown");
    decision = gwi_restart_ended(&machine, &end);
    expect(&decision, false, "in the same way");
}

static void a_signal_during_the_wait_ends_the_run(void **state)
{
    (void)state;
    gwi_restart machine;
    gwi_attempt_end end = failed(GW_AGAIN_WAIT, 1);
    end.is_memory = true;
    gwi_restart_begin(&machine, 10);
    (void)gwi_restart_ended(&machine, &end);
    gwi_decision decision = gwi_restart_waited(&machine, GWI_WAITED_STOPPED);
    expect(&decision, false, "a signal");
}

static void a_busy_card_is_tried_again_later(void **state)
{
    (void)state;
    gwi_restart machine;
    gwi_attempt_end end = failed(GW_AGAIN_WAIT, 1);
    gwi_restart_begin(&machine, 10);
    gwi_decision decision = gwi_restart_ended(&machine, &end);
    expect(&decision, true, "released");
    assert_false(decision.waits_for_memory);
    assert_true(decision.pause_ms > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(success_ends_the_run),
        cmocka_unit_test(transient_failures_are_repeated_as_often_as_allowed),
        cmocka_unit_test(the_same_failure_twice_is_permanent),
        cmocka_unit_test(evidence_of_zero_is_no_earlier_failure),
        cmocka_unit_test(permanent_causes_are_not_repeated),
        cmocka_unit_test(an_unknown_cause_is_not_repeated),
        cmocka_unit_test(a_stopped_run_is_never_repeated),
        cmocka_unit_test(a_change_allows_another_attempt_until_nothing_is_left_to_change),
        cmocka_unit_test(a_changed_command_may_fail_once_in_the_old_way),
        cmocka_unit_test(a_change_helps_after_equal_failures_too),
        cmocka_unit_test(memory_of_others_is_waited_for),
        cmocka_unit_test(unknown_memory_allows_one_attempt),
        cmocka_unit_test(a_signal_during_the_wait_ends_the_run),
        cmocka_unit_test(a_busy_card_is_tried_again_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
