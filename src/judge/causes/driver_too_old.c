/* The program was built for a CUDA version that needs a newer driver, and a call failed because of this. A driver that
 * is merely older than the toolkit is not a fault: within a major version, it runs what it supports.
 *
 * Established only by: one of these, if the run ended because of it
 * - the result 35, 36 or 222, if the process's CUDA runtime has a newer major version than the driver supports;
 * - the result 35 together with the runtime's own message;
 * - the message alone, if the runtime has such a version. It must belong to an uncaught exception about the GPU, or be
 *   the last line of the output.
 *
 * Supported by:
 * - 35 or 36 although the driver supports the runtime's major version: it lacks only this one call;
 * - the message alone, if the driver is not known to be too old. */
#include "gwi_start.h"

enum { INSUFFICIENT_DRIVER = 35, CALL_REQUIRES_NEWER_DRIVER = 36, UNSUPPORTED_PTX = 222 };

/* True if the driver is older than the oldest driver that runs this CUDA runtime. Compares the driver's CUDA version,
 * or else its own version number. *ret_known is set to true if that was possible. */
static bool is_below_family(const gwi_versions *versions, const char **ret_minimum, bool *ret_known)
{
    if (versions->runtime == NULL)
        return false;
    unsigned major = gw_version_part(versions->runtime->version, 0);
    const gw_cuda_family *family = gw_data_cuda_family(major);
    *ret_minimum = family == NULL ? NULL : family->driver_minimum_text;
    if (versions->api_major != 0) {
        *ret_known = true;
        return versions->api_major < major;
    }
    if (family == NULL || family->verified != GW_VERIFIED_YES || versions->driver == 0)
        return false;
    *ret_known = true;
    return versions->driver < family->driver_minimum;
}

/* Return the certainty if the runtime printed its message and no driver call failed. After an exception about something
 * else, it is a hypothesis: the program survived this error. */
static gw_certainty sure_of_text(const gwi_case *c, const struct gw_log_find *said)
{
    if (c->exception == GW_EXCEPTION_SCRIPT || c->exception == GW_EXCEPTION_OOM)
        return GW_HYPOTHESIS;
    bool is_end = c->exception == GW_EXCEPTION_GPU ? gwi_exception_is_end(c) : gwi_is_said_last(c, said);
    return is_end ? GW_ESTABLISHED : GW_SUPPORTED;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const struct gw_log_find *said = gwi_said(c, finding->cause);
    const char *minimum = NULL;
    const gw_failure *failure = gwi_root_with(c, INSUFFICIENT_DRIVER);
    failure = failure == NULL ? gwi_root_with(c, CALL_REQUIRES_NEWER_DRIVER) : failure;
    gwi_versions versions = gwi_versions_of(c);
    bool known = false, below = is_below_family(&versions, &minimum, &known);
    if (failure == NULL && below)
        failure = gwi_root_with(c, UNSUPPORTED_PTX);
    if (failure == NULL && !(below && said != NULL))
        return GW_CERTAINTY_NONE;
    char text[GW_VERSION_TEXT_MAX];
    if (below && minimum != NULL)
        gwi_headline(finding, "the driver is too old for this program: CUDA %s needs driver %s or newer",
                     gw_version_text(text, versions.runtime->version), minimum);
    else
        gwi_headline(finding, "the driver is too old for a call that the program made");
    if (failure != NULL)
        gwi_say_failed_call(c, finding, failure);
    if (said != NULL)
        gwi_say_said(c, finding, said);
    gwi_say_versions(&versions, finding);
    if (known && !below)
        gwi_rule_out(c, finding, GWI_OF_PROCESS,
                     "a driver below the minimum of its CUDA family (one newer call is missing, not all)");
    if (failure == NULL)
        return sure_of_text(c, said);
    return gwi_sure_of_end(
        c, failure, below || (said != NULL && failure->result == INSUFFICIENT_DRIVER) ? GW_ESTABLISHED : GW_SUPPORTED);
}

const gw_cause gwi_cause_driver_too_old = {
    .id = "driver-too-old",
    .summary = "The program, or one of its libraries, needs a newer driver than the installed one.",
    .proof = "a call that failed with 35, 36 or 222, or the runtime's own message, with a driver older than the "
             "minimum for the runtime's CUDA family; versions alone are no proof",
    .fixes = {[GW_FRAMEWORK_RAW] = "Update the driver\n"
                                   "Use a build for the driver's CUDA version, or an older one\n"
                                   "On data-centre cards: install the forward-compatibility package (cuda-compat)",
              [GW_FRAMEWORK_TORCH] = "Install the build for an older CUDA: pip install torch --index-url "
                                     "https://download.pytorch.org/whl/cu126 (or the newest that the driver supports)\n"
                                     "Update the driver",
              [GW_FRAMEWORK_JAX] = "Install wheels that the driver supports: the CUDA 12 wheels need driver 525 or "
                                   "newer, the CUDA 13 wheels 580 or newer\n"
                                   "Update the driver"},
    .excludes = "ptx-too-new", /* the same call failed because the driver is below the minimum */
    .judge = judge,
};
