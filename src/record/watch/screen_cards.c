/* Draws the cards: two lines each, or one if there are many, and what is wrong with them (gwi_screen.h). */
#include "gwi_screen.h"

#include "gw_text.h"
#include "gw_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CARDS_IN_FULL = 4 };

static const struct {
    uint64_t bits;
    const char *text;
    bool is_bad;
} reasons[] = {
    {GW_CLOCK_REASON_HW_SLOWDOWN | GW_CLOCK_REASON_HW_THERMAL | GW_CLOCK_REASON_SW_THERMAL, "heat", true},
    {GW_CLOCK_REASON_POWER_BRAKE, "power brake", true},
    {GW_CLOCK_REASON_POWER_CAP, "power limit", false},
    {GW_CLOCK_REASON_SYNC_BOOST, "sync boost", false},
    {GW_CLOCK_REASON_SETTING, "clock setting", false},
};

static void add_value(gw_text *text, const gw_watch_card *card, gw_metric metric, uint64_t divisor, const char *format)
{
    uint64_t value;
    char number[24] = "?";
    if (gw_watch_metric(card, metric, &value))
        snprintf(number, sizeof number, "%" PRIu64, value / divisor);
    gw_text_addf(text, "  ");
    const char *at = strchr(format, '#');
    gw_text_addf(text, "%.*s%s%s", (int)(at - format), format, number, at + 1);
}

static void add_power(gw_text *text, const gw_watch_card *card)
{
    uint64_t power, limit;
    if (!gw_watch_metric(card, GW_METRIC_CARD_POWER, &power))
        gw_text_add_str(text, "  ? W");
    else if (gw_watch_metric(card, GW_METRIC_CARD_POWER_LIMIT, &limit))
        gw_text_addf(text, "  %" PRIu64 "/%" PRIu64 " W", power / 1000, limit / 1000);
    else
        gw_text_addf(text, "  %" PRIu64 " W", power / 1000);
}

/* Append what is wrong with a card, as lines. Nothing is added for a healthy one. */
static void add_troubles(gw_text *text, const gw_watch_card *card)
{
    uint64_t bits = 0, value;
    gw_text slow = {0}, bad = {0};
    (void)gw_watch_metric(card, GW_METRIC_CARD_CLOCK_REASONS, &bits);
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        gw_text *to = reasons[i].is_bad ? &bad : &slow;
        if ((bits & reasons[i].bits) != 0)
            gw_text_addf(to, "%s%s", to->bytes > 0 ? ", " : "clock lowered by ", reasons[i].text);
    }
    if (gw_watch_metric(card, GW_METRIC_CARD_ECC_UNCORRECTED, &value) && value > 0)
        gw_text_addf(&bad, "%suncorrected memory errors: %" PRIu64, bad.bytes ? ", " : "", value);
    if (gw_watch_metric(card, GW_METRIC_CARD_REMAP_FAILED, &value) && value > 0)
        gw_text_addf(&bad, "%sa row could not be remapped", bad.bytes ? ", " : "");
    if (gw_watch_metric(card, GW_METRIC_CARD_REMAP_PENDING, &value) && value > 0)
        gw_text_addf(&bad, "%sa remapped row needs a reset", bad.bytes ? ", " : "");
    if (card->is.xid_count > 0) {
        const gw_xid *xid = card->is.xid_last <= UINT32_MAX ? gw_data_xid_of((unsigned)card->is.xid_last) : NULL;
        gw_text_addf(&bad, "%sXid events: %" PRIu64 ", the last one %" PRIu64 "%s%s%s", bad.bytes ? ", " : "",
                     card->is.xid_count, card->is.xid_last, xid == NULL ? "" : " (", xid == NULL ? "" : xid->mnemonic,
                     xid == NULL ? "" : ")");
    }
    if (card->is.is_lost)
        gw_text_addf(&bad, "%sthe card is lost", bad.bytes ? ", " : "");
    if (bad.bytes > 0) {
        gwi_mark(text, GW_MARK_ALARM);
        gw_text_addf(text, "       %s\n", gw_text_str(&bad));
    }
    if (slow.bytes > 0) {
        gwi_mark(text, GW_MARK_DIM);
        gw_text_addf(text, "       %s\n", gw_text_str(&slow));
    }
    gw_text_free(&bad);
    gw_text_free(&slow);
}

/* Append a bar: needed by runs '#', in use otherwise '=', free '.'. */
static void add_bar(gw_text *text, const gw_watch_card *card, unsigned width)
{
    uint64_t total = card->total_bytes, used = card->used_bytes, need = card->need_bytes;
    if (total == GW_WATCH_UNKNOWN || used == GW_WATCH_UNKNOWN) {
        gw_text_addf(text, "[%*s]", (int)width, "");
        return;
    }
    used = used > total ? total : used;
    need = need > used ? used : need;
    unsigned used_columns = (unsigned)((double)used / (double)total * width + 0.5);
    unsigned need_columns = (unsigned)((double)need / (double)total * width + 0.5);
    gw_text_add_str(text, "[");
    gwi_mark(text, card->is_alarm ? GW_MARK_ALARM : GW_MARK_GOOD);
    for (unsigned i = 0; i < width; i++) {
        if (i == need_columns)
            gwi_mark(text, GW_MARK_PLAIN);
        gw_text_add_str(text, i < need_columns ? "#" : i < used_columns ? "=" : ".");
    }
    gwi_mark(text, GW_MARK_PLAIN);
    gw_text_add_str(text, "]");
}

/* Append the memory of a card: "61.20 GiB of 139.81 GiB, 58.00 GiB needed". */
static void add_memory(gw_text *text, const gw_watch_card *card)
{
    char used[GW_BYTES_TEXT_MAX], total[GW_BYTES_TEXT_MAX], need[GW_BYTES_TEXT_MAX];
    gw_text_addf(text, " %s of %s", gwi_bytes_or(used, card->used_bytes, "?"),
                 gwi_bytes_or(total, card->total_bytes, "?"));
    if (card->need_bytes > 0) {
        gwi_mark(text, card->is_alarm ? GW_MARK_ALARM : GW_MARK_PLAIN);
        gw_text_addf(text, ", %s%s needed", card->is_alarm ? "ALARM: " : "", gwi_bytes_or(need, card->need_bytes, "?"));
        gwi_mark(text, GW_MARK_PLAIN);
    }
}

static void add_card(gw_text *text, const gw_watch_card *card, bool in_full, unsigned width)
{
    enum { BAR_NARROW = 16, BAR_WIDE = 40, BAR_SMALL = 10, WIDE = 110 };
    uint64_t errors;
    char used[GW_BYTES_TEXT_MAX], total[GW_BYTES_TEXT_MAX];
    gwi_mark(text, GW_MARK_HEAD);
    gw_text_addf(text, "GPU %-2" PRIu32 " ", card->index);
    gwi_mark(text, GW_MARK_PLAIN);
    if (!in_full) {
        add_bar(text, card, BAR_SMALL);
        gw_text_addf(text, " %10s of %s", gwi_bytes_or(used, card->used_bytes, "?"),
                     gwi_bytes_or(total, card->total_bytes, "?"));
    } else {
        const char *name = card->is.name[0] == '\0' ? "unknown card" : card->is.name;
        gwi_add_column(text,
                       card->is_virtual             ? "virtual"
                       : gw_begins(name, "NVIDIA ") ? name + 7
                                                    : name,
                       width < WIDE ? 12 : 24);
    }
    add_value(text, card, GW_METRIC_CARD_TEMPERATURE, 1, "# C");
    add_power(text, card);
    add_value(text, card, GW_METRIC_CARD_UTILISATION, 1, "use # %");
    if (in_full) {
        add_value(text, card, GW_METRIC_CARD_CLOCK_SM, 1, "# MHz");
        if (gw_watch_metric(card, GW_METRIC_CARD_ECC_CORRECTED, &errors))
            gw_text_addf(text, "  ECC %" PRIu64, errors);
        else
            gw_text_add_str(text, "  ECC ?");
        gw_text_addf(text, "  Xid %" PRIu64 "\n       ", card->is.xid_count);
        add_bar(text, card, width < WIDE ? BAR_NARROW : BAR_WIDE);
        add_memory(text, card);
    }
    gw_text_add_str(text, "\n");
    add_troubles(text, card);
}

void gwi_draw_cards(gw_text *text, const gw_watch_snapshot *s, unsigned width)
{
    for (size_t i = 0; i < s->card_count; i++)
        add_card(text, &s->card[i], s->card_count <= CARDS_IN_FULL, width);
    if (s->no_cards_why[0] != '\0') {
        gwi_mark(text, GW_MARK_WARN);
        gw_text_add_str(text, "The cards of this machine cannot be read: ");
        gw_add_printable(text, s->no_cards_why);
        gw_text_add_str(text, "\n");
    }
}
