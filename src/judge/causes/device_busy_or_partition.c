/* The card is present but refuses this process, because of its mode, a partition or the MPS server.
 *
 * Established only by: one of these results, if the run ended because of it (gwi_sure_of_end()):
 * - 805, 807, 808 or 809, because only MPS causes these;
 * - 46 on a card in prohibited mode;
 * - 46 on a card in exclusive mode while another process holds a card.
 * Supported by: 46 in other cases, because a card that hangs after a fault also returns 46. */
#include "gwi_start.h"

#include <stdio.h>
#include <string.h>

static const struct {
    uint16_t result;
    const char *headline;
} refusals[] = {{46, "the card accepts no other process at the moment"},
                {805, "the MPS server cannot be reached"},
                {807, "the MPS server is recovering from another client's fault"},
                {808, "the MPS server already has its maximum number of clients"},
                {809, "the MPS server has no connections left"}};

enum { COMPUTE_MODE = 20, PROHIBITED = 2 };

/* True if another process holds a card. In exclusive mode, this process then cannot use that card. */
static bool has_holder(const gwi_case *c)
{
    for (size_t i = 0; i < c->model->machine.holder_count; i++) {
        const gw_holder *holder = &c->model->machine.holder[i];
        if (holder->what != GW_FACT_DEVICE_HOLDER && holder->fact.has_pid &&
            (c->process == NULL || holder->fact.pid != c->process->pid))
            return true;
    }
    return false;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    static const char *const modes[] = {"default", "exclusive thread", "prohibited", "exclusive process"};
    const gw_failure *failure = NULL;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0] && failure == NULL; i++) {
        failure = gwi_root_with(c, refusals[i].result);
        if (failure != NULL)
            gwi_headline(finding, "%s", refusals[i].headline);
    }
    if (failure == NULL)
        return GW_CERTAINTY_NONE;
    const gw_device *device = &c->model->device[failure->device < 0 ? 0 : failure->device];
    uint64_t mode = device->has_attribute[COMPUTE_MODE] ? device->attribute[COMPUTE_MODE] : 0;
    gwi_say_failed_call(c, finding, failure);
    if (device->has_attribute[COMPUTE_MODE] && mode < sizeof modes / sizeof modes[0])
        gwi_evidence(finding, GWI_NO_TIME, "driver", "the card's compute mode is %s", modes[mode]);
    /* If the compute mode does not explain 46, the card may hang after a fault: this also causes 46. */
    bool proven = failure->result != 46 || mode == PROHIBITED || (mode != 0 && has_holder(c));
    return gwi_sure_of_end(c, failure, proven ? GW_ESTABLISHED : GW_SUPPORTED);
}

const gw_cause gwi_cause_device_busy_or_partition = {
    .id = "device-busy-or-partition",
    .summary = "The card rejects this process: exclusive mode, no MIG instance, or an MPS limit.",
    .proof = "a first context that failed with 46 on a card in prohibited mode or in exclusive mode while another "
             "process holds it, or that failed with 805, 807, 808 or 809",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Set the default compute mode (nvidia-smi -c 0), or wait until the other process has ended\n"
                  "With MIG: create an instance, and put its UUID into CUDA_VISIBLE_DEVICES\n"
                  "With MPS: restart the server, or raise its client limit"},
    .judge = judge,
};
