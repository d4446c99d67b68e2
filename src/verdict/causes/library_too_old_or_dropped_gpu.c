/* The library's version does not serve this card, or has dropped it.
 * What tells of it is printed; no driver call does. */
#include "cause.h"

const gw_cause gwi_cause_library_too_old_or_dropped_gpu = {
    .id = "library-too-old-or-dropped-gpu",
    .summary = "The library's version does not serve this card, or has dropped it.",
    .proof = "the library's status for an unsupported architecture, or versions outside of its support table",
    .fixes = {[GW_FRAMEWORK_RAW] = "Install the framework's build for this card (data/framework_compat.tsv)\n"
                                   "For cards older than Turing: cuDNN 9.10 or older"},
    .judge = gwi_judge_by_log,
};
