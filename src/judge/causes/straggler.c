/* One rank is repeatedly late, and the others wait for it. Only printed messages show this; driver calls do not.
 *
 * Never established: messages make the cause supported at most. */
#include "gwi_cause.h"

const gw_cause gwi_cause_straggler = {
    .id = "straggler",
    .summary = "One rank is repeatedly late, and the others wait for it.",
    .proof = "a longer time between collectives on one rank, whose clocks, links or processor show why",
    .fixes = {[GW_FRAMEWORK_RAW] = "Find the rank that arrives last, and exclude its host\n"
                                   "Raise the timeout only if the slow phase is legitimate"},
};
