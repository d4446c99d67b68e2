/* The network between the ranks failed, or NCCL used the wrong interface. No driver call shows this.
 *
 * Never established: printed messages make the cause supported at most. */
#include "gwi_cause.h"

const gw_cause gwi_cause_network_or_ib_fault = {
    .id = "network-or-ib-fault",
    .summary = "The network between the ranks failed, or NCCL used the wrong interface.",
    .proof = "an error of the transport, reported on ranks of one host or rail",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "NCCL_DEBUG=INFO shows which interface NCCL uses; NCCL_SOCKET_IFNAME and NCCL_IB_HCA select another\n"
                  "Check the ports' error counters, cables and switches\n"
                  "For links that flap: raise NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT"},
};
