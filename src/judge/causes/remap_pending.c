/* A row of a card's memory will be replaced at the next reset. This is neither a fault nor the cause of one.
 *
 * Never established: this is advice, not the cause of a failure. */
#include "gwi_machine.h"

static bool advise_card(const gwi_case *c, uint32_t card, gw_string_list *advice)
{
    const gw_series *pending = gw_machine_known(c->model, GW_METRIC_CARD_REMAP_PENDING, card, 0);
    char name[GWI_CARD_TEXT_MAX];
    if (pending == NULL || pending->last == 0)
        return true;
    return gwi_list_addf(advice,
                         "remap-pending: a row of the memory of %s will be replaced at the next reset: reset the card "
                         "when it is idle; this does not cause crashes",
                         gwi_card_text(name, c->model, card));
}

static bool advise(const gwi_case *c, gw_string_list *advice)
{
    return gwi_advise_cards(c, advice, advise_card);
}

const gw_cause gwi_cause_remap_pending = {
    .id = "remap-pending",
    .summary = "A row of a GPU's memory will be replaced at the next reset. Advice, never a fault.",
    .proof = "a pending row remapping that NVML reports",
    .fixes = {[GW_FRAMEWORK_RAW] = "Reset the card when it is idle (nvidia-smi -r -i N)"},
    .advise = advise,
};
