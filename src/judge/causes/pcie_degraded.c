/* A card's PCIe link is narrower or slower than the card supports, or has many errors. This is not a fault.
 *
 * Never established: this is advice and never the cause of a failure. */
#include "gwi_machine.h"

#include <inttypes.h>

enum { BUSY_PERCENT = 50, REPLAYS_MIN = 10 };

static bool advise_card(const gwi_case *c, uint32_t card, gw_string_list *advice)
{
    const gw_model *model = c->model;
    const gw_series *width = gw_machine_known(model, GW_METRIC_CARD_PCIE_WIDTH, card, 0);
    const gw_series *width_max = gw_machine_known(model, GW_METRIC_CARD_PCIE_WIDTH_MAX, card, 0);
    const gw_series *speed = gw_machine_known(model, GW_METRIC_CARD_PCIE_GENERATION, card, 0);
    const gw_series *speed_max = gw_machine_known(model, GW_METRIC_CARD_PCIE_GENERATION_MAX, card, 0);
    const gw_series *busy = gw_machine_known(model, GW_METRIC_CARD_UTILISATION, card, 0);
    const gw_series *replays = gw_machine_known(model, GW_METRIC_CARD_PCIE_REPLAYS, card, 0);
    char name[GWI_CARD_TEXT_MAX];
    bool good = true;
    gwi_card_text(name, model, card);
    /* An idle link runs at a lower speed, so only the highest speed of a busy card is meaningful. */
    bool was_busy = busy != NULL && busy->max >= BUSY_PERCENT;
    if (width != NULL && width_max != NULL && width->max < width_max->last && width->max > 0 && was_busy)
        good = gwi_list_addf(advice,
                             "the PCIe link of %s has %" PRIu64 " of %" PRIu64
                             " lanes: copies take longer; check seating, riser and slot",
                             name, width->max, width_max->last);
    if (good && speed != NULL && speed_max != NULL && speed->max < speed_max->last && speed->max > 0 && was_busy)
        good = gwi_list_addf(advice,
                             "the PCIe link of %s ran at generation %" PRIu64 " of %" PRIu64
                             " while the card was busy: check slot, riser and firmware settings",
                             name, speed->max, speed_max->last);
    if (good && replays != NULL && replays->rise >= REPLAYS_MIN)
        good = gwi_list_addf(advice,
                             "the PCIe link of %s had to resend %" PRIu64
                             " packets during the run: a bad contact, riser or cable",
                             name, replays->rise);
    return good;
}

static bool advise(const gwi_case *c, gw_string_list *advice)
{
    return gwi_advise_cards(c, advice, advise_card);
}

const gw_cause gwi_cause_pcie_degraded = {
    .id = "pcie-degraded",
    .summary =
        "The GPU's PCIe link is narrower or slower than possible, or has to resend packets. Advice, never a fault.",
    .proof = "a link width or generation below the maximum while the card was busy, or a replay counter that rose",
    .fixes = {[GW_FRAMEWORK_RAW] = "Reseat the card, try another slot or riser\n"
                                   "Check the firmware's settings for the slot (bifurcation, generation)"},
    .advise = advise,
};
