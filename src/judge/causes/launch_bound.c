/* Small kernels are launched one by one, and each ends before the next is launched. This is not a fault.
 *
 * Never established: this is only advice. */
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
                         "launch-bound: one launch every %.1f us (%" PRIu64
                         " in total), and the GPU was never more than %.0f %% busy: each kernel ends before the next "
                         "one is launched; use CUDA graphs, fused operations or a larger batch",
                         gap_ns / 1e3, pace.launches, pace.busy_percent);
}

const gw_cause gwi_cause_launch_bound = {
    .id = "launch-bound",
    .summary = "Kernels are so short that launching them takes longer than running them. Advice, never a fault.",
    .proof = "launches without waits in between, at least one every 50 us, and a card that NVML never reported more "
             "than 60 % busy",
    .fixes = {[GW_FRAMEWORK_RAW] = "Use CUDA graphs, fewer and larger kernels, or a larger batch",
              [GW_FRAMEWORK_TORCH] = "Use torch.compile, CUDA graphs (mode=\"reduce-overhead\"), or a larger batch\n"
                                     "Use optimizers with fused=True or foreach=True",
              [GW_FRAMEWORK_TENSORFLOW] = "Use jit_compile=True, or a larger batch",
              [GW_FRAMEWORK_JAX] = "Use jit on larger functions, or a larger batch"},
    .advise = advise,
};
