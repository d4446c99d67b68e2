/* A rank of a job keeps the others waiting in a collective of NCCL.
 *
 * Established only by: see the comment of each cause. */
#include "gwi_hang.h"
#include "gwi_saved_ranks.h"
#include "gwi_stall.h"

static gw_certainty say(const gwi_case *c, gwi_finding *finding, const char *what)
{
    const gwi_stall *stall = &c->stall;
    const gw_rank *rank = stall->culprit == SIZE_MAX ? NULL : &c->ranks.item[stall->culprit];
    uint32_t site = rank == NULL || rank->end == GW_RANK_ENDED_WELL ? 0 : rank->stand_site;
    bool is_call = stall->kind == GWI_STALL_DIFFERS || stall->kind == GWI_STALL_CIRCLE;
    gwi_say_stall(&c->ranks, stall, finding);
    (void)gwi_say_ras(c, finding); /* it knows ranks that are not recorded, too; the stall's certainty stays */
    for (size_t i = 0; rank != NULL && i < rank->communicator_count && is_call; i++) {
        const gw_rank_communicator *it = &rank->communicator[i];
        for (size_t k = 0; k < it->call_count; k++)
            if (it->id == (stall->other_id != 0 ? stall->other_id : stall->id) && it->call[k].site != 0 &&
                (stall->other_id != 0 || it->call[k].number == stall->number))
                site = it->call[k].site;
    }
    if (gwi_are_saved_ranks(c))
        (void)gwi_say_ras(c, finding);
    gwi_where(finding, site, what);
    if (c->root == NULL)
        gwi_rule_out_failed_call(c, finding);
    return stall->certainty;
}

/* The ranks made different calls, or one left before the others.
 *
 * Established only by: two complete records of calls on one communicator, which NCCL matches by their order. They show
 * one of these, after which no rank can go on, and one of the two is stuck there:
 * - different calls, sizes or types at one number, and no rank that stands elsewhere before a later call
 * - the end of a rank, or of its communicator, before a call in which another waits
 * - two ranks that wait for each other on two communicators
 * Graphs replay collectives that have no number, so after a replay it is at most supported.
 * Supported by: the same, with records that may lack calls, or with ranks that are not recorded. Also by the stacks of
 * a job that stands still, if its ranks wait in different calls of gloo or MPI, or all of them only receive. */
static gw_certainty judge_collective_desync(const gwi_case *c, gwi_finding *finding)
{
    if (c->root == NULL && gwi_are_job_calls_apart(c))
        return gwi_say_still_job(c, finding) ? GW_SUPPORTED : GW_HYPOTHESIS;
    if (c->stall.kind == GWI_STALL_NONE || c->stall.kind == GWI_STALL_BEHIND)
        return GW_CERTAINTY_NONE;
    return say(c, finding, c->stall.kind == GWI_STALL_CIRCLE ? "the rank waits here" : "the rank made this call");
}

const gw_cause gwi_cause_collective_desync = {
    .id = "collective-desync",
    .summary = "The ranks of the job called different collectives, or the same one with different sizes.",
    .proof =
        "sequence numbers, operations or sizes that differ between ranks at the stall; for gloo and MPI, stacks of "
        "ranks that all stand still, in different calls or all in a receive",
    .fixes = {[GW_FRAMEWORK_RAW] = "Make all ranks run the same sequence of collectives: no early exit, and no "
                                   "collective inside a branch that depends on the rank\n"
                                   "Give all ranks the same number of batches",
              [GW_FRAMEWORK_TORCH] = "Use drop_last=True, or the Join context manager for uneven inputs\n"
                                     "Set TORCH_DISTRIBUTED_DEBUG=DETAIL: it names the call that differs"},
    .excludes = "peer-died", /* the same, seen without NCCL's calls */
    .is_sole = true,
    .judge = judge_collective_desync,
};

/* A rank does not reach the collective in which the others wait.
 *
 * Established only by: complete records of the calls of all ranks of the communicator, and the threads of the rank that
 * made the fewest calls. They show that it stands outside NCCL in a sleep, a lock, a data loader, a wait for a child or
 * a device, or waits for a kernel of its own. The collective cannot end before that rank enters it.
 * Supported by: the numbers alone. The rank may compute, or wait for another rank in an unknown way. */
static gw_certainty judge_straggler(const gwi_case *c, gwi_finding *finding)
{
    if (c->stall.kind != GWI_STALL_BEHIND)
        return GW_CERTAINTY_NONE;
    /* The ranks that wait print nothing. XLA's allocator tries again for a long time. */
    const gw_stderr_line *refusal = &c->model->stderr_facts.oom_last;
    bool is_refused = refusal->seen && refusal->t_ns != GWI_NO_TIME && refusal->t_ns > c->stall.t_ns;
    if (is_refused)
        gwi_next(finding,
                 "Let the rank at fault need less GPU memory (a smaller batch, nothing kept from step to step): "
                 "it waits for memory, and the others wait for it");
    gw_certainty certainty = say(c, finding, "the rank at fault stands here");
    if (c->stall.culprit != SIZE_MAX && c->ranks.item[c->stall.culprit].stand == GW_RANK_STANDS_KERNEL &&
        c->hang.kind == GWI_HANG_KERNEL)
        gwi_say_waiting(c, finding);
    if (is_refused)
        gwi_say_line(c, finding, refusal, "while the others waited, a framework had no memory: ");
    return gwi_may_have_raised(c) ? GW_HYPOTHESIS : certainty;
}

const gw_cause gwi_cause_straggler = {
    .id = "straggler",
    .summary = "One rank does not reach the collective in which the others wait.",
    .proof = "fewer calls of one rank on a communicator on which the others wait, and the place where its own threads "
             "stand outside NCCL",
    .fixes = {[GW_FRAMEWORK_RAW] = "Find the rank that arrives last, and exclude its host\n"
                                   "Raise the timeout only if the slow phase is legitimate"},
    .excludes = "peer-died", /* the same, seen without NCCL's calls */
    .is_sole = true,
    .judge = judge_straggler,
};
