/* The card stopped responding.
 *
 * Established only by: see the comment of each cause. */
#include "gwi_machine.h"

/* The card's own firmware stopped answering.
 *
 * Established only by: Xid 119 or 120 (no answer from the firmware) for a card of the run. Within ten seconds of it,
 * there must be a failure that a dead driver causes:
 * - a lost context;
 * - a hang;
 * - the result 3, 46, 100, 101 or 999.
 * The process may have survived an Xid at another time. Other failures, such as a refused request, do not match.
 * Supported by: the Xid at another time or for an unnamed card; a line of the driver's log. */

static const unsigned xids[] = {119, 120, 0};

static const gw_machine_event *find_firmware_event(const gwi_case *c)
{
    const gw_machine_event *xid = gwi_find_xid(c, xids), *event = NULL;
    while (xid == NULL && (event = gw_machine_event_next(c->model, event, GW_MACHINE_DRIVER_LOG, true)) != NULL)
        if (event->code == GW_DRIVER_LINE_FIRMWARE && gwi_comes_first(c, event))
            return event;
    return xid;
}

static gw_certainty judge_gsp_failure(const gwi_case *c, gwi_finding *finding)
{
    const gw_machine_event *event = find_firmware_event(c);
    const gw_failure *first = c->sticky != NULL ? c->sticky : c->root;
    bool hangs = c->hang.hang != NULL;
    char card[GWI_CARD_TEXT_MAX], call[GWI_CALL_TEXT_MAX];
    if (event == NULL || (first == NULL && !hangs && !c->bad_end))
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "the firmware of %s stopped responding: the card or its driver, not the program",
                 gwi_card_text(card, c->model, event->device));
    gwi_say_machine_event(c, finding, event);
    if (first != NULL) {
        gwi_evidence(finding, first->t_ns, "driver", "%s returned %u (%s)", gwi_call_text(call, first->fn_name),
                     first->result, gw_result_name(first->result));
        gwi_say_consequences(c, finding, first);
    } else if (hangs) {
        gwi_evidence(finding, c->hang.hang->t_ns, "driver", "no driver call began or ended for %.1f s",
                     (double)c->hang.hang->for_ns / 1e9);
    }
    if (first == NULL && !hangs)
        return GW_HYPOTHESIS;
    if (!gwi_is_card_failure(c))
        return GW_HYPOTHESIS; /* the call can fail on a working card, too */
    bool proved = event->kind == GW_MACHINE_XID && event->is_ours && gwi_is_xid_verified(event);
    return proved && gwi_happened_with_failure(c, event) ? GW_ESTABLISHED : GW_SUPPORTED;
}

const gw_cause gwi_cause_gsp_failure = {
    .id = "gsp-failure",
    .summary = "The card's own firmware stopped responding.",
    .proof = "Xid 119 or 120 for a card that the run used, and calls that failed or hung at that time",
    .fixes = {[GW_FRAMEWORK_RAW] = "Reboot: a reset of the card may not be enough\n"
                                   "Update the driver\n"
                                   "If it recurs on the same board, have the board replaced"},
    .judge = judge_gsp_failure,
};

/* The card no longer responds on the bus.
 *
 * Established only by: both of these:
 * - a report that a card of the run is lost: Xid 79, a line of the driver's log, or NVML's result 15;
 * - a failure that a lost card causes: a lost context, a hang, or the result 3, 46, 100, 101 or 999.
 * The report must not come later than five seconds after the failure. It may come long before, because a lost card does
 * not come back.
 * Supported by: a report that may be about another card, or a run that ended badly without such a failure. */

static const gw_machine_event *find_loss(const gwi_case *c)
{
    static const unsigned numbers[] = {79, 0};
    enum { LOST = 15 };
    const gw_machine_event *xid = gwi_find_xid(c, numbers), *event = NULL;
    if (xid != NULL && xid->is_ours)
        return xid;
    while ((event = gw_machine_event_next(c->model, event, GW_MACHINE_CARD_LOST, true)) != NULL)
        if (event->code == LOST && gwi_comes_first(c, event) && (event->is_ours || xid == NULL))
            return event;
    while ((event = gw_machine_event_next(c->model, event, GW_MACHINE_DRIVER_LOG, true)) != NULL)
        if (event->code == GW_DRIVER_LINE_OFF_BUS && gwi_comes_first(c, event) && (event->is_ours || xid == NULL))
            return event;
    return xid;
}

/* Return the NVML status of a card of the run that NVML reports as lost (15). Returns NULL if there is no such card. */
static const gw_series *find_lost(const gwi_case *c)
{
    enum { LOST = 15 };
    uint32_t card[GW_MODEL_DEVICES_MAX];
    size_t count = gwi_cards_used(c, card);
    for (size_t i = 0; i < count; i++) {
        const gw_series *status = gw_machine_known(c->model, GW_METRIC_CARD_STATUS, card[i], 0);
        /* t_max_ns is the time of the highest status. Do not compare it if a status above 15 was read, too: the card
         * was then lost at another time. */
        if (status != NULL && status->last == LOST &&
            (status->max != LOST || gwi_is_before_failure(c, status->t_max_ns)))
            return status;
    }
    return NULL;
}

static gw_certainty judge_gpu_off_bus(const gwi_case *c, gwi_finding *finding)
{
    const gw_machine_event *event = find_loss(c);
    const gw_series *lost = find_lost(c);
    bool suffered = c->sticky != NULL || c->root != NULL || c->hang.hang != NULL || c->bad_end;
    char card[GWI_CARD_TEXT_MAX];
    if ((event == NULL && lost == NULL) || !suffered)
        return GW_CERTAINTY_NONE;
    uint32_t which = GW_NO_DEVICE;
    if (event != NULL && event->device != GW_NO_DEVICE)
        which = event->device;
    else if (lost != NULL)
        which = lost->device;
    gwi_headline(finding, "%s has fallen off the bus: the machine can no longer reach it",
                 gwi_card_text(card, c->model, which));
    if (event != NULL)
        gwi_say_machine_event(c, finding, event);
    if (lost != NULL)
        gwi_evidence(finding, lost->t_max_ns, "card", "NVML returns 15 (GPU is lost) for %s",
                     gwi_card_text(card, c->model, lost->device));
    const gw_failure *first = c->sticky != NULL ? c->sticky : c->root;
    char call[GWI_CALL_TEXT_MAX];
    if (first != NULL)
        gwi_evidence(finding, first->t_ns, "driver", "%s returned %u (%s)", gwi_call_text(call, first->fn_name),
                     first->result, gw_result_name(first->result));
    for (const gw_machine_event *bus = NULL;
         (bus = gw_machine_event_next(c->model, bus, GW_MACHINE_BUS_ERROR, true)) != NULL;)
        gwi_say_machine_event(c, finding, bus);
    if (first != NULL)
        gwi_say_consequences(c, finding, first);
    gwi_rule_out(c, finding, GWI_OF_MACHINE, "the program (no driver call can take a card off the bus)");
    bool ours = lost != NULL || (event != NULL && event->is_ours);
    bool proved = lost != NULL || (event != NULL && (event->kind != GW_MACHINE_XID || gwi_is_xid_verified(event)));
    bool fits = gwi_is_card_failure(c);
    if (!fits && first != NULL)
        return GW_HYPOTHESIS; /* a lost card does not cause this failure */
    return ours && proved && fits ? GW_ESTABLISHED : GW_SUPPORTED;
}

const gw_cause gwi_cause_gpu_off_bus = {
    .id = "gpu-off-bus",
    .summary = "A GPU has fallen off the PCIe bus.",
    .proof =
        "Xid 79 for a card that the run used, or the driver's report that this card is lost, and calls that failed",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Reboot the machine, or power it off and on: the card does not recover by itself\n"
                  "Check power cables and supply, seating and riser, and the temperature before the failure\n"
                  "After a second failure, limit the power as a test (nvidia-smi -pl), update the firmware, run the "
                  "vendor's field diagnostics, have the card replaced"},
    .judge = judge_gpu_off_bus,
};
