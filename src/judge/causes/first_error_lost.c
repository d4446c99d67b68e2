/* The program did not check the result of a failed call. The runtime kept the error, and a later call that is not at
 * fault reported it.
 *
 * Never established: the recording does not show whether the program checked the result. The cause is supported if
 * other calls succeeded before the program printed the error. */
#include "gw_data.h"
#include "gwi_cause.h"

#include <inttypes.h>

/* Count the calls that succeeded between the failed call and the message. If there were any, the program probably
 * did not check the result. */
static uint64_t calls_between(const gwi_case *c, const gw_failure *failure, uint64_t t_ns)
{
    uint64_t count = 0;
    for (size_t i = 0; i < c->model->thread_count; i++) {
        const gw_thread *thread = &c->model->thread[i];
        for (size_t k = 0; thread->pid == failure->pid && k < thread->ring_count; k++)
            count += thread->ring[k].t_ns > failure->t_ns && thread->ring[k].t_ns <= t_ns;
    }
    return count;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *failure = c->root;
    const struct gw_log_find *said = gwi_said_last_code(c);
    char call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    if (failure == NULL || failure != c->other || failure->is_allocation || !c->ended || !c->bad_end || said == NULL ||
        gwi_said_t_ns(c, said) < failure->t_ns || gwi_said_code(said) != failure->result)
        return GW_CERTAINTY_NONE;
    uint64_t between = calls_between(c, failure, gwi_said_t_ns(c, said));
    if (between == 0)
        return GW_CERTAINTY_NONE;
    gwi_call_text(call, failure->fn_name);
    gwi_headline(finding,
                 "%s failed with %u (%s), the program did not check its result, and the error surfaced later, in a "
                 "call that had succeeded",
                 call, failure->result, gw_result_name(failure->result));
    gwi_evidence(finding, failure->t_ns, "driver", "%s%s returned %u (%s)", call, gwi_at(c, failure->site, at),
                 failure->result, gw_result_name(failure->result));
    gwi_measure(finding, gwi_said_t_ns(c, said), "driver", (double)between, "calls",
                "%" PRIu64 " launches, copies and waits succeeded after it", between);
    gwi_say_said(c, finding, said);
    gwi_where(finding, failure->site, "the call that failed");
    gwi_say_consequences(c, finding, failure);
    return GW_SUPPORTED;
}

const gw_cause gwi_cause_first_error_lost = {
    .id = "first-error-lost",
    .summary = "A call failed and the program did not check its result; a later call, which was not at fault, reported "
               "the error.",
    .proof =
        "a failed call, work that succeeded after it, and the same error on stderr later; never more than supported",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Check the result of every call where it is made, also of copies\n"
                  "Call cudaGetLastError() before and after a launch: it returns errors of earlier calls, too"},
    .judge = judge,
};
