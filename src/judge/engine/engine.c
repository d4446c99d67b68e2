/* The engine lets every cause judge a case, and takes the most certain one. A text log is a case without events. The
 * verdict is:
 * - a fault, if a cause is at least supported;
 * - no fault, if the run ended well, no context was lost, and no process died because of the GPU (useful facts become
 *   advice);
 * - otherwise undetermined, with a list of what is ruled out. */
#include "gw_text.h"
#include "gwi_alone.h"
#include "gwi_applies.h"
#include "gwi_cause.h"
#include "gwi_coverage.h"
#include "gwi_crash.h"
#include "gwi_family.h"
#include "gwi_healthy.h"
#include "gwi_interventions.h"
#include "gwi_kept.h"
#include "gwi_known.h"
#include "gwi_leaks.h"
#include "gwi_log.h"
#include "gwi_order.h"
#include "gwi_output.h"
#include "gwi_peak.h"
#include "gwi_rehearsal.h"
#include "gwi_run.h"
#include "gwi_saved_ranks.h"
#include "gwi_start.h"
#include "gwi_whatif.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const gw_cause_info *gw_causes(size_t *ret_count)
{
    static gw_cause_info infos[GWI_CAUSE_COUNT];
    for (size_t i = 0; i < GWI_CAUSE_COUNT; i++) { /* every call of gw_causes() writes the same values */
        const gw_cause *cause = gwi_causes[i];
        infos[i] = (gw_cause_info){.id = cause->id,
                                   .summary = cause->summary,
                                   .proof = cause->proof,
                                   .fixes = cause->fixes[GW_FRAMEWORK_RAW],
                                   .fixes_for = {{"PyTorch", cause->fixes[GW_FRAMEWORK_TORCH]},
                                                 {"TensorFlow", cause->fixes[GW_FRAMEWORK_TENSORFLOW]},
                                                 {"JAX", cause->fixes[GW_FRAMEWORK_JAX]}},
                                   .from_recording = cause->judge != NULL || cause->advise != NULL,
                                   .is_advice = cause->judge == NULL && cause->advise != NULL,
                                   .again = gwi_causes_again[i],
                                   .acts = gwi_causes_acts[i]};
    }
    *ret_count = GWI_CAUSE_COUNT;
    return infos;
}

const gw_cause_info *gw_cause_find(const char *id)
{
    size_t count = 0;
    const gw_cause_info *causes = gw_causes(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(causes[i].id, id) == 0)
            return &causes[i];
    }
    return NULL;
}

/* ---- the run and its GPUs ---- */

static bool fill_gpus(const gw_model *model, gw_verdict *verdict)
{
    verdict->gpus = calloc(GW_MODEL_DEVICES_MAX, sizeof *verdict->gpus);
    if (verdict->gpus == NULL)
        return false;
    for (size_t i = 0; i < GW_MODEL_DEVICES_MAX; i++) {
        const gw_device *device = &model->device[i];
        if (!device->known)
            continue;
        struct gw_verdict_gpu *gpu = &verdict->gpus[verdict->gpu_count++];
        gpu->name = strdup(device->name == NULL ? "GPU" : device->name);
        gpu->bytes_total = device->has_total ? device->bytes_total : 0;
        gpu->bytes_limit = device->has_limit ? device->bytes_limit : 0;
        gpu->is_virtual = model->is_virtual;
        if (gpu->name == NULL)
            return false;
    }
    return true;
}

static bool is_snapshot(const gw_model *model)
{
    return gw_model_meta(model, GW_META_SNAPSHOT) != NULL;
}

static bool fill_program(const gwi_case *c, gw_verdict *verdict)
{
    const gw_model *model = c->model;
    if (gwi_is_log(c))
        return gwi_log_fill(c->text, c->said, verdict);
    for (size_t i = 0; i < model->meta_count; i++) {
        if (model->meta[i].key != NULL && strcmp(model->meta[i].key, "argv") == 0 &&
            !gwi_list_add(&verdict->argv, model->meta[i].value))
            return false;
    }
    const gw_process *command = model->command;
    if (command != NULL && command->exit_known && command->exit.status_known && model->asked_phase == NULL) {
        verdict->exit_known = true;
        verdict->exit_code = command->exit.exit_code;
        verdict->signal = command->exit.signal;
    }
    verdict->seconds = (double)model->t_end_ns / 1e9;
    if (is_snapshot(model)) {
        const char *kind = gw_model_meta(model, GW_META_RANKS);
        if (!gw_str_copy(gw_model_meta(model, GW_META_SNAPSHOT), &verdict->snapshot) ||
            !gw_str_copy(kind == NULL ? "PyTorch memory snapshot" : kind, &verdict->snapshot_kind))
            return false;
    }
    return fill_gpus(model, verdict);
}

/* ---- judging the causes ---- */

typedef struct answer {
    const gw_cause *cause;
    gw_certainty certainty;
    bool by_text; /* the program's output alone shows the cause with this certainty */
    gwi_finding finding;
} answer;

static bool is_incomplete(const gwi_case *c)
{
    return !gwi_is_whole(c->model) || (c->process != NULL && (c->process->lost_events > 0 || c->process->is_several));
}

static gw_certainty most_certain(const answer *answers, size_t count)
{
    gw_certainty most = GW_CERTAINTY_NONE;
    for (size_t i = 0; i < count; i++)
        most = answers[i].certainty > most ? answers[i].certainty : most;
    return most;
}

/* True if a process whose driver calls were not recorded may have replaced the judged one. Its parent cannot: a
 * debugger, for example, has the driver's file open. */
static bool is_replacement_unseen(const gwi_case *c)
{
    const gw_pair *fact = NULL;
    while ((fact = gwi_unseen(c->model, fact)) != NULL) {
        unsigned pid;
        bool is_driver = fact->what != GW_FACT_UNOBSERVED_CHILD && fact->what != GW_FACT_UNOBSERVED_NESTED;
        bool is_parent =
            c->process != NULL && sscanf(fact->value, "pid %u ", &pid) == 1 && pid == c->process->parent_pid;
        if (is_driver && !is_parent)
            return true;
    }
    return false;
}

/* True if the virtual card refused what the CUDA runtime needs. Nothing that the program prints afterwards shows
 * another cause. */
static bool is_refused_by_card(const gwi_case *c)
{
    gwi_lacks lacks;
    return gwi_find_lacks(c, &lacks) && lacks.private_tables;
}

/* Return the highest certainty that any cause may have, because what was not observed could contradict it. */
static gw_certainty limit_of(const gwi_case *c)
{
    bool is_cut = is_refused_by_card(c) || !gwi_is_whole(c->model),
         is_blind = is_cut || gwi_unseen_driver(c->model) != NULL;
    /* The program may have gone on after what failed, or replaced the process that failed. */
    bool may_go_on =
        c->model->truncated && c->model->command == NULL && (c->sticky == NULL || c->model->process_count > 1);
    may_go_on = may_go_on || ((is_cut || is_replacement_unseen(c)) && gw_run_ended_well(c->model));
    /* Another process, whose calls are missing, may be the one that failed. */
    bool may_be_other = is_blind && c->process != NULL && gwi_may_only_have_filled(c->model, c->process);
    if ((is_blind && c->root == NULL) || may_go_on || may_be_other || c->is_root_unknown)
        return GW_HYPOTHESIS;
    /* A snapshot covers only one allocator: the driver and the card are missing. */
    return is_blind || is_incomplete(c) || is_snapshot(c->model) || c->is_root_unsure ? GW_SUPPORTED : GW_ESTABLISHED;
}

/* Return the highest certainty of a cause beside more special ones, which have at most the certainty `special`. */
static gw_certainty limit_of_remainder(const gwi_case *c, gw_certainty special)
{
    if (special == GW_ESTABLISHED)
        return GW_CERTAINTY_NONE;
    bool is_unsure = special == GW_HYPOTHESIS && gw_model_meta(c->model, "option.no_sites") != NULL;
    return special == GW_SUPPORTED || is_unsure ? GW_HYPOTHESIS : GW_ESTABLISHED;
}

static void limit(answer *it, gw_certainty most)
{
    it->certainty = it->certainty > most ? most : it->certainty;
}

/* Judge a cause by the facts of the recording, or by the program's output if that is more certain. If the output shows
 * another cause, how the program ended is no explanation. */
static answer ask(const gwi_case *c, const gw_cause *cause)
{
    enum { ABORTED = 6 };
    answer facts = {.cause = cause, .finding.cause = cause},
           text = {.cause = cause, .by_text = true, .finding.cause = cause};
    if (cause->judge != NULL && !gwi_is_log(c))
        facts.certainty = cause->judge(c, &facts.finding);
    gwi_where_told(c, &facts.finding);
    bool by_itself = c->signal == 0 || c->signal == ABORTED;
    if (by_itself && !facts.finding.refutes_text && gwi_is_told_another(c, cause) && gwi_is_just_the_end(cause->id) &&
        facts.certainty > GW_HYPOTHESIS)
        facts.certainty = GW_HYPOTHESIS;
    if (!facts.finding.refutes_text)
        text.certainty = gwi_judge_by_text(c, &text.finding);
    bool is_text = text.certainty > facts.certainty;
    facts.by_text = facts.certainty == text.certainty && facts.certainty != GW_CERTAINTY_NONE;
    gwi_finding_free(is_text ? &facts.finding : &text.finding);
    return is_text ? text : facts;
}

static void ask_all(const gwi_case *c, answer *answers)
{
    gw_certainty most = limit_of(c);
    bool is_unsensed = gw_model_meta(c->model, "option.no_sense") != NULL;
    bool is_decided = false; /* by a cause that is_sole */
    for (size_t i = 0; i < GWI_CAUSE_COUNT; i++) {
        answers[i] = (answer){.cause = gwi_causes[i]};
        if (is_decided)
            continue;
        answers[i] = ask(c, gwi_causes[i]);
        if (gwi_causes[i]->is_remainder)
            limit(&answers[i], limit_of_remainder(c, most_certain(answers, i)));
        if (is_unsensed && gwi_causes[i]->depth > GWI_IS_ROOT)
            limit(&answers[i], GW_SUPPORTED); /* only samples show a broken card or a full /dev/shm */
        limit(&answers[i], most);
        is_decided = gwi_causes[i]->is_sole && answers[i].certainty >= GW_SUPPORTED;
    }
}

/* True if `it` explains the end better than `other`. Equally certain facts are better than the program's output, but a
 * mere hypothesis from facts is not. Otherwise the earlier cause is better. */
static bool is_better(const answer *it, const answer *other)
{
    if (it->certainty != other->certainty || it->certainty == GW_CERTAINTY_NONE)
        return it->certainty > other->certainty;
    return it->certainty >= GW_SUPPORTED ? !it->by_text && other->by_text : it->by_text && !other->by_text;
}

/* Return the best answer, or NULL if none is certain enough for a verdict. The program's output may be a hypothesis. */
static answer *best_of(answer *answers)
{
    answer *best = &answers[0];
    for (size_t i = 1; i < GWI_CAUSE_COUNT; i++) {
        if (is_better(&answers[i], best))
            best = &answers[i];
    }
    return best->certainty >= GW_SUPPORTED || best->by_text ? best : NULL;
}

static bool take_finding(const gwi_case *c, gw_verdict *verdict, gwi_finding *finding)
{
    if (gwi_is_log(c))
        return gwi_log_take(c->text, c->said, finding, verdict);
    return !finding->failed && gwi_take_where(c, finding, verdict) && gwi_take_words(finding, verdict);
}

/* Name the judged process in the headline, unless the process is the command or is already named there. */
static bool name_process(const gwi_case *c, gwi_finding *finding)
{
    char pid[24], who[GWI_WHO_TEXT_MAX];
    if (c->process == NULL || c->model->process_count < 2 || c->process == c->model->command ||
        c->stall.kind != GWI_STALL_NONE || c->hang.kind == GWI_HANG_JOB || gwi_are_saved_ranks(c))
        return true;
    snprintf(pid, sizeof pid, "pid %" PRIu32, c->process->pid);
    if (strstr(gw_text_str(&finding->headline), pid) != NULL)
        return true;
    char *headline = strdup(gw_text_str(&finding->headline));
    if (headline != NULL)
        gwi_headline(finding, "%s: %s", gwi_who_text(who, c->process), headline);
    free(headline);
    return headline != NULL;
}

/* Add what can be done. An exception of the program may have its own advice, by its words. */
static bool add_fixes(const gwi_case *c, gw_verdict *verdict, const answer *best, bool is_replayed)
{
    bool replaces = false;
    gw_framework words = best->finding.fixes_for != GW_FRAMEWORK_RAW ? best->finding.fixes_for : c->framework;
    if (c->text != NULL && strcmp(best->cause->id, "script-exception") == 0 &&
        !gwi_log_add_advice(c->text, best->cause->id, &replaces, &verdict->next))
        return false;
    return replaces || gwi_add_fixes_for(c, &verdict->next, best->cause, words, is_replayed);
}

static bool take_answer(const gwi_case *c, gw_verdict *verdict, answer *best)
{
    verdict->status = GW_VERDICT_FAULT;
    verdict->cause = best->cause->id;
    verdict->certainty = best->certainty;
    gwi_say_phase(c, &best->finding);
    gwi_say_family(c, &best->finding);
    gwi_say_null_used(c, &best->finding);
    if (!name_process(c, &best->finding))
        return false;
    bool is_replayed = best->cause->replay != GWI_NO_REPLAY &&
                       gwi_say_whatif(c, &best->finding, best->cause->replay == GWI_REPLAY_OF_LEAK);
    if (best->by_text)
        return gwi_log_take(c->text, c->said, &best->finding, verdict);
    return take_finding(c, verdict, &best->finding) && add_fixes(c, verdict, best, is_replayed);
}

/* Drop what an established cause explains or excludes, and what only words suggest. */
static void drop_explained(answer *answers, const answer *best)
{
    for (size_t i = 0; i < GWI_CAUSE_COUNT && best->certainty == GW_ESTABLISHED; i++) {
        const gw_cause *cause = answers[i].cause;
        if (&answers[i] == best)
            continue;
        bool is_excluded = best->cause->excludes != NULL && strcmp(best->cause->excludes, cause->id) == 0;
        if (is_excluded || answers[i].by_text || cause->depth > best->cause->depth)
            answers[i].certainty = GW_CERTAINTY_NONE;
    }
}

/* An established cause allows no other explanation, so a verdict with alternatives is supported at most. */
static void heed_alternatives(gw_verdict *verdict)
{
    if (verdict->alternative_count > 0 && verdict->certainty == GW_ESTABLISHED)
        verdict->certainty = GW_SUPPORTED;
}

static bool add_alternatives(const gwi_case *c, gw_verdict *verdict, const answer *answers, const answer *best)
{
    bool is_sure = best != NULL && best->certainty == GW_ESTABLISHED;
    if (c->said != NULL && !is_sure && !gwi_log_add_alternatives(verdict, c->said))
        return false;
    for (size_t i = 0; i < GWI_CAUSE_COUNT; i++) {
        /* An alternative is supported at most: only the cause that the verdict names can be established. */
        gw_certainty certainty = answers[i].certainty > GW_SUPPORTED ? GW_SUPPORTED : answers[i].certainty;
        if (&answers[i] != best && certainty != GW_CERTAINTY_NONE &&
            !gwi_add_alternative(verdict, answers[i].cause->id, certainty))
            return false;
    }
    if (verdict->certainty == GW_ESTABLISHED)
        return true; /* by evidence that the program survived every refused request */
    if ((c->handled != NULL || (c->said == NULL && c->model->stderr_facts.oom.seen)) &&
        !(best != NULL && best->cause->is_sole) && (verdict->cause == NULL || !gw_begins(verdict->cause, "gpu-oom")))
        return gwi_add_alternative(verdict, gwi_causes[GWI_CAUSE_PLACE_gpu_oom_capacity]->id, GW_HYPOTHESIS);
    return true;
}

/* ---- the verdict ---- */

/* True if the run ended without a failure and freed no memory that was still in use. Freeing memory too early can
 * silently make results wrong. */
static bool is_healthy(const gwi_case *c)
{
    gwi_race race;
    if (gwi_rehearsal_was_ended(c->model))
        return true;
    return c->ended && !c->bad_end && c->sticky == NULL && gwi_find_race(c, &race) < GW_SUPPORTED;
}

static bool judge_fault(const gwi_case *c, gw_verdict *verdict)
{
    answer answers[GWI_CAUSE_COUNT];
    ask_all(c, answers);
    answer *best = best_of(answers);
    bool is_refused = is_refused_by_card(c);
    if (is_refused && best != NULL && best->certainty == GW_HYPOTHESIS)
        best = NULL;
    bool good = true;
    if (best != NULL) {
        drop_explained(answers, best);
        good = take_answer(c, verdict, best) && add_alternatives(c, verdict, answers, best);
    } else {
        gwi_finding finding = {0};
        bool is_clean = gwi_is_log(c) && c->said->good != NULL;
        if (gwi_is_log(c))
            gwi_log_say(c->text, c->said, &finding);
        else
            gwi_say_undetermined(c, gwi_unseen_driver(c->model) != NULL, &finding);
        if (c->ranks.count > 0) { /* which rank it was, and which others waited for it */
            gwi_say_family(c, &finding);
            good = name_process(c, &finding);
        }
        verdict->status = is_clean ? GW_VERDICT_CLEAN : GW_VERDICT_UNDETERMINED;
        verdict->certainty = is_clean ? GW_SUPPORTED : GW_CERTAINTY_NONE;
        good = good && take_finding(c, verdict, &finding);
        gwi_finding_free(&finding);
        good = good && (is_refused || add_alternatives(c, verdict, answers, NULL));
    }
    for (size_t i = 0; i < GWI_CAUSE_COUNT; i++)
        gwi_finding_free(&answers[i].finding);
    return good;
}

/* List possible races of a clean run as alternatives, because a race may have an effect only in some runs. */
static bool add_hypotheses(const gwi_case *c, gw_verdict *verdict)
{
    gwi_race race;
    gwi_host_read read;
    if (gwi_find_race(c, &race) != GW_CERTAINTY_NONE &&
        !gwi_add_alternative(verdict, gwi_causes[GWI_CAUSE_PLACE_cross_stream_use_after_free]->id, GW_HYPOTHESIS))
        return false;
    return gwi_find_host_read(c, &read) == GW_CERTAINTY_NONE ||
           gwi_add_alternative(verdict, gwi_causes[GWI_CAUSE_PLACE_host_read_not_ordered]->id, GW_HYPOTHESIS);
}

static bool judge_healthy(const gwi_case *c, gw_verdict *verdict)
{
    gwi_finding finding = {0};
    bool no_runtime = is_refused_by_card(c); /* even if the program ignored it */
    bool unseen = gwi_unseen_driver(c->model) != NULL;
    if (unseen || no_runtime) {
        verdict->status = GW_VERDICT_UNDETERMINED;
        gwi_say_undetermined(c, unseen, &finding);
    } else if (gwi_observed_count(c->model) == 0 || !gwi_is_whole(c->model)) {
        verdict->status = GW_VERDICT_UNDETERMINED;
        gwi_say_unseen_run(c, &finding);
    } else {
        verdict->status = GW_VERDICT_CLEAN;
        /* Only the output shows that an exception ended a thread. If some output was recorded, other output is still
         * missing. */
        bool is_unread = gw_model_fact(c->model, GW_FACT_STDERR_NOT_RECORDED) != NULL;
        bool partly = is_unread || is_incomplete(c) || gwi_open_end(c) != NULL || gwi_unseen(c->model, NULL) != NULL;
        verdict->certainty = partly ? GW_SUPPORTED : GW_ESTABLISHED;
        gwi_say_clean(c, &finding);
    }
    bool good = take_finding(c, verdict, &finding);
    gwi_finding_free(&finding);
    return good && add_hypotheses(c, verdict);
}

/* gpuwhy ended the program before the virtual cards took the last memory of the host. What followed, in processes that
 * waited for it, too, says nothing about the program. */
static bool judge_ended(const gwi_case *c, gw_verdict *verdict)
{
    gwi_finding finding = {0};
    const gw_pair *fact = gw_model_fact(c->model, GW_FACT_HOST_FULL);
    verdict->status = GW_VERDICT_UNDETERMINED;
    gwi_headline(&finding, "gpuwhy ended the program, because this machine had no memory left for the virtual cards");
    gwi_evidence(&finding, fact->t_ns, "host", "what the program stores on the cards takes the host's memory: %s",
                 fact->value);
    gwi_next(&finding,
             "Let the program store less (a smaller model or batch), or run it on a machine with more memory");
    bool good = take_finding(c, verdict, &finding);
    gwi_finding_free(&finding);
    return good;
}

static bool fill_coverage(const gwi_case *c, gw_verdict *verdict)
{
    const gw_pair *fact = NULL;
    verdict->is_coverage_known = !is_snapshot(c->model) && !gwi_is_log(c);
    verdict->observed_count = gwi_observed_count(c->model);
    while ((fact = gwi_unseen(c->model, fact)) != NULL)
        if (!gwi_list_add(&verdict->unobserved, fact->value))
            return false;
    return true;
}

/* True if a rank that still runs waits in NCCL for others, whatever the verdict is about. */
static bool is_any_stuck(const gwi_case *c)
{
    for (size_t i = 0; i < c->ranks.count; i++)
        if (c->ranks.item[i].is_stuck && c->ranks.item[i].end == GW_RANK_RUNS)
            return true;
    return false;
}

static bool judge_case(const gwi_case *c, gw_verdict *verdict)
{
    verdict->is_hang = c->hang.kind != GWI_HANG_NONE || c->stall.kind != GWI_STALL_NONE || is_any_stuck(c);
    if (!fill_program(c, verdict) || !fill_coverage(c, verdict) || !gwi_fill_alone(c, verdict))
        return false;
    bool was_ended = gw_model_fact(c->model, GW_FACT_HOST_FULL) != NULL;
    if (!(was_ended ? judge_ended(c, verdict) : is_healthy(c) ? judge_healthy(c, verdict) : judge_fault(c, verdict)))
        return false;
    heed_alternatives(verdict);
    if (verdict->status == GW_VERDICT_FAULT && (!gwi_fill_failure(c, verdict) || !gwi_fill_kept(c, verdict)))
        return false;
    if (!gwi_fill_incomplete(c->model, verdict))
        return false;
    if (verdict->status == GW_VERDICT_CLEAN && !gwi_fill_leaks(c, verdict))
        return false;
    if (!gwi_advise_unused_gpu(c, verdict->cause, &verdict->advice) ||
        !gwi_say_advice(c, verdict->status, &verdict->advice))
        return false;
    for (size_t i = 0; i < GWI_CAUSE_COUNT; i++)
        if (gwi_causes[i]->advise != NULL && !gwi_causes[i]->advise(c, &verdict->advice))
            return false;
    if (!gwi_fill_rehearsal(c, verdict) || !gwi_fill_interventions(c, verdict) || !gwi_fill_run(c, verdict))
        return false;
    gwi_fill_peak(c->model, verdict);
    return gwi_fill_unfreed(c, verdict) && gwi_fill_known(c, verdict);
}

static gw_status judge(gwi_case *c, const gw_log *log, gw_verdict **ret_verdict, gw_error *err)
{
    gwi_told told = {0};
    gw_verdict *verdict = calloc(1, sizeof *verdict);
    bool good = verdict != NULL && gwi_told_open(c, log, &told) && judge_case(c, verdict);
    gwi_told_close(&told);
    if (good) {
        verdict->ranks = c->ranks;
        c->ranks = (gw_ranks){0};
    }
    gwi_case_close(c);
    if (!good) {
        gw_verdict_free(verdict);
        return gw_fail(err, GW_NOMEM, "judge the run");
    }
    *ret_verdict = verdict;
    return GW_OK;
}

gw_status gw_judge(const gw_model *model, gw_verdict **ret_verdict, gw_error *err)
{
    return gw_judge_later(model, NULL, ret_verdict, err);
}

gw_status gw_judge_later(const gw_model *model, const gw_later *later, gw_verdict **ret_verdict, gw_error *err)
{
    gwi_case c;
    gw_status st = gwi_case_open(model, &c, err);
    c.later = later;
    return st == GW_OK ? judge(&c, NULL, ret_verdict, err) : st;
}

gw_status gw_judge_log(const gw_log *log, gw_verdict **ret_verdict, gw_error *err)
{
    static const gw_model no_events;
    gwi_case c = {.model = &no_events};
    return judge(&c, log, ret_verdict, err);
}
