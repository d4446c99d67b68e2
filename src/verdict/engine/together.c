/* Combines the verdicts on several recordings of one job into one. The recordings come from several hosts, or from
 * several ranks with a supervisor each.
 *
 * Times within one boot of one machine are compared by the monotonic clock, others by the realtime clocks. The kernel
 * estimates the error of its realtime clock (about 16 s if the clock is not synchronised). */
#include "gwi_cause.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The kernel's estimate for the error of a clock that is not synchronised. Also used if a recording has no estimate. */
static const uint64_t unkept_clock_error_ns = 16000000000u;

static bool same_boot(const gw_verdict_run *a, const gw_verdict_run *b)
{
    return a->boot_id != NULL && b->boot_id != NULL && strcmp(a->boot_id, b->boot_id) == 0;
}

static uint64_t error_of(const gw_verdict_run *run)
{
    return run->clock_known ? run->clock_error_ns : unkept_clock_error_ns;
}

static double uncertainty_s(const gw_verdict_run *a, const gw_verdict_run *b)
{
    return same_boot(a, b) ? 0 : (double)(error_of(a) + error_of(b)) / 1e9;
}

/* Return the seconds from the start of run `a` to the start of run `b`. */
static double start_gap_s(const gw_verdict_run *a, const gw_verdict_run *b)
{
    bool one = same_boot(a, b);
    uint64_t from = one ? a->start_monotonic_ns : a->start_realtime_ns;
    uint64_t to = one ? b->start_monotonic_ns : b->start_realtime_ns;
    return to >= from ? (double)(to - from) / 1e9 : -(double)(from - to) / 1e9;
}

static double trouble_gap_s(const gw_verdict_run *a, const gw_verdict_run *b)
{
    return start_gap_s(a, b) + ((double)b->t_trouble_ns - (double)a->t_trouble_ns) / 1e9;
}

static bool overlap(const gw_verdict *a, const gw_verdict *b)
{
    if (!a->run.has_start || !b->run.has_start)
        return true; /* no start time: assume that the runs overlapped */
    double gap = start_gap_s(&a->run, &b->run), slack = uncertainty_s(&a->run, &b->run);
    return gap <= a->seconds + slack && -gap <= b->seconds + slack;
}

static const char *name_of(const gw_verdict *run, char out[96])
{
    const char *host = run->run.host == NULL ? "an unknown host" : run->run.host;
    if (run->run.has_rank)
        snprintf(out, 96, "%.40s, rank %" PRIu32 " (pid %" PRIu32 ")", host, run->run.rank, run->run.pid);
    else
        snprintf(out, 96, "%.40s, pid %" PRIu32, host, run->run.pid);
    return out;
}

/* True if run `a` is more likely the root than run `b`. Both runs had trouble. */
static bool is_before(const gw_verdict *a, const gw_verdict *b)
{
    if (!a->run.has_start || !b->run.has_start)
        return a->run.trouble_weight > b->run.trouble_weight;
    if ((a->run.trouble_weight == 0) != (b->run.trouble_weight == 0))
        return a->run.trouble_weight != 0; /* weight 0: ended from outside, as a launcher ends all its processes */
    double gap = trouble_gap_s(&a->run, &b->run);
    bool known = gap > uncertainty_s(&a->run, &b->run) || -gap > uncertainty_s(&a->run, &b->run);
    if (!known && a->run.trouble_weight != b->run.trouble_weight)
        return a->run.trouble_weight > b->run.trouble_weight;
    return gap > 0;
}

static const gw_verdict *find_root(const gw_verdict *const *runs, size_t count)
{
    const gw_verdict *root = NULL;
    for (size_t i = 0; i < count; i++) {
        if (runs[i]->run.has_trouble && (root == NULL || is_before(runs[i], root)))
            root = runs[i];
    }
    for (size_t i = 0; root == NULL && i < count; i++) {
        if (runs[i]->status != GW_VERDICT_CLEAN)
            root = runs[i]; /* no run had trouble: take the first that is not clean */
    }
    return root != NULL ? root : runs[0];
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
    to->run.host = to->run.boot_id = to->run.cwd = NULL;
    to->alternatives = calloc(from->alternative_count + 1, sizeof *to->alternatives);
    if (to->alternatives == NULL)
        return false;
    if (from->alternative_count > 0)
        memcpy(to->alternatives, from->alternatives, from->alternative_count * sizeof *to->alternatives);
    to->alternative_count = from->alternative_count;
    return gw_str_copy(from->run.host, &to->run.host) && gw_str_copy(from->run.boot_id, &to->run.boot_id) &&
           gw_str_copy(from->run.cwd, &to->run.cwd) && copy_where(&to->where, from->where) &&
           gw_str_copy(from->where_reason, &to->where_reason) && gw_str_copy(from->recording, &to->recording) &&
           copy_list(&to->argv, &from->argv) && copy_list(&to->advice, &from->advice) && copy_gpus(from, to);
}

/* ---- the other runs ---- */

static void say_clocks(const gw_verdict *run, gwi_finding *finding)
{
    const char *host = run->run.host == NULL ? "a host" : run->run.host;
    double error_s = (double)error_of(&run->run) / 1e9;
    if (!run->run.clock_known)
        gwi_evidence(
            finding, GWI_NO_TIME, "host",
            "the recording does not show how accurate the clock of %s was: gpuwhy assumes an error of up to %.0f s",
            host, error_s);
    else if (!run->run.clock_synchronised)
        gwi_measure(finding, GWI_NO_TIME, "host", error_s * 1e3, "ms",
                    "the clock of %s is not synchronised: it may be wrong by %.3f s", host, error_s);
}

static void say_order(const gw_verdict *root, const gw_verdict *other, gwi_finding *finding, bool *ret_known)
{
    char first[96], second[96];
    double gap = trouble_gap_s(&root->run, &other->run), unsure = uncertainty_s(&root->run, &other->run);
    name_of(root, first);
    name_of(other, second);
    if (!root->run.has_start || !other->run.has_start) {
        gwi_evidence(finding, GWI_NO_TIME, "host",
                     "the start time of %s is not recorded: it is unclear which run failed first",
                     root->run.has_start ? second : first);
        *ret_known = false;
    } else if (gap > unsure || (gap >= 0 && unsure == 0)) {
        gwi_evidence(finding, root->run.t_trouble_ns, "host",
                     "%s failed %.3f s before %s; their clocks may differ by %.3f s", first, gap, second, unsure);
    } else if (other->run.trouble_weight == 0) {
        gwi_evidence(finding, root->run.t_trouble_ns, "host",
                     "%s failed by itself, %s was ended from outside; their clocks may differ by %.3f s", first, second,
                     unsure);
    } else {
        gwi_evidence(
            finding, root->run.t_trouble_ns, "host",
            "%s and %s failed within %.3f s, and their clocks may differ by %.3f s: it is unclear which failed first",
            first, second, gap < 0 ? -gap : gap, unsure);
        *ret_known = false;
    }
}

static void say_other(const gw_verdict *root, const gw_verdict *other, gwi_finding *finding, bool *ret_known)
{
    char name[96];
    if (!other->run.has_trouble)
        return;
    say_order(root, other, finding, ret_known);
    gwi_consequence(finding, "%s: %s%s%s", name_of(other, name), other->cause == NULL ? "" : other->cause,
                    other->cause == NULL ? "" : ": ", other->headline);
}

static bool add_part(gw_verdict *verdict, const gw_verdict *root, const gw_verdict *run)
{
    gw_verdict_part *part = &verdict->parts[verdict->part_count++];
    *part = (gw_verdict_part){.status = run->status, .cause = run->cause};
    part->has_offset = root->run.has_trouble && run->run.has_trouble && root->run.has_start && run->run.has_start;
    part->offset_s = part->has_offset ? trouble_gap_s(&root->run, &run->run) : 0;
    part->uncertainty_s = run == root ? 0 : uncertainty_s(&root->run, &run->run);
    return gw_str_copy(run->run.host, &part->host) && gw_str_copy(run->recording, &part->recording) &&
           gw_str_copy(run->headline, &part->headline);
}

static bool say_all(const gw_verdict *const *runs, size_t count, const gw_verdict *root, gw_verdict *verdict,
                    gwi_finding *finding)
{
    char name[96];
    bool known = true, good = true, any = false;
    for (size_t i = 0; i < count && root->run.has_trouble; i++) {
        any = any || (runs[i] != root && runs[i]->run.has_trouble && !same_boot(&runs[i]->run, &root->run));
        if (runs[i] != root)
            say_other(root, runs[i], finding, &known);
    }
    bool unseen = false;
    for (size_t i = 0; i < count; i++)
        unseen =
            unseen || (runs[i]->is_coverage_known && (runs[i]->observed_count == 0 || runs[i]->unobserved.count > 0));
    for (size_t i = 0; i < count && any; i++)
        say_clocks(runs[i], finding);
    for (size_t i = 0; i < count && good; i++)
        good = add_part(verdict, root, runs[i]);
    if (!known && verdict->certainty > GW_SUPPORTED)
        verdict->certainty = GW_SUPPORTED; /* the order is not known: another run may have failed first */
    if (root->status == GW_VERDICT_CLEAN)
        gwi_headline(finding,
                     unseen ? "no fault found in the observed processes of %zu recordings"
                            : "no fault found in %zu recordings",
                     count);
    else
        gwi_headline(finding, "%s: %s", name_of(root, name), root->headline);
    return good && !finding->failed;
}

static bool put_together(const gw_verdict *const *runs, size_t count, gw_verdict *verdict)
{
    const gw_verdict *root = find_root(runs, count);
    gwi_finding finding = {0};
    verdict->parts = calloc(count, sizeof *verdict->parts);
    bool good = verdict->parts != NULL && copy_rest(root, verdict) && copy_evidence(root, &finding) &&
                copy_list(&finding.ruled_out, &root->ruled_out) &&
                copy_list(&finding.consequences, &root->consequences) && copy_list(&finding.next, &root->next) &&
                say_all(runs, count, root, verdict, &finding);
    good = good && gw_str_copy(gw_text_str(&finding.headline), &verdict->headline);
    verdict->evidence = finding.evidence;
    verdict->evidence_count = finding.evidence_count;
    verdict->ruled_out = finding.ruled_out;
    verdict->consequences = finding.consequences;
    verdict->next = finding.next;
    gw_text_free(&finding.headline);
    return good;
}

gw_status gw_judge_together(const gw_verdict *const *runs, size_t count, gw_verdict **ret_verdict, gw_error *err)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (!overlap(runs[k], runs[i]))
                return gw_fail(err, GW_UNSUPPORTED, "%s and %s were not recorded at the same time",
                               runs[k]->recording == NULL ? "a recording" : runs[k]->recording,
                               runs[i]->recording == NULL ? "another" : runs[i]->recording);
        }
    }
    gw_verdict *verdict = calloc(1, sizeof *verdict);
    if (verdict == NULL || !put_together(runs, count, verdict)) {
        gw_verdict_free(verdict);
        return gw_fail(err, GW_NOMEM, "judge the runs together");
    }
    *ret_verdict = verdict;
    return GW_OK;
}
