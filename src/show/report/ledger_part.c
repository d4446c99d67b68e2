/* Tables of the objects that the program created, of the calls that failed, and of the libraries that it loaded. */
#include "gwi_sections.h"

#include "gwi_escape.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROWS_MAX = 200, PROCESSES_MAX = 64, TEXT_CHARS_MAX = 90 };

/* ---- streams, contexts and other objects ---- */

static void object_row(gwi_part *at, const gw_process *process, int device, gw_class cls)
{
    const gw_usage *usage = &process->usage[device];
    char name[GW_DEVICE_TEXT_MAX];
    gw_text_addf(at->page,
                 "<tr><td>%s</td><td>%u</td><td>%s</td><td class=\"n\">%" PRIu64 "</td><td class=\"n\">%" PRIu64
                 "</td><td class=\"n\">%" PRIu64 "</td></tr>\n",
                 gw_class_text(cls), process->pid, gw_device_text(name, device), usage->class_made[cls],
                 usage->class_count_peak[cls], usage->class_count[cls]);
}

/* Write that a memory snapshot does not contain this. Returns false if the page is about a recording. */
static bool is_snapshot(gwi_part *at, const char *what)
{
    if (at->run->path == NULL)
        gw_text_addf(at->page, "<p>Unknown: a memory snapshot has no %s.</p>\n", what);
    return at->run->path == NULL;
}

static size_t object_rows(gwi_part *at, const gw_process *process)
{
    size_t rows = 0;
    for (int device = 0; device < GW_MODEL_DEVICE_PLACES; device++) {
        for (gw_class cls = GW_CLASS_HOST; cls < GW_CLASS_COUNT; cls++) {
            if (process->usage[device].class_made[cls] == 0 || cls == GW_CLASS_FUNCTION)
                continue;
            object_row(at, process, device, cls);
            rows++;
        }
    }
    return rows;
}

static void teardown_rows(gwi_part *at)
{
    static const char *const kinds[] = {[GW_TEARDOWN_DESTROY] = "a context was destroyed",
                                        [GW_TEARDOWN_RELEASE] = "the primary context was released",
                                        [GW_TEARDOWN_RESET] = "the device was reset"};
    if (at->model->teardown_count == 0)
        return;
    gw_text_add_str(at->page, "<h4>Ends of contexts</h4>\n<table><tr><th>Time</th><th>Process</th><th>What</th>"
                              "<th>Device memory that went with it</th><th>Place</th></tr>\n");
    for (size_t i = 0; i < at->model->teardown_count && i < ROWS_MAX; i++) {
        const gw_teardown *teardown = &at->model->teardown[i];
        gw_text_add_str(at->page, "<tr><td class=\"n\">");
        gwi_time(at->page, teardown->t_ns);
        gw_text_addf(at->page, "</td><td>%u</td><td>%s</td><td class=\"n\">", teardown->pid, kinds[teardown->kind]);
        gwi_bytes(at->page, teardown->bytes);
        gw_text_add_str(at->page, "</td><td>");
        gwi_site_html(at, teardown->site);
        gw_text_add_str(at->page, "</td></tr>\n");
    }
    gw_text_add_str(at->page, "</table>\n");
    if (at->model->teardown_count > ROWS_MAX)
        gw_text_addf(at->page, "<p>%zu later ones are not listed.</p>\n", at->model->teardown_count - ROWS_MAX);
}

void gwi_ledger_part(gwi_part *at)
{
    size_t rows = 0;
    gwi_section_begin(at, "ledger", "Streams, contexts and other objects");
    if (is_snapshot(at, "calls to the driver")) {
        gwi_section_end(at);
        return;
    }
    gw_text_add_str(at->page,
                    "<div class=\"wide\"><table><tr><th>Object</th><th>Process</th><th>Device</th><th>Created</th>"
                    "<th>Most at one time</th><th>Live at the end</th></tr>\n");
    for (size_t i = 0; i < at->model->process_count && i < PROCESSES_MAX; i++)
        rows += object_rows(at, &at->model->process[i]);
    gw_text_add_str(at->page, "</table></div>\n");
    if (rows == 0)
        gw_text_add_str(at->page, "<p>The recording contains none.</p>\n");
    if (at->model->process_count > PROCESSES_MAX)
        gw_text_addf(at->page, "<p>%zu more processes are not listed.</p>\n", at->model->process_count - PROCESSES_MAX);
    teardown_rows(at);
    gwi_section_end(at);
}

/* ---- failed calls ---- */

/* Append a note, after "; " if it is not the first one. */
static void note(gwi_part *at, size_t *count, bool holds, const char *text)
{
    if (holds)
        gw_text_addf(at->page, "%s%s", (*count)++ == 0 ? "" : "; ", text);
}

static void failure_notes(gwi_part *at, const gw_failure *failure)
{
    size_t count = 0;
    bool has_bytes = failure->is_allocation && failure->bytes_wanted > 0;
    note(at, &count, has_bytes, "requested ");
    if (has_bytes)
        gwi_bytes(at->page, failure->bytes_wanted);
    note(at, &count, failure->has_info, "free: ");
    if (failure->has_info)
        gwi_bytes(at->page, failure->info.bytes_free);
    note(at, &count, failure->is_sticky, "the context was lost");
    note(at, &count, failure->is_echo, "may only be a consequence of an earlier failure");
    note(at, &count, failure->injected, "injected by gpuwhy");
    note(at, &count, failure->guard, "refused by gpuwhy's limit");
    note(at, &count, failure->recovery != GW_RECOVERED_NOT, "the program continued");
    note(at, &count, failure->text != NULL && failure->text[0] != '\0', "");
    gwi_html_cut(at->page, failure->text, TEXT_CHARS_MAX);
}

static void failure_row(gwi_part *at, const gw_failure *failure)
{
    char call[GW_CALL_TEXT_MAX], device[GW_DEVICE_TEXT_MAX];
    gw_text_addf(at->page, "<tr class=\"%s\"><td class=\"n\">", failure->is_probe ? "dim" : "");
    gwi_time(at->page, failure->t_ns);
    gw_text_add_str(at->page, "</td><td class=\"call\"><code>");
    gwi_html(at->page, gw_call_text(call, failure->fn_name));
    gw_text_add_str(at->page, "</code></td><td>");
    gwi_html(at->page, gw_result_name(failure->result));
    gw_text_addf(at->page, " (%u)</td><td class=\"n\">%" PRIu64 "</td><td>%u</td><td>%s</td><td>", failure->result,
                 failure->repeat_count, failure->pid,
                 failure->device < 0 ? "unknown" : gw_device_text(device, failure->device));
    failure_notes(at, failure);
    gw_text_add_str(at->page, "</td><td>");
    gwi_site_html(at, failure->site);
    gw_text_add_str(at->page, "</td></tr>\n");
}

static void failure_table(gwi_part *at, bool is_probe)
{
    size_t rows = 0;
    gw_text_add_str(at->page, "<div class=\"wide\"><table><tr><th>Time</th><th>Call</th><th>Result</th><th>Times</th>"
                              "<th>Process</th><th>Device</th><th>Notes</th><th>Place</th></tr>\n");
    for (size_t i = 0; i < at->model->failure_count; i++) {
        if (at->model->failure[i].is_probe == is_probe && rows++ < ROWS_MAX)
            failure_row(at, &at->model->failure[i]);
    }
    gw_text_add_str(at->page, "</table></div>\n");
    if (rows > ROWS_MAX)
        gw_text_addf(at->page, "<p>%zu later ones are not listed.</p>\n", rows - ROWS_MAX);
}

void gwi_failures_part(gwi_part *at)
{
    size_t probes = 0;
    for (size_t i = 0; i < at->model->failure_count; i++)
        probes += at->model->failure[i].is_probe;
    gwi_section_begin(at, "failures", "Driver calls that failed");
    if (at->model->failure_count > probes)
        failure_table(at, false);
    else if (!is_snapshot(at, "calls to the driver"))
        gw_text_add_str(at->page, "<p>No driver call failed.</p>\n");
    if (probes > 0) {
        gw_text_addf(at->page,
                     "<details><summary>%zu %s that only answered a question of the program: no "
                     "errors</summary>\n",
                     probes, probes == 1 ? "result" : "results");
        failure_table(at, true);
        gw_text_add_str(at->page, "</details>\n");
    }
    gwi_section_end(at);
}

/* ---- libraries ---- */

static void library_row(gwi_part *at, uint32_t pid, const char *name, const char *version, const char *from,
                        const char *path)
{
    gw_text_add_str(at->page, "<tr><td>");
    gwi_html(at->page, name);
    gw_text_add_str(at->page, "</td><td>");
    gwi_html(at->page, version);
    gw_text_add_str(at->page, "</td><td class=\"dim\">");
    gwi_html(at->page, from);
    gw_text_addf(at->page, "</td><td>%u</td><td><code>", pid);
    gwi_html_cut(at->page, path, TEXT_CHARS_MAX);
    gw_text_add_str(at->page, "</code></td></tr>\n");
}

static void driver_row(gwi_part *at, const gw_process *process)
{
    char version[64] = "unknown";
    if (process->driver_api != 0)
        snprintf(version, sizeof version, "CUDA %u.%u", process->driver_api / 1000, process->driver_api % 1000 / 10);
    library_row(at, process->pid, "driver in use", version, "the driver itself", process->driver_path);
}

static size_t library_rows(gwi_part *at, const gw_process *process)
{
    size_t rows = 0;
    if (process->driver_path != NULL && process->driver_path[0] != '\0') {
        driver_row(at, process);
        rows++;
    }
    for (size_t i = 0; i < process->libraries.count; i++, rows++) {
        const gw_library *library = &process->libraries.item[i];
        char version[GW_VERSION_TEXT_MAX], name[80];
        snprintf(name, sizeof name, "%s%s%s", gw_library_kind_text(library->kind), library->part[0] == '\0' ? "" : " ",
                 library->part);
        library_row(at, process->pid, name, gw_library_version_text(version, library),
                    gw_version_from_text(library->from), library->path);
    }
    return rows;
}

void gwi_libraries_part(gwi_part *at)
{
    size_t rows = 0;
    gwi_section_begin(at, "libraries", "Libraries");
    if (is_snapshot(at, "list of libraries")) {
        gwi_section_end(at);
        return;
    }
    gw_text_add_str(at->page, "<div class=\"wide\"><table><tr><th>Library</th><th>Version</th><th>Version from</th>"
                              "<th>Process</th><th>File</th></tr>\n");
    size_t shown = 0;
    for (; shown < at->model->process_count && rows < ROWS_MAX; shown++)
        rows += library_rows(at, &at->model->process[shown]);
    gw_text_add_str(at->page, "</table></div>\n");
    if (shown < at->model->process_count)
        gw_text_addf(at->page, "<p>The libraries of %zu more processes are not listed.</p>\n",
                     at->model->process_count - shown);
    if (rows == 0)
        gw_text_add_str(at->page, "<p>The recording names no CUDA library.</p>\n");
    gwi_section_end(at);
}

/* ---- when, where, by whom, with what ---- */

static void add_user(gwi_part *at, const char *host)
{
    char here[256] = "", *rest = NULL;
    const char *text = gw_model_meta(at->model, "uid");
    uid_t uid = text == NULL ? 0 : (uid_t)strtoul(text, &rest, 10);
    if (rest == NULL || rest == text || *rest != '\0')
        return;
    bool is_here = host != NULL && gethostname(here, sizeof here - 1) == 0 && strcmp(here, host) == 0;
    const struct passwd *user = is_here ? getpwuid(uid) : NULL; /* elsewhere, the number may be another user's */
    gw_text_add_str(at->page, user == NULL ? " by user number " : " by ");
    gwi_html(at->page, user == NULL ? text : user->pw_name);
}

/* Add ", NAME VERSION" unless it is there already. */
static void add_version(gw_text *versions, const char *name, const char *version)
{
    gw_text one = {0};
    gw_text_addf(&one, ", %s %s", name, version);
    const char *known =
        version[0] == '\0' || version[0] == '?' ? NULL : strstr(gw_text_str(versions), gw_text_str(&one));
    if (version[0] != '\0' && version[0] != '?' &&
        (known == NULL || (known[one.bytes] != ',' && known[one.bytes] != '\0')))
        gw_text_add_str(versions, gw_text_str(&one));
    versions->failed = versions->failed || one.failed;
    gw_text_free(&one);
}

static void add_driver(const gwi_part *at, gw_text *versions)
{
    char version[80] = "";
    gw_fact_nvml nvml;
    const char *module = gw_model_meta(at->model, "driver.module");
    const gw_pair *fact = gw_model_fact(at->model, GW_FACT_NVML_VERSION);
    if (module == NULL && fact != NULL) {
        gw_fact_nvml_read(gw_fact_text_of(fact->value), &nvml);
        module = gw_fact_text_copy(version, sizeof version, nvml.driver);
    }
    add_version(versions, at->model->is_virtual ? "virtual driver" : "driver", module == NULL ? "" : module);
}

static void add_process_versions(const gw_process *process, gw_text *versions)
{
    char version[GW_VERSION_TEXT_MAX];
    if (process->driver_api != 0) {
        snprintf(version, sizeof version, "%u.%u", process->driver_api / 1000, process->driver_api % 1000 / 10);
        add_version(versions, "CUDA", version);
    }
    for (size_t i = 0; i < process->libraries.count; i++) {
        const gw_library *library = &process->libraries.item[i];
        if (library->part[0] == '\0' && library->kind != GW_LIBRARY_DRIVER)
            add_version(versions, gw_library_kind_text(library->kind), gw_library_version_text(version, library));
    }
}

void gwi_about_part(gwi_part *at)
{
    enum { PROCESSES = 8, CHARS_MAX = 400 };
    const gw_verdict_run *run = &at->run->verdict->run;
    const char *own = gw_model_meta(at->model, "version");
    time_t start = (time_t)(run->start_realtime_ns / 1000000000u);
    struct tm parts;
    char stamp[48] = "";
    gw_text versions = {0};
    if (at->run->path == NULL)
        return;
    if (run->has_start && localtime_r(&start, &parts) != NULL)
        strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S %z", &parts);
    gw_text_addf(at->page, "<p class=\"about\">Started %s", stamp[0] == '\0' ? "at an unknown time" : stamp);
    gw_text_add_str(at->page, run->host == NULL ? "" : " on ");
    gwi_html_cut(at->page, run->host, 60);
    add_user(at, run->host);
    add_version(&versions, "gpuwhy", own == NULL ? "" : own);
    add_driver(at, &versions);
    for (size_t i = 0; i < at->model->process_count && i < PROCESSES; i++)
        add_process_versions(&at->model->process[i], &versions);
    gw_text_add_str(at->page, versions.bytes == 0 ? "" : "; ");
    gwi_html_cut(at->page, versions.bytes == 0 ? "" : gw_text_str(&versions) + 2, CHARS_MAX);
    gw_text_add_str(at->page, "</p>\n");
    at->failed = at->failed || versions.failed;
    gw_text_free(&versions);
}

/* What the recording does not say, and why. */

static void begin(gwi_part *at, size_t *count)
{
    gw_text_add_str(at->page, (*count)++ == 0 ? "<ul>\n<li>" : "<li>");
}

static void text_line(gwi_part *at, size_t *count, const char *before, const char *text)
{
    begin(at, count);
    gw_text_add_str(at->page, before);
    gwi_html(at->page, text);
    gw_text_add_str(at->page, "</li>\n");
}

/* Write "WHAT: NUMBER", and a sentence about it. */
static void count_line(gwi_part *at, size_t *count, const char *what, uint64_t number, const char *more)
{
    if (number == 0)
        return;
    begin(at, count);
    gw_text_addf(at->page, "%s: %" PRIu64 "%s</li>\n", what, number, more);
}

static void recording(gwi_part *at, size_t *count)
{
    const gw_model *model = at->model;
    if (model->truncated)
        text_line(at, count, "",
                  "The recording was cut: it has no end. What happened after its last event is not known.");
    if (model->damaged_count > 0) {
        begin(at, count);
        gw_text_addf(at->page, "%" PRIu64 " damaged %s of the recording %s skipped; %s events are missing. The first: ",
                     model->damaged_count, model->damaged_count == 1 ? "block" : "blocks",
                     model->damaged_count == 1 ? "was" : "were", model->damaged_count == 1 ? "its" : "their");
        gwi_html(at->page, model->damaged_first);
        gw_text_add_str(at->page, "</li>\n");
    }
    if (!at->course->was_read && at->course->reason[0] != '\0')
        text_line(at, count, "Requests to the driver: ", at->course->reason);
    const gw_pair *dropped = NULL;
    for (size_t i = 0; i < model->fact_count && dropped == NULL; i++)
        dropped =
            model->fact[i].key != NULL && strcmp(model->fact[i].key, "dropped.events") == 0 ? &model->fact[i] : NULL;
    if (dropped != NULL)
        text_line(at, count, "Old events that were dropped to keep the recording small: ", dropped->value);
}

static void losses(gwi_part *at, size_t *count)
{
    uint64_t events = 0, failures = 0, frees = 0;
    for (size_t i = 0; i < at->model->process_count; i++) {
        events = gwi_sum(events, at->model->process[i].lost_events);
        failures = gwi_sum(failures, at->model->process[i].lost_failures);
        frees = gwi_sum(frees, at->model->process[i].unknown_frees);
    }
    count_line(at, count, "Events that were lost because a buffer was full", events, ". Sums of memory may be wrong.");
    count_line(at, count, "Failures that were lost because a buffer was full", failures, "");
    count_line(at, count, "Frees of memory whose allocation was not recorded", frees, "");
    count_line(at, count, "Failures that are not listed because there were too many", at->model->failures_dropped, "");
    for (size_t i = 0; i < GW_MACHINE_CARDS_MAX; i++)
        count_line(at, count, "Spans of reduced clocks that are not stored because there were too many",
                   at->course->card[i].throttles_dropped, "");
}

static void metrics(gwi_part *at, size_t *count)
{
    const gw_machine *machine = &at->model->machine;
    for (size_t i = 0; i < machine->series_count; i++) {
        const gw_series *series = &machine->series[i];
        const gw_metric_info *info = gw_metric_find(series->metric);
        if (series->state == GW_SAMPLE_KNOWN || info == NULL || series->source != GW_SOURCE_NVML || series->pid != 0)
            continue;
        begin(at, count);
        gw_text_addf(at->page, "<code>%s</code>", info->name);
        if (series->device != GW_NO_DEVICE)
            gw_text_addf(at->page, " of card %u", series->device);
        gw_text_addf(at->page, ": %s", gw_sample_state_text(series->state));
        if (series->state == GW_SAMPLE_FAILED)
            gw_text_addf(at->page, " (error %" PRIu64 ")", series->reason);
        gw_text_add_str(at->page, "</li>\n");
    }
}

static void devices(gwi_part *at, size_t *count)
{
    for (int i = 0; i < GW_MODEL_DEVICE_PLACES; i++) {
        const gwi_device_course *course = &at->course->device[i];
        char name[GW_DEVICE_TEXT_MAX];
        uint64_t limit;
        bool has_outside = false;
        if (!course->has_changes)
            continue;
        for (size_t k = 0; k < course->table.count; k++)
            has_outside = has_outside || course->table.row[k].value[GWI_OUTSIDE] != GWI_UNKNOWN;
        if (!has_outside) {
            begin(at, count);
            gw_text_addf(at->page,
                         "How much memory of %s contexts, libraries and other processes held: the driver and "
                         "NVML did not report it.</li>\n",
                         gw_device_text(name, i));
        }
        if (!gw_model_device_limit(at->model, i, &limit)) {
            begin(at, count);
            gw_text_addf(at->page, "The size of %s.</li>\n", gw_device_text(name, i));
        }
    }
}

void gwi_unknown_part(gwi_part *at)
{
    const gw_verdict *verdict = at->run->verdict;
    size_t count = 0;
    gwi_section_begin(at, "unknown", "What is not known, and why");
    recording(at, &count);
    for (size_t i = 0; i < verdict->unobserved.count; i++)
        text_line(at, &count, "", verdict->unobserved.item[i]);
    if (verdict->where_reason != NULL && verdict->status == GW_VERDICT_FAULT)
        text_line(at, &count, "The place: ", verdict->where_reason);
    if (at->model->command == NULL && at->run->path != NULL && !at->run->running)
        text_line(at, &count, "", "How the program ended: the recording does not contain its end.");
    losses(at, &count);
    devices(at, &count);
    metrics(at, &count);
    gw_text_add_str(at->page, count > 0 ? "</ul>\n" : "<p>Nothing that gpuwhy looks for is missing.</p>\n");
    gwi_section_end(at);
}
