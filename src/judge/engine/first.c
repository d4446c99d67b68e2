/* Finds the run of a job that failed first.
 *
 * Times within one boot of one machine are compared by the monotonic clock, others by the realtime clocks. The kernel
 * estimates the error of its realtime clock (about 16 s if the clock is not synchronised).
 *
 * A trouble at the time t of a clock with the error e happened between t - e and t + e. The earliest troubles of
 * the machines are compared: one that begins after another one has surely happened was not the first. All others may
 * have been. Of these the heaviest is taken, then the one with the earliest time.
 *
 * If ranks wait for each other in NCCL, the numbers of their calls show the rank at fault, without clocks
 * (gwi_stall.h).
 *
 * A run that was ended from outside, or that failed because of another rank, is not the first if any run failed by
 * itself.
 *
 * A recording without an end has no trouble, but its machine may have been lost. This counts only if all recordings
 * of that machine, and of no other machine, have no end: a scheduler that kills a job also cuts recordings, but on many
 * machines. It never counts if a run lost its context or was refused memory, because no lost peer has that effect.
 * A scheduler ends the other runs some time after it has lost a machine. If it cancels the job instead, a rank that it
 * has to kill stops after the others. So if the others were ended from outside, the recordings must stop before. */
#include "gwi_stall.h"
#include "gwi_together.h"

#include "gw_array.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

/* The kernel's estimate for the error of a clock that is not synchronised. Also used if a recording has no estimate. */
static const uint64_t unkept_clock_error_ns = 16000000000u;
/* A recording may stop this long before its machine was lost: gpuwhy writes samples once a second. */
static const double silence_s = 5;

/* ---- clocks ---- */

bool gwi_same_boot(const gw_verdict_run *a, const gw_verdict_run *b)
{
    return a->boot_id != NULL && b->boot_id != NULL && strcmp(a->boot_id, b->boot_id) == 0;
}

uint64_t gwi_clock_error_ns(const gw_verdict_run *run)
{
    return run->clock_known ? run->clock_error_ns : unkept_clock_error_ns;
}

double gwi_uncertainty_s(const gw_verdict_run *a, const gw_verdict_run *b)
{
    return gwi_same_boot(a, b) ? 0 : ((double)gwi_clock_error_ns(a) + (double)gwi_clock_error_ns(b)) / 1e9;
}

static double difference_s(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns >= from_ns ? (double)(to_ns - from_ns) / 1e9 : -(double)(from_ns - to_ns) / 1e9;
}

double gwi_start_gap_s(const gw_verdict_run *a, const gw_verdict_run *b)
{
    return gwi_same_boot(a, b) ? difference_s(a->start_monotonic_ns, b->start_monotonic_ns)
                               : difference_s(a->start_realtime_ns, b->start_realtime_ns);
}

double gwi_trouble_gap_s(const gw_verdict_run *a, const gw_verdict_run *b)
{
    return gwi_start_gap_s(a, b) + difference_s(a->t_trouble_ns, b->t_trouble_ns);
}

/* ---- candidates ---- */

/* An instant of a run: its trouble, or the end of its recording. */
typedef struct instant {
    size_t index;
    const gw_verdict_run *run;
    uint64_t t_ns;     /* since the run began */
    double s, error_s; /* by the realtime clock, since a common time */
} instant;

static instant instant_of(const gw_job *job, size_t index, uint64_t t_ns, uint64_t base_ns)
{
    const gw_verdict_run *run = &job->brief[index].run;
    instant it = {.index = index, .run = run, .t_ns = t_ns, .s = DBL_MAX / 4, .error_s = DBL_MAX / 2};
    if (run->has_start) {
        it.s = difference_s(base_ns, run->start_realtime_ns) + (double)t_ns / 1e9;
        it.error_s = (double)gwi_clock_error_ns(run) / 1e9;
    }
    return it;
}

static int compare_texts(const char *a, const char *b)
{
    return strcmp(a == NULL ? "" : a, b == NULL ? "" : b);
}

/* By machine, then by time. */
static int by_boot(const void *left, const void *right)
{
    const instant *a = left, *b = right;
    int order = compare_texts(a->run->boot_id, b->run->boot_id);
    if (order != 0)
        return order;
    if (gwi_same_boot(a->run, b->run)) {
        uint64_t a_ns = a->run->start_monotonic_ns + a->t_ns, b_ns = b->run->start_monotonic_ns + b->t_ns;
        order = (a_ns > b_ns) - (a_ns < b_ns);
    }
    if (order == 0)
        order = (a->run->trouble_weight < b->run->trouble_weight) - (a->run->trouble_weight > b->run->trouble_weight);
    return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

/* Keep the earliest instant of each machine. */
static size_t keep_earliest(instant *it, size_t count)
{
    size_t kept = 0;
    if (count > 1)
        qsort(it, count, sizeof *it, by_boot);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || !gwi_same_boot(it[i].run, it[kept - 1].run))
            it[kept++] = it[i];
    }
    return kept;
}

static bool is_heavier(const instant *a, const instant *b)
{
    if (a->run->trouble_weight != b->run->trouble_weight)
        return a->run->trouble_weight > b->run->trouble_weight;
    return a->s != b->s ? a->s < b->s : a->index < b->index;
}

/* Remove the instants that are surely later than another one, and put the one to take first. */
static size_t keep_possible(instant *it, size_t count)
{
    double surely_s = DBL_MAX;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        surely_s = it[i].s + it[i].error_s < surely_s ? it[i].s + it[i].error_s : surely_s;
    for (size_t i = 0; i < count; i++) {
        if (it[i].s - it[i].error_s > surely_s)
            continue;
        it[kept++] = it[i];
        if (is_heavier(&it[kept - 1], &it[0])) {
            instant best = it[kept - 1];
            it[kept - 1] = it[0];
            it[0] = best;
        }
    }
    return kept;
}

static bool fails_itself(const gw_brief *brief)
{
    return brief->run.has_trouble && brief->run.trouble_weight > 0;
}

static uint64_t base_of(const gw_job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        if (job->brief[i].run.has_start)
            return job->brief[i].run.start_realtime_ns;
    }
    return 0;
}

/* ---- lost machines ---- */

static bool is_cut(const gw_brief *brief)
{
    return brief->run.is_cut && !brief->run.has_trouble;
}

/* True if all recordings without an end are of one machine, and all of that machine have no end. */
static bool is_one_machine(const gw_job *job, const gwi_first *first)
{
    const gw_verdict_run *lost = first->lost_count == 0 ? NULL : &job->brief[first->lost[0]].run;
    bool others = false;
    for (size_t i = 0; i < job->count && lost != NULL; i++) {
        const gw_brief *brief = &job->brief[i];
        bool same = &brief->run == lost || gwi_same_boot(&brief->run, lost);
        others = others || !same;
        if (same != is_cut(brief))
            return false;
    }
    return others;
}

static uint64_t end_ns(const gw_brief *brief)
{
    return (uint64_t)(brief->seconds * 1e9);
}

/* Return the seconds from the end of a recording to the first trouble, by the clocks as they are. 0: unknown. */
static double lost_before_s(const gw_job *job, size_t lost, const instant *trouble, uint64_t base_ns)
{
    const instant end = instant_of(job, lost, end_ns(&job->brief[lost]), base_ns);
    return end.run->has_start && trouble->run->has_start ? trouble->s - end.s : 0;
}

/* List the recordings without an end that stop before the trouble, or may do so. */
static bool find_lost(const gw_job *job, const instant *trouble, uint64_t base_ns, gwi_first *first)
{
    for (size_t i = 0; i < job->count; i++) {
        if (!is_cut(&job->brief[i]))
            continue;
        const instant end = instant_of(job, i, end_ns(&job->brief[i]), base_ns);
        bool is_later = trouble != NULL && end.run->has_start && trouble->run->has_start &&
                        end.s - trouble->s > gwi_uncertainty_s(end.run, trouble->run);
        if (is_later)
            continue;
        if (!gw_array_more(&first->lost, first->lost_count, sizeof *first->lost))
            return false;
        first->lost[first->lost_count++] = i;
    }
    return true;
}

/* Return the place in first->lost of the recording that stops last: until then the machine was alive. */
static size_t find_last_lost(const gw_job *job, const gwi_first *first)
{
    size_t last = 0;
    for (size_t i = 1; i < first->lost_count; i++) {
        const gw_brief *a = &job->brief[first->lost[last]], *b = &job->brief[first->lost[i]];
        if (gwi_start_gap_s(&a->run, &b->run) + b->seconds > a->seconds)
            last = i;
    }
    return last;
}

static bool was_ended(const gw_brief *brief)
{
    const char *ended = gwi_causes[GWI_CAUSE_PLACE_killed_by_scheduler_or_user]->id;
    return brief->cause != NULL && strcmp(brief->cause, ended) == 0;
}

/* True if, by the clocks and their errors, another run went on after the recording had stopped. A scheduler that
 * cancels a job kills what is left last, so such a recording was not cut by it. */
static bool is_outlived(const gw_job *job, size_t lost, uint64_t base_ns)
{
    for (size_t i = 0; i < job->count; i++) {
        const gw_verdict_run *run = &job->brief[i].run;
        const instant end = instant_of(job, i, run->t_trouble_ns, base_ns);
        if (run->has_trouble &&
            lost_before_s(job, lost, &end, base_ns) - gwi_uncertainty_s(&job->brief[lost].run, run) >= silence_s)
            return true;
    }
    return false;
}

/* Decide whether the loss of a machine came first, and take one of its recordings. */
static void take_lost(const gw_job *job, const instant *trouble, uint64_t base_ns, gwi_first *first)
{
    if (trouble == NULL || trouble->run->trouble_weight > 1 || !is_one_machine(job, first))
        return;
    size_t last = find_last_lost(job, first), index = first->lost[last];
    double before_s = lost_before_s(job, index, trouble, base_ns);
    bool is_surely_before = before_s - gwi_uncertainty_s(&job->brief[index].run, trouble->run) >= silence_s;
    bool is_ended = was_ended(&job->brief[trouble->index]);
    if ((trouble->run->trouble_weight == 1 && !is_surely_before) || (is_ended && before_s < silence_s))
        return;
    first->is_lost = true;
    first->is_lost_unsure = is_ended && !is_outlived(job, index, base_ns);
    first->index = index;
    first->lost[last] = first->lost[--first->lost_count];
    first->rival_count = 0;
}

/* ---- ranks that wait for each other ---- */

/* True if the times of all recordings can be compared. */
static bool have_one_clock(const gw_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        if (!job->brief[i].run.has_start || !gwi_same_boot(&job->brief[i].run, &job->brief[0].run))
            return false;
    return true;
}

/* List the ranks of all recordings, with their times moved to one clock if `has_clock`. */
static bool list_all_ranks(const gw_job *job, bool has_clock, gw_ranks *ret_ranks)
{
    size_t count = 0;
    uint64_t first_ns = UINT64_MAX;
    for (size_t i = 0; i < job->count; i++) {
        uint64_t start_ns = job->brief[i].run.start_monotonic_ns;
        count += job->brief[i].ranks.count;
        first_ns = start_ns < first_ns ? start_ns : first_ns;
    }
    *ret_ranks = (gw_ranks){.item = count == 0 ? NULL : malloc(count * sizeof *ret_ranks->item)};
    for (size_t i = 0; i < job->count && ret_ranks->item != NULL; i++) {
        const gw_brief *brief = &job->brief[i];
        uint64_t later_ns = has_clock ? brief->run.start_monotonic_ns - first_ns : 0;
        for (size_t k = 0; k < brief->ranks.count; k++) {
            gw_rank *rank = &ret_ranks->item[ret_ranks->count++];
            *rank = brief->ranks.item[k];
            rank->t_error_ns += later_ns;
            rank->t_end_ns += rank->t_end_ns == 0 ? 0 : later_ns;
        }
    }
    return count == 0 || ret_ranks->item != NULL;
}

static size_t brief_of_rank(const gw_job *job, size_t rank)
{
    size_t i = 0;
    for (; rank >= job->brief[i].ranks.count; i++)
        rank -= job->brief[i].ranks.count;
    return i;
}

/* Find the rank at fault in all recordings. A recording that stops without an end does not show where its rank was. */
static bool find_stall(const gw_job *job, gwi_first *first)
{
    bool has_clock = have_one_clock(job);
    if (!list_all_ranks(job, has_clock, &first->ranks) || !gwi_stall_find(&first->ranks, has_clock, &first->stall))
        return false;
    if (first->stall.kind == GWI_STALL_NONE)
        return true;
    bool is_recorded = first->stall.culprit != SIZE_MAX;
    size_t index = brief_of_rank(job, is_recorded ? first->stall.culprit : first->stall.waiting);
    if (is_recorded && first->stall.kind == GWI_STALL_BEHIND && is_cut(&job->brief[index])) {
        first->stall = (gwi_stall){0};
        return true;
    }
    free(first->rival);
    free(first->lost);
    first->rival = first->lost = NULL;
    first->rival_count = first->lost_count = 0;
    first->is_lost = first->is_lost_unsure = false;
    first->index = index;
    return true;
}

/* ---- the first ---- */

static size_t without_trouble(const gw_job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        if (job->brief[i].status != GW_VERDICT_CLEAN)
            return i;
    }
    return 0;
}

static bool take_first(const gw_job *job, const instant *it, size_t count, gwi_first *first)
{
    first->index = count > 0 ? it[0].index : without_trouble(job);
    first->rival = count > 1 ? malloc((count - 1) * sizeof *first->rival) : NULL;
    for (size_t i = 1; i < count && first->rival != NULL; i++)
        first->rival[first->rival_count++] = it[i].index;
    return count < 2 || first->rival != NULL;
}

bool gwi_first_find(const gw_job *job, gwi_first *ret_first)
{
    *ret_first = (gwi_first){0};
    instant *it = malloc(job->count * sizeof *it);
    uint64_t base_ns = base_of(job);
    bool any = false;
    size_t count = 0;
    if (it == NULL)
        return false;
    for (size_t i = 0; i < job->count; i++)
        any = any || fails_itself(&job->brief[i]);
    for (size_t i = 0; i < job->count; i++) {
        if (job->brief[i].run.has_trouble && (!any || fails_itself(&job->brief[i])))
            it[count++] = instant_of(job, i, job->brief[i].run.t_trouble_ns, base_ns);
    }
    count = keep_possible(it, keep_earliest(it, count));
    const instant *trouble = count > 0 ? &it[0] : NULL;
    bool good = take_first(job, it, count, ret_first) && find_lost(job, trouble, base_ns, ret_first);
    if (good && ret_first->lost_count > 0)
        take_lost(job, trouble, base_ns, ret_first);
    free(it);
    return good && find_stall(job, ret_first);
}

void gwi_first_free(gwi_first *first)
{
    free(first->rival);
    free(first->lost);
    free(first->ranks.item);
    *first = (gwi_first){0};
}

gw_status gw_job_first(const gw_job *job, size_t *ret_index, gw_error *err)
{
    gwi_first first;
    bool good = gwi_first_find(job, &first);
    if (good)
        *ret_index = first.index;
    gwi_first_free(&first);
    return good ? GW_OK : gw_fail(err, GW_NOMEM, "find the run that failed first");
}
