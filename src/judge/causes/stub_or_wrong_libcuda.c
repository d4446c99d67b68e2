/* The program loaded a toolkit's stub library instead of the driver.
 *
 * Established only by: all of these facts, because only a stub returns 34:
 * - cuInit returned 34.
 * - A driver library in a stubs folder is loaded.
 * - The run ended because of that result (gwi_sure_of_end()).
 *
 * Supported by: 34 with a library in another folder, which is then a copy of the stub. */
#include "gwi_start.h"

#include <string.h>

enum { STUB_LIBRARY = 34 };

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *failure = gwi_root_with(c, STUB_LIBRARY);
    if (failure == NULL || failure->kind != GW_EV_INIT)
        return GW_CERTAINTY_NONE;
    gwi_versions versions = gwi_versions_of(c);
    bool stub = versions.driver_path != NULL && strstr(versions.driver_path, "stubs") != NULL;
    const char *path = gw_model_meta(c->model, "env.LD_LIBRARY_PATH");
    gwi_headline(finding, "the program loaded a stub of the driver, which is only meant for linking");
    gwi_say_failed_call(c, finding, failure);
    gwi_say_versions(&versions, finding);
    if (path != NULL && strstr(path, "stubs") != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "host", "LD_LIBRARY_PATH=%s", path);
    gwi_rule_out(c, finding, GWI_OF_PROCESS, "the GPU and its driver (the program called neither)");
    return gwi_sure_of_end(c, failure, stub ? GW_ESTABLISHED : GW_SUPPORTED);
}

const gw_cause gwi_cause_stub_or_wrong_libcuda = {
    .id = "stub-or-wrong-libcuda",
    .summary = "The program loaded a stub library instead of the driver.",
    .proof = "result 34 from cuInit, and a driver library in a stubs folder",
    .fixes = {[GW_FRAMEWORK_RAW] = "Remove the stubs folder from LD_LIBRARY_PATH and from the program's run path\n"
                                   "Link with -L.../stubs, but without -rpath to it\n"
                                   "A container started without --gpus has no driver at all: start it with --gpus"},
    .judge = judge,
};
