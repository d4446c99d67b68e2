/* Reports runs without a known cause, clean or undetermined, and adds advice to verdicts. */
#include "gwi_coverage.h"
#include "gwi_cut.h"
#include "gwi_family.h"
#include "gwi_hang.h"
#include "gwi_healthy.h"
#include "gwi_order.h"
#include "gwi_output.h"
#include "gwi_roots.h"
#include "gwi_saved_ranks.h"
#include "gwi_snapshot.h"
#include "gwi_start.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- clean ---- */

static uint64_t launches_of(const gw_model *model)
{
    uint64_t count = 0;
    for (size_t i = 0; i < model->process_count; i++)
        count += gw_launches(model->process[i].counter);
    return count;
}

void gwi_say_clean(const gwi_case *c, gwi_finding *finding)
{
    gwi_headline(finding, "no fault found%s%s",
                 gwi_unseen(c->model, NULL) != NULL ? " in the processes that were observed" : "",
                 gwi_ran_on_cpu(c) ? ", but the program computed on the CPU" : "");
    gwi_say_unseen(c, finding);
    bool used = false;
    for (size_t i = 0; i < c->model->process_count; i++) {
        const gw_process *process = &c->model->process[i];
        for (int device = 0; device < GW_MODEL_DEVICES_MAX; device++) {
            const gw_usage *usage = &process->usage[device];
            char peak[GW_BYTES_TEXT_MAX], limit[GW_BYTES_TEXT_MAX];
            uint64_t bytes;
            if (usage->peak_bytes == 0)
                continue;
            used = true;
            if (gw_model_device_limit(c->model, device, &bytes))
                gwi_measure(finding, usage->t_peak_ns, "ledger", (double)usage->peak_bytes, "bytes",
                            "most memory allocated at once on GPU %d by pid %u: %s of %s", device, process->pid,
                            gw_bytes_text(peak, usage->peak_bytes), gw_bytes_text(limit, bytes));
            else
                gwi_measure(finding, usage->t_peak_ns, "ledger", (double)usage->peak_bytes, "bytes",
                            "most memory allocated at once on GPU %d by pid %u: %s", device, process->pid,
                            gw_bytes_text(peak, usage->peak_bytes));
        }
        used = used || process->usage[GW_MODEL_DEVICE_BEYOND].peak_bytes > 0;
    }
    uint64_t launches = launches_of(c->model);
    if (launches > 0)
        gwi_measure(finding, GWI_NO_TIME, "driver", (double)launches, "count", "%" PRIu64 " launch%s", launches,
                    launches == 1 ? "" : "es");
    if (!used && launches == 0)
        gwi_evidence(finding, GWI_NO_TIME, "driver", "%s used no GPU memory and launched nothing",
                     gwi_unseen(c->model, NULL) != NULL ? "the processes that were observed" : "the program");
}

/* Return how the next run can be observed. */
static const char *how_to_see(const gw_model *model)
{
    return gw_model_fact(model, GW_FACT_RECORDING_STOPPED) != NULL
               ? "Make room on the disk of the recording, and run the program again"
               : "Start the process directly with gpuwhy run, not through a launcher that resets the environment";
}

void gwi_say_unseen_run(const gwi_case *c, gwi_finding *finding)
{
    bool is_partly = gwi_observed_count(c->model) > 0, has_unseen = gwi_unseen(c->model, NULL) != NULL;
    gwi_headline(finding, "the program ended normally%s; %s%s", gwi_ran_on_cpu(c) ? ", but computed on the CPU" : "",
                 is_partly ? "parts of the recording are missing" : "no CUDA driver call was observed",
                 has_unseen ? ", and part of the run was not observed" : "");
    gwi_say_unseen(c, finding);
    gwi_say_no_driver(c->model, finding);
    if (has_unseen)
        gwi_next(finding, "%s", how_to_see(c->model));
    else if (is_partly)
        gwi_next(finding, "Run it once more if its results matter: what happened in the missing parts is not known");
    else
        gwi_next(finding, "If it should use the GPU, let it print whether it found one (torch.cuda.is_available(), "
                          "cuInit)");
}

/* ---- undetermined ---- */

/* Report that CUDA could not start, probably because of a limit on the process's address space. A full GPU is ruled
 * out: nothing was allocated yet. */
static void say_start(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *failure = c->start;
    char call[GWI_CALL_TEXT_MAX], bytes[GW_BYTES_TEXT_MAX];
    gwi_call_text(call, failure->fn_name);
    gwi_evidence(finding, failure->t_ns, "driver", "%s returned %u (%s)", call, failure->result,
                 gw_result_name(failure->result));
    if (c->has_address_limit) {
        gw_bytes_text(bytes, c->address_limit_bytes);
        gwi_headline(finding, "CUDA could not start under an address-space limit of %s (ulimit -v)", bytes);
        gwi_measure(finding, GWI_NO_TIME, "host", (double)c->address_limit_bytes, "bytes",
                    "the address space of the process is limited to %s; CUDA reserves far more address space than the "
                    "card has memory",
                    bytes);
        gwi_next(finding,
                 "Start the program without the address-space limit (ulimit -v unlimited); limit memory with a "
                 "cgroup instead");
    } else {
        gwi_headline(finding, "CUDA could not start: %s returned %u (%s)", call, failure->result,
                     gw_result_name(failure->result));
        gwi_next(finding, "Check whether nvidia-smi works for the same user in the same place (container, job step)");
    }
    gwi_rule_out(c, finding, GWI_OF_PROCESS, "a shortage of GPU memory (nothing was ever allocated)");
}

bool gwi_find_lacks(const gwi_case *c, gwi_lacks *ret_lacks)
{
    enum { NOT_SUPPORTED = 801 };
    const gw_model *model = c->model;
    gwi_lacks lacks = {.count = model->note_count[GW_NOTE_VIRTUAL_LACKS]};
    if (!model->is_virtual)
        return false;
    for (size_t i = 0; i < model->failure_count; i++) {
        const gw_failure *failure = &model->failure[i];
        bool table = strcmp(failure->fn_name, "cuGetExportTable") == 0;
        if (!table && failure->result != NOT_SUPPORTED)
            continue;
        lacks.private_tables = lacks.private_tables || table;
        if (!table && lacks.fn_name == NULL)
            lacks.fn_name = failure->fn_name;
        lacks.count += failure->repeat_count;
        if (lacks.t_ns == 0)
            lacks.t_ns = failure->t_ns;
    }
    *ret_lacks = lacks;
    return lacks.count > 0;
}

/* Report a failure caused by a feature that no virtual card has. */
static void say_lacks(const gwi_lacks *lacks, gwi_finding *finding)
{
    char call[GWI_CALL_TEXT_MAX];
    if (lacks->private_tables) {
        gwi_headline(finding, "this program uses the CUDA runtime API, which needs private tables of the driver; the "
                              "virtual card only runs programs that use the driver API: the program is not at fault");
        gwi_evidence(finding, lacks->t_ns, "driver", "the virtual card refused cuGetExportTable");
        gwi_next(finding, "Run it on a real GPU (--gpu real), or test the part that uses the driver API");
        gwi_next(finding, "Without a GPU: gpuwhy explain LOG explains the output of a run elsewhere, gpuwhy doctor -- "
                          "python checks this machine, gpuwhy lab has programs that run on the virtual card");
    } else {
        gwi_headline(
            finding,
            "the program used a feature that the virtual card lacks; it is unclear whether this ended the program");
        if (lacks->fn_name != NULL)
            gwi_evidence(finding, lacks->t_ns, "driver",
                         "%s returned 801 (%s) because the virtual card does not support it; a real card may",
                         gwi_call_text(call, lacks->fn_name), gw_result_name(801));
        gwi_next(finding, "Run it on a real GPU (--gpu real) to see whether it also fails there");
    }
}

/* Report the memory that an address of the failed call refers to. */
static void say_target(const gwi_case *c, gwi_finding *finding, const gw_failure *failure)
{
    const gw_target *it = &failure->target;
    const char *name = failure->kind != GW_EV_COPY ? "its address"
                       : it->argument == 0         ? "its destination"
                                                   : "its source";
    char call[GWI_CALL_TEXT_MAX], bytes[GW_BYTES_TEXT_MAX], more[GW_BYTES_TEXT_MAX];
    char made[GWI_PLACE_TEXT_MAX], freed[GWI_PLACE_TEXT_MAX];
    gwi_call_text(call, failure->fn_name);
    gw_bytes_text(bytes, it->bytes);
    gwi_place(c, it->made_site, made);
    gwi_place(c, it->freed_site, freed);
    const char *made_at = made[0] == '\0' ? "" : " at ", *freed_at = freed[0] == '\0' ? "" : " at ";
    if (it->what != GW_TARGET_NULL && gwi_lost_after(c, it->t_made_ns))
        return; /* another block may have this address */
    switch (it->what) {
    case GW_TARGET_UNKNOWN:
        return;
    case GW_TARGET_NULL:
        gwi_headline(finding, "%s was called with a NULL address", call);
        gwi_evidence(finding, failure->t_ns, "driver", "%s is NULL", name);
        return;
    case GW_TARGET_FREED:
        gwi_headline(finding, "%s was called with memory that the program had already freed", call);
        gwi_measure(finding, it->t_freed_ns, "ledger", (double)it->bytes, "bytes",
                    "%s lies in a block of %s, allocated at %.2f s%s%s, and freed at %.2f s%s%s", name, bytes,
                    (double)it->t_made_ns / 1e9, made_at, made, (double)it->t_freed_ns / 1e9, freed_at, freed);
        gwi_next(finding, "Free the block after its last use, and forget its address then");
        return;
    case GW_TARGET_PAST_END:
        gwi_headline(finding, "%s was called with %s for a smaller block", call, gw_bytes_text(more, failure->arg[2]));
        gwi_measure(finding, it->t_made_ns, "ledger", (double)it->bytes, "bytes",
                    "%s lies %" PRIu64 " bytes into a block of %s, allocated at %.2f s%s%s", name, it->offset, bytes,
                    (double)it->t_made_ns / 1e9, made_at, made);
        gwi_next(finding, "Compare the size in this call with the size of the block");
        return;
    }
}

static void say_other_failure(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *root = c->root;
    char call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    gwi_call_text(call, root->fn_name);
    gwi_headline(finding, "%s returned %u (%s) at %.2f s; the reason is unknown", call, root->result,
                 gw_result_name(root->result), (double)root->t_ns / 1e9);
    gwi_where(finding, root->site, "the call that failed");
    if (root == c->oom && c->memory.known) {
        gwi_say_request(c, finding);
        gwi_say_sum(c, finding);
        gwi_say_live_holder(c, finding, "PyTorch's live memory");
        gwi_say_loop(c, finding);
    } else {
        gwi_evidence(finding, root->t_ns, "driver", "%s%s returned %u (%s)%s%s", call, gwi_at(c, root->site, at),
                     root->result, gw_result_name(root->result), root->text == NULL ? "" : ": ",
                     root->text == NULL ? "" : root->text);
        say_target(c, finding, root);
    }
    if (c->may_be_reported)
        gwi_evidence(finding, c->model->stderr_facts.exception.t_ns, "stderr",
                     "the exception was raised at another line of the same function: it may report this refusal, or "
                     "another error");
    gwi_say_consequences(c, finding, root);
}

static void rule_out_gpu(const gwi_case *c, gwi_finding *finding)
{
    const gw_model *model = c->model;
    uint64_t peak = 0;
    for (size_t i = 0; i < model->process_count; i++) {
        for (int device = 0; device < GW_MODEL_DEVICE_PLACES; device++)
            peak =
                model->process[i].usage[device].peak_bytes > peak ? model->process[i].usage[device].peak_bytes : peak;
    }
    if (!gwi_rule_out_gpu(c, finding, "no driver call failed"))
        return;
    if (c->handled == NULL) {
        char bytes[GW_BYTES_TEXT_MAX];
        gwi_rule_out(c, finding, GWI_OF_PROCESS,
                     "a shortage of GPU memory (no request was refused; at most %s was allocated)",
                     gw_bytes_text(bytes, peak));
    }
}

/* Return the judged process if it ended, but the command ended in another way; else NULL. */
static const gw_process *other_ended(const gwi_case *c)
{
    const gw_process *command = c->model->command;
    bool is_other = c->process != NULL && c->process != command && gw_died_badly(c->process) && command != NULL &&
                    command->exit_known && command->exit.status_known &&
                    (command->exit.exit_code != c->exit_code || command->exit.signal != c->signal);
    return is_other ? c->process : NULL;
}

static const char *who_ended(const gwi_case *c, char out[GWI_WHO_TEXT_MAX])
{
    const gw_process *other = other_ended(c);
    return other != NULL ? gwi_who_text(out, other) : "the program";
}

static void say_end(const gwi_case *c, gwi_finding *finding)
{
    char who[GWI_WHO_TEXT_MAX];
    uint64_t t_ns = other_ended(c) != NULL ? c->process->t_exit_ns : c->model->t_end_ns;
    if (!c->ended)
        gwi_evidence(finding, GWI_NO_TIME, "exit",
                     c->model->truncated ? "the recording stops before the end of the program"
                                         : "the end of the program was not observed");
    else if (c->signal != 0)
        gwi_evidence(finding, t_ns, "exit", "signal %d ended %s", c->signal, who_ended(c, who));
    else
        gwi_evidence(finding, t_ns, "exit", "%s exited with status %d", who_ended(c, who), c->exit_code);
}

static void say_unobserved(const gwi_case *c, gwi_finding *finding)
{
    gwi_headline(finding,
                 "not observed: the program used the GPU, or may have used it, in a way that gpuwhy cannot observe");
    gwi_say_unseen(c, finding);
    say_end(c, finding);
    gwi_say_last_words(c, finding);
    gwi_next(finding, "%s", how_to_see(c->model));
}

/* Report a hang whose reason is not proved. */
static void say_hang(const gwi_case *c, gwi_finding *finding)
{
    double for_s = (double)c->hang.hang->for_ns / 1e9;
    if (c->hang.kind == GWI_HANG_PEER) {
        gwi_headline(finding,
                     "no progress for %.1f s: a collective is waiting, perhaps for a rank that has not joined it",
                     for_s);
        gwi_say_waiting(c, finding);
        gwi_say_missing_ranks(c, finding);
        return;
    }
    if (c->hang.kind == GWI_HANG_JOB) {
        (void)gwi_say_still_job(c, finding);
        return;
    }
    gwi_headline(finding, "no driver call began or ended for %.1f s; the reason is unknown", for_s);
    gwi_say_threads(c, finding);
}

/* Report a bad or missing end that no failure explains. */
static void say_bad_end(const gwi_case *c, gwi_finding *finding)
{
    const char *gpu = gwi_gpu_is_ruled_out(c) ? "; the GPU is ruled out" : gwi_gpu_words(c);
    const gw_failure *last = gwi_ended_in_probe(c);
    char call[GWI_CALL_TEXT_MAX], who[GWI_WHO_TEXT_MAX];
    const char *why = gwi_said_nothing(c) ? " and printed no reason" : "; no reason was found";
    if (c->model->truncated)
        gwi_say_cut(c, finding);
    else if (!c->ended)
        gwi_headline(finding, "nothing has failed so far");
    else if (c->hang.hang != NULL && c->bad_end)
        gwi_headline(finding, "no progress for %.1f s before the program was ended; the reason is unknown",
                     (double)c->hang.hang->for_ns / 1e9);
    else if (c->signal != 0)
        gwi_headline(finding, "%s was ended by signal %d; the reason is unknown%s", who_ended(c, who), c->signal, gpu);
    else if (last != NULL)
        gwi_headline(finding, "%s exited with status %d after %s returned %u (%s)", who_ended(c, who), c->exit_code,
                     gwi_call_text(call, last->fn_name), last->result, gw_result_name(last->result));
    else
        gwi_headline(finding, "%s exited with status %d%s%s", who_ended(c, who), c->exit_code, why, gpu);
    if (last != NULL)
        gwi_where(finding, last->site, "the last driver call");
    if (c->hang.hang != NULL && c->bad_end && !c->model->truncated)
        gwi_say_threads(c, finding);
    say_end(c, finding);
    if (c->ended)
        gwi_say_last_words(c, finding);
    rule_out_gpu(c, finding);
}

/* Name a step that decides what the recording leaves open. */
static void say_what_decides(const gwi_case *c, gwi_finding *finding)
{
    if (finding->next.count > 0 || gw_model_meta(c->model, GW_META_SNAPSHOT) != NULL)
        return;
    if (c->root != NULL && c->root->is_allocation)
        gwi_next(finding, "Run it once with half the batch size: if it runs to its end, the batch does not fit; if it "
                          "only fails later, the program keeps memory");
    else if (c->root != NULL)
        gwi_next(finding, "Check the arguments of this call; what its result can mean: gpuwhy explain -m %s",
                 gw_result_name(c->root->result));
    else if (c->model->truncated)
        gwi_next(finding, "Read the machine's log of the time at which the recording stops (journalctl -k, dmesg -T)");
    else if (!c->ended || c->hang.hang != NULL)
        gwi_next(finding, "While it runs, look at what each of its threads waits for: gpuwhy poke");
    else if (c->signal == 0 && gwi_ended_in_probe(c) != NULL)
        gwi_next(finding, "Check the arguments of the last driver call; what its result can mean: gpuwhy explain -m %s",
                 gw_result_name(gwi_ended_in_probe(c)->result));
    else if (c->signal != 0)
        gwi_next(finding, "Run it once more with core dumps (ulimit -c unlimited): gpuwhy then names the place of the "
                          "crash");
    else
        gwi_next(finding,
                 "Let the program print why it exits; where it exits: gdb -ex 'catch syscall exit_group' -ex run");
}

/* Report that a framework refused a request although no driver call failed. Its message has the sums. */
static void say_full_pool(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    char wanted[GW_BYTES_TEXT_MAX];
    gwi_headline(finding, "the framework's pool had no room for %s, and what fills it is not known",
                 gw_bytes_text(wanted, memory->wanted_bytes));
    gwi_say_request(c, finding);
    gwi_say_pool_sums(c, finding);
    gwi_next(finding, "If this process built another model or ran another fit() before: drop it first (del model, "
                      "keras.utils.clear_session()), or run each in a process of its own");
    gwi_next(finding, "Run it once with half the batch size: if it runs to its end, the batch does not fit; if it only "
                      "fails later, the program keeps memory");
}

static void say_undetermined(const gwi_case *c, bool unobserved, gwi_finding *finding)
{
    if (gw_model_meta(c->model, GW_META_SNAPSHOT) != NULL) {
        if (gwi_are_saved_ranks(c))
            gwi_say_saved_ranks(c, finding);
        else
            gwi_say_snapshot(c, finding);
        return;
    }
    if (unobserved && c->root == NULL) {
        say_unobserved(c, finding);
        return;
    }
    if (c->start != NULL) {
        say_start(c, finding);
        say_end(c, finding);
        return;
    }
    if (c->memory.has_pool) {
        say_full_pool(c, finding);
        return;
    }
    if (c->root != NULL) {
        say_other_failure(c, finding);
        say_end(c, finding);
        gwi_say_last_words(c, finding);
        return;
    }
    if (c->hang.kind == GWI_HANG_PEER || c->hang.kind == GWI_HANG_JOB || (c->hang.hang != NULL && !c->ended)) {
        say_hang(c, finding);
        say_end(c, finding);
        return;
    }
    gwi_lacks lacks;
    if (c->ended && gwi_find_lacks(c, &lacks)) {
        say_lacks(&lacks, finding);
        say_end(c, finding);
        return;
    }
    say_bad_end(c, finding);
}

void gwi_say_undetermined(const gwi_case *c, bool unobserved, gwi_finding *finding)
{
    say_undetermined(c, unobserved, finding);
    say_what_decides(c, finding);
}

/* ---- advice ---- */

static bool advise_reuse(const gwi_case *c, const gw_process *process, gw_string_list *advice)
{
    const gw_model *model = c->model;
    char total[GW_BYTES_TEXT_MAX], peak[GW_BYTES_TEXT_MAX];
    for (int device = 0; device < GW_MODEL_DEVICES_MAX; device++) {
        const gw_usage *usage = &process->usage[device];
        uint64_t pooled = 0;
        /* with thousands of processes, most of them must not search all groups */
        bool has_pooled = usage->class_made[GW_CLASS_POOL] > 0;
        for (size_t i = 1; has_pooled && i < model->group_count; i++) {
            if (model->group[i].pid == process->pid && model->group[i].cls == GW_CLASS_POOL &&
                model->group[i].device == device)
                pooled += model->group[i].alloc_count * model->group[i].bytes;
        }
        if (pooled > 0 && pooled >= 2 * usage->peak_bytes)
            return gwi_list_addf(
                advice, "cached memory was reused: the pool allocated %s in total, but never more than %s at once",
                gw_bytes_text(total, pooled), gw_bytes_text(peak, usage->peak_bytes));
    }
    for (size_t i = model->allocator_count; i-- > 0;) {
        const gw_allocator_report *report = &model->allocator[i];
        if (report->pid != process->pid || report->is_oom || !report->has_field[GW_ALLOCATOR_RESERVED] ||
            !report->has_field[GW_ALLOCATOR_ALLOCATED_PEAK])
            continue;
        return gwi_list_addf(advice, "cached memory was reused: at most %s in use at once, %s reserved at the end",
                             gw_bytes_text(peak, report->field[GW_ALLOCATOR_ALLOCATED_PEAK]),
                             gw_bytes_text(total, report->field[GW_ALLOCATOR_RESERVED]));
    }
    return true;
}

static bool is_end_unknown(const gwi_case *c, uint32_t pid)
{
    const gw_process *process = gw_model_process(c->model, pid);
    return process != NULL && process != c->model->command && !(process->exit_known && process->exit.status_known);
}

const gw_failure *gwi_open_end(const gwi_case *c)
{
    for (size_t i = 0; i < c->model->failure_count; i++) {
        const gw_failure *failure = &c->model->failure[i];
        if (failure->is_allocation && !failure->is_echo && failure->recovery == GW_RECOVERED_NOT &&
            is_end_unknown(c, failure->pid))
            return failure;
    }
    return NULL;
}

/* A group of refused requests for memory that the program survived. One driver call at one line of one process made all
 * of them. */
typedef struct refusals {
    const gw_failure *first, *last;
    uint64_t count, bytes_min, bytes_max;
} refusals;

static bool was_outlived(const gwi_case *c, const gw_failure *failure)
{
    bool is_root = failure == c->root || failure == c->oom || failure == c->oom_last;
    bool may_be_why = !c->ended || c->bad_end;
    if (!failure->is_allocation || failure->is_echo || (may_be_why && (is_root || failure->after.null_used_at != 0)))
        return false;
    return !c->bad_end || gwi_is_outlived(c, failure);
}

static bool are_of_one_kind(const gwi_case *c, const gw_failure *a, const gw_failure *b)
{
    bool is_open = a->recovery == GW_RECOVERED_NOT && is_end_unknown(c, a->pid);
    return !is_open && a->pid == b->pid && a->fn == b->fn && a->site == b->site &&
           (a->bytes_wanted == 0) == (b->bytes_wanted == 0);
}

static refusals refusals_from(const gwi_case *c, size_t begin)
{
    const gw_failure *first = &c->model->failure[begin];
    refusals it = {first, first, first->repeat_count, first->bytes_wanted, first->bytes_wanted};
    for (size_t i = begin + 1; i < c->model->failure_count; i++) {
        const gw_failure *next = &c->model->failure[i];
        if (!was_outlived(c, next) || !are_of_one_kind(c, next, first))
            continue;
        it.last = next;
        it.count += next->repeat_count;
        it.bytes_min = next->bytes_wanted < it.bytes_min ? next->bytes_wanted : it.bytes_min;
        it.bytes_max = next->bytes_wanted > it.bytes_max ? next->bytes_wanted : it.bytes_max;
    }
    return it;
}

/* True if refusals_from() has already counted this failure together with an earlier failure. */
static bool is_of_earlier(const gwi_case *c, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (was_outlived(c, &c->model->failure[i]) && are_of_one_kind(c, &c->model->failure[i], &c->model->failure[at]))
            return true;
    return false;
}

static const char *how_outlived(const gwi_case *c, const gw_failure *failure)
{
    static const char *const how[] = {"the program still ended normally",
                                      "the same or a larger request succeeded later",
                                      "a smaller request and more work succeeded later",
                                      "much other work succeeded later", "thousands of other requests succeeded later"};
    if (failure->recovery != GW_RECOVERED_NOT)
        return how[failure->recovery];
    if (failure->after.worked)
        return "other work succeeded later";
    if (c->bad_end)
        return "the program continued";
    return how[0];
}

static bool advise_refusals(const gwi_case *c, const refusals *it, gw_string_list *advice)
{
    char most[GW_BYTES_TEXT_MAX], least[GW_BYTES_TEXT_MAX], call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    char sizes[2 * GW_BYTES_TEXT_MAX + 8] = "", when[64];
    double first_s = (double)it->first->t_ns / 1e9, last_s = (double)it->last->t_last_ns / 1e9;
    gwi_call_text(call, it->first->fn_name);
    gwi_at(c, it->first->site, at);
    gw_bytes_text(most, it->bytes_max);
    gw_bytes_text(least, it->bytes_min);
    if (it->bytes_max != 0 && strcmp(most, least) == 0)
        snprintf(sizes, sizeof sizes, "%s each, ", most);
    else if (it->bytes_max != 0)
        snprintf(sizes, sizeof sizes, "%s to %s, ", least, most);
    if (last_s - first_s < 0.01)
        snprintf(when, sizeof when, "at %.2f s", first_s);
    else
        snprintf(when, sizeof when, "from %.2f s to %.2f s", first_s, last_s);
    return gwi_list_addf(advice, "handled: %s%s was refused %s%" PRIu64 " times for lack of memory (%s%s); %s", call,
                         at, c->model->failures_dropped > 0 ? "at least " : "", it->count, sizes, when,
                         how_outlived(c, it->last));
}

static bool advise_refusal(const gwi_case *c, const gw_failure *failure, gw_string_list *advice)
{
    char bytes[GW_BYTES_TEXT_MAX], call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    const char *what = failure->bytes_wanted == 0 ? "an object" : gw_bytes_text(bytes, failure->bytes_wanted);
    gwi_call_text(call, failure->fn_name);
    gwi_at(c, failure->site, at);
    if (failure->recovery == GW_RECOVERED_NOT && is_end_unknown(c, failure->pid))
        return gwi_list_addf(advice,
                             "not handled: %s of %s%s was refused at %.2f s for lack of memory in pid %u, whose exit "
                             "status is unknown: check how it ended",
                             call, what, at, (double)failure->t_ns / 1e9, failure->pid);
    return gwi_list_addf(advice, "handled: %s of %s%s was refused at %.2f s for lack of memory; %s", call, what, at,
                         (double)failure->t_ns / 1e9, how_outlived(c, failure));
}

static bool advise_handled(const gwi_case *c, gw_string_list *advice)
{
    enum { SAID_MAX = 3 };
    bool good = true;
    size_t said = 0;
    for (size_t i = 0; i < c->model->failure_count && good && said < SAID_MAX; i++) {
        const gw_failure *failure = &c->model->failure[i];
        /* what gpuwhy injected has a line of its own */
        if (failure->injected || !was_outlived(c, failure) || is_of_earlier(c, i))
            continue;
        refusals it = refusals_from(c, i);
        good = it.count > 1 ? advise_refusals(c, &it, advice) : advise_refusal(c, failure, advice);
        said++;
    }
    return good;
}

/* Add advice about sleep: the clock of the recording stood still meanwhile, and a card may lose its contexts. */
static bool advise_sleep(const gwi_case *c, gw_string_list *advice)
{
    const gw_pair *last = NULL;
    uint64_t sum_ms = 0;
    for (size_t i = 0; i < c->model->fact_count; i++) {
        gw_fact_suspend said;
        if (c->model->fact[i].what != GW_FACT_SUSPENDED || c->model->fact[i].value == NULL)
            continue;
        last = &c->model->fact[i];
        gw_fact_suspend_read(gw_fact_text_of(last->value), &said);
        sum_ms += said.for_ms;
    }
    return last == NULL ||
           gwi_list_addf(advice,
                         "the machine slept for %.0f s during the run, last at %.2f s: the times here leave the "
                         "sleep out, and a GPU may lose its contexts by it",
                         (double)sum_ms / 1e3, (double)last->t_ns / 1e9);
}

static bool advise_losses(const gwi_case *c, gw_string_list *advice)
{
    uint64_t lost = 0;
    for (size_t i = 0; i < c->model->process_count; i++)
        lost += c->model->process[i].lost_events - c->model->process[i].is_quiet;
    if (lost > 0 &&
        !gwi_list_addf(advice, "%" PRIu64 " event%s lost because the buffer was full: the numbers are lower bounds",
                       lost, lost == 1 ? " was" : "s were"))
        return false;
    for (size_t i = 0; i < c->model->process_count; i++)
        if (c->model->process[i].is_several &&
            !gwi_list_addf(advice,
                           "several processes, each in a pid namespace of its own, had pid %u: their calls "
                           "cannot be told apart, so leaks and places in the program are unknown",
                           c->model->process[i].pid))
            return false;
    uint64_t damaged = c->model->damaged_count;
    if (damaged > 0 && !gwi_list_addf(advice, "the recording is damaged: %" PRIu64 " block%s skipped (%s)", damaged,
                                      damaged == 1 ? " was" : "s were", c->model->damaged_first))
        return false;
    if (c->model->truncated && gw_model_fact(c->model, GW_FACT_RECORDING_STOPPED) == NULL &&
        !gwi_list_addf(advice, "the end of the recording is missing: %s",
                       gwi_cut_of(c) == GWI_CUT_KILLED
                           ? "gpuwhy itself was killed, or could not write it"
                           : "the machine or gpuwhy itself died, or it could not be written"))
        return false;
    if (c->model->output_lost &&
        !gwi_list_addf(advice, "after gpuwhy had died, nothing read the program's stderr any more: its "
                               "BrokenPipeError follows from that"))
        return false;
    if (c->model->framework_mapped[GW_FRAMEWORK_TORCH] && !c->model->observer_attached &&
        c->model->allocator_count == 0 && gw_model_meta(c->model, "option.no_attach") == NULL)
        return gwi_list_addf(advice, "gpuwhy could not attach to PyTorch: its allocator's contents are unknown");
    return true;
}

/* Add advice about hangs that ended by themselves, and about hangs in a program that still ended well. */
static bool advise_hangs(const gwi_case *c, gw_string_list *advice)
{
    const gw_model *model = c->model;
    bool good = true;
    for (size_t i = 0; i < model->hang_count && good; i++) {
        const gw_hang *hang = &model->hang[i];
        gwi_hang last = hang->over ? (gwi_hang){0} : gwi_hang_of(model, hang->pid);
        if (last.hang == hang && (last.waiting != NULL || last.kind != GWI_HANG_NONE) && c->ended && !c->bad_end)
            good = gwi_list_addf(
                advice, "pid %u had made no GPU progress for %.1f s at %.2f s, but the program still ended normally",
                hang->pid, (double)hang->for_ns / 1e9, (double)hang->t_ns / 1e9);
        if (hang->over && hang->t_over_ns >= hang->t_ns)
            good = gwi_list_addf(advice, "pid %u made no GPU progress for %.1f s until %.2f s, and then continued",
                                 hang->pid, (double)(hang->t_over_ns - hang->t_ns + hang->for_ns) / 1e9,
                                 (double)hang->t_over_ns / 1e9);
    }
    return good;
}

bool gwi_say_advice(const gwi_case *c, gw_verdict_status status, gw_string_list *advice)
{
    bool good = true;
    if (status == GW_VERDICT_CLEAN) {
        for (size_t i = 0; i < c->model->process_count && good; i++)
            good =
                advise_reuse(c, &c->model->process[i], advice) && gwi_advise_peak(c, c->model->process[i].pid, advice);
        good = good && gwi_advise_order(c, advice);
    }
    return good && advise_hangs(c, advice) && advise_handled(c, advice) && gwi_advise_family(c, status, advice) &&
           advise_sleep(c, advice) && advise_losses(c, advice);
}
