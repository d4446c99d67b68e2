/* Puts a page together: head, the verdict, the sections of each recording, the data, and the scripts. */
#include "gw_report.h"

#include "gw_render.h"
#include "gwi_escape.h"
#include "gwi_sections.h"

#include <json-c/json.h>

#include <stdio.h>
#include <stdlib.h>

static void document_head(const gw_report *report, const gw_report_assets *assets, gw_text *page)
{
    gw_text_add_str(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                          "<meta name=\"color-scheme\" content=\"light dark\">\n"
                          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                          "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:\">\n"
                          "<link rel=\"icon\" href=\"data:,\">\n<title>");
    const gw_verdict *first = report->whole != NULL ? report->whole : report->run[0].verdict;
    gwi_html(page, first->cause != NULL ? first->cause : gw_verdict_status_text(first->status));
    gw_text_add_str(page, " - gpuwhy report</title>\n<style>\n");
    gw_text_add(page, gw_text_str(&assets->chart_style), assets->chart_style.bytes);
    gw_text_add_str(page, "\n</style>\n<style>\n");
    gw_text_add(page, gw_text_str(&assets->style), assets->style.bytes);
    gw_text_add_str(page, "</style>\n</head>\n<body>\n<main>\n");
}

static void navigation(gw_text *page, size_t number)
{
    static const struct {
        const char *id, *text;
    } links[] = {{"memory", "Memory over time"}, {"map", "Memory map"},           {"holders", "Holders"},
                 {"ledger", "Objects"},          {"health", "Card health"},       {"failures", "Failed calls"},
                 {"libraries", "Libraries"},     {"unknown", "What is not known"}};
    gw_text_add_str(page, "<nav>");
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
        gw_text_addf(page, "<a href=\"#%s-%zu\">%s</a> ", links[i].id, number, links[i].text);
    gw_text_add_str(page, "</nav>\n");
}

/* Write everything about one recording, after its verdict. */
static gw_status sections(gwi_part *at, unsigned chart_count, gw_error *err)
{
    gwi_holders holders = {0};
    gwi_course *course = calloc(1, sizeof *course);
    gw_status st = course == NULL || !gwi_holders_find(at->model, &holders)
                       ? gw_fail(err, GW_NOMEM, "find the holders of memory")
                       : GW_OK;
    if (st == GW_OK && at->run->path != NULL)
        st = gwi_course_read(at->run->path, at->model, &holders, chart_count, course, err);
    else if (st == GW_OK)
        snprintf(course->reason, sizeof course->reason, "a memory snapshot has no calls to the driver");
    if (st == GW_OK) {
        at->holders = &holders;
        at->course = course;
        gwi_memory_part(at);
        gwi_map_part(at);
        gwi_holders_part(at);
        gwi_ledger_part(at);
        gwi_health_part(at);
        gwi_failures_part(at);
        gwi_libraries_part(at);
        gwi_unknown_part(at);
    }
    if (course != NULL)
        gwi_course_free(course);
    free(course);
    gwi_holders_free(&holders);
    return st;
}

/* List the recordings of the page, with their verdicts. */
static void contents(const gw_report *report, gw_text *page)
{
    gw_text_add_str(page, "<ol class=\"contents\">\n");
    for (size_t i = 0; i < report->run_count; i++) {
        const gw_verdict *verdict = report->run[i].verdict;
        gw_text_addf(page, "<li><a href=\"#recording-%zu\">", i);
        gwi_html_cut(page, report->run[i].name, 80);
        gw_text_addf(page, "</a>: <span class=\"badge %s\">%s</span> ", gw_verdict_status_text(verdict->status),
                     gw_verdict_status_text(verdict->status));
        gwi_html(page, verdict->headline);
        gw_text_add_str(page, "</li>\n");
    }
    gw_text_add_str(page, "</ol>\n");
}

static unsigned count_charts(const gw_report *report)
{
    unsigned count = 0;
    for (size_t i = 0; i < report->run_count; i++) {
        const gw_model *model = report->run[i].model;
        for (int device = 0; device < GW_MODEL_DEVICES_MAX; device++)
            count += model->device[device].known;
        count += (unsigned)model->machine.card_count;
    }
    return count / 2 + 1; /* the chart of a card is much smaller than that of memory */
}

static gw_status run_part(const gw_report *report, size_t number, unsigned chart_count, struct json_object *charts,
                          gw_text *page, gw_error *err)
{
    const gw_report_run *run = &report->run[number];
    gwi_part at = {.page = page, .run = run, .model = run->model, .charts = charts, .number = number};
    if (report->run_count > 1) {
        gw_text_addf(page, "<article id=\"recording-%zu\">\n<h2>Recording %zu of %zu: ", number, number + 1,
                     report->run_count);
        gwi_html_cut(page, run->name, 80);
        gw_text_add_str(page, "</h2>\n");
    }
    bool is_whole = report->run_count == 1;
    gwi_verdict_part(&at, run->verdict, is_whole);
    navigation(page, number);
    gw_status st = sections(&at, chart_count, err);
    gw_text_add_str(page, report->run_count > 1 ? "</article>\n" : "");
    if (st == GW_OK && (at.failed || page->failed))
        st = gw_fail(err, GW_NOMEM, "write the page");
    return st;
}

static gw_status add_json(gw_text *page, const char *id, const char *json)
{
    gw_text_addf(page, "<script type=\"application/json\" id=\"%s\">", id);
    gwi_script_json(page, json);
    gw_text_add_str(page, "</script>\n");
    return page->failed ? GW_NOMEM : GW_OK;
}

static gw_status data(const gw_report *report, struct json_object *charts, gw_text *page, gw_error *err)
{
    gw_status st = GW_OK;
    const char *text = json_object_to_json_string_ext(charts, JSON_C_TO_STRING_PLAIN);
    if (text == NULL || add_json(page, "charts", text) != GW_OK)
        st = gw_fail(err, GW_NOMEM, "write the data of the charts");
    for (size_t i = 0; st == GW_OK && i < report->run_count + (report->whole != NULL); i++) {
        char id[48] = "verdict-json";
        gw_text json = {0};
        bool is_whole = i == report->run_count;
        if (!is_whole && (report->run_count > 1))
            snprintf(id, sizeof id, "verdict-json-%zu", i);
        st = gw_render_json(is_whole ? report->whole : report->run[i].verdict, &json, err);
        if (st == GW_OK)
            st = add_json(page, id, gw_text_str(&json));
        gw_text_free(&json);
    }
    return st;
}

static void scripts(const gw_report_assets *assets, gw_text *page)
{
    gw_text_add_str(page, "<script>\n");
    gw_text_add(page, gw_text_str(&assets->chart_script), assets->chart_script.bytes);
    gw_text_add_str(page, "\n</script>\n<script>\n");
    gw_text_add(page, gw_text_str(&assets->script), assets->script.bytes);
    gw_text_add_str(page, "</script>\n</body>\n</html>\n");
}

gw_status gw_report_write(const gw_report *report, const gw_report_assets *assets, gw_text *page, gw_error *err)
{
    struct json_object *charts = json_object_new_array();
    gw_status st = charts == NULL ? gw_fail(err, GW_NOMEM, "write the page") : GW_OK;
    document_head(report, assets, page);
    if (report->whole != NULL)
        gwi_verdict_part(&(gwi_part){.page = page}, report->whole, true);
    if (report->apart_reason != NULL) {
        gw_text_add_str(page, "<p>The recordings are explained one by one, because ");
        gwi_html(page, report->apart_reason);
        gw_text_add_str(page, ".</p>\n");
    }
    if (report->run_count > 1 && report->whole == NULL)
        contents(report, page);
    unsigned chart_count = count_charts(report);
    for (size_t i = 0; st == GW_OK && i < report->run_count; i++)
        st = run_part(report, i, chart_count, charts, page, err);
    gw_text_add_str(page, "</main>\n<footer>Written by gpuwhy. This page needs no network.</footer>\n");
    if (st == GW_OK)
        st = data(report, charts, page, err);
    scripts(assets, page);
    if (st == GW_OK && page->failed)
        st = gw_fail(err, GW_NOMEM, "write the page");
    json_object_put(charts);
    return st;
}
