/* A lowered power limit or the machine's power brake slowed the card down. This is not a fault.
 *
 * Never established: this is advice and never the cause of a failure. */
#include "gwi_machine.h"

static const uint64_t worth_saying_ns = 300000000u;
enum { SHARE_INVERSE = 20, BIT_CAP = 2, BIT_BRAKE = 7 };

static bool is_long(const gw_series *reasons, unsigned bit)
{
    uint64_t seen_ns = reasons->t_last_ns - reasons->t_first_ns;
    return reasons->bit_ns[bit] >= worth_saying_ns && reasons->bit_ns[bit] * SHARE_INVERSE >= seen_ns;
}

static bool advise_card(const gwi_case *c, uint32_t card, gw_string_list *advice)
{
    const gw_series *reasons = gw_machine_known(c->model, GW_METRIC_CARD_CLOCK_REASONS, card, 0);
    const gw_series *limit = gw_machine_known(c->model, GW_METRIC_CARD_POWER_LIMIT, card, 0);
    const gw_series *standard = gw_machine_known(c->model, GW_METRIC_CARD_POWER_LIMIT_DEFAULT, card, 0);
    char name[GWI_CARD_TEXT_MAX];
    bool good = true;
    if (reasons == NULL)
        return true;
    double seen_s = (double)(reasons->t_last_ns - reasons->t_first_ns) / 1e9;
    if (is_long(reasons, BIT_BRAKE))
        good = gwi_list_addf(advice,
                             "%s was slowed by the power supply (\"power brake\") for %.1f of %.1f s: check cables, "
                             "supply and the rack's power",
                             gwi_card_text(name, c->model, card), (double)reasons->bit_ns[BIT_BRAKE] / 1e9, seen_s);
    /* It is normal that a busy card reaches its default power limit, so report the limit only if it was lowered. */
    bool lowered = limit != NULL && standard != NULL && limit->last + standard->last / 20 < standard->last;
    if (good && lowered && is_long(reasons, BIT_CAP))
        good =
            gwi_list_addf(advice,
                          "%s was held at a power limit of %.0f W, below its standard %.0f W, for %.1f of %.1f s: "
                          "nvidia-smi -pl %.0f restores it",
                          gwi_card_text(name, c->model, card), (double)limit->last / 1e3, (double)standard->last / 1e3,
                          (double)reasons->bit_ns[BIT_CAP] / 1e9, seen_s, (double)standard->last / 1e3);
    return good;
}

static bool advise(const gwi_case *c, gw_string_list *advice)
{
    return gwi_advise_cards(c, advice, advise_card);
}

const gw_cause gwi_cause_power_limit_or_brake = {
    .id = "power-limit-or-brake",
    .summary = "The GPU ran slower because its power limit was lowered, or because of the power supply (\"power "
               "brake\"). Advice, never a fault.",
    .proof =
        "the reason that the card reports for its clocks: power brake, or power cap with a limit below the default",
    .fixes = {[GW_FRAMEWORK_RAW] = "Restore the limit: nvidia-smi -pl WATTS\n"
                                   "Check power cables, supply and the rack's power budget"},
    .advise = advise,
};
