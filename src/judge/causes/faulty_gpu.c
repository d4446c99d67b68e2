/* This card fails at work that other cards of the same kind do without errors.
 *
 * Never established: only printed messages show this. They make the cause supported at most. */
#include "gwi_cause.h"

const gw_cause gwi_cause_faulty_gpu = {
    .id = "faulty-gpu",
    .summary = "This card fails where other cards of the same model work.",
    .proof = "a run of the same program that works on another card, and repeated faults on this card that a program "
             "normally causes",
    .fixes = {[GW_FRAMEWORK_RAW] = "Run the same program on another card: only that decides\n"
                                   "Run the vendor's diagnostics (dcgmi diag -r 3) on this card"},
};
