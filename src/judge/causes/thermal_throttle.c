/* The card ran slower because it was hot. This is not a fault, and the advice is added to any verdict.
 *
 * Never established: this is advice and never the cause of a failure. */
#include "gwi_machine.h"

#include <stdio.h>

/* Shorter slowdowns are not worth reporting, because one occurs with every change of the card's state. */
static const uint64_t worth_saying_ns = 300000000u;
enum { SHARE_INVERSE = 20, BIT_SOFTWARE = 5, BIT_HARDWARE = 6 };

static bool advise_card(const gwi_case *c, uint32_t card, gw_string_list *advice)
{
    const gw_series *reasons = gw_machine_known(c->model, GW_METRIC_CARD_CLOCK_REASONS, card, 0);
    const gw_series *heat = gw_machine_known(c->model, GW_METRIC_CARD_TEMPERATURE, card, 0);
    const gw_series *limit = gw_machine_known(c->model, GW_METRIC_CARD_TEMPERATURE_SLOWDOWN, card, 0);
    char name[GWI_CARD_TEXT_MAX], hot[80] = "";
    if (reasons == NULL)
        return true;
    uint64_t software_ns = reasons->bit_ns[BIT_SOFTWARE], hardware_ns = reasons->bit_ns[BIT_HARDWARE];
    uint64_t slow_ns = software_ns > hardware_ns ? software_ns : hardware_ns;
    uint64_t seen_ns = reasons->t_last_ns - reasons->t_first_ns;
    if (slow_ns < worth_saying_ns || slow_ns * SHARE_INVERSE < seen_ns)
        return true;
    if (heat != NULL && limit != NULL)
        snprintf(hot, sizeof hot, " (up to %u C; it slows down at %u C)", (unsigned)heat->max, (unsigned)limit->last);
    else if (heat != NULL)
        snprintf(hot, sizeof hot, " (up to %u C)", (unsigned)heat->max);
    return gwi_list_addf(advice,
                         "%s ran at lower clocks because of heat for %.1f of %.1f s%s: check fans, air flow and dust, "
                         "or set a lower power limit",
                         gwi_card_text(name, c->model, card), (double)slow_ns / 1e9, (double)seen_ns / 1e9, hot);
}

static bool advise(const gwi_case *c, gw_string_list *advice)
{
    return gwi_advise_cards(c, advice, advise_card);
}

const gw_cause gwi_cause_thermal_throttle = {
    .id = "thermal-throttle",
    .summary = "The GPU ran at lower clocks because it was too hot. Advice, never a fault.",
    .proof =
        "thermal slowdown as the reason that the card reports for its clocks, during at least a twentieth of the run",
    .fixes = {[GW_FRAMEWORK_RAW] = "Check fans, air flow, inlet temperature and dust\n"
                                   "Set a lower power limit: nvidia-smi -pl WATTS"},
    .advise = advise,
};
