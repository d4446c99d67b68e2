/* The card fails at what its twins do.
 * What tells of it is printed; no driver call does.
 *
 * Never established: what is printed is all that shows it, and a recording weighs words as supported at most. */
#include "gwi_cause.h"

const gw_cause gwi_cause_faulty_gpu = {
    .id = "faulty-gpu",
    .summary = "The card fails at what its twins do.",
    .proof = "the same program runs on another card, and this one repeats faults that are normally a program's",
    .fixes = {[GW_FRAMEWORK_RAW] = "Run the same program on another card: only that decides\n"
                                   "Run the vendor's diagnostics (dcgmi diag -r 3) on this one"},
    .judge = gwi_judge_by_log,
};
