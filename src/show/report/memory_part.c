/* Device memory over time: one stacked chart for each device that the run used. */
#include "gwi_sections.h"

#include "gwi_escape.h"

#include <json-c/json.h>

#include <stdio.h>
#include <string.h>

enum { NAME_CHARS_MAX = 60 };

static void add_series(gwi_part *at, struct json_object *chart, int device)
{
    const gwi_device_holders *holders = &at->holders->device[device];
    const gwi_thin *table = &at->course->device[device].table;
    unsigned column[GWI_MEMORY_COLUMNS];
    size_t count = 0;
    bool has_outside = false;
    for (size_t i = 0; i < table->count; i++)
        has_outside = has_outside || table->row[i].value[GWI_OUTSIDE] != GWI_UNKNOWN;
    if (has_outside) {
        gwi_chart_series(at, chart, "contexts, libraries, other processes", GWI_OUTSIDE);
        column[count++] = GWI_OUTSIDE;
    }
    for (unsigned i = 0; i < holders->count; i++) {
        gw_text name = {0};
        gwi_cut(&name, holders->name[i], NAME_CHARS_MAX);
        gwi_chart_series(at, chart, gw_text_str(&name), i);
        column[count++] = i;
        gw_text_free(&name);
    }
    if (holders->smaller_count > 0) {
        char name[64];
        snprintf(name, sizeof name, "%zu smaller places", holders->smaller_count);
        gwi_chart_series(at, chart, holders->smaller_count == 1 ? "1 smaller place" : name, GWI_SMALLER);
        column[count++] = GWI_SMALLER;
    }
    gwi_chart_rows(at, chart, table, column, count, 1);
}

static void device_title(gwi_part *at, int device)
{
    char name[GW_DEVICE_TEXT_MAX];
    uint64_t limit;
    gw_text_addf(at->page, "<h4>%s", gw_device_text(name, device));
    if (device < GW_MODEL_DEVICES_MAX && at->model->device[device].name != NULL) {
        gw_text_add_str(at->page, ": ");
        gwi_html(at->page, at->model->device[device].name);
    }
    if (gw_model_device_limit(at->model, device, &limit)) {
        gw_text_add_str(at->page, at->model->device[device].has_limit ? ", limit " : ", ");
        gwi_bytes(at->page, limit);
    }
    gw_text_add_str(at->page, "</h4>\n");
}

static void peak_line(gwi_part *at, int device)
{
    const gwi_device_course *course = &at->course->device[device];
    if (course->peak_bytes == 0)
        return;
    gw_text_add_str(at->page, "<p>The most memory that one process held was <b>");
    gwi_bytes(at->page, course->peak_bytes);
    gw_text_addf(at->page, "</b>: process %u, ", course->peak_pid);
    gwi_time(at->page, course->t_peak_ns);
    gw_text_add_str(at->page, " after the start.</p>\n");
}

static void device_chart(gwi_part *at, int device)
{
    char id[64];
    uint64_t limit;
    snprintf(id, sizeof id, "memory-%zu-%d", at->number, device);
    device_title(at, device);
    struct json_object *chart = gwi_chart_add(at, id, "bytes", true);
    if (chart == NULL)
        return;
    if (gw_model_device_limit(at->model, device, &limit)) {
        bool by_gpuwhy = at->model->device[device].has_limit;
        json_object_object_add(chart, "limit", json_object_new_int64((int64_t)gwi_js(limit)));
        json_object_object_add(chart, "limit_text",
                               json_object_new_string(by_gpuwhy
                                                          ? "limit set by gpuwhy, only for the program's own requests"
                                                          : "size of the card"));
    }
    add_series(at, chart, device);
    gw_text hidden = {0};
    gwi_add_failures(at, chart, device, &hidden);
    gwi_add_phases(at, chart, at->course->device[device].peak_pid, &hidden);
    gwi_add_throttling(at, chart, gw_machine_card_of(at->model, device), &hidden);
    gwi_chart_html(at, id);
    gwi_hidden_html(at, &hidden);
    peak_line(at, device);
}

/* Without calls to the driver, show the live bytes that the framework's allocator reported: the lowest and the highest
 * value of each span of time. Returns false if there are none. */
static bool allocator_chart(gwi_part *at, const gw_allocator_report *report)
{
    char id[64];
    const unsigned column = 0;
    const int device = report->device < 0 ? 0 : report->device;
    gwi_thin table;
    if (report->peak_count == 0)
        return false;
    gwi_thin_start(&table, 1, 0, 1);
    table.bucket_rows_max = SIZE_MAX / 2; /* the list is short, so keep all of it */
    for (size_t i = 0; i < report->peak_count; i++) {
        const gw_peak *peak = &report->peak[i];
        if (peak->has_low)
            gwi_thin_add(&table, peak->t_ns - (peak->t_ns > 0), &peak->low_bytes);
        gwi_thin_add(&table, peak->t_ns, &peak->bytes);
    }
    snprintf(id, sizeof id, "memory-%zu-%d", at->number, device);
    device_title(at, device);
    struct json_object *chart = gwi_chart_add(at, id, "bytes", true);
    if (chart != NULL) {
        gwi_chart_series(at, chart, "live in the framework's allocator", 0);
        gwi_chart_rows(at, chart, &table, &column, 1, 1);
        gwi_chart_html(at, id);
    }
    at->failed = at->failed || table.failed;
    gwi_thin_free(&table);
    return chart != NULL;
}

void gwi_memory_part(gwi_part *at)
{
    bool any = false;
    gwi_section_begin(at, "memory", "Device memory over time");
    for (int device = 0; device < GW_MODEL_DEVICE_PLACES; device++)
        any = any || at->course->device[device].has_changes;
    if (any)
        gw_text_add_str(at->page, "<p class=\"dim hint\">Colours show where the program requested the memory. Point at "
                                  "the chart to read its values. Drag to zoom, double-click to see everything.</p>\n");
    for (int device = 0; device < GW_MODEL_DEVICE_PLACES; device++) {
        if (at->course->device[device].has_changes)
            device_chart(at, device);
        gwi_tensor_chart(at, device);
    }
    if (!any && at->run->path == NULL && at->model->allocator_count > 0)
        any = allocator_chart(at, &at->model->allocator[at->model->allocator_count - 1]);
    if (!any) {
        gw_text_add_str(at->page, "<p>No request for device memory was recorded");
        if (!at->course->was_read) {
            gw_text_add_str(at->page, ": ");
            gwi_html(at->page, at->course->reason);
        }
        gw_text_add_str(at->page, ".</p>\n");
    }
    gwi_section_end(at);
}
