/* The card's own firmware stopped answering.
 *
 * Established only by: Xid 119 or 120 (no answer from the firmware) for a card of the run. Within ten seconds of it,
 * there must be a failure that a dead driver causes:
 * - a lost context;
 * - a hang;
 * - the result 3, 46, 100, 101 or 999.
 * The process may have survived an Xid at another time. Other failures, such as a refused request, do not match.
 * Supported by: the Xid at another time or for an unnamed card; a line of the driver's log. */
#include "gwi_machine.h"

static const unsigned xids[] = {119, 120, 0};

static const gw_machine_event *find_event(const gwi_case *c)
{
    const gw_machine_event *xid = gwi_find_xid(c, xids), *event = NULL;
    while (xid == NULL && (event = gw_machine_event_next(c->model, event, GW_MACHINE_DRIVER_LOG, true)) != NULL)
        if (event->code == GW_DRIVER_LINE_FIRMWARE && gwi_comes_first(c, event))
            return event;
    return xid;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_machine_event *event = find_event(c);
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
    .judge = judge,
};
