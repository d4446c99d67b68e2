/* The health of the cards: values that NVML reported while the program ran. */
#include "gwi_sections.h"

#include "gwi_escape.h"

#include <json-c/json.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void value_html(gw_text *text, uint64_t value, const char *unit)
{
    if (strcmp(unit, "bytes") == 0)
        gwi_bytes(text, value);
    else if (strcmp(unit, "mW") == 0)
        gw_text_addf(text, "%.1f W", (double)value / 1000);
    else if (strcmp(unit, "ns") == 0)
        gwi_time(text, value);
    else if (strcmp(unit, "C") == 0)
        gw_text_addf(text, "%" PRIu64 " °C", value);
    else if (strcmp(unit, "bits") == 0)
        gw_text_addf(text, "0x%" PRIx64, value);
    else
        gw_text_addf(text, "%" PRIu64 "%s%s", value, unit[0] == '\0' || strcmp(unit, "count") == 0 ? "" : " ",
                     strcmp(unit, "count") == 0 ? "" : unit);
}

/* Append a metric's name in words: "card.clock.sm" becomes "clock sm". */
static void name_text(gw_text *page, const char *name)
{
    const char *start = gw_begins(name, "card.") ? name + strlen("card.") : name;
    for (const char *c = start; *c != '\0'; c++)
        gw_text_add(page, *c == '.' || *c == '_' ? " " : c, 1);
}

/* True if the card counted errors, or repeated transfers, during the run. */
static bool has_risen(const gw_series *series, const gw_metric_info *info)
{
    return info->kind == GW_METRIC_COUNTER && series->rise > 0 && strcmp(info->unit, "count") == 0;
}

static void series_row(gwi_part *at, const gw_series *series, const gw_metric_info *info)
{
    const uint64_t value[] = {series->min, series->max, series->last};
    bool is_counter = info->kind == GW_METRIC_COUNTER;
    bool is_bad = has_risen(series, info);
    gw_text_add_str(at->page, is_bad ? "<tr class=\"strong\"><td>" : "<tr><td>");
    name_text(at->page, info->name);
    gw_text_add_str(at->page, "</td>");
    for (size_t i = 0; i < sizeof value / sizeof value[0]; i++) {
        gw_text_add_str(at->page, "<td class=\"n\">");
        value_html(at->page, value[i], info->unit);
        gw_text_add_str(at->page, "</td>");
    }
    gw_text_add_str(at->page, "<td class=\"n\">");
    if (is_counter)
        value_html(at->page, series->rise, info->unit);
    gw_text_add_str(at->page, "</td></tr>\n");
}

/* True for errors of memory, and for the state of the card's links. */
static bool is_of_faults(const char *name)
{
    static const char *const starts[] = {"card.ecc", "card.remap", "card.pcie", "card.nvlink", "card.recovery"};
    size_t i = 0;
    while (i < sizeof starts / sizeof starts[0] && !gw_begins(name, starts[i]))
        i++;
    return i < sizeof starts / sizeof starts[0];
}

/* Return the description of a series of values of the card that belongs into the table, otherwise NULL. */
static const gw_metric_info *in_table(const gw_series *series, uint32_t card, bool of_faults)
{
    const gw_metric_info *info = gw_metric_find(series->metric);
    bool known = series->source == GW_SOURCE_NVML && series->device == card && series->pid == 0 &&
                 series->state == GW_SAMPLE_KNOWN && info != NULL;
    return known && is_of_faults(info->name) == of_faults ? info : NULL;
}

/* Begin the table of errors. It is folded if the card counted none during the run. */
static void faults_begin(gwi_part *at, uint32_t card)
{
    const gw_machine *machine = &at->model->machine;
    size_t rows = 0, bad = 0;
    for (size_t i = 0; i < machine->series_count; i++) {
        const gw_metric_info *info = in_table(&machine->series[i], card, true);
        rows += info != NULL;
        bad += info != NULL && has_risen(&machine->series[i], info);
    }
    gw_text_addf(at->page, "<details%s><summary>Memory errors (ECC), PCIe and NVLink: %s</summary>",
                 bad > 0 ? " open" : "",
                 rows == 0  ? "unknown"
                 : bad == 0 ? "no error was counted during the run"
                            : "<b>errors were counted during the run</b>");
}

static void values_table(gwi_part *at, uint32_t card, bool of_faults)
{
    const gw_machine *machine = &at->model->machine;
    if (of_faults)
        faults_begin(at, card);
    else
        gw_text_add_str(at->page, "<details><summary>All other values</summary>");
    gw_text_add_str(at->page, "<div class=\"wide\"><table><tr><th>Value</th><th>Lowest</th><th>Highest</th>"
                              "<th>Last</th><th>Rise during the run</th></tr>\n");
    for (size_t i = 0; i < machine->series_count; i++) {
        const gw_metric_info *info = in_table(&machine->series[i], card, of_faults);
        if (info != NULL)
            series_row(at, &machine->series[i], info);
    }
    gw_text_add_str(at->page, "</table></div></details>\n");
}

static void reasons(gwi_part *at, uint32_t card)
{
    const gw_series *series = gw_machine_known(at->model, GW_METRIC_CARD_CLOCK_REASONS, card, 0);
    const char *separator = "";
    gw_text_add_str(at->page, "<p>Reduced clocks: ");
    for (unsigned bit = 0; series != NULL && bit < GW_MACHINE_BITS; bit++) {
        if ((GWI_THROTTLE_REASONS >> bit & 1) == 0 || series->bit_ns[bit] == 0)
            continue;
        gw_text_add_str(at->page, separator);
        gwi_throttle_text((uint64_t)1 << bit, at->page);
        gw_text_add_str(at->page, " for ");
        gwi_time(at->page, series->bit_ns[bit]);
        separator = "; ";
    }
    if (series == NULL)
        gw_text_add_str(at->page, "unknown");
    else if (separator[0] == '\0')
        gw_text_add_str(at->page, "never, in the samples");
    gw_text_add_str(at->page, ".</p>\n");
}

typedef struct column_info {
    const char *name, *unit;
    uint64_t divisor;
} column_info;

static const column_info columns[] = {
#define GW_X(metric, text, unit, divisor) {text, unit, divisor},
    GWI_HEALTH(GW_X)
#undef GW_X
};

static bool has_column(const gwi_thin *table, unsigned column)
{
    size_t at = 0;
    while (at < table->count && table->row[at].value[column] == GWI_UNKNOWN)
        at++;
    return at < table->count;
}

static void card_chart(gwi_part *at, uint32_t card, unsigned column, gw_text *hidden)
{
    const gwi_card_course *course = &at->course->card[card];
    char id[64];
    if (!has_column(&course->table, column))
        return;
    snprintf(id, sizeof id, "health-%zu-%u-%u", at->number, card, column);
    struct json_object *chart = gwi_chart_add(at, id, columns[column].unit, false);
    if (chart == NULL)
        return;
    gwi_chart_series(at, chart, columns[column].name, 0);
    gwi_chart_rows(at, chart, &course->table, &column, 1, columns[column].divisor);
    gw_text_clear(hidden); /* the sentence is the same for all charts of the card */
    gwi_add_throttling(at, chart, card, hidden);
    gw_text_addf(
        at->page,
        "<div class=\"small\"><div class=\"smalltitle\">%s <span class=\"legend\" id=\"%s-legend\"></span></div>"
        "<div class=\"plot\" id=\"%s\"></div></div>\n",
        columns[column].name, id, id);
}

static void card_part(gwi_part *at, const gw_machine_card *card)
{
    gw_text_addf(at->page, "<h4>Card %u", card->index);
    if (card->name[0] != '\0') {
        gw_text_add_str(at->page, ": ");
        gwi_html(at->page, card->name);
    }
    if (card->device >= 0)
        gw_text_addf(at->page, " (GPU %d)", card->device);
    gw_text_add_str(at->page, "</h4>\n");
    if (card->index >= GW_MACHINE_CARDS_MAX)
        return;
    reasons(at, card->index);
    gw_text_add_str(at->page, "<div class=\"grid\">\n");
    gw_text hidden = {0};
    for (unsigned column = 0; column < GWI_HEALTH_COUNT; column++)
        card_chart(at, card->index, column, &hidden);
    gw_text_add_str(at->page, "</div>\n");
    gwi_hidden_html(at, &hidden);
    values_table(at, card->index, true);
    values_table(at, card->index, false);
}

static void events(gwi_part *at)
{
    const gw_machine *machine = &at->model->machine;
    enum { ROWS_MAX = 60 };
    size_t rows = 0;
    for (size_t i = 0; i < machine->event_count && rows < ROWS_MAX; i++) {
        const gw_machine_event *event = &machine->event[i];
        if (!event->may_be_ours || event->text == NULL || event->text[0] == '\0')
            continue;
        gw_text_add_str(at->page, rows++ == 0
                                      ? "<h4>Messages about the machine and its cards</h4>\n<table><tr><th>Time</th>"
                                        "<th>Message</th></tr>\n<tr><td class=\"n\">"
                                      : "<tr><td class=\"n\">");
        gwi_time(at->page, event->t_ns);
        gw_text_add_str(at->page, "</td><td>");
        gwi_html_cut(at->page, event->text, 160);
        gw_text_add_str(at->page, "</td></tr>\n");
    }
    gw_text_add_str(at->page, rows > 0 ? "</table>\n" : "");
}

/* Append the text of a fact, which has no terminating zero. */
static void fact_html(gwi_part *at, bool known, gw_fact_text text)
{
    gw_text copy = {0};
    if (known && text.data != NULL)
        gw_text_add(&copy, text.data, text.bytes);
    gwi_html_cut(at->page, gw_text_str(&copy), 100);
    gw_text_free(&copy);
}

static void holder_row(gwi_part *at, const gw_holder *holder)
{
    const gw_fact_holder *fact = &holder->fact;
    gw_text_add_str(at->page, "<tr><td class=\"n\">");
    gwi_time(at->page, holder->t_ns);
    gw_text_add_str(at->page, "</td><td class=\"n\">");
    if (fact->has_bytes)
        gwi_bytes(at->page, fact->bytes);
    else
        gw_text_add_str(at->page, "unknown");
    gw_text_add_str(at->page, "</td><td>");
    if (fact->has_pid)
        gw_text_addf(at->page, "%u", fact->pid);
    gw_text_add_str(at->page, "</td><td>");
    if (fact->has_card)
        gw_text_addf(at->page, "%u", fact->card);
    gw_text_add_str(at->page, "</td><td>");
    fact_html(at, fact->has_user, fact->user);
    gw_text_add_str(at->page, "</td><td><code>");
    fact_html(at, fact->has_command, fact->command);
    gw_text_add_str(at->page, "</code></td></tr>\n");
}

enum { HOLDERS_MAX = 60 };

/* True if one of the processes that had memory, among the first ones, is this process. */
static bool has_memory_row(const gw_machine *machine, const gw_fact_holder *fact)
{
    size_t rows = 0;
    for (size_t i = 0; i < machine->holder_count && rows < HOLDERS_MAX; i++) {
        const gw_fact_holder *other = &machine->holder[i].fact;
        rows += other->has_bytes;
        if (other->has_bytes && other->has_pid && fact->has_pid && other->pid == fact->pid)
            return true;
    }
    return false;
}

/* List the processes that had memory on a card first: most of the others only had a device file open. */
static void holders(gwi_part *at)
{
    const gw_machine *machine = &at->model->machine;
    size_t rows = 0;
    if (machine->holder_count == 0)
        return;
    gw_text_add_str(
        at->page, "<h4>Processes on the cards when a request was refused</h4>\n<p class=\"dim\">A process whose memory "
                  "is unknown had a device file of a card open, but may have used none.</p>\n"
                  "<div class=\"wide\"><table><tr>"
                  "<th>Time</th><th>Memory</th><th>Process</th><th>Card</th><th>User</th><th>Command</th></tr>\n");
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < machine->holder_count; i++)
            if (machine->holder[i].fact.has_bytes == (pass == 0) &&
                (pass == 0 || !has_memory_row(machine, &machine->holder[i].fact)) && rows++ < HOLDERS_MAX)
                holder_row(at, &machine->holder[i]);
    }
    gw_text_add_str(at->page, "</table></div>\n");
    if (rows > HOLDERS_MAX)
        gw_text_addf(at->page, "<p>%zu more.</p>\n", rows - HOLDERS_MAX);
}

void gwi_health_part(gwi_part *at)
{
    const gw_machine *machine = &at->model->machine;
    gwi_section_begin(at, "health", "Health of the cards");
    if (machine->card_count == 0)
        gw_text_add_str(at->page, "<p>Unknown: the recording contains no samples from NVML.</p>\n");
    for (size_t i = 0; i < machine->card_count && i < GW_MACHINE_CARDS_MAX; i++)
        card_part(at, &machine->card[i]);
    holders(at);
    events(at);
    gwi_section_end(at);
}
