/* The Fabric Manager does not work on a machine with NVSwitches.
 *
 * Established only by: the result 802 on a machine with NVSwitches, if the run ended because of it (gwi_sure_of_end()).
 * Supported by: 802 without an NVSwitch. Confidential computing that is not set up causes 802, too, and virtual
 * machines may hide switches. */
#include "gwi_start.h"

enum { SYSTEM_NOT_READY = 802 };

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *failure = gwi_root_with(c, SYSTEM_NOT_READY);
    if (failure == NULL)
        return GW_CERTAINTY_NONE;
    gwi_versions versions = gwi_versions_of(c);
    bool known, has_switch = gwi_has_device_file(c, "nvidia-nvswitchctl", &known);
    gwi_headline(finding, "the driver reports that the machine is not ready: its NVLink fabric is not set up");
    gwi_say_failed_call(c, finding, failure);
    gwi_say_versions(&versions, finding);
    if (has_switch)
        gwi_evidence(finding, GWI_NO_TIME, "host", "the machine has NVSwitches (/dev/nvidia-nvswitchctl)");
    gwi_rule_out(c, finding, GWI_OF_PROCESS, "the program (the driver refused it before it did anything)");
    /* Without a switch, the reason for 802 may be confidential computing that is not set up. */
    return gwi_sure_of_end(c, failure, has_switch ? GW_ESTABLISHED : GW_SUPPORTED);
}

const gw_cause gwi_cause_fabric_not_ready = {
    .id = "fabric-not-ready",
    .summary =
        "The NVLink fabric of the machine is not set up: its Fabric Manager is not running, or is still starting.",
    .proof = "result 802 from cuInit or from the creation of the first context, on a machine with NVSwitches",
    .fixes = {[GW_FRAMEWORK_RAW] = "Start nvidia-fabricmanager; it must have exactly the driver's version\n"
                                   "After a driver update: reboot\n"
                                   "In a virtual machine: the host must set up the fabric (shared NVSwitch mode)"},
    .judge = judge,
};
