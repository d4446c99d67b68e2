/* A child uses CUDA after a fork, although its parent had already initialised CUDA.
 *
 * Established only by: one of these:
 * - The result 3 in a process that was forked, without exec, from a process whose own cuInit had succeeded. The run
 *   must have ended badly. The child must have died badly within five seconds, or an exception about the GPU ended the
 *   run.
 * - PyTorch's exception "Cannot re-initialize CUDA in forked subprocess" in the last minute of the run, after a
 *   successful cuInit. PyTorch detects the fork itself and makes no driver call.
 * - In a log alone, this message, followed by an error.
 * Supported by: the same result, if one of these is true:
 * - the parent's cuInit was not recorded;
 * - the child's end is not known;
 * - the run ended well.
 * If the child ended well, or much later, the cause is only a hypothesis: the child had worked without CUDA. */
#include "gwi_cause.h"
#include "gwi_family.h"

#include <inttypes.h>

static const gw_failure *find_refused(const gwi_case *c)
{
    enum { NOT_INITIALIZED = 3 };
    for (size_t i = 0; i < c->model->failure_count; i++) {
        const gw_failure *failure = &c->model->failure[i];
        const gw_process *process = gw_model_process(c->model, failure->pid);
        if (failure->result == NOT_INITIALIZED && process != NULL && process->forked_after_init)
            return failure;
    }
    return NULL;
}

/* Return the nearest ancestor that had itself called cuInit successfully before the child was forked. Returns NULL if
 * none was recorded. */
static const gw_process *find_initialiser(const gw_model *model, const gw_process *child)
{
    enum { GENERATIONS_MAX = 16 };
    const gw_process *process = child;
    for (int i = 0; process != NULL && i < GENERATIONS_MAX; i++) {
        uint32_t parent = process->fork_parent_pid != 0 ? process->fork_parent_pid : process->parent_pid;
        process = parent == 0 ? NULL : gw_model_process(model, parent);
        if (process != NULL && process->init_ok && process->t_init_ns <= child->t_fork_ns)
            return process;
    }
    return NULL;
}

/* Judge the framework's own message. PyTorch detects a fork by itself and then makes no driver call, so only its
 * exception shows the cause. */
static gw_certainty judge_told(const gwi_case *c, gwi_finding *finding)
{
    const uint64_t soon_ns = 60000000000u;
    const gw_process *initialiser = NULL;
    char at[GWI_PLACE_TEXT_MAX];
    gw_certainty by_text = gwi_judge_by_text(c, finding);
    if (by_text == GW_CERTAINTY_NONE)
        return GW_CERTAINTY_NONE;
    uint64_t t_ns = gwi_said_t_ns(c, gwi_said(c, finding->cause));
    for (size_t i = 0; i < c->model->process_count; i++) {
        const gw_process *process = &c->model->process[i];
        if (process->init_ok && process->t_init_ns < t_ns &&
            (initialiser == NULL || process->t_init_ns < initialiser->t_init_ns))
            initialiser = process;
    }
    gwi_headline(
        finding,
        "a forked child tried to use CUDA, which its parent had already initialised: CUDA does not support that");
    gwi_rule_out(c, finding, GWI_OF_PROCESS, "a broken driver (the child did not call it)");
    if (initialiser == NULL)
        return by_text;
    gwi_evidence(finding, initialiser->t_init_ns, "driver", "pid %" PRIu32 " initialised CUDA (cuInit)%s",
                 initialiser->pid, gwi_at(c, initialiser->init_site, at));
    gwi_where(finding, initialiser->init_site, "CUDA was initialised here, before the fork");
    /* Require that the message is from the last minute of the run. After an earlier exception in the child, the parent
     * had continued without the child. */
    return t_ns + soon_ns >= c->model->t_end_ns ? GW_ESTABLISHED : by_text;
}

/* Return the certainty that the run ended because the driver refused the child. A refused child may work without CUDA,
 * such as a worker that only checks for a GPU. The run then ends well, or for another reason. */
static gw_certainty certainty_of(const gwi_case *c, const gw_process *child, const gw_failure *refused,
                                 bool is_initialised)
{
    const uint64_t soon_ns = 5000000000u;
    bool knows_end = child->exit_known && child->exit.status_known;
    bool died = gw_died_badly(child) && child->t_exit_ns <= refused->t_last_ns + soon_ns;
    gw_certainty most = is_initialised && !gw_run_ended_well(c->model) ? GW_ESTABLISHED : GW_SUPPORTED;
    if (c->exception == GW_EXCEPTION_GPU) /* a process pool raises its worker's exception again, in the parent */
        return most;
    if (c->exception == GW_EXCEPTION_SCRIPT && !c->model->stderr_facts.exception_about_child)
        return died ? GW_SUPPORTED : GW_HYPOTHESIS;
    if (died)
        return most;
    return knows_end ? GW_HYPOTHESIS : GW_SUPPORTED;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *refused = find_refused(c);
    char call[GWI_CALL_TEXT_MAX], chain[GWI_CHAIN_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    if (refused == NULL)
        return judge_told(c, finding);
    if (c->root != NULL && (c->root->is_sticky || c->root->is_allocation))
        return GW_CERTAINTY_NONE;
    const gw_process *child = gw_model_process(c->model, refused->pid);
    uint32_t parent_pid = child->fork_parent_pid != 0 ? child->fork_parent_pid : child->parent_pid;
    const gw_process *parent = gw_model_process(c->model, parent_pid);
    const gw_process *initialiser = find_initialiser(c->model, child);
    parent_pid = initialiser != NULL ? initialiser->pid : parent_pid;
    parent = initialiser != NULL ? initialiser : parent;
    gwi_call_text(call, refused->fn_name);
    gwi_headline(finding,
                 "a child (pid %" PRIu32 ") used CUDA after a fork from pid %" PRIu32
                 ", which had already initialised it: CUDA does not support that",
                 child->pid, parent_pid);
    if (parent != NULL && parent->init_ok)
        gwi_evidence(finding, parent->t_init_ns, "driver", "pid %" PRIu32 " initialised CUDA (cuInit)%s", parent_pid,
                     gwi_at(c, parent->init_site, at));
    if (child->forked)
        gwi_evidence(finding, child->t_fork_ns, "driver",
                     "pid %" PRIu32 " is a fork that did not start a new program (the process and its parents: %s)",
                     child->pid, gwi_chain_text(chain, c->model, child));
    if (gwi_place(c, child->fork_site, at)[0] != '\0' || gwi_fork_place(c, refused->site, at)[0] != '\0')
        gwi_evidence(finding, child->t_fork_ns, "driver", "the fork was at %s", at);
    gwi_evidence(finding, refused->t_ns, "driver", "%s%s in pid %" PRIu32 " returned %u (%s)", call,
                 gwi_at(c, refused->site, at), child->pid, refused->result, gw_result_name(refused->result));
    gwi_where(finding, refused->site, "the driver refused this call of the child; the fork is among its callers");
    gwi_rule_out(c, finding, GWI_OF_PROCESS, "a broken driver (it works in the parent)");
    gwi_say_consequences(c, finding, refused);
    return certainty_of(c, child, refused, parent != NULL && parent->init_ok);
}

const gw_cause gwi_cause_fork_after_init = {
    .id = "fork-after-init",
    .summary = "A child process used CUDA that its parent had initialised before the fork.",
    .proof = "result 3 in a process that was forked, without exec, from one that had called cuInit; or the framework's "
             "own message that it cannot use CUDA in a forked child",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Do not call CUDA before the fork, or start children as new programs (fork and exec, posix_spawn)",
              [GW_FRAMEWORK_TORCH] = "Use torch.multiprocessing.set_start_method(\"spawn\") (or forkserver), and "
                                     "multiprocessing_context=\"spawn\" in DataLoader\n"
                                     "Do not call CUDA before the fork; torch.cuda.is_available() counts as such a "
                                     "call, unless PYTORCH_NVML_BASED_CUDA_CHECK=1\n"
                                     "Do not keep CUDA tensors in data sets",
              [GW_FRAMEWORK_TENSORFLOW] = "Do not use TensorFlow before the fork; start workers with spawn",
              [GW_FRAMEWORK_JAX] = "Do not use JAX before the fork; start workers with spawn"},
    .judge = judge,
};
