/* Combines the verdicts on several recordings of one job into one. first.c finds the root, together_say.c reports the
 * other runs. */
#include "gwi_stall.h"
#include "gwi_together.h"

#include "gw_array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one job ---- */

static const char *path_of(const gw_brief *brief, const char *otherwise)
{
    return brief->recording == NULL ? otherwise : brief->recording;
}

static gw_status not_together(const gw_brief *a, const gw_brief *b, const char *why, gw_error *err)
{
    return gw_fail(err, GW_UNSUPPORTED, "%s and %s %s", path_of(a, "a recording"), path_of(b, "another"), why);
}

/* True if the scheduler's names of two launches have the same job: "slurm 12.0" and "slurm 12.1". */
static bool same_job(const char *a, const char *b)
{
    size_t a_bytes = strcspn(a, "."), b_bytes = strcspn(b, ".");
    return a_bytes == b_bytes && strncmp(a, b, a_bytes) == 0;
}

static gw_status check_names(const gw_job *job, gw_error *err)
{
    const gw_brief *named = NULL;
    for (size_t i = 0; i < job->count; i++) {
        const gw_brief *brief = &job->brief[i];
        if (brief->run.job == NULL)
            continue;
        if (named != NULL && !same_job(named->run.job, brief->run.job))
            return not_together(named, brief, "belong to different jobs", err);
        named = named == NULL ? brief : named;
    }
    return GW_OK;
}

/* True if all recordings are of one step of a job, which the scheduler started at once. Its ranks need not overlap in
 * time: one may fail before another one has started. A batch script may start one program after the other. */
static bool is_one_launch(const gw_job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        const char *name = job->brief[i].run.job;
        if (name == NULL || strcmp(name, job->brief[0].run.job) != 0 || strstr(name, ".batch") != NULL)
            return false;
    }
    return true;
}

/* A run that starts last or ends first, by the realtime clock with its error. */
typedef struct edge {
    const gw_brief *brief; /* NULL: no run has a start */
    double s;
} edge;

static void find_edges(const gw_job *job, edge *ret_last_start, edge *ret_first_end)
{
    const gw_verdict_run *base = NULL;
    *ret_last_start = *ret_first_end = (edge){0};
    for (size_t i = 0; i < job->count; i++) {
        const gw_brief *brief = &job->brief[i];
        if (!brief->run.has_start)
            continue; /* no start time: assume that the runs overlapped */
        gw_verdict_run real = brief->run;
        real.boot_id = NULL; /* compare by the realtime clock */
        base = base == NULL ? &brief->run : base;
        double start_s = gwi_start_gap_s(base, &real), error_s = (double)gwi_clock_error_ns(&real) / 1e9;
        if (ret_last_start->brief == NULL || start_s - error_s > ret_last_start->s)
            *ret_last_start = (edge){brief, start_s - error_s};
        if (ret_first_end->brief == NULL || start_s + brief->seconds + error_s < ret_first_end->s)
            *ret_first_end = (edge){brief, start_s + brief->seconds + error_s};
    }
}

static int by_boot(const void *left, const void *right)
{
    const gw_brief *a = *(const gw_brief *const *)left, *b = *(const gw_brief *const *)right;
    int order = strcmp(a->run.boot_id, b->run.boot_id);
    uint64_t a_ns = a->run.start_monotonic_ns, b_ns = b->run.start_monotonic_ns;
    return order != 0 ? order : (a_ns > b_ns) - (a_ns < b_ns);
}

static int by_boot_and_rank(const void *left, const void *right)
{
    const gw_brief *a = *(const gw_brief *const *)left, *b = *(const gw_brief *const *)right;
    int order = strcmp(a->run.boot_id, b->run.boot_id);
    order = order != 0 ? order : (a->run.rank > b->run.rank) - (a->run.rank < b->run.rank);
    return order != 0 ? order : by_boot(left, right);
}

static bool has_clock(const gw_brief *brief)
{
    return brief->run.has_start && brief->run.boot_id != NULL;
}

static bool has_clock_and_rank(const gw_brief *brief)
{
    return has_clock(brief) && brief->run.has_rank;
}

/* List the runs of a job in an order. Returns NULL if there is no memory. */
static const gw_brief **sort_runs(const gw_job *job, bool (*counts)(const gw_brief *),
                                  int (*order)(const void *, const void *), size_t *ret_count)
{
    const gw_brief **sorted = calloc(job->count, sizeof *sorted);
    *ret_count = 0;
    for (size_t i = 0; i < job->count && sorted != NULL; i++) {
        if (counts(&job->brief[i]))
            sorted[(*ret_count)++] = &job->brief[i];
    }
    if (*ret_count > 1)
        qsort(sorted, *ret_count, sizeof *sorted, order);
    return sorted;
}

/* Check that the runs of each machine overlapped, by the monotonic clock. */
static gw_status check_machines(const gw_job *job, gw_error *err)
{
    size_t count;
    const gw_brief **sorted = sort_runs(job, has_clock, by_boot, &count), *first_end = NULL;
    gw_status st = sorted == NULL ? gw_fail(err, GW_NOMEM, "compare the times of the runs") : GW_OK;
    for (size_t i = 0; i < count && st == GW_OK; i++) {
        bool same = first_end != NULL && gwi_same_boot(&first_end->run, &sorted[i]->run);
        double gap_s = same ? gwi_start_gap_s(&first_end->run, &sorted[i]->run) : 0;
        if (same && gap_s > first_end->seconds)
            st = not_together(first_end, sorted[i], "were not recorded at the same time", err);
        if (!same || gap_s + sorted[i]->seconds < first_end->seconds)
            first_end = sorted[i];
    }
    free(sorted);
    return st;
}

/* Check that no rank ran twice, one run after the other: a task of a step may start several programs. */
static gw_status check_ranks(const gw_job *job, gw_error *err)
{
    size_t count;
    const gw_brief **sorted = sort_runs(job, has_clock_and_rank, by_boot_and_rank, &count);
    gw_status st = sorted == NULL ? gw_fail(err, GW_NOMEM, "compare the ranks of the runs") : GW_OK;
    for (size_t i = 1; i < count && st == GW_OK; i++) {
        const gw_brief *a = sorted[i - 1], *b = sorted[i];
        if (a->run.rank == b->run.rank && gwi_same_boot(&a->run, &b->run) &&
            gwi_start_gap_s(&a->run, &b->run) > a->seconds)
            st = not_together(a, b, "are two runs of one rank, one after the other", err);
    }
    free(sorted);
    return st;
}

gw_status gw_job_check(const gw_job *job, gw_error *err)
{
    edge last_start, first_end;
    gw_status st = check_names(job, err);
    if (st != GW_OK)
        return st;
    if (is_one_launch(job))
        return check_ranks(job, err);
    find_edges(job, &last_start, &first_end);
    if (last_start.brief != NULL && last_start.s > first_end.s)
        return not_together(first_end.brief, last_start.brief, "were not recorded at the same time", err);
    return check_machines(job, err);
}

/* ---- copying the root's verdict ---- */

static bool copy_list(gw_string_list *to, const gw_string_list *from)
{
    for (size_t i = 0; i < from->count; i++) {
        if (!gwi_list_add(to, from->item[i]))
            return false;
    }
    return true;
}

static bool copy_evidence(const gw_verdict *from, gwi_finding *to)
{
    for (size_t i = 0; i < from->evidence_count; i++) {
        const gw_evidence *line = &from->evidence[i];
        uint64_t t_ns = line->has_time ? line->t_ns : GWI_NO_TIME;
        if (line->has_value)
            gwi_measure(to, t_ns, line->source, line->value, line->unit, "%s", line->text);
        else
            gwi_evidence(to, t_ns, line->source, "%s", line->text);
        gwi_weigh(to, line->weight);
    }
    return !to->failed;
}

static bool copy_gpus(const gw_verdict *from, gw_verdict *to)
{
    to->gpus = calloc(from->gpu_count + 1, sizeof *to->gpus);
    for (size_t i = 0; to->gpus != NULL && i < from->gpu_count; i++) {
        to->gpus[i] = from->gpus[i];
        if (!gw_str_copy(from->gpus[i].name, &to->gpus[i].name))
            return false;
        to->gpu_count++;
    }
    return to->gpus != NULL;
}

static bool copy_where(gw_where **to, const gw_where *from)
{
    *to = from == NULL ? NULL : gwi_where_copy(from);
    return from == NULL || *to != NULL;
}

static bool copy_rest(const gw_verdict *from, gw_verdict *to)
{
    to->status = from->status;
    to->cause = from->cause;
    to->certainty = from->certainty;
    to->exit_known = from->exit_known;
    to->exit_code = from->exit_code;
    to->signal = from->signal;
    to->seconds = from->seconds;
    to->run = from->run;
    to->run.host = to->run.boot_id = to->run.cwd = to->run.job = NULL;
    to->run.ranks = NULL;
    to->run.rank_count = 0;
    to->alternatives = calloc(from->alternative_count + 1, sizeof *to->alternatives);
    if (to->alternatives == NULL)
        return false;
    if (from->alternative_count > 0)
        memcpy(to->alternatives, from->alternatives, from->alternative_count * sizeof *to->alternatives);
    to->alternative_count = from->alternative_count;
    return gw_str_copy(from->run.host, &to->run.host) && gw_str_copy(from->run.boot_id, &to->run.boot_id) &&
           gw_str_copy(from->run.cwd, &to->run.cwd) && gw_str_copy(from->run.job, &to->run.job) &&
           copy_where(&to->where, from->where) && gw_str_copy(from->where_reason, &to->where_reason) &&
           gw_str_copy(from->recording, &to->recording) && copy_list(&to->argv, &from->argv) &&
           copy_list(&to->advice, &from->advice) && copy_gpus(from, to);
}

/* ---- the job ---- */

static int by_number(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static bool list_ranks(const gw_job *job, uint32_t world, uint32_t **ret_ranks, size_t *ret_count)
{
    size_t capacity = 0;
    for (size_t i = 0; i < job->count; i++) {
        const gw_verdict_run *run = &job->brief[i].run;
        for (size_t k = 0; k < run->rank_count && run->world == world; k++) {
            if (!gw_array_room(ret_ranks, *ret_count, &capacity, sizeof **ret_ranks))
                return false;
            (*ret_ranks)[(*ret_count)++] = run->ranks[k];
        }
    }
    if (*ret_count > 1)
        qsort(*ret_ranks, *ret_count, sizeof **ret_ranks, by_number);
    return true;
}

/* List the ranks that no recording has. */
static bool find_missing(const gw_job *job, gw_verdict_job *about)
{
    enum { WORLD_MAX = 1 << 20 }; /* a larger number is an error of the launcher, not a job */
    uint32_t *ranks = NULL;
    size_t count = 0, at = 0, capacity = 0;
    for (size_t i = 0; i < job->count; i++)
        about->world = job->brief[i].run.world > about->world ? job->brief[i].run.world : about->world;
    bool good = about->world == 0 || about->world > WORLD_MAX || list_ranks(job, about->world, &ranks, &count);
    for (uint32_t rank = 0; good && count > 0 && rank < about->world; rank++) {
        while (at < count && ranks[at] < rank)
            at++;
        if (at < count && ranks[at] == rank)
            continue;
        good = gw_array_room(&about->missing, about->missing_count, &capacity, sizeof *about->missing);
        if (good)
            about->missing[about->missing_count++] = rank;
    }
    free(ranks);
    return good;
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static bool count_hosts(const gw_job *job, gw_verdict_job *about)
{
    const char **host = calloc(job->count, sizeof *host);
    size_t count = 0;
    for (size_t i = 0; i < job->count && host != NULL; i++) {
        const gw_verdict_run *run = &job->brief[i].run;
        about->cut_count += run->is_cut;
        about->damaged_count += run->is_damaged;
        if (run->host != NULL)
            host[count++] = run->host;
    }
    if (count > 1)
        qsort(host, count, sizeof *host, by_text);
    for (size_t i = 0; i < count; i++)
        about->host_count += i == 0 || strcmp(host[i], host[i - 1]) != 0;
    free(host);
    return host != NULL;
}

static gw_verdict_job *describe(const gw_job *job)
{
    gw_verdict_job *about = calloc(1, sizeof *about);
    if (about == NULL)
        return NULL;
    bool good = find_missing(job, about) && count_hosts(job, about) &&
                (job->unread == NULL || copy_list(&about->unread, job->unread));
    if (good)
        return about;
    gwi_verdict_job_free(about);
    return NULL;
}

/* ---- the verdict ---- */

static bool add_part(gw_verdict *verdict, const gw_brief *root, const gw_brief *run)
{
    gw_verdict_part *part = &verdict->parts[verdict->part_count++];
    *part = (gw_verdict_part){
        .status = run->status, .cause = run->cause, .has_rank = run->run.has_rank, .rank = run->run.rank};
    part->has_offset = root->run.has_trouble && run->run.has_trouble && root->run.has_start && run->run.has_start;
    part->offset_s = part->has_offset ? gwi_trouble_gap_s(&root->run, &run->run) : 0;
    part->uncertainty_s = run == root ? 0 : gwi_uncertainty_s(&root->run, &run->run);
    return gw_str_copy(run->run.host, &part->host) && gw_str_copy(run->recording, &part->recording) &&
           gw_str_copy(run->headline, &part->headline);
}

/* True if all runs were ended from outside. Their order is then of no interest. */
static bool were_all_ended(const gw_job *job, size_t root)
{
    static const size_t ended = GWI_CAUSE_PLACE_killed_by_scheduler_or_user;
    for (size_t i = 0; i < job->count; i++) {
        const gw_brief *brief = &job->brief[i];
        if (!brief->run.has_trouble || brief->run.trouble_weight > 0 || brief->cause == NULL ||
            strcmp(brief->cause, gwi_causes[ended]->id) != 0 || strcmp(brief->headline, job->brief[root].headline) != 0)
            return false;
    }
    return true;
}

static bool is_any_unseen(const gw_job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        if (job->brief[i].is_unseen)
            return true;
    }
    return false;
}

static void set_headline(const gw_job *job, const gwi_first *first, const gw_verdict_job *about, gwi_finding *finding)
{
    char name[GWI_RUN_TEXT_MAX];
    const gw_brief *root = &job->brief[first->index];
    gwi_run_text(name, &root->run);
    if (first->stall.kind != GWI_STALL_NONE && root->run.host != NULL) {
        char *headline = strdup(gw_text_str(&finding->headline));
        finding->failed = finding->failed || headline == NULL;
        gwi_headline(finding, "%s: %s", root->run.host, headline == NULL ? "" : headline);
        free(headline);
    } else if (first->stall.kind != GWI_STALL_NONE)
        return;
    else if (first->is_lost && first->lost_count > 0)
        gwi_headline(finding,
                     "%s: its %zu recordings stop without an end, the last one at %.1f s: the machine was lost, or "
                     "gpuwhy was killed there",
                     root->run.host == NULL ? "an unknown host" : root->run.host, first->lost_count + 1, root->seconds);
    else if (first->is_lost)
        gwi_headline(finding,
                     "%s: the recording stops at %.1f s without an end: the machine was lost, or gpuwhy was killed "
                     "there",
                     name, root->seconds);
    else if (root->status == GW_VERDICT_CLEAN)
        gwi_headline(finding,
                     is_any_unseen(job) ? "no fault found in the observed processes of %zu recordings"
                                        : "no fault found in %zu recordings",
                     job->count);
    else if (!root->run.has_trouble && root->run.is_cut)
        gwi_headline(finding, "%zu of %zu recordings stop without an end, and no other recording shows a failure",
                     about->cut_count, job->count);
    else if (were_all_ended(job, first->index))
        gwi_headline(finding, "all %zu recordings: %s", job->count, root->headline);
    else
        gwi_headline(finding, "%s: %s", name, root->headline);
}

/* The verdict on a lost machine: its own recording proves only that it stops. */
static bool judge_lost(gw_verdict *verdict, const gwi_first *first, gwi_finding *finding)
{
    const gw_cause *cause = gwi_causes[GWI_CAUSE_PLACE_host_lost];
    verdict->status = GW_VERDICT_FAULT;
    verdict->cause = cause->id;
    verdict->certainty = first->is_lost_unsure ? GW_HYPOTHESIS : GW_SUPPORTED;
    if (first->is_lost_unsure)
        gwi_evidence(finding, GWI_NO_TIME, "host",
                     "the other runs were ended from outside; the clocks do not show that the machine was lost before, "
                     "so the job may have been cancelled, and gpuwhy killed on this machine");
    gwi_evidence(finding, GWI_NO_TIME, "host",
                 "all recordings of this machine stop without an end, and those of all other machines have one");
    gwi_weigh(finding, GW_WEIGHT_DECIDES);
    return gwi_add_fixes(&finding->next, cause, GW_FRAMEWORK_RAW);
}

/* The verdict on ranks that wait for each other: each recording alone shows only its own ranks. */
static bool judge_stall(gw_verdict *verdict, const gwi_first *first, gwi_finding *finding)
{
    bool is_straggler = first->stall.kind == GWI_STALL_BEHIND;
    const gw_cause *cause = gwi_causes[is_straggler ? GWI_CAUSE_PLACE_straggler : GWI_CAUSE_PLACE_collective_desync];
    bool is_same = verdict->cause != NULL && strcmp(verdict->cause, cause->id) == 0;
    verdict->status = GW_VERDICT_FAULT;
    verdict->cause = cause->id;
    verdict->certainty = first->stall.certainty;
    verdict->alternative_count = 0;
    gwi_say_stall(&first->ranks, &first->stall, finding);
    if (!is_same && verdict->where != NULL) {
        gwi_where_free(verdict->where);
        verdict->where = NULL;
    }
    bool has_reason = is_same || verdict->where_reason != NULL ||
                      gw_str_copy("the evidence lists the places of all ranks", &verdict->where_reason);
    return has_reason && gwi_add_fixes(&finding->next, cause, GW_FRAMEWORK_RAW);
}

static bool say_all(const gw_job *job, const gwi_first *first, gw_verdict *verdict, gwi_finding *finding)
{
    bool is_sure, good = true;
    const gw_brief *root = &job->brief[first->index];
    if (first->is_lost)
        good = judge_lost(verdict, first, finding);
    else if (first->stall.kind != GWI_STALL_NONE)
        good = judge_stall(verdict, first, finding);
    gwi_say_job(job, first, verdict->job, finding, &is_sure);
    for (size_t i = 0; i < job->count && good; i++)
        good = add_part(verdict, root, &job->brief[i]);
    if (!is_sure && verdict->certainty > GW_SUPPORTED && !were_all_ended(job, first->index))
        verdict->certainty = GW_SUPPORTED; /* another run may have failed first */
    set_headline(job, first, verdict->job, finding);
    return good && !finding->failed;
}

/* True if a run of the job is not fully recorded. What it lacks could confirm what another run rules out. */
static bool is_partly_recorded(const gw_verdict_job *about)
{
    return about->cut_count > 0 || about->damaged_count > 0 || about->missing_count > 0 || about->unread.count > 0;
}

static bool put_together(const gw_job *job, const gwi_first *found, const gw_verdict *first, gw_verdict *verdict)
{
    gwi_finding finding = {0};
    verdict->job = describe(job);
    verdict->parts = calloc(job->count, sizeof *verdict->parts);
    /* The verdict on ranks that wait for each other has evidence of its own. */
    bool is_stall = found->stall.kind != GWI_STALL_NONE;
    bool good = verdict->job != NULL && verdict->parts != NULL && copy_rest(first, verdict) &&
                (is_stall || (copy_evidence(first, &finding) &&
                              (is_partly_recorded(verdict->job) || copy_list(&verdict->ruled_out, &first->ruled_out)) &&
                              copy_list(&finding.consequences, &first->consequences) &&
                              (found->is_lost || copy_list(&finding.next, &first->next)))) &&
                say_all(job, found, verdict, &finding);
    good = good && gw_str_copy(gw_text_str(&finding.headline), &verdict->headline);
    verdict->evidence = finding.evidence;
    verdict->evidence_count = finding.evidence_count;
    verdict->consequences = finding.consequences;
    verdict->next = finding.next;
    gw_text_free(&finding.headline);
    return good;
}

gw_status gw_judge_together(const gw_job *job, const gw_verdict *first, gw_verdict **ret_verdict, gw_error *err)
{
    gwi_first found;
    gw_verdict *verdict = calloc(1, sizeof *verdict);
    bool good = gwi_first_find(job, &found) && verdict != NULL && put_together(job, &found, first, verdict);
    gwi_first_free(&found);
    if (!good) {
        gw_verdict_free(verdict);
        return gw_fail(err, GW_NOMEM, "judge the runs together");
    }
    *ret_verdict = verdict;
    return GW_OK;
}
