/* The marks and bands of a chart: failed calls, phases, and spans of reduced clocks. A chart has room for a limited
 * number of each; gwi_pick() chooses which. */
#include "gw_text.h"
#include "gwi_sections.h"

#include "gwi_escape.h"
#include "gwi_thin.h"

#include <json-c/json.h>
#include <stdlib.h>

/* Writes the data of the charts as JSON. Numbers above 2^53 are written as 2^53, because JavaScript cannot store them.
 */

/* The frame of a section. */

void gwi_section_begin(gwi_part *at, const char *id, const char *title)
{
    gw_text_addf(at->page, "<section id=\"%s-%zu\">\n<h3>%s</h3>\n", id, at->number, title);
}

void gwi_section_end(gwi_part *at)
{
    gw_text_add_str(at->page, "</section>\n");
}

static void add(gwi_part *at, struct json_object *object, const char *key, struct json_object *value)
{
    if (json_object_object_add(object, key, value) != 0)
        at->failed = true;
}

static void push(gwi_part *at, struct json_object *array, struct json_object *value)
{
    if (array == NULL || json_object_array_add(array, value) != 0)
        at->failed = true;
}

static struct json_object *number(uint64_t value)
{
    return json_object_new_int64((int64_t)gwi_js(value));
}

static struct json_object *string(gwi_part *at, const char *text)
{
    gw_text clean = {0};
    gw_add_printable(&clean, text);
    struct json_object *object = json_object_new_string(gw_text_str(&clean));
    at->failed = at->failed || clean.failed || object == NULL;
    gw_text_free(&clean);
    return object;
}

/* Return a field that is an array, adding it if it is missing. */
static struct json_object *array_of(gwi_part *at, struct json_object *chart, const char *key)
{
    struct json_object *array = NULL;
    if (!json_object_object_get_ex(chart, key, &array)) {
        array = json_object_new_array();
        add(at, chart, key, array);
    }
    return array;
}

struct json_object *gwi_chart_add(gwi_part *at, const char *id, const char *unit, bool is_stacked)
{
    struct json_object *chart = json_object_new_object();
    if (chart == NULL) {
        at->failed = true;
        return NULL;
    }
    add(at, chart, "id", string(at, id));
    add(at, chart, "run", number(at->number));
    add(at, chart, "unit", string(at, unit));
    add(at, chart, "stacked", json_object_new_boolean(is_stacked));
    add(at, chart, "end_ns", number(at->model->t_end_ns));
    add(at, chart, "limit", NULL);
    (void)array_of(at, chart, "series");
    (void)array_of(at, chart, "rows");
    (void)array_of(at, chart, "marks");
    (void)array_of(at, chart, "bands");
    push(at, at->charts, chart);
    return chart;
}

void gwi_chart_series(gwi_part *at, struct json_object *chart, const char *name, unsigned colour)
{
    struct json_object *series = json_object_new_object();
    add(at, series, "name", string(at, name));
    add(at, series, "colour", json_object_new_int((int)colour));
    push(at, array_of(at, chart, "series"), series);
}

static struct json_object *value_of(uint64_t value, uint64_t divisor)
{
    if (value == GWI_UNKNOWN)
        return NULL;
    return divisor <= 1 ? number(value) : json_object_new_double((double)value / (double)divisor);
}

void gwi_chart_rows(gwi_part *at, struct json_object *chart, const gwi_thin *table, const unsigned *column,
                    size_t column_count, uint64_t divisor)
{
    struct json_object *rows = array_of(at, chart, "rows");
    uint64_t last = UINT64_MAX;
    for (size_t i = 0; i < table->count; i++) {
        uint64_t t_ns = gwi_js(table->row[i].t_ns);
        if (t_ns == last) /* times near 2^64 */
            continue;
        last = t_ns;
        struct json_object *row = json_object_new_array();
        push(at, row, number(t_ns));
        for (size_t k = 0; k < column_count; k++)
            push(at, row, value_of(table->row[i].value[column[k]], divisor));
        push(at, rows, row);
    }
}

void gwi_chart_mark(gwi_part *at, struct json_object *chart, uint64_t t_ns, const char *text, const char *kind)
{
    struct json_object *mark = json_object_new_object();
    add(at, mark, "t_ns", number(t_ns));
    add(at, mark, "text", string(at, text));
    add(at, mark, "kind", string(at, kind));
    push(at, array_of(at, chart, "marks"), mark);
}

void gwi_chart_band(gwi_part *at, struct json_object *chart, uint64_t from_ns, uint64_t to_ns, const char *text,
                    const char *kind)
{
    struct json_object *band = json_object_new_object();
    add(at, band, "from_ns", number(from_ns));
    add(at, band, "to_ns", number(to_ns));
    add(at, band, "text", string(at, text));
    add(at, band, "kind", string(at, kind));
    push(at, array_of(at, chart, "bands"), band);
}

void gwi_chart_html(gwi_part *at, const char *id)
{
    gw_text_addf(
        at->page,
        "<div class=\"chart\"><div class=\"plot memory\" id=\"%s\"></div><div class=\"legend\" id=\"%s-legend\">"
        "</div></div>\n<ul class=\"marks\" id=\"%s-marks\"></ul>\n",
        id, id, id);
}

enum { MARKS_MAX = 60, PHASES_MAX = 200, THROTTLES_MAX = 200 };

void gwi_throttle_text(uint64_t reasons, gw_text *text)
{
    static const struct {
        uint64_t bit;
        const char *text;
    } words[] = {{GW_CLOCK_REASON_POWER_CAP, "power limit"},
                 {GW_CLOCK_REASON_HW_SLOWDOWN, "hardware slowdown"},
                 {GW_CLOCK_REASON_SW_THERMAL, "thermal slowdown by the driver"},
                 {GW_CLOCK_REASON_HW_THERMAL, "thermal slowdown by the hardware"},
                 {GW_CLOCK_REASON_POWER_BRAKE, "power brake"}};
    const char *separator = "";
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if ((reasons & words[i].bit) == 0)
            continue;
        gw_text_addf(text, "%s%s", separator, words[i].text);
        separator = ", ";
    }
}

void gwi_hidden_html(gwi_part *at, gw_text *hidden)
{
    if (hidden->bytes > 0)
        gw_text_addf(at->page, "<p class=\"dim hidden\">%s</p>\n", gw_text_str(hidden));
    at->failed = at->failed || hidden->failed;
    gw_text_free(hidden);
}

/* Append a sentence about what is not shown, such as "60 of 300 failed calls are marked: ...". */
static void add_hidden(gw_text *hidden, size_t shown, uint64_t count, const char *what)
{
    if (count > shown)
        gw_text_addf(hidden, "%s%zu of %llu %s", hidden->bytes > 0 ? " " : "", shown, (unsigned long long)count, what);
}

/* ---- failed calls ---- */

static void failure_mark(gwi_part *at, struct json_object *chart, const gw_failure *failure)
{
    char call[GW_CALL_TEXT_MAX];
    gw_text text = {0};
    gwi_time(&text, failure->t_ns);
    gw_text_addf(&text, ": %s ", gw_call_text(call, failure->fn_name));
    if (failure->is_allocation && failure->bytes_wanted > 0) {
        gw_text_add_str(&text, "of ");
        gwi_bytes(&text, failure->bytes_wanted);
        gw_text_add_str(&text, " ");
    }
    gw_text_addf(&text, "failed: %s", gw_result_name(failure->result));
    if (failure->recovery != GW_RECOVERED_NOT && failure != gwi_refusal(at))
        gw_text_add_str(&text, "; the program went on");
    gwi_chart_mark(at, chart, failure->t_ns, gw_text_str(&text), "failure");
    at->failed = at->failed || text.failed;
    gw_text_free(&text);
}

/* Failures from which the program did not recover are the most important ones. */
static size_t list_failures(gwi_part *at, int device, const gw_failure *refusal, gwi_choice *list)
{
    size_t count = 0;
    for (size_t i = 0; i < at->model->failure_count; i++) {
        const gw_failure *failure = &at->model->failure[i];
        if (failure == refusal || failure->is_probe || failure->is_echo ||
            (failure->device != device && failure->device >= 0))
            continue;
        list[count++] = (gwi_choice){.t_ns = failure->t_ns,
                                     .weight = failure->is_allocation ? failure->bytes_wanted : 0,
                                     .index = i,
                                     .importance = failure->is_sticky                      ? 2
                                                   : failure->recovery == GW_RECOVERED_NOT ? 1
                                                                                           : 0};
    }
    return count;
}

void gwi_add_failures(gwi_part *at, struct json_object *chart, int device, gw_text *hidden)
{
    const gw_failure *refusal = gwi_refusal(at);
    size_t first = refusal != NULL && (refusal->device == device || refusal->device < 0);
    gwi_choice *list = calloc(at->model->failure_count + 1, sizeof *list);
    if (list == NULL) {
        at->failed = true;
        return;
    }
    if (first > 0)
        failure_mark(at, chart, refusal); /* the chart's script shows the values of the first mark */
    size_t count = list_failures(at, device, refusal, list);
    size_t kept = gwi_pick(list, count, MARKS_MAX - first, at->model->t_end_ns);
    for (size_t i = 0; i < kept; i++)
        failure_mark(at, chart, &at->model->failure[list[i].index]);
    add_hidden(hidden, kept + first, count + first,
               "failed calls are marked: those from which the program did not recover, then others from all parts of "
               "the run.");
    free(list);
}

/* ---- phases and reduced clocks ---- */

static uint64_t phase_end(const gw_model *model, size_t index)
{
    bool is_last = index + 1 == model->phase_count || model->phase[index + 1].pid != model->phase[index].pid;
    return is_last ? model->t_end_ns : model->phase[index + 1].t_ns;
}

void gwi_add_phases(gwi_part *at, struct json_object *chart, uint32_t pid, gw_text *hidden)
{
    const gw_model *model = at->model;
    gwi_choice *list = calloc(model->phase_count + 1, sizeof *list);
    size_t count = 0;
    if (list == NULL) {
        at->failed = true;
        return;
    }
    for (size_t i = 0; i < model->phase_count; i++) {
        uint64_t t_ns = model->phase[i].t_ns, end_ns = phase_end(model, i);
        if (model->phase[i].pid == pid && model->phase[i].name != NULL && end_ns >= t_ns)
            list[count++] = (gwi_choice){.t_ns = t_ns, .weight = end_ns - t_ns, .index = i};
    }
    size_t kept = gwi_pick(list, count, PHASES_MAX, model->t_end_ns);
    for (size_t i = 0; i < kept; i++) {
        const gw_phase *phase = &model->phase[list[i].index];
        gwi_chart_band(at, chart, phase->t_ns, phase_end(model, list[i].index), phase->name, "phase");
    }
    add_hidden(hidden, kept, count, "phases are shaded: the longest ones of each part of the run.");
    free(list);
}

void gwi_add_throttling(gwi_part *at, struct json_object *chart, uint32_t index, gw_text *hidden)
{
    if (index >= GW_MACHINE_CARDS_MAX)
        return;
    const gwi_card_course *card = &at->course->card[index];
    gwi_choice *list = calloc(card->throttle_count + 1, sizeof *list);
    if (list == NULL) {
        at->failed = true;
        return;
    }
    for (size_t i = 0; i < card->throttle_count; i++)
        list[i] = (gwi_choice){.t_ns = card->throttle[i].from_ns,
                               .weight = card->throttle[i].to_ns - card->throttle[i].from_ns,
                               .index = i};
    size_t kept = gwi_pick(list, card->throttle_count, THROTTLES_MAX, at->model->t_end_ns);
    for (size_t i = 0; i < kept; i++) {
        const gwi_throttle *span = &card->throttle[list[i].index];
        gw_text text = {0};
        gwi_throttle_text(span->reasons, &text);
        gwi_chart_band(at, chart, span->from_ns, span->to_ns, gw_text_str(&text), "throttle");
        gw_text_free(&text);
    }
    add_hidden(hidden, kept, card->throttle_count + card->throttles_dropped,
               "spans of reduced clocks are drawn: the longest ones of each part of the run.");
    free(list);
}
