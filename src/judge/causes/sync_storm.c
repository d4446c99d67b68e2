/* The host waits for the GPU after nearly every small piece of work. This is not a fault.
 *
 * Never established: this is advice and never the cause of a failure. */
#include "gwi_pace.h"

#include <inttypes.h>

enum { SYNCS_MIN = 1000, GRAPHS_FEW = 10 };
static const uint64_t short_ns = 1000000; /* a median time of this or more between two waits is normal */

static bool advise(const gwi_case *c, gw_string_list *advice)
{
    gwi_pace pace;
    if (!gwi_pace_find(c, &pace) || pace.syncs < SYNCS_MIN || pace.syncs * 2 < pace.launches ||
        pace.graph_launches * GRAPHS_FEW > pace.launches)
        return true;
    if (pace.sync_count * 2 < pace.launch_count || pace.sync_period_ns == 0 || pace.sync_period_ns >= short_ns)
        return true;
    return gwi_list_addf(advice,
                         "sync-storm: %.1f synchronisations per launch over %.1f s (%" PRIu64
                         " in total), one every %.0f us; %.0f %% of the last %.1f s was spent inside them: read "
                         "results every N steps, not after each",
                         (double)pace.syncs / (double)pace.launches, pace.seconds, pace.syncs,
                         (double)pace.sync_period_ns / 1e3, 100 * pace.wait_share, (double)pace.span_ns / 1e9);
}

const gw_cause gwi_cause_sync_storm = {
    .id = "sync-storm",
    .summary = "The program waits for the GPU after nearly every small piece of work. Advice, never a fault.",
    .proof =
        "at least one synchronisation per two launches, at least a thousand in total, less than a millisecond apart",
    .fixes = {[GW_FRAMEWORK_RAW] = "Wait once per step, or on the events of the results you need; use streams\n"
                                   "Read results every N steps",
              [GW_FRAMEWORK_TORCH] =
                  "Do not call .item(), print() or .cpu() on tensors inside the loop; log every N steps\n"
                  "torch.cuda.set_sync_debug_mode(\"warn\") names the lines\n"
                  "Use fused or capturable optimizers",
              [GW_FRAMEWORK_JAX] = "Do not call block_until_ready() or float() inside the loop; log every N steps"},
    .advise = advise,
};
