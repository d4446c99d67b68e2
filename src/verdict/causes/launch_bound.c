/* Small kernels, launched one by one: the GPU is done before the next one comes. No fault.
 *
 * Never established: advice, which is never the reason of a failure. */
#include "gwi_pace.h"

#include <inttypes.h>

enum { MANY_LAUNCHES = 20000, BUSY_PERCENT = 60 };
static const double seconds_min = 5, gap_max_ns = 50000, wait_max = 0.3;

static bool advise(const gwi_case *c, gw_string_list *advice)
{
    gwi_pace pace;
    if (!gwi_pace_find(c, &pace) || !pace.busy_known || pace.busy_percent >= BUSY_PERCENT ||
        pace.launches < MANY_LAUNCHES || pace.seconds < seconds_min || pace.launch_count * 2 < pace.call_count)
        return true;
    double gap_ns = (double)pace.span_ns / (double)pace.launch_count;
    if (gap_ns > gap_max_ns || pace.wait_share > wait_max)
        return true;
    return gwi_list_addf(advice,
                         "launch-bound: a launch every %.1f us (%" PRIu64 " in all), and the GPU was never more than "
                         "%.0f %% busy: its kernels are over before the next one comes; use CUDA graphs, fused "
                         "operations or a larger batch",
                         gap_ns / 1e3, pace.launches, pace.busy_percent);
}

const gw_cause gwi_cause_launch_bound = {
    .id = "launch-bound",
    .summary = "Kernels are so small that launching them takes longer than they do. Advice, never a fault.",
    .proof = "launches one after the other without waits, at least one every 50 us, on a card that NVML never saw more "
             "than 60 % busy",
    .fixes = {[GW_FRAMEWORK_RAW] = "CUDA graphs, fewer and larger kernels, a larger batch",
              [GW_FRAMEWORK_TORCH] = "torch.compile, CUDA graphs (mode=\"reduce-overhead\"), a larger batch\n"
                                     "fused=True or foreach=True optimizers",
              [GW_FRAMEWORK_TENSORFLOW] = "jit_compile=True, a larger batch",
              [GW_FRAMEWORK_JAX] = "jit larger functions, a larger batch"},
    .advise = advise,
};
