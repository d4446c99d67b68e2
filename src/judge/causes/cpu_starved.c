/* The program's threads did not get enough processor time. This is not a fault.
 *
 * Never established: this is advice, not the cause of a failure. */
#include "gwi_alone.h"
#include "gwi_machine.h"

#include <inttypes.h>
#include <stdio.h>

static const uint64_t periods_min = 50; /* least number of periods to judge; 5 s at the usual 0.1 s per period */
static const double throttled_min = 0.25, waited_min = 1.0 / 3;
static const uint64_t waited_ns_min = 2000000000u;

static const gw_series *group_series(const gwi_case *c, gw_metric metric)
{
    return gw_machine_known(c->model, metric, GW_NO_DEVICE, 0);
}

/* If a control group's processor limit throttled the program, report this and return true. *ret_good is then false if
 * there is no memory. */
static bool say_throttled(const gwi_case *c, gw_string_list *advice, bool *ret_good)
{
    const gw_series *periods = group_series(c, GW_METRIC_CGROUP_CPU_PERIODS);
    const gw_series *throttled = group_series(c, GW_METRIC_CGROUP_CPU_THROTTLED);
    const gw_series *time = group_series(c, GW_METRIC_CGROUP_CPU_THROTTLED_TIME);
    const gw_series *limit = group_series(c, GW_METRIC_CGROUP_CPU_LIMIT);
    if (periods == NULL || throttled == NULL || limit == NULL || limit->last == UINT64_MAX ||
        periods->rise < periods_min || throttled->rise > periods->rise)
        return false;
    double share = (double)throttled->rise / (double)periods->rise;
    if (share < throttled_min)
        return false;
    char in_all[48] = "";
    if (time != NULL)
        snprintf(in_all, sizeof in_all, ", %.1f s in all", (double)time->rise / 1e9);
    *ret_good =
        gwi_list_addf(advice,
                      "cpu-starved: the control group's limit of %.2f processors throttled its threads in %.0f %% of "
                      "the periods (%" PRIu64 " of %" PRIu64
                      "%s): raise the limit, or use fewer threads (OMP_NUM_THREADS) and loader workers",
                      (double)limit->last / 1e3, 100 * share, throttled->rise, periods->rise, in_all);
    return true;
}

/* Return the longest total time that a process's first thread waited for a processor. The wait must be at least 2 s and
 * a third of the sampled time. Returns NULL if there is none. */
static const gw_series *longest_wait(const gwi_case *c)
{
    const gw_series *longest = NULL;
    for (size_t i = 0; i < c->model->process_count; i++) {
        const gw_series *wait =
            gw_machine_known(c->model, GW_METRIC_PROCESS_CPU_WAIT, GW_NO_DEVICE, c->model->process[i].pid);
        if (wait != NULL && wait->rise >= waited_ns_min &&
            (double)wait->rise >= waited_min * (double)(wait->t_last_ns - wait->t_first_ns) &&
            (longest == NULL || wait->rise > longest->rise))
            longest = wait;
    }
    return longest;
}

/* Return true if a lack of processor time may have to do with the end: the run was slow, it hung, or something ended it
 * because it took too long. A failure that a call or an exception shows has another reason. */
static bool may_matter(const gwi_case *c)
{
    if (!c->bad_end || c->hang.kind != GWI_HANG_NONE || c->stall.kind != GWI_STALL_NONE)
        return true;
    if (c->root != NULL)
        return false;
    bool has_reason = c->exception == GW_EXCEPTION_OOM || c->exception == GW_EXCEPTION_GPU;
    return (gwi_was_ended_from_outside(c) && !has_reason) || gwi_is_told(c, gwi_cause_of("slow-phase-timeout"));
}

static bool advise(const gwi_case *c, gw_string_list *advice)
{
    bool good = true;
    if (!may_matter(c))
        return true;
    if (say_throttled(c, advice, &good))
        return good;
    const gw_series *wait = longest_wait(c);
    if (wait == NULL)
        return true;
    double waited_s = (double)wait->rise / 1e9, seconds = (double)(wait->t_last_ns - wait->t_first_ns) / 1e9;
    return gwi_list_addf(advice,
                         "cpu-starved: the first thread of pid %" PRIu32
                         " was ready to run but had to wait for a processor for %.1f s of %.1f s (%.0f %%): too many "
                         "threads share its processors. Use fewer threads (OMP_NUM_THREADS, loader workers). Check "
                         "what else runs on this machine, and which processors the program may use (taskset -p)",
                         wait->pid, waited_s, seconds, 100 * waited_s / seconds);
}

const gw_cause gwi_cause_cpu_starved = {
    .id = "cpu-starved",
    .summary = "A processor limit throttled the program's threads, or they waited for a free processor. Advice, never "
               "a fault.",
    .proof = "throttling of the control group in at least a quarter of the periods of the run, or a first thread of a "
             "process that waited for a processor for a third of the time, as counted by the kernel",
    .fixes = {[GW_FRAMEWORK_RAW] = "Raise the processor limit of the job or container\n"
                                   "Set OMP_NUM_THREADS to the number of processors of the job\n"
                                   "Use fewer loader workers; pin processes to one NUMA node"},
    .advise = advise,
};
