/* The card's memory had an error that the card could not correct.
 *
 * Established only by: the driver's own result 214 or 226, or a lost context and one of these events for the run's card
 * - Xid 48, 95 or 140;
 * - Xid 94 with the pid of a process of the run;
 * - the driver's double-bit event.
 *
 * These events end processes. They must be at most 10 s older or 5 s newer than the loss, because the process has
 * survived an older one.
 *
 * Supported by:
 * - an error counter that rose;
 * - the other Xids of the group;
 * - an Xid at another time. */
#include "gwi_machine.h"

#include <inttypes.h>

/* Xids of this cause. The driver reports 48 and 94 for the memory error itself. The other Xids accompany one of these
 * two. */
static const unsigned xids[] = {48, 94, 95, 140, 64, 171, 172, 0};
enum { DOUBLE_BIT_EVENT = 2, DRIVER_ECC = 214, DRIVER_CONTAINED = 226, CONTAINED = 94 };
/* Xids that end a process. Other Xids do not, for example the one for a row that could not be replaced. */
static const unsigned fatal_xids[] = {48, 94, 95, 140};

static const gw_series *find_rise(const gwi_case *c)
{
    uint32_t card[GW_MODEL_DEVICES_MAX];
    size_t count = gwi_cards_used(c, card);
    for (size_t i = 0; i < count; i++) {
        const gw_series *errors = gw_machine_known(c->model, GW_METRIC_CARD_ECC_UNCORRECTED, card[i], 0);
        if (errors != NULL && errors->rise > 0)
            return errors;
    }
    return NULL;
}

static const gw_machine_event *find_event(const gwi_case *c)
{
    const gw_machine_event *xid = gwi_find_xid(c, xids), *event = NULL;
    while (xid == NULL && (event = gw_machine_event_next(c->model, event, GW_MACHINE_CARD_EVENT, true)) != NULL)
        if (event->code == DOUBLE_BIT_EVENT && gwi_comes_first(c, event))
            return event;
    return xid;
}

static void say_remaps(const gwi_case *c, gwi_finding *finding, uint32_t card)
{
    const gw_series *pending = gw_machine_known(c->model, GW_METRIC_CARD_REMAP_PENDING, card, 0);
    const gw_series *failed = gw_machine_known(c->model, GW_METRIC_CARD_REMAP_FAILED, card, 0);
    if (pending != NULL && pending->last != 0)
        gwi_evidence(finding, pending->t_max_ns, "card", "a row of its memory will be replaced at the next reset");
    if (failed != NULL && failed->last != 0)
        gwi_evidence(finding, failed->t_max_ns, "card",
                     "a row of its memory could not be replaced: have the card replaced");
}

static bool is_fatal(const gw_machine_event *event)
{
    for (size_t i = 0; i < sizeof fatal_xids / sizeof fatal_xids[0]; i++)
        if (event->code == fatal_xids[i])
            return true;
    return event->kind != GW_MACHINE_XID;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_machine_event *event = find_event(c);
    const gw_series *rise = find_rise(c);
    const gw_failure *first = c->sticky != NULL ? c->sticky : c->root;
    bool driver_says = first != NULL && (first->result == DRIVER_ECC || first->result == DRIVER_CONTAINED);
    char card[GWI_CARD_TEXT_MAX], call[GWI_CALL_TEXT_MAX];
    if ((event == NULL && rise == NULL && !driver_says) || (first == NULL && !c->bad_end && c->hang.hang == NULL))
        return GW_CERTAINTY_NONE;
    uint32_t which = GW_NO_DEVICE;
    if (event != NULL && event->device != GW_NO_DEVICE)
        which = event->device;
    else if (rise != NULL)
        which = rise->device;
    if (which == GW_NO_DEVICE && first != NULL)
        which = gw_machine_card_of(c->model, first->device);
    gwi_headline(finding, "the memory of %s had an uncorrectable error: a fault of the hardware, not of the program",
                 gwi_card_text(card, c->model, which));
    if (event != NULL)
        gwi_say_machine_event(c, finding, event);
    if (rise != NULL)
        gwi_measure(finding, rise->t_rise_ns, "card", (double)rise->rise, "count",
                    "uncorrectable memory errors of %s during the run: %" PRIu64,
                    gwi_card_text(card, c->model, rise->device), rise->rise);
    if (first != NULL)
        gwi_evidence(finding, first->t_ns, "driver", "%s returned %u (%s)", gwi_call_text(call, first->fn_name),
                     first->result, gw_result_name(first->result));
    if (which != GW_NO_DEVICE)
        say_remaps(c, finding, which);
    if (first != NULL)
        gwi_say_consequences(c, finding, first);
    if (driver_says)
        return GW_ESTABLISHED;
    /* A contained error (Xid 94) affects one process on the card. If the event has no pid, this may be a process of
     * another run. */
    bool names_us = event != NULL && event->is_ours &&
                    !(event->kind == GW_MACHINE_XID &&
                      (!gwi_is_xid_verified(event) || (event->code == CONTAINED && event->pid == 0)));
    if (c->sticky == NULL) /* an uncorrectable error would have destroyed the context */
        return c->hang.hang != NULL ? GW_SUPPORTED : GW_HYPOTHESIS;
    return names_us && is_fatal(event) && gwi_happened_with_failure(c, event) ? GW_ESTABLISHED : GW_SUPPORTED;
}

const gw_cause gwi_cause_ecc_uncorrectable = {
    .id = "ecc-uncorrectable",
    .summary = "The GPU's memory had an uncorrectable error.",
    .proof = "Xid 48, 94, 95 or 140 for a card that the run used, at the time its context was lost, or the driver's "
             "result 214",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Restart the job from its last checkpoint; after Xid 95 or 48 reset the GPU first\n"
                  "Drain the card and reset it (nvidia-smi -r), so that the bad row is replaced\n"
                  "Have the card replaced when rows can no longer be remapped (Xid 64), or when the error comes back"},
    .judge = judge,
};
