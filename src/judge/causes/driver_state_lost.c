/* The driver no longer works after a suspend, or because the device file of the unified memory module is missing.
 *
 * Never established: cuInit returns 999 or 3 for many reasons. A missing /dev/nvidia-uvm makes the cause supported. */
#include "gwi_start.h"

enum { NOT_INITIALIZED = 3, UNKNOWN = 999 };

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *failure = gwi_root_with(c, UNKNOWN);
    failure = failure == NULL ? gwi_root_with(c, NOT_INITIALIZED) : failure;
    if (failure == NULL || failure->kind != GW_EV_INIT || (c->process != NULL && c->process->forked))
        return GW_CERTAINTY_NONE;
    bool known, has_card = gwi_has_device_file(c, "nvidia0", &known),
                has_uvm = gwi_has_device_file(c, "nvidia-uvm", &known);
    bool no_uvm = known && has_card && !has_uvm;
    gwi_versions versions = gwi_versions_of(c);
    if (no_uvm)
        gwi_headline(finding, "CUDA cannot start: the cards are present, but /dev/nvidia-uvm is missing");
    else
        gwi_headline(finding, "CUDA cannot start: the driver has lost its state, perhaps because of a suspend");
    gwi_say_failed_call(c, finding, failure);
    if (known)
        gwi_evidence(finding, GWI_NO_TIME, "host", "device files: %s", gw_model_meta(c->model, "device.files"));
    gwi_say_versions(&versions, finding);
    gwi_rule_out(c, finding, GWI_OF_PROCESS, "a shortage of GPU memory (nothing was ever allocated)");
    return gwi_sure_of_end(c, failure, no_uvm ? GW_SUPPORTED : GW_HYPOTHESIS);
}

const gw_cause gwi_cause_driver_state_lost = {
    .id = "driver-state-lost",
    .summary = "CUDA cannot start although the cards are present: after a suspend, or without /dev/nvidia-uvm.",
    .proof = "result 999 or 3 from cuInit in a process that was not forked, and a missing /dev/nvidia-uvm",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Load the module and create its device file: nvidia-modprobe -u -c 0 (or modprobe nvidia_uvm)\n"
                  "After a suspend: rmmod nvidia_uvm, modprobe nvidia_uvm; preserve video memory across a suspend "
                  "(NVreg_PreserveVideoMemoryAllocations=1)\n"
                  "In a container: pass /dev/nvidia-uvm to it, too"},
    .judge = judge,
};
