/* The driver's PTX compiler is missing or switched off.
 *
 * Established only by: the result 221 (missing) or 223 (switched off) of a module load that ended the run
 * (gwi_sure_of_end()).
 * Supported by: the same result, if the program continued for a long time or its last output does not name this
 * error. */
#include "gwi_start.h"

enum { JIT_COMPILER_NOT_FOUND = 221, JIT_COMPILATION_DISABLED = 223 };

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *failure = gwi_root_with(c, JIT_COMPILER_NOT_FOUND);
    if (failure != NULL)
        gwi_headline(finding, "the driver's PTX compiler (libnvidia-ptxjitcompiler) is missing");
    else if ((failure = gwi_root_with(c, JIT_COMPILATION_DISABLED)) != NULL)
        gwi_headline(finding, "the driver cannot compile PTX: JIT compilation is disabled");
    else
        return GW_CERTAINTY_NONE;
    gwi_versions versions = gwi_versions_of(c);
    const char *disabled = gw_model_meta(c->model, "env.CUDA_DISABLE_JIT");
    gwi_say_failed_call(c, finding, failure);
    if (disabled != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "host", "CUDA_DISABLE_JIT=%s", disabled);
    gwi_say_versions(&versions, finding);
    return gwi_sure_of_end(c, failure, GW_ESTABLISHED);
}

const gw_cause gwi_cause_jit_library_missing = {
    .id = "jit-library-missing",
    .summary = "A module needs the driver's PTX compiler, which is missing or disabled.",
    .proof = "a module load that failed with 221 or 223",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "In a container: NVIDIA_DRIVER_CAPABILITIES=compute,utility, so that the container gets the host's "
                  "driver libraries\n"
                  "Install the driver package that contains libnvidia-ptxjitcompiler, in the driver's own version\n"
                  "Unset CUDA_DISABLE_JIT; or build native code for this card"},
    .judge = judge,
};
