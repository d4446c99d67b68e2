/* Device memory over time: one stacked chart for each device that the run used. */
#include "gwi_sections.h"

#include "gwi_escape.h"

#include <json-c/json.h>
#include <stdlib.h>

#include <stdio.h>
#include <string.h>

/* Memory in a framework's allocator over time, stacked by the line that requested it. The driver sees only the large
 * pieces that the allocator requests; the blocks in them are tensors. The chart is made from a report of the allocator:
 * its latest requests, and its live blocks. */

enum { PLACES_NAMED_MAX = 64, NAME_CHARS_MAX = 60, COLUMNS = GWI_NAMED_MAX + 1 };

/* A block was requested or freed. Blocks that are older than all recorded requests have `step` 0. */
typedef struct change {
    uint64_t step, t_ns, bytes;
    uint32_t site;
    bool made;
} change;

/* The blocks that one call site requested. */
typedef struct place {
    uint32_t site;
    uint64_t bytes, bytes_peak;
    uint8_t column;
} place;

typedef struct tensor_course {
    change *change; /* owned; in the order in which they happened */
    size_t change_count;
    place *place; /* owned; by site */
    size_t place_count;
    gw_text name[GWI_NAMED_MAX];
    size_t name_count;
    bool has_others; /* some memory belongs to none of the named places */
} tensor_course;

static void course_free(tensor_course *c)
{
    free(c->change);
    free(c->place);
    for (size_t i = 0; i < GWI_NAMED_MAX; i++)
        gw_text_free(&c->name[i]);
}

/* ---- what happened ---- */

static int compare_steps(const void *a, const void *b)
{
    const change *left = a, *right = b;
    if (left->step != right->step)
        return left->step < right->step ? -1 : 1;
    return (left->made < right->made) - (left->made > right->made);
}

/* Return the recorded request with this number, NULL if there is none. */
static const gw_allocator_request *request_of(const gw_allocator_report *report, uint64_t order)
{
    uint64_t first = report->request[0].order;
    return order >= first && order - first < report->request_count ? &report->request[order - first] : NULL;
}

static void add(tensor_course *c, const change *one)
{
    c->change[c->change_count++] = *one;
}

static void add_request(tensor_course *c, const gw_allocator_report *report, const gw_allocator_request *request)
{
    uint64_t step = request->order - report->request[0].order + 1;
    add(c, &(change){step, request->t_ns, request->bytes, request->site, true});
    const gw_allocator_request *last = request->freed ? request_of(report, request->freed_order) : NULL;
    if (last == NULL || last->order < request->order)
        return;
    /* it was freed before the next request, at a time that is not recorded */
    add(c, &(change){last->order - report->request[0].order + 1, last->t_ns, request->bytes, request->site, false});
}

static bool list_changes(const gw_allocator_report *report, tensor_course *c)
{
    c->change = calloc(2 * report->request_count + report->live_count + 1, sizeof *c->change);
    if (c->change == NULL)
        return false;
    uint64_t first = report->request[0].order, t_first_ns = report->request[0].t_ns;
    for (size_t i = 0; i < report->live_count; i++)
        if (report->live[i].order < first)
            add(c, &(change){0, t_first_ns, report->live[i].bytes, report->live[i].site, true});
    for (size_t i = 0; i < report->request_count; i++)
        add_request(c, report, &report->request[i]);
    qsort(c->change, c->change_count, sizeof *c->change, compare_steps);
    return true;
}

/* ---- places ---- */

static int compare_sites(const void *a, const void *b)
{
    const place *left = a, *right = b;
    return (left->site > right->site) - (left->site < right->site);
}

static int compare_peaks(const void *a, const void *b)
{
    const place *left = a, *right = b;
    if (left->bytes_peak != right->bytes_peak)
        return left->bytes_peak > right->bytes_peak ? -1 : 1;
    return compare_sites(a, b);
}

static place *place_of(const tensor_course *c, uint32_t site)
{
    const place wanted = {.site = site};
    return bsearch(&wanted, c->place, c->place_count, sizeof wanted, compare_sites);
}

static void count(place *of, const change *one)
{
    of->bytes = one->made ? gwi_sum(of->bytes, one->bytes) : of->bytes > one->bytes ? of->bytes - one->bytes : 0;
    of->bytes_peak = of->bytes > of->bytes_peak ? of->bytes : of->bytes_peak;
}

static bool list_places(tensor_course *c)
{
    size_t kept = 0;
    c->place = calloc(c->change_count + 1, sizeof *c->place);
    if (c->place == NULL)
        return false;
    for (size_t i = 0; i < c->change_count; i++)
        c->place[i] = (place){.site = c->change[i].site, .column = GWI_SMALLER};
    if (c->change_count > 0)
        qsort(c->place, c->change_count, sizeof *c->place, compare_sites);
    for (size_t i = 0; i < c->change_count; i++)
        if (kept == 0 || c->place[kept - 1].site != c->place[i].site)
            c->place[kept++] = c->place[i];
    c->place_count = kept;
    for (size_t i = 0; i < c->change_count; i++)
        count(place_of(c, c->change[i].site), &c->change[i]);
    return true;
}

/* Give a place the column of an equal name, or a new one. */
static void name_place(gwi_part *at, tensor_course *c, place *of)
{
    gw_text text = {0};
    size_t k = 0;
    if (gwi_site_text(at->model, of->site, &text)) {
        while (k < c->name_count && strcmp(gw_text_str(&c->name[k]), gw_text_str(&text)) != 0)
            k++;
        if (k == c->name_count && k < GWI_NAMED_MAX)
            gw_text_add_str(&c->name[c->name_count++], gw_text_str(&text));
        if (k < GWI_NAMED_MAX)
            of->column = (uint8_t)k;
    }
    at->failed = at->failed || text.failed;
    gw_text_free(&text);
}

static void name_places(gwi_part *at, tensor_course *c)
{
    if (c->place_count > 0)
        qsort(c->place, c->place_count, sizeof *c->place, compare_peaks);
    for (size_t i = 0; i < c->place_count; i++) {
        if (i < PLACES_NAMED_MAX)
            name_place(at, c, &c->place[i]);
        c->has_others = c->has_others || (c->place[i].column == GWI_SMALLER && c->place[i].bytes_peak > 0);
        c->place[i].bytes = 0;
    }
    if (c->place_count > 0)
        qsort(c->place, c->place_count, sizeof *c->place, compare_sites);
}

/* ---- the chart ---- */

/* `begin_ns`: when the chart of the device begins. Nothing was requested before the first request. */
static void fill(const tensor_course *c, const gw_allocator_report *report, uint64_t begin_ns, gwi_thin *table)
{
    uint64_t value[COLUMNS] = {0}, t_ns = 0;
    if (report->request[0].order == 1 && begin_ns < report->request[0].t_ns)
        gwi_thin_add(table, begin_ns, value);
    for (size_t i = 0; i < c->change_count; i++) {
        const change *one = &c->change[i];
        uint64_t *of = &value[place_of(c, one->site)->column];
        *of = one->made ? gwi_sum(*of, one->bytes) : *of > one->bytes ? *of - one->bytes : 0;
        t_ns = one->t_ns > t_ns ? one->t_ns : t_ns; /* times of several threads may go back */
        bool is_last_of_start = one->step == 0 && i + 1 < c->change_count && c->change[i + 1].step == 0;
        if (!is_last_of_start)
            gwi_thin_add(table, t_ns, value);
    }
    if (report->t_ns > t_ns)
        gwi_thin_add(table, report->t_ns, value);
    gwi_thin_finish(table);
}

static void mark_refusal(gwi_part *at, struct json_object *chart, const gw_allocator_report *report)
{
    gw_text text = {0};
    if (!report->is_oom)
        return;
    gwi_time(&text, report->t_ns);
    gw_text_add_str(&text, ": the allocator refused a request");
    if (report->bytes_wanted > 0) {
        gw_text_add_str(&text, " of ");
        gwi_bytes(&text, report->bytes_wanted);
    }
    gwi_chart_mark(at, chart, report->t_ns, gw_text_str(&text), "failure");
    gw_text_free(&text);
}

static void sentence(gwi_part *at, const gw_allocator_report *report)
{
    gw_text_addf(at->page, "<p class=\"dim\">Blocks in the framework's allocator, from its last %zu %s before ",
                 report->request_count, report->request_count == 1 ? "request" : "requests");
    gwi_time(at->page, report->t_ns);
    gw_text_add_str(at->page, ". Each colour is a line of the program.");
    if (report->request[0].order > 1)
        gw_text_add_str(at->page, " Blocks that were requested earlier are shown only if they were never freed.");
    if (report->course_missed > 0)
        gw_text_addf(at->page, " The sums may be wrong: %llu %s of the allocator were missed.",
                     (unsigned long long)report->course_missed, report->course_missed == 1 ? "event" : "events");
    gw_text_add_str(at->page, "</p>\n");
}

static void chart(gwi_part *at, const gw_allocator_report *report, const tensor_course *c, const gwi_thin *table)
{
    char id[64], name[GW_DEVICE_TEXT_MAX];
    unsigned column[COLUMNS];
    size_t columns = 0;
    const int device = report->device < 0 ? 0 : report->device;
    snprintf(id, sizeof id, "tensors-%zu-%d", at->number, device);
    gw_text_addf(at->page, "<h4>%s: tensors by line</h4>\n", gw_device_text(name, device));
    sentence(at, report);
    struct json_object *made = gwi_chart_add(at, id, "bytes", true);
    if (made == NULL)
        return;
    for (unsigned i = 0; i < c->name_count; i++) {
        gw_text cut = {0};
        gwi_cut(&cut, gw_text_str(&c->name[i]), NAME_CHARS_MAX);
        gwi_chart_series(at, made, gw_text_str(&cut), i);
        column[columns++] = i;
        gw_text_free(&cut);
    }
    if (c->has_others) {
        gwi_chart_series(at, made, "smaller and unknown places", GWI_SMALLER);
        column[columns++] = GWI_SMALLER;
    }
    gwi_chart_rows(at, made, table, column, columns, 1);
    mark_refusal(at, made, report);
    gwi_chart_html(at, id);
}

/* Return the report that a chart is made from: the one about the failure, otherwise the last one with requests. */
static const gw_allocator_report *report_on(gwi_part *at, int device)
{
    gwi_moment moment;
    const gw_allocator_report *found = NULL;
    for (size_t i = 0; i < at->model->allocator_count; i++) {
        const gw_allocator_report *report = &at->model->allocator[i];
        if (report->has_course && report->request_count > 0 && (report->device < 0 ? 0 : report->device) == device)
            found = report;
    }
    bool has = found != NULL && gwi_moment_find(at, &moment) && moment.report != NULL &&
               moment.report->request_count > 0 && moment.report->device == found->device;
    return has ? moment.report : found;
}

void gwi_tensor_chart(gwi_part *at, int device)
{
    const gw_allocator_report *report = report_on(at, device);
    tensor_course c = {0};
    gwi_thin table;
    if (report == NULL)
        return;
    if (!list_changes(report, &c) || !list_places(&c)) {
        at->failed = true;
        course_free(&c);
        return;
    }
    name_places(at, &c);
    gwi_thin_start(&table, COLUMNS, at->model->t_end_ns, gwi_buckets(at->chart_count) / 2);
    const gwi_thin *whole = &at->course->device[device].table;
    fill(&c, report, whole->count == 0 ? UINT64_MAX : whole->row[0].t_ns, &table);
    if (c.name_count > 0)
        chart(at, report, &c, &table);
    at->failed = at->failed || table.failed;
    gwi_thin_free(&table);
    course_free(&c);
}

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
