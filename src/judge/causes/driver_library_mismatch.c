/* The driver's library and the kernel driver have different versions.
 *
 * Established only by: the result 803 of a cuInit that ended the run (gwi_sure_of_end()), unless gpuwhy read two equal
 * versions.
 * Supported by: 803 although the versions are equal. A file was replaced after gpuwhy read it, or cuInit compared
 * something else. */
#include "gwi_start.h"

enum { SYSTEM_DRIVER_MISMATCH = 803 };

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *failure = gwi_root_with(c, SYSTEM_DRIVER_MISMATCH);
    gw_version module = 0;
    const char *end;
    if (failure == NULL)
        return GW_CERTAINTY_NONE;
    gwi_versions versions = gwi_versions_of(c);
    if (versions.module != NULL && !gw_version_parse(versions.module, &module, &end))
        module = 0;
    gwi_headline(finding, "the driver's library and the kernel driver have different versions");
    gwi_say_failed_call(c, finding, failure);
    gwi_say_versions(&versions, finding);
    /* Equal versions are evidence against this cause, but the result of cuInit is stronger evidence. */
    bool agree = module != 0 && versions.driver != 0 && module == versions.driver;
    return gwi_sure_of_end(c, failure, agree ? GW_SUPPORTED : GW_ESTABLISHED);
}

const gw_cause gwi_cause_driver_library_mismatch = {
    .id = "driver-library-mismatch",
    .summary = "The driver's library and the kernel driver have different versions.",
    .proof = "result 803 from cuInit",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Reboot, or unload and load the nvidia modules: the driver was updated while they ran\n"
                  "A container must not contain its own libcuda.so: remove it from the image\n"
                  "Disable unattended driver updates"},
    .judge = judge,
};
