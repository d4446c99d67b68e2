/* A rank waits in a collective for a rank that does not join it.
 *
 * Never established: the recording does not show that the missing rank would have joined.
 * Supported by: the end of another rank before. */
#include "gwi_cause.h"
#include "gwi_hang.h"

static bool a_rank_ended(const gwi_case *c)
{
    for (size_t i = 0; i < c->model->process_count; i++) {
        const gw_process *process = &c->model->process[i];
        if (process != c->process && process->has_rank && process->exit_known &&
            process->t_exit_ns <= c->hang.hang->t_ns)
            return true;
    }
    return false;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    if (c->hang.kind != GWI_HANG_PEER)
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "no progress for %.1f s: a collective is waiting for a rank that has not joined it",
                 (double)c->hang.hang->for_ns / 1e9);
    gwi_say_waiting(c, finding);
    gwi_say_missing_ranks(c, finding);
    return a_rank_ended(c) ? GW_SUPPORTED : GW_HYPOTHESIS;
}

const gw_cause gwi_cause_peer_died = {
    .id = "peer-died",
    .summary = "A rank waits in a collective for another rank that has ended or does not join it.",
    .proof = "an NCCL collective as the last launch that nothing has waited for, no other progress of the program, and "
             "another rank that ended before",
    .fixes = {[GW_FRAMEWORK_RAW] = "Look at the missing rank first: its first error is the root cause\n"
                                   "Check that all ranks call the same collectives in the same order",
              [GW_FRAMEWORK_TORCH] = "Look at the missing rank first: its first error is the root cause\n"
                                     "TORCH_DISTRIBUTED_DEBUG=DETAIL reports ranks that call different collectives; "
                                     "unequal batches need join() or drop_last"},
    .judge = judge,
};
