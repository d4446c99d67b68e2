/* Sentences about the runs of a job that did not fail first. A few of them are reported one by one; many are counted by
 * what happened to them. */
#include "gwi_together.h"

#include "gw_array.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 8, NAMED_MAX = 3, GROUPS_MAX = 6, NAMES_TEXT_MAX = (NAMED_MAX + 1) * GWI_RUN_TEXT_MAX };

/* ---- names ---- */

const char *gwi_run_text(char out[GWI_RUN_TEXT_MAX], const gw_verdict_run *run)
{
    const char *host = run->host == NULL ? "an unknown host" : run->host;
    char pid[24] = "";
    if (run->pid != 0)
        snprintf(pid, sizeof pid, run->has_rank ? " (pid %" PRIu32 ")" : ", pid %" PRIu32, run->pid);
    if (run->has_rank)
        snprintf(out, GWI_RUN_TEXT_MAX, "%.40s, rank %" PRIu32 "%s", host, run->rank, pid);
    else
        snprintf(out, GWI_RUN_TEXT_MAX, "%.40s%s", host, pid);
    return out;
}

/* Write a run without its pid, for lists. */
static int short_text(char *out, size_t room, const gw_verdict_run *run)
{
    const char *host = run->host == NULL ? "an unknown host" : run->host;
    return run->has_rank ? snprintf(out, room, "rank %" PRIu32 " on %.40s", run->rank, host)
                         : snprintf(out, room, "%.40s, pid %" PRIu32, host, run->pid);
}

/* Write the first few runs of a list: "rank 3 on a, rank 4 on a, ..". */
static const char *names_text(char out[NAMES_TEXT_MAX], const gw_job *job, const size_t *index, size_t count)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count && i < NAMED_MAX; i++) {
        used += (size_t)snprintf(out + used, NAMES_TEXT_MAX - used, "%s", i == 0 ? "" : ", ");
        used += (size_t)short_text(out + used, NAMES_TEXT_MAX - used, &job->brief[index[i]].run);
    }
    if (count > NAMED_MAX)
        snprintf(out + used, NAMES_TEXT_MAX - used, ", ..");
    return out;
}

/* ---- clocks ---- */

static void say_clock(const gw_verdict_run *run, gwi_finding *finding)
{
    const char *host = run->host == NULL ? "a host" : run->host;
    double error_s = (double)gwi_clock_error_ns(run) / 1e9;
    if (!run->clock_known)
        gwi_evidence(
            finding, GWI_NO_TIME, "host",
            "the recording does not show how accurate the clock of %s was: gpuwhy assumes an error of up to %.0f s",
            host, error_s);
    else if (!run->clock_synchronised)
        gwi_measure(finding, GWI_NO_TIME, "host", error_s * 1e3, "ms",
                    "the clock of %s is not synchronised: it may be wrong by %.3f s", host, error_s);
}

static void say_clocks(const gw_job *job, gwi_finding *finding)
{
    size_t unknown = 0, loose = 0;
    double most_s = 0;
    for (size_t i = 0; i < job->count; i++) {
        const gw_verdict_run *run = &job->brief[i].run;
        bool bad = !run->clock_known || !run->clock_synchronised;
        unknown += !run->clock_known;
        loose += run->clock_known && !run->clock_synchronised;
        if (bad && (double)gwi_clock_error_ns(run) / 1e9 > most_s)
            most_s = (double)gwi_clock_error_ns(run) / 1e9;
        if (job->count <= FEW)
            say_clock(run, finding);
    }
    if (job->count <= FEW || unknown + loose == 0)
        return;
    gwi_evidence(finding, GWI_NO_TIME, "host",
                 "the clocks behind %zu of %zu recordings are not synchronised, or their accuracy is unknown: they may "
                 "be wrong by up to %.3f s",
                 unknown + loose, job->count, most_s);
}

/* ---- the order ---- */

static void say_order(const gw_verdict_run *root, const gw_verdict_run *other, gwi_finding *finding, bool *ret_is_sure)
{
    char first[GWI_RUN_TEXT_MAX], second[GWI_RUN_TEXT_MAX];
    double gap = gwi_trouble_gap_s(root, other), unsure = gwi_uncertainty_s(root, other);
    gwi_run_text(first, root);
    gwi_run_text(second, other);
    if (!root->has_start || !other->has_start) {
        gwi_evidence(finding, GWI_NO_TIME, "host",
                     "the start time of %s is not recorded: it is unclear which run failed first",
                     root->has_start ? second : first);
        *ret_is_sure = false;
    } else if (gap > unsure || (gap >= 0 && unsure == 0)) {
        gwi_evidence(finding, root->t_trouble_ns, "host",
                     "%s failed %.3f s before %s; their clocks may differ by %.3f s", first, gap, second, unsure);
    } else if (other->trouble_weight == 0 && root->trouble_weight > 0) {
        gwi_evidence(
            finding, root->t_trouble_ns, "host",
            "%s has trouble of its own, %s was ended from outside or because of another rank; their clocks may "
            "differ by %.3f s",
            first, second, unsure);
    } else {
        gwi_evidence(
            finding, root->t_trouble_ns, "host",
            "%s and %s failed within %.3f s, and their clocks may differ by %.3f s: it is unclear which failed first",
            first, second, gap < 0 ? -gap : gap, unsure);
        *ret_is_sure = false;
    }
}

static void say_each(const gw_job *job, const gwi_first *first, gwi_finding *finding, bool *ret_is_sure)
{
    char name[GWI_RUN_TEXT_MAX];
    const gw_verdict_run *root = &job->brief[first->index].run;
    for (size_t i = 0; i < job->count; i++) {
        const gw_brief *other = &job->brief[i];
        if (i == first->index || !other->run.has_trouble)
            continue;
        if (root->has_trouble && first->stall.kind == GWI_STALL_NONE)
            say_order(root, &other->run, finding, ret_is_sure);
        gwi_consequence(finding, "%s: %s%s%s", gwi_run_text(name, &other->run),
                        other->cause == NULL ? "" : other->cause, other->cause == NULL ? "" : ": ", other->headline);
    }
}

/* Find the run that failed next by itself. NULL: the others were ended from outside, or failed because of a rank. */
static const gw_brief *find_next(const gw_job *job, size_t root, size_t *ret_failed_count)
{
    const gw_brief *next = NULL;
    double next_s = 0;
    *ret_failed_count = 0;
    for (size_t i = 0; i < job->count; i++) {
        const gw_verdict_run *run = &job->brief[i].run;
        *ret_failed_count += i != root && run->has_trouble;
        if (i == root || !run->has_trouble || run->trouble_weight == 0 || !run->has_start)
            continue;
        double gap_s = gwi_trouble_gap_s(&job->brief[root].run, run);
        if (next == NULL || gap_s < next_s) {
            next = &job->brief[i];
            next_s = gap_s;
        }
    }
    return next;
}

static void say_rivals(const gw_job *job, const gwi_first *first, gwi_finding *finding)
{
    char names[NAMES_TEXT_MAX], name[GWI_RUN_TEXT_MAX];
    const gw_verdict_run *root = &job->brief[first->index].run;
    double unsure_s = 0;
    for (size_t i = 0; i < first->rival_count; i++) {
        double one_s = gwi_uncertainty_s(root, &job->brief[first->rival[i]].run);
        unsure_s = one_s > unsure_s ? one_s : unsure_s;
    }
    gwi_evidence(finding, root->t_trouble_ns, "host",
                 "it is unclear whether %s failed first: by the clocks, which may differ by up to %.3f s, %zu other "
                 "machine%s may have failed before (%s)",
                 gwi_run_text(name, root), unsure_s, first->rival_count, GWI_PLURAL(first->rival_count),
                 names_text(names, job, first->rival, first->rival_count));
    gwi_weigh(finding, GW_WEIGHT_DECIDES);
}

static void say_order_of_many(const gw_job *job, const gwi_first *first, gwi_finding *finding, bool *ret_is_sure)
{
    char name[GWI_RUN_TEXT_MAX], next_name[GWI_RUN_TEXT_MAX];
    const gw_verdict_run *root = &job->brief[first->index].run;
    size_t failed_count;
    const gw_brief *next = find_next(job, first->index, &failed_count);
    if (first->rival_count > 0) {
        say_rivals(job, first, finding);
        *ret_is_sure = false;
    } else if (next != NULL && root->has_start) {
        gwi_evidence(finding, root->t_trouble_ns, "host",
                     "%s failed first, %.3f s before the next, %s; their clocks may differ by %.3f s",
                     gwi_run_text(name, root), gwi_trouble_gap_s(root, &next->run), gwi_run_text(next_name, &next->run),
                     gwi_uncertainty_s(root, &next->run));
        gwi_weigh(finding, GW_WEIGHT_DECIDES);
    } else if (root->trouble_weight > 0 && failed_count > 0) {
        gwi_evidence(finding, root->t_trouble_ns, "host",
                     "%s alone has trouble of its own: the other %zu were ended from outside, or failed because of "
                     "another rank",
                     gwi_run_text(name, root), failed_count);
        gwi_weigh(finding, GW_WEIGHT_DECIDES);
    }
}

/* ---- what happened to the others ---- */

typedef struct group {
    const char *cause; /* static; NULL: not known */
    size_t count;
    const gw_brief *earliest;
} group;

static bool same_cause(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static int by_count(const void *left, const void *right)
{
    const group *a = left, *b = right;
    if (a->count != b->count)
        return a->count < b->count ? 1 : -1;
    return strcmp(a->cause == NULL ? "" : a->cause, b->cause == NULL ? "" : b->cause);
}

static size_t group_others(const gw_job *job, size_t root, group groups[GWI_CAUSE_COUNT + 1])
{
    size_t count = 0;
    for (size_t i = 0; i < job->count; i++) {
        const gw_brief *brief = &job->brief[i];
        size_t k = 0;
        if (i == root || !brief->run.has_trouble)
            continue;
        while (k < count && !same_cause(groups[k].cause, brief->cause))
            k++;
        if (k == count)
            groups[count++] = (group){brief->cause, 0, brief};
        groups[k].count++;
        if (gwi_trouble_gap_s(&groups[k].earliest->run, &brief->run) < 0)
            groups[k].earliest = brief;
    }
    qsort(groups, count, sizeof *groups, by_count);
    return count;
}

static void say_groups(const gw_job *job, const gwi_first *first, gwi_finding *finding)
{
    group groups[GWI_CAUSE_COUNT + 1];
    size_t count = group_others(job, first->index, groups), more = 0;
    for (size_t i = 0; i < count; i++) {
        char name[GWI_RUN_TEXT_MAX];
        if (i >= GROUPS_MAX) {
            more += groups[i].count;
            continue;
        }
        gwi_consequence(finding, "%zu recording%s: %s (the first: %s: %s)", groups[i].count,
                        GWI_PLURAL(groups[i].count), groups[i].cause == NULL ? "not determined" : groups[i].cause,
                        gwi_run_text(name, &groups[i].earliest->run), groups[i].earliest->headline);
    }
    if (more > 0)
        gwi_consequence(finding, "%zu more recording%s with other causes", more, GWI_PLURAL(more));
}

/* ---- what is missing ---- */

static void say_unread(const gw_verdict_job *about, gwi_finding *finding)
{
    gw_text text = {0};
    for (size_t i = 0; i < about->unread.count && i < NAMED_MAX; i++)
        gw_text_addf(&text, "%s%.160s", i == 0 ? "" : "; ", about->unread.item[i]);
    if (about->unread.count > 0)
        gwi_evidence(finding, GWI_NO_TIME, "host", "%zu recording%s cannot be read: %s%s", about->unread.count,
                     GWI_PLURAL(about->unread.count), gw_text_str(&text),
                     about->unread.count > NAMED_MAX ? "; .." : "");
    finding->failed = finding->failed || text.failed;
    gw_text_free(&text);
}

/* Report the recordings without an end. Those that stop before the first failure may be the first. */
static void say_cut(const gw_job *job, const gwi_first *first, const gw_verdict_job *about, gwi_finding *finding)
{
    char names[NAMES_TEXT_MAX];
    bool failed = job->brief[first->index].run.has_trouble;
    if (first->is_lost)
        return;
    if (first->lost_count > 0) {
        gwi_evidence(finding, GWI_NO_TIME, "host",
                     "%zu recording%s without an end%s: the machine, or gpuwhy there, died (%s)", first->lost_count,
                     first->lost_count == 1 ? " stops" : "s stop", failed ? ", perhaps before the first failure" : "",
                     names_text(names, job, first->lost, first->lost_count));
        gwi_weigh(finding, GW_WEIGHT_DECIDES);
    }
    if (failed && about->cut_count > first->lost_count) {
        size_t later = about->cut_count - first->lost_count;
        gwi_evidence(finding, GWI_NO_TIME, "host", "%zu recording%s without an end after the first failure", later,
                     later == 1 ? " stops" : "s stop");
        gwi_weigh(finding, GW_WEIGHT_ASIDE);
    }
}

static void say_missing(const gw_job *job, const gwi_first *first, const gw_verdict_job *about, gwi_finding *finding,
                        bool *ret_is_sure)
{
    char numbers[GWI_NUMBERS_TEXT_MAX];
    if (about->missing_count > 0) {
        gwi_evidence(finding, GWI_NO_TIME, "host", "%zu of %" PRIu32 " ranks are in no readable recording: %s%s",
                     about->missing_count, about->world,
                     gwi_numbers_text(numbers, about->missing, about->missing_count),
                     job->brief[first->index].status == GW_VERDICT_CLEAN ? "" : "; one of them may have failed first");
        gwi_weigh(finding, GW_WEIGHT_DECIDES);
    }
    say_unread(about, finding);
    say_cut(job, first, about, finding);
    if (about->damaged_count > 0 && job->count > FEW) {
        gwi_evidence(finding, GWI_NO_TIME, "host", "%zu recording%s damaged blocks, which were skipped",
                     about->damaged_count, about->damaged_count == 1 ? " has" : "s have");
        gwi_weigh(finding, GW_WEIGHT_ASIDE);
    }
    if (about->missing_count > 0 || about->unread.count > 0 || (first->lost_count > 0 && !first->is_lost))
        *ret_is_sure = false;
}

/* True if a run on another machine than the root's failed, so that clocks matter. */
static bool clocks_matter(const gw_job *job, const gw_verdict_run *root)
{
    for (size_t i = 0; i < job->count; i++) {
        const gw_verdict_run *run = &job->brief[i].run;
        if (run != root && run->has_trouble && !gwi_same_boot(run, root))
            return true;
    }
    return false;
}

void gwi_say_job(const gw_job *job, const gwi_first *first, const gw_verdict_job *about, gwi_finding *finding,
                 bool *ret_is_sure)
{
    const gw_verdict_run *root = &job->brief[first->index].run;
    *ret_is_sure = true;
    if (job->count <= FEW) {
        if (root->has_trouble || first->is_lost || first->stall.kind != GWI_STALL_NONE)
            say_each(job, first, finding, ret_is_sure);
    } else {
        if (root->has_trouble && first->stall.kind == GWI_STALL_NONE)
            say_order_of_many(job, first, finding, ret_is_sure);
        say_groups(job, first, finding);
    }
    say_missing(job, first, about, finding, ret_is_sure);
    if (root->has_trouble && first->stall.kind == GWI_STALL_NONE && clocks_matter(job, root))
        say_clocks(job, finding);
}
