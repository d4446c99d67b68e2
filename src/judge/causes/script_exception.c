/* The program itself raised an exception, and no driver call had failed before.
 *
 * Established only by: an exception of the program itself, on stderr or read from the interpreter at its end, if:
 * - the exit status matches the exception (C++: death by SIGABRT)
 * - no driver call failed, except refused requests for memory that the thread certainly survived
 *   (gwi_doubtful_refusal()), and look-ups of kernels that the process surely did without (gwi_doubtful_lookup())
 * - no framework had reported an out-of-memory error
 * - every part of the run was observed
 * - no message shows a more specific reason, such as a full disk
 *
 * A GPU fault would have made a driver call fail, so the exception ended the run.
 *
 * Supported by: the same exception, if a call had failed or a part of the run was not observed. */
#include "gwi_coverage.h"
#include "gwi_output.h"
#include "gwi_roots.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_uncaught_cpp(const gwi_case *c)
{
    return c->model->stderr_facts.terminate.seen && c->signal == 6;
}

static void say_exception(const gwi_case *c, gwi_finding *finding)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    const gw_stderr_line *line = facts->exception.seen ? &facts->exception : &facts->terminate;
    gwi_say_line(c, finding, line, "");
    gwi_say_line(c, finding, &facts->frame, "raised at ");
    gwi_say_line(c, finding, &facts->host_memory, "this is about host memory, not the GPU's: ");
}

/* True if a framework itself refused memory and printed a message. No driver call shows whether the program handled
 * this refusal. */
static bool is_told_of_oom(const gwi_case *c)
{
    return c->model->stderr_facts.oom.seen && c->handled == NULL && c->root == NULL;
}

static void say_gpu_is_well(const gwi_case *c, gwi_finding *finding)
{
    uint64_t calls = 0;
    for (size_t i = 0; i < c->model->thread_count; i++)
        calls += c->model->thread[i].calls;
    if (c->root == NULL && is_told_of_oom(c))
        gwi_say_line(c, finding, &c->model->stderr_facts.oom,
                     "no driver call failed, but a framework had already reported: ");
    else if (c->root == NULL && calls > 0) {
        char words[120];
        snprintf(words, sizeof words, "none of %" PRIu64 " driver calls failed", calls);
        gwi_rule_out_gpu(c, finding, words);
    } else {
        gwi_rule_out_gpu(c, finding, "no driver call failed");
    }
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    bool python = c->exception == GW_EXCEPTION_SCRIPT && c->ended && c->bad_end && c->signal == 0;
    bool cpp = is_uncaught_cpp(c) && c->root == NULL && !facts->result.seen && !facts->oom.seen;
    if (!python && !cpp)
        return GW_CERTAINTY_NONE;
    const char *gpu = gwi_gpu_words(c);
    bool heavy = c->sticky != NULL || c->oom != NULL;
    if (python && is_told_of_oom(c))
        gwi_headline(finding, "the program raised %.95s, after a framework had run out of GPU memory",
                     facts->exception_type);
    else if (python)
        gwi_headline(finding, "the program raised %.95s%s", facts->exception_type, gpu);
    else
        gwi_headline(finding, "an uncaught C++ exception ended the program%s", gpu);
    say_exception(c, finding);
    if (python)
        gwi_where_raised(finding);
    if (c->is_left_over)
        gwi_evidence(finding, c->process->t_raised_ns, "exit",
                     "since then the interpreter of pid %" PRIu32 " shuts down, and has not ended", c->process->pid);
    else if (c->ended)
        gwi_evidence(finding, c->model->t_end_ns, "exit", c->signal != 0 ? "ended by signal %d" : "exit status %d",
                     c->signal != 0 ? c->signal : c->exit_code);
    say_gpu_is_well(c, finding);
    if (c->is_left_over && c->root == NULL)
        gwi_rule_out_failed_call(c, finding);
    if (heavy || c->told != NULL || (c->said != NULL && !gwi_is_told(c, finding->cause)))
        return GW_HYPOTHESIS;
    if (facts->exception_about_child && c->hang.kind != GWI_HANG_NONE)
        return GW_HYPOTHESIS; /* it came when somebody ended the hang */
    /* The exception may only report that a child failed, and an unobserved child may have failed on the GPU. */
    finding->refutes_text = facts->exception_about_child && gwi_unseen(c->model, NULL) != NULL;
    if (finding->refutes_text)
        return GW_HYPOTHESIS;
    if (is_told_of_oom(c) || gwi_unseen(c->model, NULL) != NULL || gwi_exception_is_uncertain(c) ||
        gwi_doubtful_refusal(c) != NULL || gwi_doubtful_lookup(c) != NULL)
        return GW_SUPPORTED;
    return c->root == NULL ? GW_ESTABLISHED : GW_SUPPORTED;
}

const gw_cause gwi_cause_script_exception = {
    .id = "script-exception",
    .summary = "The program raised an exception; no driver call had failed.",
    .proof = "a language exception on stderr or in the interpreter at the end, the exit status that it causes, no "
             "earlier unhandled failure of a driver call, and no unobserved part of the run",
    .fixes = {[GW_FRAMEWORK_RAW] = "Read the exception above: it comes from the program, and it names the line"},
    .depth = GWI_IS_END,
    .judge = judge,
};
