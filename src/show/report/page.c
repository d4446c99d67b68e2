/* Puts a page together: head, the verdict, the sections of each recording, the data, and the scripts. What the page
 * begins with depends on the verdict on all recordings, so the texts of the recordings are collected until it is known.
 */
#include "gw_report.h"

#include "gw_render.h"
#include "gwi_escape.h"
#include "gwi_sections.h"

#include <errno.h>
#include <json-c/json.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the files that are copied into a page. */

static gw_status read_file(const char *folder, const char *name, gw_text *text, gw_error *err)
{
    char path[4096], part[16384];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
        return gw_fail(err, GW_IO, "%s: the path is too long", folder);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return gw_fail(err, errno == ENOENT ? GW_MISSING : GW_IO, "open %s: %s", path, strerror(errno));
    for (size_t bytes; (bytes = fread(part, 1, sizeof part, file)) > 0;)
        gw_text_add(text, part, bytes);
    bool failed = ferror(file) != 0;
    fclose(file);
    if (failed)
        return gw_fail(err, GW_IO, "read %s", path);
    return text->failed ? gw_fail(err, GW_NOMEM, "read %s", path) : GW_OK;
}

static gw_status check_charts(const gw_report_assets *assets, gw_error *err)
{
    const char *script = gw_text_str(&assets->chart_script);
    if (strstr(script, "\"" GW_REPORT_DYGRAPHS "\"") == NULL)
        return gw_fail(err, GW_VERSION,
                       "the installed dygraphs is not version " GW_REPORT_DYGRAPHS
                       ", which the report needs; build gpuwhy again with that version of "
                       "libjs-dygraphs");
    if (strstr(script, "</script") != NULL || strstr(gw_text_str(&assets->chart_style), "</style") != NULL)
        return gw_fail(err, GW_VERSION, "the installed dygraphs cannot be copied into a page");
    return GW_OK;
}

gw_status gw_report_assets_read(const char *folder, gw_report_assets *ret_assets, gw_error *err)
{
    *ret_assets = (gw_report_assets){0};
    gw_status st = read_file(folder, "report.js", &ret_assets->script, err);
    if (st == GW_OK)
        st = read_file(folder, "report.css", &ret_assets->style, err);
    if (st == GW_OK) {
        st = read_file(folder, "dygraph.min.js", &ret_assets->chart_script, err);
        if (st == GW_OK)
            st = read_file(folder, "dygraph.min.css", &ret_assets->chart_style, err);
        if (st == GW_MISSING)
            st = gw_fail(err, GW_MISSING,
                         "the chart library dygraphs is missing: it was not found when gpuwhy was built; "
                         "install libjs-dygraphs " GW_REPORT_DYGRAPHS " and build gpuwhy again");
    }
    if (st == GW_OK)
        st = check_charts(ret_assets, err);
    if (st != GW_OK)
        gw_report_assets_free(ret_assets);
    return st;
}

void gw_report_assets_free(gw_report_assets *assets)
{
    gw_text_free(&assets->chart_script);
    gw_text_free(&assets->chart_style);
    gw_text_free(&assets->script);
    gw_text_free(&assets->style);
}

struct gw_report {
    size_t run_count, added;
    char *title;      /* owned; the first words of the verdict on the first recording */
    gw_text contents; /* list of the recordings */
    gw_text articles; /* the chapters */
    gw_text charts;   /* data of the charts, as JSON: elements of an array */
    gw_text verdicts; /* elements with the verdicts as JSON */
};

static const char *title_of(const gw_verdict *verdict)
{
    return verdict->cause != NULL ? verdict->cause : gw_verdict_status_text(verdict->status);
}

static void document_head(const char *title, const gw_report_assets *assets, gw_text *page)
{
    gw_text_add_str(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                          "<meta name=\"color-scheme\" content=\"light dark\">\n"
                          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                          "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:\">\n"
                          "<link rel=\"icon\" href=\"data:,\">\n<title>");
    gwi_html(page, title);
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
static gw_status sections(gwi_part *at, gw_error *err)
{
    gwi_holders holders = {0};
    gwi_course *course = calloc(1, sizeof *course);
    gw_status st = course == NULL || !gwi_holders_find(at->model, &holders)
                       ? gw_fail(err, GW_NOMEM, "find the holders of memory")
                       : GW_OK;
    if (st == GW_OK && at->run->path != NULL)
        st = gwi_course_read(at->run->path, at->model, &holders, at->chart_count, course, err);
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

/* Add the recording to the list of recordings. */
static void add_contents(gw_report *report, const gw_report_run *run)
{
    gw_text *list = &report->contents;
    const char *status = gw_verdict_status_text(run->verdict->status);
    gw_text_addf(list, "<li><a href=\"#recording-%zu\">", report->added);
    gwi_html_cut(list, run->name, 80);
    gw_text_addf(list, "</a>: <span class=\"badge %s\">%s</span> ", status, status);
    gwi_html(list, run->verdict->headline);
    gw_text_add_str(list, "</li>\n");
}

/* Return how many charts share the page, if all recordings have as many as this one. */
static unsigned count_charts(const gw_report *report, const gw_model *model)
{
    size_t count = model->machine.card_count;
    for (int device = 0; device < GW_MODEL_DEVICES_MAX; device++)
        count += model->device[device].known;
    return (unsigned)(count * report->run_count / 2 + 1); /* the chart of a card is much smaller than that of memory */
}

static gw_status add_article(gw_report *report, const gw_report_run *run, struct json_object *charts, gw_error *err)
{
    gw_text *page = &report->articles;
    bool is_whole = report->run_count == 1;
    gwi_part at = {.page = page,
                   .run = run,
                   .model = run->model,
                   .charts = charts,
                   .number = report->added,
                   .chart_count = count_charts(report, run->model)};
    if (!is_whole) {
        gw_text_addf(page, "<article id=\"recording-%zu\">\n<h2>Recording %zu of %zu: ", report->added,
                     report->added + 1, report->run_count);
        gwi_html_cut(page, run->name, 80);
        gw_text_add_str(page, "</h2>\n");
    }
    gwi_verdict_part(&at, run->verdict, is_whole);
    navigation(page, report->added);
    gw_status st = sections(&at, err);
    gw_text_add_str(page, is_whole ? "" : "</article>\n");
    if (st == GW_OK && (at.failed || page->failed))
        st = gw_fail(err, GW_NOMEM, "write the page");
    return st;
}

/* Add the elements of a JSON array to those of the earlier recordings. */
static gw_status add_charts(gw_report *report, struct json_object *charts, gw_error *err)
{
    const char *text = json_object_to_json_string_ext(charts, JSON_C_TO_STRING_PLAIN);
    size_t bytes = text == NULL ? 0 : strlen(text);
    if (bytes > 2 && report->charts.bytes > 0)
        gw_text_add_str(&report->charts, ",");
    if (bytes > 2) /* not "[]" */
        gw_text_add(&report->charts, text + 1, bytes - 2);
    return text == NULL || report->charts.failed ? gw_fail(err, GW_NOMEM, "write the data of the charts") : GW_OK;
}

static void add_json(gw_text *page, const char *id, const char *json)
{
    gw_text_addf(page, "<script type=\"application/json\" id=\"%s\">", id);
    gwi_script_json(page, json);
    gw_text_add_str(page, "</script>\n");
}

static gw_status add_verdict(gw_text *page, const char *id, const gw_verdict *verdict, gw_error *err)
{
    gw_text json = {0};
    gw_status st = gw_render_json(verdict, &json, err);
    if (st == GW_OK)
        add_json(page, id, gw_text_str(&json));
    gw_text_free(&json);
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

gw_status gw_report_begin(size_t run_count, gw_report **ret_report, gw_error *err)
{
    gw_report *report = calloc(1, sizeof *report);
    *ret_report = report;
    if (report == NULL)
        return gw_fail(err, GW_NOMEM, "begin the page");
    report->run_count = run_count;
    return GW_OK;
}

void gw_report_free(gw_report *report)
{
    if (report == NULL)
        return;
    free(report->title);
    gw_text_free(&report->contents);
    gw_text_free(&report->articles);
    gw_text_free(&report->charts);
    gw_text_free(&report->verdicts);
    free(report);
}

gw_status gw_report_add(gw_report *report, const gw_report_run *run, gw_error *err)
{
    char id[48] = "verdict-json";
    struct json_object *charts = json_object_new_array();
    gw_status st = charts == NULL ? gw_fail(err, GW_NOMEM, "write the page") : GW_OK;
    if (st == GW_OK && report->title == NULL && !gw_str_copy(title_of(run->verdict), &report->title))
        st = gw_fail(err, GW_NOMEM, "write the page");
    if (report->run_count > 1)
        snprintf(id, sizeof id, "verdict-json-%zu", report->added);
    if (st == GW_OK)
        st = add_article(report, run, charts, err);
    if (st == GW_OK)
        st = add_charts(report, charts, err);
    if (st == GW_OK)
        st = add_verdict(&report->verdicts, id, run->verdict, err);
    json_object_put(charts);
    add_contents(report, run);
    report->added++;
    return st;
}

/* The page's text, up to the data of the charts. */
static void add_body(const gw_report *report, const gw_verdict *whole, const char *apart_reason, gw_text *page)
{
    if (whole != NULL)
        gwi_verdict_part(&(gwi_part){.page = page}, whole, true);
    if (apart_reason != NULL) {
        gw_text_add_str(page, "<p>The recordings are explained one by one, because ");
        gwi_html(page, apart_reason);
        gw_text_add_str(page, ".</p>\n");
    }
    if (report->run_count > 1 && whole == NULL)
        gw_text_addf(page, "<ol class=\"contents\">\n%s</ol>\n", gw_text_str(&report->contents));
    gw_text_add(page, gw_text_str(&report->articles), report->articles.bytes);
    gw_text_add_str(page, "</main>\n<footer>Written by gpuwhy " GW_PROGRAM_VERSION
                          ". This page needs no network.</footer>\n");
}

gw_status gw_report_finish(const gw_report *report, const gw_verdict *whole, const char *apart_reason,
                           const gw_report_assets *assets, gw_text *page, gw_error *err)
{
    gw_text charts = {0};
    gw_status st = GW_OK;
    document_head(whole != NULL ? title_of(whole) : report->title, assets, page);
    add_body(report, whole, apart_reason, page);
    gw_text_addf(&charts, "[%s]", gw_text_str(&report->charts));
    add_json(page, "charts", gw_text_str(&charts));
    gw_text_add(page, gw_text_str(&report->verdicts), report->verdicts.bytes);
    if (whole != NULL)
        st = add_verdict(page, "verdict-json", whole, err);
    scripts(assets, page);
    bool failed = page->failed || charts.failed || report->contents.failed || report->verdicts.failed;
    if (st == GW_OK && failed)
        st = gw_fail(err, GW_NOMEM, "write the page");
    gw_text_free(&charts);
    return st;
}
