/* The IOMMU, or ACS of a bridge, redirects copies between cards over PCIe, so that the copies hang or corrupt data. No
 * driver call reports this. The recording only shows that a collective does not end, and that the machine redirects
 * such copies.
 *
 * Never established: a collective may hang for other reasons, too. Only a second run without these copies shows whether
 * they are the reason. */
#include "gwi_cause.h"
#include "gwi_hang.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* True if the value is known. The supervisor records "?" if it could not read the value. */
static bool is_known(gw_fact_text text)
{
    return text.bytes > 0 && !gw_fact_text_is(text, "?");
}

/* True if a card has NVLink. The cards then do not copy over PCIe. */
static bool has_nvlink(const gwi_case *c)
{
    for (size_t i = 0; i < c->model->machine.card_count; i++)
        if (gw_machine_known(c->model, GW_METRIC_CARD_NVLINK_REPLAYS, c->model->machine.card[i].index, 0) != NULL)
            return true;
    return false;
}

static bool is_switched_off(const gwi_case *c)
{
    const char *disabled = gw_model_meta(c->model, "env.NCCL_P2P_DISABLE");
    const char *level = gw_model_meta(c->model, "env.NCCL_P2P_LEVEL");
    return (disabled != NULL && atoi(disabled) != 0) || (level != NULL && strcmp(level, "LOC") == 0);
}

static size_t ranks_here(const gwi_case *c)
{
    size_t count = 0;
    for (size_t i = 0; i < c->model->process_count; i++)
        count += c->model->process[i].has_rank;
    return count;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_fact_peers *bus = &c->model->machine.peers;
    bool translates = is_known(bus->iommu) && !gw_fact_text_is(bus->iommu, "identity");
    bool redirects = is_known(bus->acs) && !gw_fact_text_is(bus->acs, "none");
    if (c->hang.kind != GWI_HANG_PEER || !bus->has_cards || bus->cards < 2 || !bus->has_nvswitches ||
        bus->nvswitches > 0 || !bus->has_acs || (!translates && !redirects) || has_nvlink(c) || is_switched_off(c))
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "a collective does not end, and this machine redirects copies between cards (%s)",
                 redirects ? "ACS" : "IOMMU");
    gwi_say_waiting(c, finding);
    if (translates)
        gwi_evidence(finding, GWI_NO_TIME, "host", "the IOMMU translates the cards' addresses (%.*s)",
                     (int)bus->iommu.bytes, bus->iommu.data);
    if (redirects)
        gwi_evidence(finding, GWI_NO_TIME, "host", "ACS on bridges above the cards redirects copies between them: %.*s",
                     (int)bus->acs.bytes, bus->acs.data);
    bool all_there = gwi_say_missing_ranks(c, finding) == 0 && ranks_here(c) > 1;
    return all_there && translates && redirects ? GW_SUPPORTED : GW_HYPOTHESIS;
}

const gw_cause gwi_cause_p2p_iommu_acs = {
    .id = "p2p-iommu-acs",
    .summary = "The IOMMU or ACS redirects copies between cards over PCIe: the copies hang or corrupt data.",
    .proof = "a hang of all ranks in the same collective, on a machine where the IOMMU translates the cards' "
             "addresses, ACS on the bridges above the cards redirects copies, and the cards have no NVLink; a run that "
             "works with NCCL_P2P_DISABLE=1 decides",
    .fixes = {[GW_FRAMEWORK_RAW] = "Run it once with NCCL_P2P_DISABLE=1: if that works, this is the cause\n"
                                   "Boot with iommu=pt (or off), if no virtual machine needs the IOMMU\n"
                                   "Disable ACS on the bridges above the cards, in the firmware or with setpci"},
    .judge = judge,
};
