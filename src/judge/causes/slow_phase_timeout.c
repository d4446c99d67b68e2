/* A long phase of one rank was mistaken for a hang. Only printed messages show this; driver calls do not.
 *
 * Never established: in a recording, printed messages make the cause supported at most. */
#include "gwi_cause.h"

const gw_cause gwi_cause_slow_phase_timeout = {
    .id = "slow-phase-timeout",
    .summary = "A long phase of one rank was mistaken for a hang.",
    .proof = "no error, and one rank that writes, evaluates or prepares data while the others wait",
    .fixes = {[GW_FRAMEWORK_RAW] = "Raise the process group's timeout\n"
                                   "Prepare data before creating the process group; save without a barrier",
              [GW_FRAMEWORK_TORCH] = "Pass timeout= to init_process_group()\n"
                                     "Use torch.distributed.checkpoint, which writes from all ranks"},
};
