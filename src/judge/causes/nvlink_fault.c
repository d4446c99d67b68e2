/* A link between cards failed.
 *
 * Established only by: a verified Xid of the NVLink group for a card of the run, if both conditions hold:
 * - a context was lost, or a call failed with result 3, 46, 100, 101, 220 or 999, within ten seconds of the Xid;
 * - the call failed with 220, or the run used several cards.
 * Links recover from many errors, so the time must match.
 * Supported by: the result 220 alone. If a call failed in a run on several cards, one of these is enough:
 * - an Xid at another time;
 * - a line of the driver's log. */
#include "gwi_machine.h"

#include <inttypes.h>

enum { NVLINK_UNCORRECTABLE = 220, REPLAYS_MANY = 100 };

static const unsigned xids[] = {74, 136, 144, 145, 146, 147, 148, 149, 150, 155, 0};

static const gw_machine_event *find_event(const gwi_case *c)
{
    const gw_machine_event *xid = gwi_find_xid(c, xids), *event = NULL;
    while (xid == NULL && (event = gw_machine_event_next(c->model, event, GW_MACHINE_DRIVER_LOG, true)) != NULL)
        if (event->code == GW_DRIVER_LINE_SWITCH && gwi_comes_first(c, event))
            return event;
    return xid;
}

static void say_counters(const gwi_case *c, gwi_finding *finding, uint32_t card)
{
    static const struct {
        gw_metric metric;
        const char *what;
    } rows[] = {{GW_METRIC_CARD_NVLINK_RECOVERIES, "recoveries of NVLinks"},
                {GW_METRIC_CARD_NVLINK_REPLAYS, "resent NVLink packets"},
                {GW_METRIC_CARD_NVLINK_CRC, "NVLink checksum errors"}};
    char name[GWI_CARD_TEXT_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const gw_series *series = gw_machine_known(c->model, rows[i].metric, card, 0);
        if (series != NULL && series->rise > 0)
            gwi_measure(finding, series->t_rise_ns, "card", (double)series->rise, "count",
                        "%s of %s during the run: %" PRIu64, rows[i].what, gwi_card_text(name, c->model, card),
                        series->rise);
    }
}

/* Only an Xid for a card of this run establishes the cause, and only with the driver's result or in a run on several
 * cards. */
static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_machine_event *event = find_event(c);
    const gw_failure *first = c->sticky != NULL ? c->sticky : c->root;
    bool driver_says = first != NULL && first->result == NVLINK_UNCORRECTABLE;
    uint32_t card[GW_MODEL_DEVICES_MAX];
    size_t cards = gwi_cards_used(c, card);
    if (!driver_says && (cards == 1 || event == NULL || (first == NULL && c->hang.hang == NULL && !c->bad_end)))
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "a link between cards had an uncorrectable error");
    bool is_xid = event != NULL && event->kind == GW_MACHINE_XID;
    /* For a sticky failure, gwi_say_sticky() reports the Xids. */
    if (event != NULL && (first == NULL || first != c->sticky || !is_xid))
        gwi_say_machine_event(c, finding, event);
    for (size_t i = 0; i < cards; i++)
        say_counters(c, finding, card[i]);
    if (first != NULL && first == c->sticky)
        gwi_say_sticky(c, finding, first,
                       driver_says ? "the driver reported an error on the link between cards"
                                   : "the first call that failed");
    if (first != NULL)
        gwi_say_consequences(c, finding, first);
    bool told_twice = driver_says && event != NULL;
    bool by_xid = is_xid && event->is_ours && gwi_is_xid_verified(event);
    if (!driver_says && !gwi_is_card_failure(c))
        return GW_HYPOTHESIS; /* such a failure also occurs while all links work */
    if (first != NULL && by_xid && gwi_happened_with_failure(c, event) && (told_twice || cards > 1))
        return GW_ESTABLISHED;
    return driver_says || (first != NULL && cards > 1) ? GW_SUPPORTED : GW_HYPOTHESIS;
}

static bool advise_card(const gwi_case *c, uint32_t card, gw_string_list *advice)
{
    const gw_series *recoveries = gw_machine_known(c->model, GW_METRIC_CARD_NVLINK_RECOVERIES, card, 0);
    const gw_series *replays = gw_machine_known(c->model, GW_METRIC_CARD_NVLINK_REPLAYS, card, 0);
    char name[GWI_CARD_TEXT_MAX];
    bool good = true;
    gwi_card_text(name, c->model, card);
    if (recoveries != NULL && recoveries->rise > 0)
        good =
            gwi_list_addf(advice,
                          "NVLinks of %s failed and recovered %" PRIu64 " times during the run: a bad bridge, cable or "
                          "card; nvidia-smi nvlink -e names the link",
                          name, recoveries->rise);
    else if (replays != NULL && replays->rise >= REPLAYS_MANY)
        good = gwi_list_addf(advice, "NVLinks of %s had to resend %" PRIu64 " packets during the run", name,
                             replays->rise);
    return good;
}

static bool advise(const gwi_case *c, gw_string_list *advice)
{
    return gwi_advise_cards(c, advice, advise_card);
}

const gw_cause gwi_cause_nvlink_fault = {
    .id = "nvlink-fault",
    .summary = "A link between cards failed.",
    .proof = "a run on several cards, and an NVLink Xid for one of them at the time its context was lost, or together "
             "with the driver's result 220",
    .fixes = {[GW_FRAMEWORK_RAW] = "Find the pair of cards (nvidia-smi nvlink -e), and reset all cards of that fabric\n"
                                   "Reseat the bridge or cable\n"
                                   "Until then, set NCCL_P2P_DISABLE=1 (slower)"},
    .judge = judge,
    .advise = advise,
};
