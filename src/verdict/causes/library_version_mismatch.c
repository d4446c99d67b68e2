/* A library was loaded in another version than the framework was built with.
 * What tells of it is printed; no driver call does.
 *
 * Established only by: a log in which cuDNN says which version it was built with and which one is loaded, and in which
 * an error follows: the message names both versions. A recording weighs the same words as supported at most, because
 * the program may have outlived them. */
#include "gwi_cause.h"

const gw_cause gwi_cause_library_version_mismatch = {
    .id = "library-version-mismatch",
    .summary = "A library was loaded in another version than the framework was built with.",
    .proof = "the framework's message names both versions",
    .fixes = {[GW_FRAMEWORK_RAW] = "Remove the foreign copy from the loader's path (LD_LIBRARY_PATH, a system copy)\n"
                                   "Install the version that the message names as the one it was built with",
              [GW_FRAMEWORK_TORCH] = "Unset LD_LIBRARY_PATH, so that torch loads the cuDNN that it brought\n"
                                     "Reinstall torch with its nvidia-* packages",
              [GW_FRAMEWORK_TENSORFLOW] = "pip install tensorflow[and-cuda] brings the cuDNN it was built with; remove "
                                          "older ones from LD_LIBRARY_PATH",
              [GW_FRAMEWORK_JAX] = "pip install -U \"jax[cuda12]\" or \"jax[cuda13]\"; keep no older nvidia-cudnn "
                                   "package and no LD_LIBRARY_PATH beside it"},
    .judge = gwi_judge_by_log,
};
