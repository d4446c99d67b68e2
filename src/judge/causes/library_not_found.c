/* The loader or the linker did not find a CUDA library. No driver call shows this.
 *
 * Never established: printed messages make the cause supported at most. */
#include "gwi_cause.h"

const gw_cause gwi_cause_library_not_found = {
    .id = "library-not-found",
    .summary = "The loader or the linker did not find a CUDA library.",
    .proof = "a message of the loader that names the missing file",
    .fixes = {[GW_FRAMEWORK_RAW] = "Install the package that contains this library into this environment\n"
                                   "Add its folder to the loader's path, but no folder with another version\n"
                                   "In a container: start it with the GPU's driver libraries (--gpus all)",
              [GW_FRAMEWORK_TORCH] = "Reinstall torch and its nvidia-* packages with pip, in a fresh environment\n"
                                     "Unset LD_LIBRARY_PATH: wheels find their own libraries",
              [GW_FRAMEWORK_TENSORFLOW] = "pip install tensorflow[and-cuda], in a fresh environment",
              [GW_FRAMEWORK_JAX] = "pip install -U \"jax[cuda12]\" or \"jax[cuda13]\", in a fresh environment"},
};
