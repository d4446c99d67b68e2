/* The program reached a limit on open files, threads or processes.
 *
 * Established only by: both of
 * - the system's message as the program's last output;
 * - a count at its limit: a process's open files, or the control group's threads and processes.
 *
 * Supported by:
 * - the message alone: inotify's limits and system-wide limits cause the same message. */
#include "gwi_coverage.h"
#include "gwi_machine.h"

#include <inttypes.h>

/* Find the process that came closest to its limit on open files, and return its number of open files, or NULL. */
static const gw_series *fullest(const gw_model *model, const gw_series **ret_limit)
{
    const gw_series *best = NULL;
    double share = -1;
    for (size_t i = 0; i < model->machine.series_count; i++) {
        const gw_series *open = &model->machine.series[i];
        if (open->metric != GW_METRIC_PROCESS_DESCRIPTORS || open->state != GW_SAMPLE_KNOWN)
            continue;
        const gw_series *limit = gw_machine_known(model, GW_METRIC_PROCESS_DESCRIPTORS_LIMIT, open->device, open->pid);
        if (limit == NULL || limit->last == 0 || (double)open->max / (double)limit->last <= share)
            continue;
        share = (double)open->max / (double)limit->last;
        best = open;
        *ret_limit = limit;
    }
    return best;
}

/* Report the highest number of open files and the limit. Returns true if the number was within about 5 % of the
 * limit. */
static bool say_files(const gwi_case *c, gwi_finding *finding)
{
    const gw_series *limit = NULL, *open = fullest(c->model, &limit);
    const char *told = gw_model_meta(c->model, "rlimit.nofile");
    if (open == NULL) {
        if (told != NULL)
            gwi_evidence(finding, GWI_NO_TIME, "host", "limit on open files (ulimit -n): %s", told);
        return false;
    }
    gwi_measure(finding, open->t_max_ns, "host", (double)open->max, "count",
                "pid %" PRIu32 " had at most %" PRIu64 " files open; its limit is %" PRIu64, open->pid, open->max,
                limit->last);
    return open->max + open->max / 20 + 2 >= limit->last;
}

static bool say_threads(const gwi_case *c, gwi_finding *finding)
{
    const gw_series *count = gw_machine_known(c->model, GW_METRIC_CGROUP_PIDS, GW_NO_DEVICE, 0);
    const gw_series *limit = gw_machine_known(c->model, GW_METRIC_CGROUP_PIDS_LIMIT, GW_NO_DEVICE, 0);
    const char *told = gw_model_meta(c->model, "rlimit.nproc");
    if (told != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "host", "limit on the user's threads and processes (ulimit -u): %s", told);
    if (count == NULL || limit == NULL || limit->last == UINT64_MAX)
        return false;
    gwi_measure(finding, count->t_max_ns, "host", (double)count->max, "count",
                "the control group had at most %" PRIu64 " threads and processes; its limit is %" PRIu64, count->max,
                limit->last);
    return count->max + count->max / 20 + 2 >= limit->last;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    gw_certainty by_text = gwi_judge_by_text(c, finding);
    if (by_text == GW_CERTAINTY_NONE)
        return GW_CERTAINTY_NONE;
    bool is_files = gwi_is_decided_by(c, GW_SAYS_LIMITS, "files");
    gwi_headline(finding, "the limit on %s was reached%s", is_files ? "open files" : "threads or processes",
                 gwi_gpu_words(c));
    bool reached = is_files ? say_files(c, finding) : say_threads(c, finding);
    gwi_rule_out_gpu(c, finding, "no driver call failed");
    /* The message alone is ambiguous, because inotify's limits and system-wide limits cause the same message. */
    return reached ? GW_ESTABLISHED : by_text;
}

const gw_cause gwi_cause_fd_or_process_limit = {
    .id = "fd-or-process-limit",
    .summary = "The program reached a limit on open files, threads or processes.",
    .proof = "the system's message \"Too many open files\", or a thread that could not be started, at the end of the "
             "program, while the program or its control group was at the limit",
    .fixes = {[GW_FRAMEWORK_RAW] = "Raise the limit (ulimit -n, ulimit -u) for the job\n"
                                   "Use fewer workers, and close files that are no longer needed",
              [GW_FRAMEWORK_TORCH] = "torch.multiprocessing.set_sharing_strategy(\"file_system\")\n"
                                     "Raise ulimit -n, or use fewer DataLoader workers"},
    .judge = judge,
};
