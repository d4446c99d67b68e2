/* A library rejected the shapes, types or values that the program passed to it. Only printed messages or cuDNN's own
 * log show this; driver calls do not.
 *
 * Never established: messages on stderr or in cuDNN's own log make the cause supported at most. */
#include "gwi_cudnn_log.h"

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    static const char *const words[] = {"BAD_PARAM", NULL};
    if (gwi_is_told(c, finding->cause))
        return GW_CERTAINTY_NONE; /* the verdict by the text reports the entry of the log, too */
    return gwi_cudnn_judge(c, finding, words, "cuDNN rejected the shapes, types or values of its arguments");
}

const gw_cause gwi_cause_library_bad_argument = {
    .id = "library-bad-argument",
    .summary = "A library rejected the shapes, types or values that the program passed to it.",
    .proof = "the library's status, shapes that do not match, and no earlier failure",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Compare the shapes, strides and types of the arguments with those that the operation supports\n"
                  "Run the same call on the CPU: its message names the argument",
              [GW_FRAMEWORK_TORCH] = "Run the failing step on the CPU: its message names the shapes\n"
                                     "Call .contiguous() on the inputs, and check that the types agree"},
    .judge = judge,
};
