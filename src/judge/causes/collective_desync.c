/* The ranks of the job called different collectives, or the same one with different sizes. Only printed messages show
 * this; driver calls do not.
 *
 * Never established: in a recording, printed messages make the cause supported at most. */
#include "gwi_cause.h"

const gw_cause gwi_cause_collective_desync = {
    .id = "collective-desync",
    .summary = "The ranks of the job called different collectives, or the same one with different sizes.",
    .proof = "sequence numbers, operations or sizes that differ between ranks at the stall",
    .fixes = {[GW_FRAMEWORK_RAW] = "Make all ranks run the same sequence of collectives: no early exit, and no "
                                   "collective inside a branch that depends on the rank\n"
                                   "Give all ranks the same number of batches",
              [GW_FRAMEWORK_TORCH] = "Use drop_last=True, or the Join context manager for uneven inputs\n"
                                     "Set TORCH_DISTRIBUTED_DEBUG=DETAIL: it names the call that differs"},
};
