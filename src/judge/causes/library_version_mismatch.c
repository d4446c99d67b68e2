/* The program loaded a library in another version than the framework was built with. Only printed messages show this;
 * driver calls do not.
 *
 * Established only by: a log in which a message names both versions and an error follows.
 * In a recording, this message makes the cause supported at most, because the program may have survived it. */
#include "gwi_cause.h"

const gw_cause gwi_cause_library_version_mismatch = {
    .id = "library-version-mismatch",
    .summary = "The loader found another version of a library than the framework was built with.",
    .proof = "a message of the framework that names both versions",
    .fixes = {[GW_FRAMEWORK_RAW] = "Remove the other copy from the loader's path (LD_LIBRARY_PATH, a system copy)\n"
                                   "Install the version that the framework was built with; the message names it",
              [GW_FRAMEWORK_TORCH] = "Unset LD_LIBRARY_PATH, so that torch loads its own copy of cuDNN\n"
                                     "Reinstall torch with its nvidia-* packages",
              [GW_FRAMEWORK_TENSORFLOW] = "pip install tensorflow[and-cuda] installs the cuDNN it was built with; "
                                          "remove older copies from LD_LIBRARY_PATH",
              [GW_FRAMEWORK_JAX] = "pip install -U \"jax[cuda12]\" or \"jax[cuda13]\"; remove older nvidia-cudnn "
                                   "packages, and unset LD_LIBRARY_PATH"},
};
