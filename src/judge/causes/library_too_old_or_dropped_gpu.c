/* The version of a library does not support this card yet, or no longer supports it. Only printed messages or cuDNN's
 * own log show this; driver calls do not.
 *
 * Never established: messages on stderr or in cuDNN's own log make the cause supported at most. */
#include "gwi_cudnn_log.h"

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    static const char *const words[] = {"ARCH_MISMATCH", NULL};
    if (gwi_is_told(c, finding->cause))
        return GW_CERTAINTY_NONE; /* the verdict by the text reports the entry of the log, too */
    return gwi_cudnn_judge(c, finding, words, "this version of cuDNN does not support this card");
}

const gw_cause gwi_cause_library_too_old_or_dropped_gpu = {
    .id = "library-too-old-or-dropped-gpu",
    .summary = "The library's version does not support this card yet, or no longer supports it.",
    .proof = "the library's status for an unsupported architecture, or versions outside its support table",
    .fixes = {[GW_FRAMEWORK_RAW] = "Install the framework's build for this card (data/framework_compat.tsv)\n"
                                   "For cards older than Turing: cuDNN 9.10 or older"},
    .judge = judge,
};
