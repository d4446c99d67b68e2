/* What the recording does not say, and why. */
#include "gwi_sections.h"

#include "gwi_escape.h"

#include <inttypes.h>

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
