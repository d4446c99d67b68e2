/* Determines which parts of a run were not observed, and whether the GPU can still be ruled out. */
#include "gwi_alone.h"
#include "gwi_coverage.h"
#include "gwi_log.h"
#include "gwi_roots.h"
#include "gwi_start.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- what was not observed ---- */

bool gwi_has_no_driver(const gw_model *model)
{
    const gw_pair *fact = gw_model_fact(model, GW_FACT_DOORS_CLOSED);
    return fact != NULL && strcmp(fact->value, "no driver") == 0;
}

void gwi_say_no_driver(const gw_model *model, gwi_finding *finding)
{
    if (gwi_has_no_driver(model))
        gwi_evidence(finding, gw_model_fact(model, GW_FACT_DOORS_CLOSED)->t_ns, "host",
                     "this machine has no GPU driver (libcuda.so.1)");
}

void gwi_say_unseen(const gwi_case *c, gwi_finding *finding)
{
    enum { SAID_MAX = 3 };
    const gw_pair *fact = NULL;
    for (size_t i = 0; i < SAID_MAX && (fact = gwi_unseen(c->model, fact)) != NULL; i++) {
        if (fact->what == GW_FACT_RECORDING_STOPPED)
            gwi_evidence(finding, fact->t_ns, "host", "from here on, nothing is in the recording: %s", fact->value);
        else if (fact->what == GW_FACT_DOORS_CLOSED)
            gwi_evidence(finding, fact->t_ns, "host", "driver calls were not recorded: %s", fact->value);
        else
            gwi_evidence(finding, fact->t_ns, "host", "not observed: %s", fact->value);
    }
}

/* ---- the GPU ---- */

/* Return a thread of the judged process that was inside a driver call when the process ended or was last sampled.
 * The result of that call is unknown. Returns NULL if there is none, or if the run did not end badly. */
static const gw_thread *thread_inside(const gwi_case *c)
{
    if (!c->ended || !c->bad_end || c->process == NULL)
        return NULL;
    for (size_t i = 0; i < c->model->thread_count; i++) {
        const gw_thread *thread = &c->model->thread[i];
        if (thread->inside_fn != NULL && thread->pid == c->process->pid)
            return thread;
    }
    return NULL;
}

const gw_failure *gwi_ended_in_probe(const gwi_case *c)
{
    const gw_failure *last = NULL;
    enum { SHUTTING_DOWN = 4 };
    if (!c->bad_end || c->process == NULL)
        return NULL;
    for (size_t i = 0; i < c->model->failure_count; i++) {
        if (c->model->failure[i].pid == c->process->pid)
            last = &c->model->failure[i];
    }
    return last != NULL && last->is_probe && last->result != SHUTTING_DOWN && last->after.work == 0 &&
                   c->process->t_last_event_ns <= last->t_last_ns
               ? last
               : NULL;
}

const gw_failure *gwi_doubtful_lookup(const gwi_case *c)
{
    if (!c->bad_end || c->process == NULL)
        return NULL;
    const gw_failure *failure = gw_model_first_failure(c->model, c->process->pid);
    while (failure != NULL &&
           !(failure->is_probe && gw_is_kernel_lookup(failure) && failure->after.work < GW_WORK_MUCH))
        failure = gw_model_next_failure(c->model, failure);
    return failure;
}

/* Return the root failure of another process of the run, or NULL. We cannot know whether that failure affected this
 * process. */
static const gw_failure *failed_elsewhere(const gwi_case *c)
{
    for (size_t i = 0; i < c->model->process_count; i++) {
        const gw_process *process = &c->model->process[i];
        gwi_roots roots = {0};
        if (c->process == NULL || process->pid != c->process->pid)
            roots = gwi_roots_of(c->model, process->pid);
        const gw_failure *root = gwi_root_of(&roots);
        if (root != NULL)
            return root;
    }
    return NULL;
}

/* True if some GPU work may not have ended, and may be the reason why the run was ended from outside. */
static bool is_left_alone(const gwi_case *c)
{
    return gwi_alone_matters(c) && gwi_alone(c, 0) != NULL;
}

/* True if the exception that ended the program is about the GPU. A framework's allocator or a library may raise
 * such an exception without a failed driver call. */
static bool is_told_of_gpu(const gwi_case *c)
{
    return c->bad_end && (c->exception == GW_EXCEPTION_OOM || c->exception == GW_EXCEPTION_GPU);
}

/* True if the program may have printed such an exception, but its output was not recorded completely. */
static bool is_not_told(const gwi_case *c)
{
    enum { ABORTED = 6 };
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    bool may_print = c->bad_end && (c->signal == 0 || c->signal == ABORTED);
    return may_print && !facts->exception.seen && !facts->terminate.seen &&
           gw_model_fact(c->model, GW_FACT_STDERR_NOT_RECORDED) != NULL;
}

static bool hangs(const gwi_case *c)
{
    return c->hang.hang != NULL && c->ended && c->bad_end;
}

/* True if gpuwhy ended the run, because it hung or held too much. What the hang was about may be lost. */
static bool was_stopped(const gwi_case *c)
{
    bool was = false;
    for (size_t i = 0; i < c->model->process_count; i++)
        was = was || c->model->process[i].is_own_stop;
    return was;
}

bool gwi_gpu_is_ruled_out(const gwi_case *c)
{
    return c->root == NULL && !was_stopped(c) && gwi_is_observed(c, GWI_OF_RUN) && !hangs(c) && !is_left_alone(c) &&
           thread_inside(c) == NULL && gwi_ended_in_probe(c) == NULL && failed_elsewhere(c) == NULL &&
           gwi_doubtful_refusal(c) == NULL && gwi_doubtful_lookup(c) == NULL && !is_told_of_gpu(c) && !is_not_told(c);
}

const char *gwi_gpu_words(const gwi_case *c)
{
    if (gwi_gpu_is_ruled_out(c))
        return "; the GPU is not at fault";
    if (gwi_observed_count(c->model) == 0)
        return c->model->truncated           ? "; no CUDA driver call was observed before the recording stops"
               : c->model->damaged_count > 0 ? "; no CUDA driver call is in what is left of the damaged recording"
                                             : "; no CUDA driver call was observed";
    if (!gwi_is_observed(c, GWI_OF_RUN))
        return "; part of the run was not observed";
    return "";
}

/* Report a refusal that may have ended the run, although the program's later calls look as if it had been handled. */
static void say_doubtful(const gwi_case *c, gwi_finding *finding, const gw_failure *failure)
{
    char call[GWI_CALL_TEXT_MAX], bytes[GW_BYTES_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    bool is_last = failure->after.work + failure->after.allocs == 0;
    const char *went_on = c->is_root_unsure ? "other work continued" : "the program continued";
    gwi_call_text(call, failure->fn_name);
    gwi_at(c, failure->site, at);
    gwi_evidence(finding, failure->t_ns, "driver",
                 "%s%s%s%s was refused for lack of memory, but %s; it is unclear whether this ended the run", call,
                 failure->bytes_wanted == 0 ? "" : " of ",
                 failure->bytes_wanted == 0 ? "" : gw_bytes_text(bytes, failure->bytes_wanted), at,
                 is_last ? "the program seems to have continued without the GPU" : went_on);
}

/* Report as evidence each reason why the GPU is not ruled out. */
static const char *none_failed(const gw_model *model)
{
    return gwi_is_whole(model) ? "no driver call failed" : "no failed driver call is in what was recorded";
}

static void say_open(const gwi_case *c, gwi_finding *finding)
{
    char call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    const gw_thread *inside = thread_inside(c);
    const gw_failure *failure = gwi_ended_in_probe(c);
    gwi_say_unseen(c, finding);
    if (gwi_observed_count(c->model) == 0)
        gwi_evidence(finding, GWI_NO_TIME, "driver", "%s", gwi_gpu_words(c) + strlen("; "));
    if (hangs(c))
        gwi_evidence(finding, c->hang.hang->t_ns, "driver",
                     "no driver call of pid %" PRIu32 " began or ended for %.1f s", c->hang.hang->pid,
                     (double)c->hang.hang->for_ns / 1e9);
    else if (inside != NULL)
        gwi_evidence(finding, inside->inside_since_ns, "driver", "thread %u (%s) was inside %s when the program ended",
                     inside->tid, inside->name, gwi_call_text(call, inside->inside_fn));
    if (failure != NULL)
        gwi_evidence(finding, failure->t_ns, "driver", "the last driver call, %s%s%s%s, returned %u (%s)",
                     gwi_call_text(call, failure->fn_name), failure->text == NULL ? "" : " of ",
                     failure->text == NULL ? "" : failure->text, gwi_at(c, failure->site, at), failure->result,
                     gw_result_name(failure->result));
    failure = gwi_doubtful_lookup(c);
    if (failure != NULL)
        gwi_evidence(finding, failure->t_ns, "driver",
                     "%s%s returned %u (%s), and little work followed; it is unclear whether this ended the run",
                     gwi_call_text(call, failure->fn_name), gwi_at(c, failure->site, at), failure->result,
                     gw_result_name(failure->result));
    if (is_told_of_gpu(c))
        gwi_evidence(finding, c->model->stderr_facts.exception.t_ns, "stderr",
                     "%s, but the program's last exception is about the GPU%s", none_failed(c->model),
                     c->exception == GW_EXCEPTION_OOM ? "'s memory" : "");
    if (is_not_told(c))
        gwi_evidence(finding, GWI_NO_TIME, "stderr",
                     "%s, but stderr, which may have an exception about the GPU, was not recorded%s",
                     none_failed(c->model), c->model->stderr_facts.bytes > 0 ? " completely" : "");
    gwi_say_alone(c, finding);
    failure = gwi_doubtful_refusal(c);
    if (failure != NULL)
        say_doubtful(c, finding, failure);
    failure = failed_elsewhere(c);
    if (failure != NULL)
        gwi_evidence(finding, failure->t_ns, "driver", "in pid %" PRIu32 " %s returned %u (%s)", failure->pid,
                     gwi_call_text(call, failure->fn_name), failure->result, gw_result_name(failure->result));
}

bool gwi_rule_out_gpu(const gwi_case *c, gwi_finding *finding, const char *words)
{
    if (c->root != NULL)
        return false;
    if (!gwi_gpu_is_ruled_out(c)) {
        say_open(c, finding);
        return false;
    }
    gwi_rule_out(c, finding, GWI_OF_RUN, "the GPU (%s%s)", words,
                 c->handled == NULL ? "" : ", except for refused memory requests after which the program continued");
    return true;
}

/* ---- a run on the CPU ---- */

/* True if a process has mapped a framework's CUDA build: the runtime library, or a package whose version says so. */
static bool has_cuda_build(const gw_model *model)
{
    for (size_t i = 0; i < model->process_count; i++)
        if (gw_libraries_find(&model->process[i].libraries, GW_LIBRARY_CUDART) != NULL)
            return gw_model_framework(model) != GW_FRAMEWORK_RAW;
    for (size_t i = 0; i < model->fact_count; i++) {
        const gw_pair *fact = &model->fact[i];
        if (fact->what == GW_FACT_PACKAGE && fact->value != NULL &&
            (strstr(fact->value, "+cu") != NULL || gw_begins(fact->value, "jax-cuda")))
            return true;
    }
    return false;
}

/* Return the first line of the output that shows that the program computed on the CPU, NULL if none does or a card is
 * named. */
static const gw_log_find *cpu_line(const gwi_case *c)
{
    const gw_log *log = c->model->stderr_facts.log;
    return log != NULL && gwi_log_first(log, GW_SAYS_GPU_NAME) == NULL ? gwi_log_first(log, GW_SAYS_CPU_USED) : NULL;
}

/* True if the program ended well without a context, although its framework could use a GPU. */
static bool is_build_unused(const gwi_case *c)
{
    return c->ended && !c->bad_end && gwi_is_whole(c->model) && has_cuda_build(c->model);
}

bool gwi_ran_on_cpu(const gwi_case *c)
{
    return !gwi_is_log(c) && !gwi_made_context(c->model) && gwi_unseen_driver(c->model) == NULL &&
           (cpu_line(c) != NULL || is_build_unused(c));
}

bool gwi_advise_unused_gpu(const gwi_case *c, const char *cause, gw_string_list *advice)
{
    const char *mask = gwi_visible_devices(c);
    const gw_log_find *line = cpu_line(c);
    bool known, present = gwi_has_device_file(c, "nvidia0", &known);
    if (!gwi_ran_on_cpu(c) || (cause != NULL && strcmp(cause, "no-device-visible") == 0))
        return true;
    gw_text text = {0};
    gw_text_add_str(&text, "the program computed on the CPU: ");
    if (line != NULL)
        gw_text_addf(&text, "it printed \"%.160s\"", line->text);
    else
        gw_text_add_str(&text, "the framework is built for CUDA, but the program created no context on a GPU");
    if (gwi_has_no_driver(c->model))
        gw_text_add_str(&text, "; this machine has no GPU driver (libcuda.so.1)");
    else if (present || c->model->is_virtual)
        gw_text_add_str(&text, "; the machine has a GPU");
    if (mask != NULL)
        gw_text_addf(&text, "; CUDA_VISIBLE_DEVICES=\"%.200s\"", mask);
    gw_text_add_str(&text, " (no-device-visible, if this was not intended)");
    bool good = !text.failed && gwi_list_add(advice, gw_text_str(&text));
    gw_text_free(&text);
    return good;
}
