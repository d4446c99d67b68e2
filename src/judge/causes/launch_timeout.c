/* A kernel ran longer than the display's watchdog allows.
 *
 * Established only by: the driver's result 702 as the first result that destroyed the context. Only a display's
 * watchdog causes 702. */
#include "gwi_cause.h"

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    enum { LAUNCH_TIMEOUT = 702 };
    if (c->sticky == NULL || c->sticky->result != LAUNCH_TIMEOUT)
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "a kernel ran longer than the display's watchdog allows");
    gwi_say_sticky(c, finding, c->sticky, "the watchdog stopped a kernel");
    gwi_say_consequences(c, finding, c->sticky);
    return GW_ESTABLISHED;
}

const gw_cause gwi_cause_launch_timeout = {
    .id = "launch-timeout",
    .summary = "A kernel ran longer than the display's watchdog allows.",
    .proof = "the driver's result 702",
    .fixes = {[GW_FRAMEWORK_RAW] = "Run on a card that has no display attached, or end the desktop session on it\n"
                                   "Split the work into shorter kernels\n"
                                   "On Windows raise the display driver's time limit (TdrDelay); on Linux set "
                                   "Interactive to off for that X screen"},
    .judge = judge,
};
