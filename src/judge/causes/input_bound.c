/* The GPU waits for its input. This is not a fault.
 *
 * Never established: this is advice and never the cause of a failure. */
#include "gwi_pace.h"

enum { PAUSES_MIN = 10, BUSY_PERCENT = 50 };
static const double share_min = 0.5, seconds_min = 5;

static bool advise(const gwi_case *c, gw_string_list *advice)
{
    gwi_pace pace;
    if (!gwi_pace_find(c, &pace) || !pace.busy_known || pace.busy_percent >= BUSY_PERCENT || pace.span_ns == 0 ||
        pace.gap_count < PAUSES_MIN || pace.seconds < seconds_min)
        return true;
    double share = (double)pace.gap_ns / (double)pace.span_ns;
    if (share < share_min)
        return true;
    return gwi_list_addf(advice,
                         "input-bound: the program spent %.0f %% of the last %.1f s in %zu pauses before copies to the "
                         "GPU, which was never more than %.0f %% busy: it waits for data; use more loader workers, "
                         "prefetching, a faster decoder or local copies of the data",
                         100 * share, (double)pace.span_ns / 1e9, pace.gap_count, pace.busy_percent);
}

const gw_cause gwi_cause_input_bound = {
    .id = "input-bound",
    .summary = "The GPU waits for its input. Advice, never a fault.",
    .proof = "pauses before copies to the device for half of the time, and a card that NVML never reported more than "
             "50 % busy",
    .fixes = {[GW_FRAMEWORK_RAW] = "Prepare the next batch while the GPU works on this one: threads, double buffers\n"
                                   "Decode less, cache on a local disk, use fewer and larger files",
              [GW_FRAMEWORK_TORCH] =
                  "DataLoader: a larger num_workers, persistent_workers=True, a larger prefetch_factor\n"
                  "Decode on the GPU (DALI), or decode once and cache",
              [GW_FRAMEWORK_TENSORFLOW] = "tf.data: .prefetch(AUTOTUNE), .cache(), .interleave()"},
    .advise = advise,
};
