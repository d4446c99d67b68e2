/* Advice about cards that ran slower than they can. None of this is a fault.
 *
 * Never established: this is advice and never the cause of a failure. */
#include "gwi_machine.h"

#include <inttypes.h>
#include <stdio.h>

/* Shorter slowdowns are not worth reporting, because one occurs with every change of the card's state. */
static const uint64_t worth_saying_ns = 300000000u;
enum { SHARE_INVERSE = 20, BIT_CAP = 2, BIT_SOFTWARE = 5, BIT_HARDWARE = 6, BIT_BRAKE = 7 };

/* The card ran slower because it was hot. */
static bool advise_heat(const gwi_case *c, uint32_t card, gw_string_list *advice)
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

static bool advise_thermal_throttle(const gwi_case *c, gw_string_list *advice)
{
    return gwi_advise_cards(c, advice, advise_heat);
}

const gw_cause gwi_cause_thermal_throttle = {
    .id = "thermal-throttle",
    .summary = "The GPU ran at lower clocks because it was too hot. Advice, never a fault.",
    .proof =
        "thermal slowdown as the reason that the card reports for its clocks, during at least a twentieth of the run",
    .fixes = {[GW_FRAMEWORK_RAW] = "Check fans, air flow, inlet temperature and dust\n"
                                   "Set a lower power limit: nvidia-smi -pl WATTS"},
    .advise = advise_thermal_throttle,
};

/* A lowered power limit or the machine's power brake slowed the card down. */
static bool is_long(const gw_series *reasons, unsigned bit)
{
    uint64_t seen_ns = reasons->t_last_ns - reasons->t_first_ns;
    return reasons->bit_ns[bit] >= worth_saying_ns && reasons->bit_ns[bit] * SHARE_INVERSE >= seen_ns;
}

static bool advise_power(const gwi_case *c, uint32_t card, gw_string_list *advice)
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

static bool advise_power_limit_or_brake(const gwi_case *c, gw_string_list *advice)
{
    return gwi_advise_cards(c, advice, advise_power);
}

const gw_cause gwi_cause_power_limit_or_brake = {
    .id = "power-limit-or-brake",
    .summary = "The GPU ran slower because its power limit was lowered, or because of the power supply (\"power "
               "brake\"). Advice, never a fault.",
    .proof =
        "the reason that the card reports for its clocks: power brake, or power cap with a limit below the default",
    .fixes = {[GW_FRAMEWORK_RAW] = "Restore the limit: nvidia-smi -pl WATTS\n"
                                   "Check power cables, supply and the rack's power budget"},
    .advise = advise_power_limit_or_brake,
};

/* A card's PCIe link is narrower or slower than the card supports, or has many errors. */
enum { BUSY_PERCENT = 50, REPLAYS_MIN = 10 };

static bool advise_link(const gwi_case *c, uint32_t card, gw_string_list *advice)
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

static bool advise_pcie_degraded(const gwi_case *c, gw_string_list *advice)
{
    return gwi_advise_cards(c, advice, advise_link);
}

const gw_cause gwi_cause_pcie_degraded = {
    .id = "pcie-degraded",
    .summary =
        "The GPU's PCIe link is narrower or slower than possible, or has to resend packets. Advice, never a fault.",
    .proof = "a link width or generation below the maximum while the card was busy, or a replay counter that rose",
    .fixes = {[GW_FRAMEWORK_RAW] = "Reseat the card, try another slot or riser\n"
                                   "Check the firmware's settings for the slot (bifurcation, generation)"},
    .advise = advise_pcie_degraded,
};

/* A row of a card's memory will be replaced at the next reset. */
static bool advise_remap(const gwi_case *c, uint32_t card, gw_string_list *advice)
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

static bool advise_remap_pending(const gwi_case *c, gw_string_list *advice)
{
    return gwi_advise_cards(c, advice, advise_remap);
}

const gw_cause gwi_cause_remap_pending = {
    .id = "remap-pending",
    .summary = "A row of a GPU's memory will be replaced at the next reset. Advice, never a fault.",
    .proof = "a pending row remapping that NVML reports",
    .fixes = {[GW_FRAMEWORK_RAW] = "Reset the card when it is idle (nvidia-smi -r -i N)"},
    .advise = advise_remap_pending,
};

/* The program used more managed memory than the card has, so pages move between host and card. */
static bool advise_device(const gwi_case *c, const gw_process *process, int device, gw_string_list *advice)
{
    uint64_t managed = process->usage[device].managed_bytes_peak;
    const gw_device *card = &c->model->device[device];
    char bytes[GW_BYTES_TEXT_MAX], total[GW_BYTES_TEXT_MAX];
    if (!card->has_total || managed <= card->bytes_total)
        return true;
    return gwi_list_addf(
        advice,
        "uvm-thrash: pid %u had %s of managed memory at once on GPU %d, which has %s: the memory that kernels touch "
        "moves back and forth over the bus, and kernels may take 10 to 100 times as long",
        process->pid, gw_bytes_text(bytes, managed), device, gw_bytes_text(total, card->bytes_total));
}

static bool advise_uvm_thrash(const gwi_case *c, gw_string_list *advice)
{
    bool good = true;
    for (size_t i = 0; i < c->model->process_count && good; i++)
        for (int device = 0; device < GW_MODEL_DEVICES_MAX && good; device++)
            good = advise_device(c, &c->model->process[i], device, advice);
    return good;
}

const gw_cause gwi_cause_uvm_thrash = {
    .id = "uvm-thrash",
    .summary = "More managed memory is in use than the GPU has. Advice, never a fault.",
    .proof = "managed allocations alive at one time that add up to more than the card's memory",
    .fixes = {[GW_FRAMEWORK_RAW] = "Use less data at once, or plain allocations for data that every kernel needs\n"
                                   "Call cuMemAdvise and cuMemPrefetchAsync before the kernels that use the data"},
    .advise = advise_uvm_thrash,
};
