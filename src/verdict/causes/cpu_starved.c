/* The program's threads did not get the processors that they asked for. No fault. */
#include "machine.h"

#include <inttypes.h>

static const uint64_t periods_min = 50; /* five seconds of the usual tenth of a second */
static const double throttled_min = 0.25;

static const gw_series *group_series(const gwi_case *c, gw_metric metric)
{
    return gw_machine_known(c->model, metric, GW_NO_DEVICE, 0);
}

static bool advise(const gwi_case *c, gw_string_list *advice)
{
    const gw_series *periods = group_series(c, GW_METRIC_CGROUP_CPU_PERIODS);
    const gw_series *throttled = group_series(c, GW_METRIC_CGROUP_CPU_THROTTLED);
    const gw_series *time = group_series(c, GW_METRIC_CGROUP_CPU_THROTTLED_TIME);
    const gw_series *limit = group_series(c, GW_METRIC_CGROUP_CPU_LIMIT);
    if (periods == NULL || throttled == NULL || limit == NULL || limit->last == UINT64_MAX ||
        periods->rise < periods_min || throttled->rise > periods->rise)
        return true;
    double share = (double)throttled->rise / (double)periods->rise;
    if (share < throttled_min)
        return true;
    return gwi_list_addf(advice,
                         "cpu-starved: the control group's limit of %.2f processors stopped its threads in %.0f %% of "
                         "the periods (%" PRIu64 " of %" PRIu64 "%s%.1f s in all): raise the limit, or use fewer "
                         "threads (OMP_NUM_THREADS) and loader workers",
                         (double)limit->last / 1e3, 100 * share, throttled->rise, periods->rise,
                         time == NULL ? "; not known, " : ", ", time == NULL ? 0 : (double)time->rise / 1e9);
}

const gw_cause gwi_cause_cpu_starved = {
    .id = "cpu-starved",
    .summary = "The program's threads were stopped by a processor limit. Advice, never a fault.",
    .proof = "the control group's count of throttled periods rose in at least a quarter of the periods of the run",
    .fixes = {[GW_FRAMEWORK_RAW] = "Raise the processor limit of the job or container\n"
                                   "Set OMP_NUM_THREADS to what the job has\n"
                                   "Use fewer loader workers; pin processes to one NUMA node"},
    .advise = advise,
};
