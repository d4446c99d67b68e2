/* Judges runs of many processes with one verdict. The trouble of each process has a weight and a time:
 * - 4: a lost context, a full card or a hang; the time of the failed call, or the start of the hang
 * - 3: a full card, but nothing shows that the process ended by itself
 * - 2: the process died by itself; the time of the death
 * - 1: a refused call in a process that did not die by itself, or a wait for a peer
 *
 * The root is the earliest trouble of the highest weight. But an earlier death of a peer wins, because it may have cost
 * the survivor its context. If a launcher started all ranks again, the trouble of the earlier ranks did not end the
 * run. */
#include "gwi_elastic.h"
#include "gwi_family.h"
#include "gwi_hang.h"
#include "gwi_kin.h"
#include "gwi_roots.h"
#include "gwi_stall.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- trouble ---- */

enum { WEIGHT_MAX = 4 };
typedef struct trouble {
    const gw_process *process;
    unsigned weight; /* WEIGHT_MAX to 1 as described above; 0: no trouble */
    uint64_t t_ns;
} trouble;

/* True if the process's death is related to the end of the run. Call this only if it died without a failed call. Some
 * programs start a process only to check its exit status; such a death does not matter. */
static bool death_matters(const gw_model *model, const gwi_kin *kin, const gw_process *process)
{
    const uint64_t soon_ns = 10000000000u;
    const gw_process *command = model->command;
    if (process == command || process->exit.signal != 0 || gwi_kin_ended_after(kin, process) ||
        process->communicator_count > 0)
        return true; /* other ranks may wait in NCCL for this process */
    return command != NULL && gw_died_badly(command) && command->t_exit_ns >= process->t_exit_ns &&
           command->t_exit_ns - process->t_exit_ns < soon_ns;
}

bool gwi_may_only_have_filled(const gw_model *model, const gw_process *process)
{
    enum { KILL = 9 };
    bool may_have_lived = !(process->exit_known && process->exit.status_known) || process->exit.signal == KILL ||
                          gwi_was_told_to_end(process);
    gwi_roots roots = gwi_roots_of(model, process->pid);
    return roots.oom != NULL && roots.sticky == NULL && process != model->command && may_have_lived &&
           model->command != NULL && gw_died_badly(model->command);
}

static trouble trouble_of(const gw_model *model, const gwi_kin *kin, const gw_process *process, bool run_is_good)
{
    gwi_roots roots = gwi_roots_of(model, process->pid);
    const gw_failure *root = gwi_root_of(&roots);
    trouble none = {.process = process}, found = none;
    bool died = gw_died_badly(process), own_death = died && !gwi_was_told_to_end(process);
    if (gw_ended_well(process) && roots.sticky == NULL)
        return none; /* the process recovered, or its failure did not matter */
    if (process != model->command && gwi_kin_is_restarted(kin, model, process))
        return none;
    bool was_replaced = process != model->command && gwi_kin_successor(kin, process) != NULL;
    if (was_replaced && (run_is_good || gw_exception_kind_of(&model->stderr_facts) == GW_EXCEPTION_SCRIPT))
        return none; /* the failure of a replaced process did not end the run */
    if (root != NULL && root != roots.other) {
        found.weight = !run_is_good || roots.sticky != NULL || own_death ? WEIGHT_MAX : 0;
        found.weight -= found.weight > 0 && gwi_may_only_have_filled(model, process);
        found.t_ns = root->t_ns;
    } else if (own_death && (root != NULL || (!run_is_good && death_matters(model, kin, process)))) {
        found.weight = 2;
        found.t_ns = process->t_exit_ns;
    } else if (root != NULL && !run_is_good) {
        found.weight = 1;
        found.t_ns = root->t_ns;
    }
    gwi_hang hang = run_is_good ? (gwi_hang){0} : gwi_hang_of(model, process->pid);
    uint64_t since_ns = hang.hang == NULL ? 0 : hang.hang->t_ns - hang.hang->for_ns;
    unsigned weight = WEIGHT_MAX;
    if (hang.kind == GWI_HANG_PEER)
        weight = 1; /* a consequence of the trouble of a peer */
    else if (hang.kind == GWI_HANG_NONE)
        weight = 0;
    if (weight > found.weight || (weight == found.weight && since_ns < found.t_ns)) {
        found.weight = weight;
        found.t_ns = since_ns;
    }
    return found;
}

/* True if the death may be the reason of the later trouble. It is not if the process began its work after the death, as
 * the second program of a script; but a rank, or a process that hangs, may still wait for the one that died. */
static bool may_have_cost(const gw_model *model, const trouble *death, const trouble *later)
{
    const gw_process *process = later->process;
    bool may_have_met =
        process->t_seen_ns < death->t_ns || process->has_rank || gwi_hang_of(model, process->pid).kind != GWI_HANG_NONE;
    return death->t_ns < later->t_ns && may_have_met && death->process != model->command &&
           gwi_are_peers(death->process, process);
}

const gw_process *gwi_family_judge(const gw_model *model)
{
    trouble first[WEIGHT_MAX + 1] = {0};
    gwi_kin kin;
    gwi_kin_open(&kin, model);
    for (size_t i = 0; i < model->process_count; i++) {
        trouble found = trouble_of(model, &kin, &model->process[i], gw_run_ended_well(model));
        trouble *best = &first[found.weight];
        if (found.weight > 0 && (best->process == NULL || found.t_ns < best->t_ns))
            *best = found;
    }
    gwi_kin_close(&kin);
    const trouble *heavy = &first[first[WEIGHT_MAX].process != NULL ? WEIGHT_MAX : 3], *death = &first[2];
    if (heavy->process != NULL && death->process != NULL && may_have_cost(model, death, heavy))
        return death->process;
    for (size_t weight = WEIGHT_MAX; weight > 0; weight--) {
        if (first[weight].process != NULL)
            return first[weight].process;
    }
    if (model->command != NULL)
        return model->command;
    if (model->process_count > 0)
        return &model->process[0];
    return NULL;
}

uint64_t gwi_trouble_time(const gwi_case *c, unsigned *ret_weight)
{
    *ret_weight = 0;
    if (c->stall.kind != GWI_STALL_NONE) {
        *ret_weight = 1;
        return c->stall.t_ns;
    }
    if (c->root != NULL && (c->root == c->oom || c->root == c->sticky)) {
        *ret_weight = 2;
        return c->root->t_ns;
    }
    if (c->hang.kind != GWI_HANG_NONE) {
        *ret_weight = 1;
        return c->hang.hang->t_ns - c->hang.hang->for_ns;
    }
    if (c->is_left_over) {
        *ret_weight = 1;
        return c->root != NULL ? c->root->t_ns : c->process->t_raised_ns;
    }
    if (c->process == NULL || !gw_died_badly(c->process))
        return c->root != NULL ? c->root->t_ns : GWI_NO_TIME;
    *ret_weight = gwi_was_told_to_end(c->process) ? 0 : 1;
    return c->root != NULL ? c->root->t_ns : c->process->t_exit_ns;
}

/* ---- texts ---- */

char *gwi_chain_text(char out[GWI_CHAIN_TEXT_MAX], const gw_model *model, const gw_process *process)
{
    enum { GENERATIONS_MAX = 8, PID_DIGITS_MAX = 16 };
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; process != NULL && i < GENERATIONS_MAX && used + PID_DIGITS_MAX < GWI_CHAIN_TEXT_MAX; i++) {
        used +=
            (size_t)snprintf(out + used, GWI_CHAIN_TEXT_MAX - used, "%s%" PRIu32, i == 0 ? "" : " <- ", process->pid);
        uint32_t parent = process->fork_parent_pid != 0 ? process->fork_parent_pid : process->parent_pid;
        const gw_process *next = parent == 0 || parent == process->pid ? NULL : gw_model_process(model, parent);
        if (next == NULL && parent != 0 && model->command != process && used + PID_DIGITS_MAX < GWI_CHAIN_TEXT_MAX)
            snprintf(out + used, GWI_CHAIN_TEXT_MAX - used, " <- %" PRIu32, parent); /* a parent that is not recorded */
        process = next;
    }
    return out;
}

static void say_end_of(const gwi_case *c, gwi_finding *finding, const gw_process *process, uint64_t since_ns)
{
    char who[GWI_WHO_TEXT_MAX];
    double t = (double)process->t_exit_ns / 1e9, later = (double)(process->t_exit_ns - since_ns) / 1e9;
    const char *name = process == c->model->command ? "the command" : gwi_who_text(who, process);
    if (process->exit.signal != 0)
        gwi_consequence(finding, "%.3f s: %s was ended by signal %d, %.3f s later", t, name, process->exit.signal,
                        later);
    else
        gwi_consequence(finding, "%.3f s: %s exited with status %d, %.3f s later", t, name, process->exit.exit_code,
                        later);
}

/* List the failures of other processes after the root as consequences. */
static void say_followers(const gwi_case *c, gwi_finding *finding, uint64_t since_ns)
{
    enum { SHOWN_MAX = 8 };
    const gw_model *model = c->model;
    size_t shown = 0, more = 0;
    for (size_t i = 0; i < model->process_count; i++) {
        const gw_process *process = &model->process[i];
        char who[GWI_WHO_TEXT_MAX], call[GWI_CALL_TEXT_MAX];
        gwi_roots roots = gwi_roots_of(model, process->pid);
        const gw_failure *root = gwi_root_of(&roots);
        bool failed = root != NULL && root->t_ns >= since_ns;
        bool died = gw_died_badly(process) && process->t_exit_ns >= since_ns;
        if (process == c->process || (!failed && !died))
            continue;
        if (shown++ >= SHOWN_MAX) {
            more++;
            continue;
        }
        if (failed)
            gwi_consequence(finding, "%.3f s: %s: %s returned %u (%s)", (double)root->t_ns / 1e9,
                            gwi_who_text(who, process), gwi_call_text(call, root->fn_name), root->result,
                            gw_result_name(root->result));
        if (died)
            say_end_of(c, finding, process, since_ns);
    }
    if (more > 0)
        gwi_consequence(finding, "and %zu more process%s", more, more == 1 ? "" : "es");
    gwi_line_follows(finding, &model->stderr_facts.child_exception);
}

/* Return the time with which a consequence begins. Those without one come last. */
static double time_of(const char *line)
{
    char *end;
    double s = strtod(line, &end);
    return end == line ? HUGE_VAL : s;
}

static int by_time(const void *left, const void *right)
{
    double a = time_of(*(char *const *)left), b = time_of(*(char *const *)right);
    return a < b ? -1 : a > b;
}

static void say_unnoticed(const gwi_case *c, gwi_finding *finding)
{
    char who[GWI_WHO_TEXT_MAX];
    gwi_who_text(who, c->process);
    gwi_evidence(finding, c->model->command->t_exit_ns, "exit",
                 "the command still exited with status 0, and no other process replaced %s", who);
    gwi_next(finding, "Make the parent check how its children end (join(), then exitcode; wait()), and exit with an "
                      "error if one of them fails");
}

static void say_thread_death(const gwi_case *c, gwi_finding *finding)
{
    gwi_evidence(finding, c->model->stderr_facts.exception.t_ns, "stderr",
                 "this exception ended a thread, and the program still exited with status 0");
    gwi_next(finding, "Make the main thread check how its threads end (concurrent.futures, threading.excepthook), and "
                      "exit with an error if one of them fails");
}

/* Report processes whose deaths were seen in the same sample, because it is not known which process died first. */
static void say_tie(const gwi_case *c, gwi_finding *finding)
{
    const gw_process *process = c->process;
    for (size_t i = 0; c->root == NULL && gw_died_badly(process) && i < c->model->process_count; i++) {
        const gw_process *other = &c->model->process[i];
        char who[GWI_WHO_TEXT_MAX];
        if (other != process && other != c->model->command && gw_died_badly(other) && !gwi_was_told_to_end(other) &&
            other->t_exit_ns == process->t_exit_ns)
            gwi_evidence(finding, other->t_exit_ns, "exit", "%s ended at the same time and may have failed first",
                         gwi_who_text(who, other));
    }
}

/* Return the number of processes that do not belong to an earlier start of the ranks. */
static size_t count_current(const gw_model *model, const gwi_kin *kin)
{
    size_t count = 0;
    for (size_t i = 0; i < model->process_count; i++)
        count += !gwi_kin_is_restarted(kin, model, &model->process[i]);
    return count;
}

void gwi_say_family(const gwi_case *c, gwi_finding *finding)
{
    char who[GWI_WHO_TEXT_MAX], chain[GWI_CHAIN_TEXT_MAX];
    const gw_model *model = c->model;
    unsigned weight;
    uint64_t since_ns = gwi_trouble_time(c, &weight);
    if (c->is_thread_death)
        say_thread_death(c, finding);
    if (model->process_count < 2 || c->process == NULL || since_ns == GWI_NO_TIME)
        return;
    gwi_kin kin;
    gwi_kin_open(&kin, model);
    gwi_who_text(who, c->process);
    if (c->process != model->command && c->stall.kind == GWI_STALL_NONE)
        gwi_evidence(finding, since_ns, "exit",
                     "%s was the first of %zu recorded processes to fail (the process and its parents: %s)", who,
                     count_current(model, &kin), gwi_chain_text(chain, model, c->process));
    if (c->process != model->command && gw_died_badly(c->process) && c->process->exit.signal != 0)
        gwi_evidence(finding, c->process->t_exit_ns, "exit", "%s was ended by signal %d", who, c->process->exit.signal);
    else if (c->process != model->command && gw_died_badly(c->process))
        gwi_evidence(finding, c->process->t_exit_ns, "exit", "%s exited with status %d", who,
                     c->process->exit.exit_code);
    if (c->process != model->command && gw_run_ended_well(model))
        say_unnoticed(c, finding);
    say_tie(c, finding);
    gwi_say_restarts(c, &kin, finding);
    gwi_kin_close(&kin);
    if (c->stall.kind == GWI_STALL_NONE)
        gwi_waiting_follows(&c->ranks, c->process->pid, finding);
    say_followers(c, finding, since_ns);
    if (c->ranks.count > 0 && finding->consequences.count > 1)
        qsort(finding->consequences.item, finding->consequences.count, sizeof(char *), by_time);
}

/* ---- advice ---- */

bool gwi_advise_family(const gwi_case *c, gw_verdict_status status, gw_string_list *advice)
{
    const gw_model *model = c->model;
    bool good = true;
    gwi_kin kin;
    gwi_kin_open(&kin, model);
    bool is_said = status == GW_VERDICT_FAULT && c->process != NULL && c->process->has_restart;
    good = is_said || gwi_advise_restarts(model, &kin, advice);
    for (size_t i = 0; i < model->process_count && good; i++) {
        const gw_process *process = &model->process[i];
        char who[GWI_WHO_TEXT_MAX], next_who[GWI_WHO_TEXT_MAX];
        gwi_roots roots = gwi_roots_of(model, process->pid);
        bool may_be_replaced = process != model->command && !gwi_kin_is_restarted(&kin, model, process);
        const gw_process *next = may_be_replaced ? gwi_kin_successor(&kin, process) : NULL;
        char line[256];
        if (next != NULL && (roots.sticky != NULL || roots.oom != NULL || gw_died_badly(process))) {
            snprintf(line, sizeof line, "%s failed and ended at %.2f s, and %s replaced it%s",
                     gwi_who_text(who, process), (double)process->t_exit_ns / 1e9, gwi_who_text(next_who, next),
                     gw_ended_well(next) ? " and succeeded" : "; how that one ended was not observed");
            good = gwi_list_add(advice, line);
        }
        if (good && process->alive_at_end) {
            snprintf(line, sizeof line,
                     "%s was still running when the command ended at %.2f s: gpuwhy did not record what it did later",
                     gwi_who_text(who, process), (double)model->t_end_ns / 1e9);
            good = gwi_list_add(advice, line);
        }
    }
    gwi_kin_close(&kin);
    return good;
}
