/* Writes the data of the charts as JSON. Numbers above 2^53 are written as 2^53, because JavaScript cannot store them.
 */
#include "gwi_sections.h"

#include "gw_text.h"
#include "gwi_escape.h"

#include <json-c/json.h>

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
