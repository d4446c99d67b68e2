/* The forward-compatibility driver was loaded for a card or a kernel driver that it does not support.
 *
 * Established only by: all of
 * - the result 804, which only this driver returns;
 * - a driver library in a compat folder;
 * - an end of the run because of this (gwi_sure_of_end()).
 *
 * Supported by:
 * - 804 with a driver library in another folder, which may be a copy. */
#include "gwi_start.h"

#include <string.h>

enum { COMPAT_NOT_SUPPORTED = 804 };

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *failure = gwi_root_with(c, COMPAT_NOT_SUPPORTED);
    if (failure == NULL)
        return GW_CERTAINTY_NONE;
    gwi_versions versions = gwi_versions_of(c);
    bool compat = versions.driver_path != NULL && strstr(versions.driver_path, "/compat") != NULL;
    const char *path = gw_model_meta(c->model, "env.LD_LIBRARY_PATH");
    gwi_headline(finding,
                 "a forward-compatibility driver was loaded that does not work with this card and kernel driver");
    gwi_say_failed_call(c, finding, failure);
    gwi_say_versions(&versions, finding);
    if (path != NULL && strstr(path, "compat") != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "host", "LD_LIBRARY_PATH=%s", path);
    return gwi_sure_of_end(c, failure, compat ? GW_ESTABLISHED : GW_SUPPORTED);
}

const gw_cause gwi_cause_forward_compat_misuse = {
    .id = "forward-compat-misuse",
    .summary = "A forward-compatibility driver was loaded where it cannot work.",
    .proof = "result 804 from cuInit, and a driver library in a compat folder",
    .fixes = {[GW_FRAMEWORK_RAW] = "Remove the compat folder from LD_LIBRARY_PATH and ld.so.conf: only data-centre "
                                   "cards support forward compatibility\n"
                                   "Update the driver, or use an image with an older CUDA"},
    .judge = judge,
};
