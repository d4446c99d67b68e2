/* The port for the rendezvous of the ranks was already in use. No driver call shows this.
 *
 * Never established: printed messages make the cause supported at most. */
#include "gwi_cause.h"

const gw_cause gwi_cause_rendezvous_port_clash = {
    .id = "rendezvous-port-clash",
    .summary = "The port for the ranks' rendezvous was already in use.",
    .proof = "the system's message that the address is already in use",
    .fixes = {[GW_FRAMEWORK_RAW] = "Use another port (--master_port, MASTER_PORT), or end the job that holds it",
              [GW_FRAMEWORK_TORCH] = "torchrun --standalone selects a free port; otherwise set --master_port\n"
                                     "End the processes of the previous run: they may still hold the port"},
};
