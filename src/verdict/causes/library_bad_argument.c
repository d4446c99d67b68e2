/* A library refused the shapes, types or values that the program passed to it.
 * What tells of it is printed; no driver call does. */
#include "cause.h"

const gw_cause gwi_cause_library_bad_argument = {
    .id = "library-bad-argument",
    .summary = "A library refused the shapes, types or values that the program passed to it.",
    .proof = "the library's status, shapes that do not fit, and no failure before it",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Compare the shapes, strides and types of the arguments with what the operation takes\n"
                  "Run the same call on the CPU: its message names the argument",
              [GW_FRAMEWORK_TORCH] = "Run the failing step on the CPU: its message names the shapes\n"
                                     "Call .contiguous() before, and check that types agree"},
    .judge = gwi_judge_by_log,
};
