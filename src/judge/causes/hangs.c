/* The program makes no progress.
 *
 * Established only by: see the comment of each cause. */
#include "gwi_alone.h"
#include "gwi_hang.h"
#include "gwi_pools.h"
#include "gwi_saved_ranks.h"
#include "gwi_stall.h"

#include <inttypes.h>
#include <string.h>

/* The program waits for a kernel that does not end.
 *
 * Never established: work that is merely slow looks the same. */

/* Judge a kernel that the program did not wait for. The kernel may have ended, or it may be meant to keep running. */
static gw_certainty judge_alone(const gwi_case *c, gwi_finding *finding)
{
    if (c->hang.kind != GWI_HANG_NONE || !gwi_is_any_alone(c))
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "a kernel may not have ended, on a stream that the program did not wait for");
    gwi_say_alone(c, finding);
    return GW_HYPOTHESIS;
}

static gw_certainty judge_kernel_never_ends(const gwi_case *c, gwi_finding *finding)
{
    if (c->hang.kind != GWI_HANG_KERNEL)
        return judge_alone(c, finding);
    const gw_hang *hang = c->hang.hang;
    gwi_headline(finding, "no progress for %.1f s: the program waits for %s that does not end",
                 (double)hang->for_ns / 1e9, c->hang.is_off_record ? "work on the GPU" : "a kernel");
    gwi_say_waiting(c, finding);
    if (c->root == NULL)
        gwi_rule_out(c, finding, GWI_OF_PROCESS, "an error on the GPU (no driver call failed)");
    gwi_rule_out(c, finding, GWI_OF_PROCESS, "a deadlock in the program (thread %" PRIu32 " waits for the GPU)",
                 c->hang.waiting->tid);
    return c->root != NULL && (c->root->is_sticky || c->root->is_allocation) ? GW_HYPOTHESIS : GW_SUPPORTED;
}

const gw_cause gwi_cause_kernel_never_ends = {
    .id = "kernel-never-ends",
    .summary = "The program waits for a kernel that does not end.",
    .proof = "a thread that was inside a waiting driver call or only polled the GPU, for the time given by "
             "--hang-after, with launches that nothing had waited for and without other progress of the program; work "
             "that is merely slow looks the same. For a stream that nothing waited for while the program waited for "
             "other streams, this is only a hypothesis",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "If the kernel may take that long, wait longer before calling it a hang (--hang-after SECONDS)\n"
                  "Check the loops of the named kernel: a condition that never becomes true, a flag or lock in memory "
                  "that no other block sets, a grid that waits for blocks that cannot be resident\n"
                  "Stop it in a debugger (cuda-gdb -p PID, then info cuda kernels) to see where it loops",
              [GW_FRAMEWORK_TORCH] =
                  "If the kernel may take that long, wait longer before calling it a hang (--hang-after SECONDS)\n"
                  "Check the custom kernels (Triton, extensions) among those named for a loop or a spin lock that "
                  "never ends\n"
                  "With several GPUs: check that all ranks call the same collectives"},
    .judge = judge_kernel_never_ends,
};

/* A rank waits in a collective for a rank that does not join it.
 *
 * Never established: the recording does not show that the missing rank would have joined.
 * Supported by: the end of another rank before, the place at which the main thread of another rank stands still, two
 * equal answers of NCCL's RAS in which a rank has launched fewer calls, or two equal dumps of the threads of all ranks
 * in which one rank is at another place. */

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

/* Judge files that other programs saved: counts of calls, then stacks. */
static gw_certainty judge_saved(const gwi_case *c, gwi_finding *finding)
{
    gw_certainty by_calls = gwi_judge_fewer_calls(c, finding);
    if (by_calls == GW_CERTAINTY_NONE && (by_calls = gwi_say_ras(c, finding)) != GW_CERTAINTY_NONE)
        gwi_headline(finding, "ranks of a communicator have launched fewer calls than the others");
    if (c->model->hang_count == 0)
        return by_calls;
    gw_certainty by_stacks = gwi_say_stacks(c, finding);
    return by_calls > by_stacks ? by_calls : by_stacks;
}

static gw_certainty judge_peer_died(const gwi_case *c, gwi_finding *finding)
{
    if (c->hang.kind == GWI_HANG_JOB && c->root == NULL && !gwi_are_job_calls_apart(c)) {
        gwi_rule_out_failed_call(c, finding);
        return gwi_say_still_job(c, finding) ? GW_SUPPORTED : GW_HYPOTHESIS;
    }
    if (gwi_are_saved_ranks(c))
        return judge_saved(c, finding);
    if (c->hang.kind != GWI_HANG_PEER)
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "no progress for %.1f s: a collective is waiting for a rank that has not joined it",
                 (double)c->hang.hang->for_ns / 1e9);
    gwi_say_waiting(c, finding);
    if (c->process != NULL && c->process->nccl_unseen)
        gwi_evidence(
            finding, GWI_NO_TIME, "driver",
            "NCCL launched kernels for calls that were not recorded, for example because it is linked statically");
    gwi_say_missing_ranks(c, finding);
    gw_certainty by_ras = gwi_say_ras(c, finding);
    bool is_seen = by_ras == GW_SUPPORTED || a_rank_ended(c) || gwi_a_rank_stands(c);
    return is_seen && !gwi_may_have_raised(c) ? GW_SUPPORTED : GW_HYPOTHESIS;
}

const gw_cause gwi_cause_peer_died = {
    .id = "peer-died",
    .summary = "A rank waits in a collective for another rank that has ended or does not join it.",
    .proof =
        "an NCCL collective as the last launch that nothing has waited for, no other progress of the program, and "
        "another rank that ended before or stands still elsewhere; or ranks that are all idle at different places, "
        "without output, GPU calls or bytes read and written, and without anybody outside of the job to wait for",
    .fixes =
        {[GW_FRAMEWORK_RAW] =
             "Find the rank that did not come: its first error is the root cause; if it had none and was still working "
             "(reading, evaluating, saving), raise the timeout or let the others wait for it\n"
             "Check that all ranks call the same collectives in the same order",
         [GW_FRAMEWORK_TORCH] =
             "Find the rank that did not come: its first error is the root cause; if it had none and was still working "
             "(reading, evaluating, saving), raise the timeout or let the others wait for it\n"
             "TORCH_DISTRIBUTED_DEBUG=DETAIL reports ranks that call different collectives; "
             "unequal batches need join() or drop_last"},
    .judge = judge_peer_died,
};

/* Threads of the program wait for each other.
 *
 * Established only by: the owners of the locks, as read from the threads. They show one of these, which no thread can
 * leave:
 * - Threads wait in a circle.
 * - A thread waits for a lock whose owner has ended.
 * Supported by: all threads wait without a time limit and use no processor time. An outside event might still wake
 * one. */

static bool is_waiting_for_owner(const gw_hang_thread *thread)
{
    return strcmp(thread->wait, "lock") == 0 && thread->owner_tid != 0;
}

static void say_thread(const gwi_case *c, gwi_finding *finding, const gw_hang_thread *thread)
{
    const gw_hang *hang = c->hang.hang;
    const gw_hang_thread *owner = gwi_hang_thread(hang, thread->owner_tid);
    char at[GWI_PLACE_TEXT_MAX];
    if (thread->owner_ended)
        gwi_evidence(finding, hang->t_ns, "host",
                     "thread %" PRIu32 " (%s) waits for a lock of thread %" PRIu32 ", which has ended", thread->tid,
                     thread->name, thread->owner_tid);
    else if (owner != NULL)
        gwi_evidence(finding, hang->t_ns, "host", "thread %" PRIu32 " (%s) waits for %s thread %" PRIu32 " (%s)%s",
                     thread->tid, thread->name, strcmp(thread->wait, "join") == 0 ? "the end of" : "a lock that",
                     owner->tid, owner->name, strcmp(thread->wait, "join") == 0 ? "" : " holds");
    else
        gwi_evidence(finding, hang->t_ns, "host",
                     "thread %" PRIu32 " (%s) waits, without a time limit, for another thread of this process%s",
                     thread->tid, thread->name, gwi_at(c, thread->site, at));
    /* True if the evidence above already names the place of the thread. */
    bool is_said = !thread->owner_ended && owner == NULL && gwi_count_stand(c, thread) == 1;
    if (!is_said || gwi_at(c, thread->site, at)[0] == '\0')
        gwi_say_stand(c, finding, thread);
}

/* Return the site that the verdict names, or 0 if none is known. Only threads that wait for a lock are considered,
 * without idle workers. The first of these is taken:
 * - a thread that waits for a lock with a known owner
 * - a thread that waits in a line of the user's own code
 * - any thread */
static uint32_t place_of(const gwi_case *c, const gw_hang *hang)
{
    const gw_hang_thread *any = NULL, *own = NULL;
    for (size_t i = 0; i < hang->thread_count; i++) {
        const gw_hang_thread *thread = &hang->thread[i];
        if (thread->site == 0 || strcmp(thread->wait, "lock") != 0 || gwi_idle_worker_of(c, thread) != NULL)
            continue;
        if (is_waiting_for_owner(thread))
            return thread->site;
        any = any == NULL ? thread : any;
        own = own == NULL && gwi_waits_in_own_line(c, thread) ? thread : own;
    }
    if (own != NULL)
        return own->site;
    if (any != NULL)
        return any->site;
    return 0;
}

/* Return a thread's rank in the report:
 * - 0: waits for a known owner
 * - 1: waits in a line of the program
 * - 2: waits in code called from such a line
 * - 3: other
 * - -1: leave the thread out */
static int rank_of(const gwi_case *c, const gw_hang_thread *thread)
{
    char at[GWI_PLACE_TEXT_MAX];
    if (is_waiting_for_owner(thread))
        return 0;
    if (c->hang.in_circle || thread->wait[0] == '\0' || gwi_idle_worker_of(c, thread) != NULL)
        return -1;
    if (gwi_waits_in_own_line(c, thread))
        return 1;
    return gwi_at(c, thread->site, at)[0] != '\0' ? 2 : 3;
}

static void say_threads(const gwi_case *c, gwi_finding *finding, const gw_hang *hang)
{
    enum { SHOWN_MAX = 8, RANKS = 4 };
    size_t shown = 0, more = 0;
    for (int rank = 0; rank < RANKS; rank++)
        for (size_t i = 0; i < hang->thread_count; i++) {
            if (rank_of(c, &hang->thread[i]) != rank)
                continue;
            if (shown == SHOWN_MAX) {
                more++;
                continue;
            }
            say_thread(c, finding, &hang->thread[i]);
            shown++;
        }
    if (more > 0)
        gwi_evidence(finding, GWI_NO_TIME, "host", "and %zu more waiting threads", more);
}

static void say_headline(const gwi_case *c, gwi_finding *finding, const gw_hang *hang)
{
    double for_s = (double)hang->for_ns / 1e9;
    size_t threads = hang->thread_count - gwi_count_idle_workers(c, hang);
    if (c->hang.in_circle)
        gwi_headline(finding,
                     "threads of the program wait for each other's locks; the program made no progress for %.1f s",
                     for_s);
    else if (threads == 1)
        gwi_headline(finding,
                     "the only thread of the program that had work waits for another thread; the program made no "
                     "progress for %.1f s, and no other thread can wake it",
                     for_s);
    else
        gwi_headline(finding,
                     "all %zu threads of the program%s wait for each other; the program made no progress for %.1f s, "
                     "and no other thread can wake them",
                     threads, threads < hang->thread_count ? ", except idle workers," : "", for_s);
}

static gw_certainty judge_host_deadlock(const gwi_case *c, gwi_finding *finding)
{
    if (c->hang.kind != GWI_HANG_DEADLOCK)
        return GW_CERTAINTY_NONE;
    const gw_hang *hang = c->hang.hang;
    say_headline(c, finding, hang);
    say_threads(c, finding, hang);
    gwi_say_idle_workers(c, finding, hang);
    gwi_where(finding, place_of(c, hang), "a thread waits here for a lock");
    if (hang->cpu_known)
        gwi_measure(finding, hang->t_ns, "host", (double)hang->cpu_ms, "ms",
                    "all threads used %" PRIu64 " ms of CPU in that time", hang->cpu_ms);
    gwi_rule_out(c, finding, GWI_OF_PROCESS, "the GPU (no thread is inside a driver call or polls the GPU)");
    return c->hang.in_circle ? GW_ESTABLISHED : GW_SUPPORTED;
}

const gw_cause gwi_cause_host_deadlock = {
    .id = "host-deadlock",
    .summary = "Threads of the program wait for each other, and the GPU is idle.",
    .proof = "threads that wait in a circle, each for a lock that the next one holds, or for a lock whose owner has "
             "ended; or a process in which every thread waits, without a time limit, for something that only a thread "
             "of the same process can provide",
    .fixes = {[GW_FRAMEWORK_RAW] = "Take locks in the same order everywhere, or both at once; do not hold a lock while "
                                   "waiting for a thread or a queue\n"
                                   "Check the named functions, and which callers hold which lock",
              [GW_FRAMEWORK_TORCH] = "Do not fork while threads hold locks: multiprocessing with spawn, DataLoader "
                                     "with multiprocessing_context=\"spawn\"\n"
                                     "Do not hold a Python lock while joining a thread or waiting for a queue"},
    .judge = judge_host_deadlock,
};
