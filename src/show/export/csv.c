/* Writes a table in CSV format (RFC 4180), one line per item, per call of a ring, or per value of a sample. Columns
 * that do not apply are empty. */
#include "gw_names.h"
#include "gw_text.h"
#include "gwi_curve.h"

#include <inttypes.h>
#include <string.h>

#define COLUMNS                                                                                                        \
    "t_ns,item,pid,tid,kind,function,result,took_us,flags,site,extra,context,arg0,arg1,arg2,arg3,arg_names,key,value"

/* Append the text with '?' in place of control characters, which could change a terminal's settings. Newlines and tabs
 * stay. */
static void add_cleaned(gw_text *clean, const char *text, size_t bytes)
{
    gw_text part = {0};
    for (size_t i = 0; i <= bytes; i++) {
        if (i < bytes && text[i] != '\n' && text[i] != '\t') {
            if (text[i] != '\0')
                gw_text_add(&part, text + i, 1);
            continue;
        }
        gw_add_printable(clean, gw_text_str(&part));
        gw_text_clear(&part);
        if (i < bytes)
            gw_text_add(clean, text + i, 1);
    }
    gw_text_free(&part);
}

/* Write a field, in quotes if it contains a comma, a quote or a line break. For a spreadsheet, an apostrophe before the
 * text prevents its evaluation as a formula. */
static void put_field(const gw_export_to *to, const char *text, size_t bytes)
{
    FILE *file = to->file;
    gw_text clean = {0};
    add_cleaned(&clean, text, bytes);
    const char *at = gw_text_str(&clean);
    bool quoted = strpbrk(at, ",\"\r\n") != NULL;
    if (quoted)
        fputc('"', file);
    if (to->no_formulas && at[0] != '\0' && strchr("=+-@\t\r", at[0]) != NULL)
        fputc('\'', file);
    for (; *at != '\0'; at++) {
        if (*at == '"')
            fputc('"', file);
        fputc(*at, file);
    }
    if (quoted)
        fputc('"', file);
    gw_text_free(&clean);
}

static void put_pair(gw_export_to *to, const char *key, const char *value)
{
    fputs(",,,,,,,,,,,,,,", to->file); /* the columns of events are empty; `key` is the 18th column */
    put_field(to, key, strlen(key));
    fputc(',', to->file);
    put_field(to, value, strlen(value));
}

/* Write a value of the machine. The column `kind` contains the source of the value, and arg0 the card's index. */
static void put_machine_pair(gw_export_to *to, const char *source, uint32_t device, const char *key, const char *value)
{
    fprintf(to->file, ",%s,,,,,,,", source);
    if (device != GW_NO_DEVICE)
        fprintf(to->file, ",%" PRIu32 ",,,,arg0=card,", device);
    else
        fputs(",,,,,,", to->file);
    put_field(to, key, strlen(key));
    fputc(',', to->file);
    put_field(to, value, strlen(value));
}

static void put_event(gw_export_to *to, const gw_event *event)
{
    const char *separator = "";
    fprintf(to->file, ",%s,", gw_event_kind_name(event->kind));
    bool is_call = gw_event_kind_traits(event->kind)->price != GW_PRICE_FACT;
    const char *fn_name = is_call ? gw_reader_fn_name(to->reader, event->fn) : "";
    put_field(to, fn_name, strlen(fn_name));
    fprintf(to->file, ",%u,%u,%u,%u,%u,%" PRIu64, event->result, event->took_us, event->flags, event->site,
            event->extra, event->context);
    for (int i = 0; i < 4; i++)
        fprintf(to->file, ",%" PRIu64, event->arg[i]);
    fputc(',', to->file);
    for (unsigned i = 0; i < 4; i++) {
        const char *name = gw_event_arg_name(event->kind, i);
        if (name[0] != '\0') {
            fprintf(to->file, "%sarg%u=%s", separator, i, name);
            separator = " ";
        }
    }
    fprintf(to->file, ",%s,", event->text == NULL ? "" : "text");
    if (event->text != NULL)
        put_field(to, event->text, event->text_bytes);
}

static void put_counters(gw_export_to *to, const gw_item *item)
{
    char text[32 * GW_COUNT_COUNT + 256];
    int used = snprintf(text, sizeof text, "calls=%" PRIu64 " synced_at_ns=%" PRIu64 " inside_since_ns=%" PRIu64,
                        item->counters.calls, item->counters.synced_at_ns, item->counters.inside_since_ns);
    for (unsigned i = 0; i < GW_COUNT_COUNT && used > 0 && (size_t)used < sizeof text; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, " %s=%" PRIu64, gw_counter_name(i),
                         item->counters.counter[i]);
    if (item->counters.inside_fn_plus_1 != 0 && used > 0 && (size_t)used < sizeof text)
        snprintf(text + used, sizeof text - (size_t)used, " inside=%.64s",
                 gw_reader_fn_name(to->reader, (uint16_t)(item->counters.inside_fn_plus_1 - 1)));
    put_pair(to, item->counters.thread_name, text);
}

static void put_head(gw_export_to *to, const gw_item *item)
{
    fprintf(to->file, "%" PRIu64 ",%s,%u,%u", item->t_ns, gw_item_kind_name(item->kind), item->pid, item->tid);
}

/* A ring holds many calls and yields one line per call. */
static void put_ring(gw_export_to *to, const gw_item *item)
{
    for (uint32_t i = 0; i < item->ring.count; i++) {
        const gw_hot_call *call = &item->ring.call[i];
        const char *fn_name = gw_reader_fn_name(to->reader, call->fn);
        if (i > 0)
            fputs("\r\n", to->file);
        fprintf(to->file, "%" PRIu64 ",ring,%u,%u,,", call->t_ns, item->pid, item->tid);
        put_field(to, fn_name, strlen(fn_name));
        fprintf(to->file, ",,,,,,,%" PRIu64 ",,,%" PRIu64 ",arg0=what arg3=stream,,", call->what, call->stream);
    }
    if (item->ring.count == 0) {
        put_head(to, item);
        put_pair(to, "", "");
    }
}

static void put_process(gw_export_to *to, const gw_item *item)
{
    char text[2048];
    snprintf(text, sizeof text, "parent_pid=%u start_realtime_ns=%" PRIu64 " driver_build_id=%.64s driver=%.1500s",
             item->process.parent_pid, item->process.start_realtime_ns, item->process.driver_build_id,
             item->process.driver_path);
    put_pair(to, item->process.exe, text);
}

static void put_exit(gw_export_to *to, const gw_exit_fact *exit_fact)
{
    char text[96];
    if (exit_fact->status_known)
        snprintf(text, sizeof text, "code=%d signal=%d core=%d", exit_fact->exit_code, exit_fact->signal,
                 exit_fact->core_dumped);
    put_pair(to, exit_fact->is_command ? "command" : "process", exit_fact->status_known ? text : "unknown");
}

static void put_lost(gw_export_to *to, const gw_item *item)
{
    char text[96];
    snprintf(text, sizeof text, "events=%" PRIu64 " failures=%" PRIu64 " threads=%" PRIu64, item->lost.events,
             item->lost.failures, item->lost.threads);
    put_pair(to, "", text);
}

static void put_symbol(gw_export_to *to, const gw_item *item)
{
    gw_text text = {0};
    for (uint32_t i = 0; i < item->symbol.count; i++) {
        const gw_symbol_frame *frame = &item->symbol.frame[i];
        gw_text_addf(&text, "%s%s (%s:%u)", i == 0 ? "" : " <- ", frame->function == NULL ? "?" : frame->function,
                     frame->file == NULL ? "?" : frame->file, frame->line);
    }
    gw_text place = {0};
    gw_text_addf(&place, "%s+0x%" PRIx64, item->symbol.path, item->symbol.address);
    put_pair(to, gw_text_str(&place), gw_text_str(&text));
    gw_text_free(&place);
    gw_text_free(&text);
}

/* A sample holds many values and yields one line per value. */
static void put_sample(gw_export_to *to, const gw_item *item)
{
    for (uint32_t i = 0; i < item->sample.count; i++) {
        const gw_sample_value *value = &item->sample.value[i];
        char text[32];
        if (i > 0) {
            fputs("\r\n", to->file);
            put_head(to, item);
        }
        snprintf(text, sizeof text, "%" PRIu64, value->value);
        put_machine_pair(to, gw_source_text(item->sample.source), item->sample.device,
                         gw_metric_find(value->metric)->name,
                         value->state == GW_SAMPLE_KNOWN ? text : gw_sample_state_text(value->state));
    }
    if (item->sample.count == 0)
        put_pair(to, "", "");
}

static void put_machine(gw_export_to *to, const gw_item *item)
{
    gw_text text = {0};
    gw_text_addf(&text, "code=%" PRIu64 " value=%" PRIu64 " count=%u %s", item->machine.code, item->machine.value,
                 item->machine.count, item->machine.text);
    put_machine_pair(to, gw_source_text(item->machine.source), item->machine.device,
                     gw_machine_event_text(item->machine.kind), gw_text_str(&text));
    gw_text_free(&text);
}

static gw_status begin(gw_export_to *to, gw_error *err)
{
    (void)err;
    fputs(COLUMNS "\r\n", to->file);
    return GW_OK;
}

static gw_status put_item(gw_export_to *to, const gw_item *item, gw_error *err)
{
    (void)err;
    if (item->kind != GW_ITEM_RING)
        put_head(to, item);
    switch (item->kind) {
    case GW_ITEM_EVENT:
        put_event(to, &item->event);
        break;
    case GW_ITEM_META:
    case GW_ITEM_SUPERVISOR:
    case GW_ITEM_MAPS:
        put_pair(to, item->pair.key, item->pair.value);
        break;
    case GW_ITEM_PROCESS:
        put_process(to, item);
        break;
    case GW_ITEM_COUNTERS:
        put_counters(to, item);
        break;
    case GW_ITEM_RING:
        put_ring(to, item);
        break;
    case GW_ITEM_LOST:
        put_lost(to, item);
        break;
    case GW_ITEM_STDERR:
        put_pair(to, "", "");
        put_field(to, item->stderr_part.bytes, item->stderr_part.count);
        break;
    case GW_ITEM_EXIT:
        put_exit(to, &item->exit);
        break;
    case GW_ITEM_SYMBOL:
        put_symbol(to, item);
        break;
    case GW_ITEM_SAMPLE:
        put_sample(to, item);
        break;
    case GW_ITEM_MACHINE:
        put_machine(to, item);
        break;
    default:
        put_pair(to, "", "");
        break;
    }
    fputs("\r\n", to->file);
    return GW_OK;
}

static gw_status put_fault(gw_export_to *to, const char *reason, gw_error *err)
{
    (void)err;
    fputs(",damage,,", to->file);
    put_pair(to, "", reason);
    fputs("\r\n", to->file);
    return GW_OK;
}

const gw_export_format gwi_export_csv = {
    .name = "csv",
    .about = "one table, one line per item",
    .begin = begin,
    .item = put_item,
    .fault = put_fault,
};

static gw_status begin_sheet(gw_export_to *to, gw_error *err)
{
    to->no_formulas = true;
    return begin(to, err);
}

const gw_export_format gwi_export_csv_sheet = {
    .name = "csv-sheet",
    .about =
        "like csv, but safe for a spreadsheet: text that begins like a formula (= + - @) gets a leading apostrophe",
    .begin = begin_sheet,
    .item = put_item,
    .fault = put_fault,
};
