/* A running container lost its access to the GPU.
 *
 * Never established: only printed messages show this. They make the cause supported at most. */
#include "gwi_cause.h"

const gw_cause gwi_cause_container_lost_device = {
    .id = "container-lost-device",
    .summary = "A running container lost its access to the GPU.",
    .proof = "NVML calls that fail inside the container and work on the host",
    .fixes = {[GW_FRAMEWORK_RAW] = "Restart the container\n"
                                   "Pass the device by name (--device) or through CDI, so that a systemd reload does "
                                   "not revoke access to it"},
};
