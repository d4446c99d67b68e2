/* The driver was given PTX code from a toolkit that is newer than the driver.
 *
 * Established only by: the result 222 of a module load that ended the run (gwi_sure_of_end()). The driver checks the
 * PTX version before anything else.
 * Supported by: the same result, if the program continued for a long time or its last output does not name this
 * error. */
#include "gwi_start.h"

enum { UNSUPPORTED_PTX = 222 };

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *failure = gwi_root_with(c, UNSUPPORTED_PTX);
    if (failure == NULL)
        return GW_CERTAINTY_NONE;
    gwi_versions versions = gwi_versions_of(c);
    gwi_headline(finding, "a module contains PTX of a toolkit newer than the driver supports");
    gwi_say_failed_call(c, finding, failure);
    gwi_say_versions(&versions, finding);
    gwi_rule_out(c, finding, GWI_OF_PROCESS,
                 "a card that is too new or too old (the driver rejected the code's version, not the card)");
    return gwi_sure_of_end(c, failure, GW_ESTABLISHED);
}

const gw_cause gwi_cause_ptx_too_new = {
    .id = "ptx-too-new",
    .summary = "A module's PTX comes from a toolkit newer than the driver supports.",
    .proof = "a module load that failed with 222",
    .fixes = {[GW_FRAMEWORK_RAW] = "Update the driver\n"
                                   "Build native code for this card (-gencode arch=compute_XX,code=sm_XX): within a "
                                   "major CUDA version, an older driver can run it\n"
                                   "Compile at run time with the NVRTC or Triton of the driver's CUDA version"},
    .judge = judge,
};
