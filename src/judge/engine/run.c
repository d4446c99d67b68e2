/* Sets what a verdict says about the run itself, by which the recordings of one job are put in order. */
#include "gwi_alone.h"
#include "gwi_cut.h"
#include "gwi_family.h"
#include "gwi_run.h"

#include "gw_array.h"
#include "gw_rank_variables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool meta_number(const gw_model *model, const char *key, uint64_t *ret_value)
{
    const char *value = gw_model_meta(model, key);
    if (value == NULL || *value < '0' || *value > '9')
        return false;
    *ret_value = strtoull(value, NULL, 10);
    return true;
}

static bool copy_meta(const gw_model *model, const char *key, char **ret_copy)
{
    const char *value = gw_model_meta(model, key);
    return value == NULL || (*ret_copy = strdup(value)) != NULL;
}

/* ---- ranks ---- */

/* Read a number of a launcher from the environment of gpuwhy itself. */
static bool variable_number(const gw_model *model, const char *name, uint32_t *ret_value)
{
    char key[64];
    uint64_t value = 0;
    if (name == NULL)
        return false;
    snprintf(key, sizeof key, "env.%s", name);
    bool is_set = meta_number(model, key, &value) && value <= INT32_MAX;
    if (is_set)
        *ret_value = (uint32_t)value;
    return is_set;
}

/* Use the rank of gpuwhy itself if no process of the run has one: it may have failed before its first driver call. */
static bool fill_own_rank(const gw_model *model, gw_verdict_run *run)
{
    static const struct launcher {
        const char *rank, *of;
    } launchers[] = {
#define GW_X(rank, of, local) {rank, of},
        GW_RANK_VARIABLES(GW_X)
#undef GW_X
    };
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        if (!variable_number(model, launchers[i].rank, &run->rank))
            continue;
        run->has_rank = true;
        (void)variable_number(model, launchers[i].of, &run->world);
        run->ranks = malloc(sizeof *run->ranks);
        if (run->ranks != NULL)
            run->ranks[run->rank_count++] = run->rank;
        return run->ranks != NULL;
    }
    return true;
}

/* List the ranks of the processes. A launcher of one node may itself be a rank of a smaller job (one launcher on each
 * node), so only the ranks of the largest job are listed. */
static bool fill_ranks(const gw_model *model, gw_verdict_run *run)
{
    bool any = false;
    for (size_t i = 0; i < model->process_count; i++) {
        const gw_process *process = &model->process[i];
        any = any || process->has_rank;
        if (process->has_rank && process->has_world && process->world > run->world)
            run->world = process->world;
    }
    for (size_t i = 0; i < model->process_count; i++) {
        const gw_process *process = &model->process[i];
        if (!process->has_rank || (process->has_world ? process->world : 0) != run->world)
            continue;
        if (!gw_array_more(&run->ranks, run->rank_count, sizeof *run->ranks))
            return false;
        run->ranks[run->rank_count++] = process->rank;
    }
    return any || fill_own_rank(model, run);
}

/* The judged process may have no rank, such as a shell around the program. If the run has one rank, it is that. */
static void take_only_rank(gw_verdict_run *run)
{
    for (size_t i = 0; i < run->rank_count; i++) {
        if (run->has_rank || run->ranks[i] != run->ranks[0])
            return;
    }
    if (run->rank_count > 0) {
        run->has_rank = true;
        run->rank = run->ranks[0];
    }
}

/* ---- the job ---- */

static bool fill_job(const gw_model *model, gw_verdict_run *run)
{
    const char *job = gw_model_meta(model, "env.SLURM_JOB_ID"), *step = gw_model_meta(model, "env.SLURM_STEP_ID");
    const char *again = gw_model_meta(model, "env.SLURM_RESTART_COUNT"); /* set if the job was requeued */
    gw_text text = {0};
    if (job == NULL || job[0] == '\0')
        return true;
    gw_text_addf(&text, "slurm %.64s.%.64s", job, step == NULL ? "batch" : step);
    if (again != NULL && strcmp(again, "0") != 0)
        gw_text_addf(&text, ", restart %.64s", again);
    run->job = text.failed ? NULL : strdup(gw_text_str(&text));
    gw_text_free(&text);
    return run->job != NULL;
}

/* True if, by its own account, the run failed because of another rank: it waits for one, or its last message names one.
 */
static bool blames_peer(const gwi_case *c, const gw_verdict *verdict)
{
    const char *peer = gwi_causes[GWI_CAUSE_PLACE_peer_died]->id;
    if (verdict->cause != NULL)
        return strcmp(verdict->cause, peer) == 0;
    bool is_named = verdict->alternative_count > 0 && strcmp(verdict->alternatives[0].cause, peer) == 0;
    return c->root == NULL && (c->hang.kind == GWI_HANG_PEER || is_named);
}

/* Look up the recorded hash of the file of the user's frame. */
static void find_sha256(const gw_model *model, gw_where *where)
{
    gw_fact_source source;
    const char *file = where->user < where->frame_count ? where->frame[where->user].file : NULL;
    for (size_t i = 0; file != NULL && i < model->fact_count; i++) {
        if (model->fact[i].what != GW_FACT_SOURCE)
            continue;
        gw_fact_source_read(gw_fact_text_of(model->fact[i].value), &source);
        if (gw_fact_text_is(source.path, file))
            gw_fact_text_copy(where->sha256, sizeof where->sha256, source.sha256);
    }
}

/* True if the user pressed Ctrl-C in the program's terminal, that ended the program, and nothing else is known to be
 * wrong: no hang, no failure, and no work that the program never waits for. */
static bool is_interrupt(const gwi_case *c, const gw_verdict *verdict)
{
    enum { INTERRUPT = 2, TIDY_UP_S = 30 };
    gw_fact_stop stop;
    const gw_pair *pair = gw_model_fact(c->model, GW_FACT_STOP_SIGNAL);
    if (pair == NULL || verdict->cause == NULL || strcmp(verdict->cause, "killed-by-scheduler-or-user") != 0)
        return false;
    gw_fact_stop_read(gw_fact_text_of(pair->value), &stop);
    return stop.signal == INTERRUPT && !stop.has_pid && gw_fact_text_is(stop.from, "the terminal") &&
           stop.early_s < TIDY_UP_S && verdict->certainty >= GW_SUPPORTED && verdict->alternative_count == 0 &&
           c->root == NULL && !verdict->is_hang && !gwi_is_any_alone(c);
}

bool gwi_fill_run(const gwi_case *c, gw_verdict *verdict)
{
    const gw_model *model = c->model;
    gw_verdict_run *run = &verdict->run;
    uint64_t error_us, synchronised = 0;
    run->owner = model->owner;
    verdict->is_interrupt = is_interrupt(c, verdict);
    if (verdict->where != NULL)
        find_sha256(model, verdict->where);
    run->has_start = meta_number(model, "start_realtime_ns", &run->start_realtime_ns);
    run->clock_known = meta_number(model, "clock.error_max_us", &error_us);
    if (run->clock_known)
        run->clock_error_ns = error_us < UINT64_MAX / 1000 ? error_us * 1000 : UINT64_MAX;
    run->clock_synchronised = meta_number(model, "clock.synchronised", &synchronised) && synchronised != 0;
    run->t_trouble_ns = gwi_trouble_time(c, &run->trouble_weight);
    run->has_trouble = verdict->status != GW_VERDICT_CLEAN && run->t_trouble_ns != GWI_NO_TIME;
    run->is_cut = model->truncated;
    run->cut = model->truncated ? gwi_cut_text(gwi_cut_of(c)) : NULL;
    run->is_damaged = model->damaged_count > 0;
    if (blames_peer(c, verdict))
        run->trouble_weight = 0;
    if (c->process != NULL) {
        run->pid = c->process->pid;
        run->has_rank = c->process->has_rank;
        run->rank = c->process->rank;
    }
    if (!fill_ranks(model, run))
        return false;
    take_only_rank(run);
    return fill_job(model, run) && copy_meta(model, "host", &run->host) && copy_meta(model, "cwd", &run->cwd) &&
           (!meta_number(model, "start_monotonic_ns", &run->start_monotonic_ns) ||
            copy_meta(model, "boot_id", &run->boot_id));
}

/* ---- verdicts from different evidence ---- */

static int strength_of(const gw_verdict *verdict)
{
    static const char *const waits[] = {"peer-died", "straggler", "collective-desync", "slow-phase-timeout",
                                        "network-or-ib-fault"};
    if (verdict->status != GW_VERDICT_FAULT)
        return verdict->status == GW_VERDICT_CLEAN;
    if (verdict->certainty < GW_SUPPORTED)
        return 2;
    if (strcmp(verdict->cause, "killed-by-scheduler-or-user") == 0)
        return 3;
    return GW_IS_ONE_OF(verdict->cause, waits) ? 4 : 5;
}

size_t gw_verdict_best(const gw_verdict *const *verdict, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        best = strength_of(verdict[i]) > strength_of(verdict[best]) ? i : best;
    return best;
}
