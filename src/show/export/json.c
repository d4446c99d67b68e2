/* Writes {"schema":1,"functions":[...],"items":[ one object per item, one per line ]}. Times are ns since the start of
 * the run. Numbers above 2^53 are exact in the text, but readers may round them to doubles. Bytes that are not UTF-8
 * become U+FFFD. */
#include "gw_names.h"
#include "gw_text.h"
#include "gwi_curve.h"

#include <json-c/json.h>
#include <string.h>

/* Return the length of the UTF-8 sequence at `at`, or 0 if it is invalid. */
static size_t sequence_bytes(const unsigned char *at, size_t left)
{
    size_t bytes = 0;
    if (at[0] < 0x80)
        bytes = 1;
    else if (at[0] >= 0xc2 && at[0] < 0xe0)
        bytes = 2;
    else if (at[0] >= 0xe0 && at[0] < 0xf0)
        bytes = 3;
    else if (at[0] >= 0xf0 && at[0] < 0xf5)
        bytes = 4;
    if (bytes == 0 || bytes > left)
        return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool outside = (at[0] == 0xed && at[1] >= 0xa0) || (at[0] == 0xf4 && at[1] >= 0x90);
    return overlong || outside ? 0 : bytes;
}

static json_object *new_string(const char *bytes, size_t count)
{
    gw_text text = {0};
    for (size_t i = 0; i < count;) {
        size_t good = sequence_bytes((const unsigned char *)bytes + i, count - i);
        gw_text_add(&text, good > 0 ? bytes + i : "\xef\xbf\xbd", good > 0 ? good : 3);
        i += good > 0 ? good : 1;
    }
    json_object *string = text.failed ? NULL : json_object_new_string_len(gw_text_str(&text), (int)text.bytes);
    gw_text_free(&text);
    return string;
}

static void add_string(json_object *to, const char *key, const char *value)
{
    json_object_object_add(to, key, new_string(value, strlen(value)));
}

static void add_number(json_object *to, const char *key, uint64_t value)
{
    json_object_object_add(to, key, json_object_new_uint64(value));
}

static void add_fn(const gw_export_to *to, json_object *object, const char *key, uint16_t fn)
{
    add_string(object, key, gw_reader_fn_name(to->reader, fn));
}

static void add_flags(json_object *object, unsigned flags)
{
    static const char *const names[] = {"capturing", "guard", "text_follows", "per_thread", "injected", "fenced"};
    json_object *list = json_object_new_array();
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (flags & 1u << i)
            json_object_array_add(list, json_object_new_string(names[i]));
    json_object_object_add(object, "flags", list);
}

static void add_event(const gw_export_to *to, json_object *object, const gw_event *event)
{
    add_string(object, "kind", gw_event_kind_name(event->kind));
    if (gw_event_kind_traits(event->kind)->price != GW_PRICE_FACT) /* a fact is not a call, so it has no function */
        add_fn(to, object, "function", event->fn);
    add_number(object, "result", event->result);
    add_number(object, "took_us", event->took_us);
    add_number(object, "context", event->context);
    if (event->flags != 0)
        add_flags(object, event->flags);
    if (event->site != 0)
        add_number(object, "site", event->site);
    if (event->extra != 0)
        add_number(object, "extra", event->extra);
    json_object *args = json_object_new_object();
    for (unsigned i = 0; i < 4; i++)
        if (gw_event_arg_name(event->kind, i)[0] != '\0')
            add_number(args, gw_event_arg_name(event->kind, i), event->arg[i]);
    json_object_object_add(object, "args", args);
    if (event->text != NULL)
        json_object_object_add(object, "text", new_string(event->text, event->text_bytes));
}

static void add_counters(const gw_export_to *to, json_object *object, const gw_item *item)
{
    add_string(object, "thread", item->counters.thread_name);
    add_number(object, "calls", item->counters.calls);
    add_number(object, "synced_at_ns", item->counters.synced_at_ns);
    if (item->counters.inside_fn_plus_1 != 0) {
        add_fn(to, object, "inside", (uint16_t)(item->counters.inside_fn_plus_1 - 1));
        add_number(object, "inside_since_ns", item->counters.inside_since_ns);
    }
    json_object *counters = json_object_new_object();
    for (unsigned i = 0; i < GW_COUNT_COUNT; i++)
        add_number(counters, gw_counter_name(i), item->counters.counter[i]);
    json_object_object_add(object, "counters", counters);
}

static void add_ring(const gw_export_to *to, json_object *object, const gw_item *item)
{
    json_object *calls = json_object_new_array();
    add_number(object, "total", item->ring.total);
    add_number(object, "synced_total", item->ring.synced_total);
    for (uint32_t i = 0; i < item->ring.count; i++) {
        json_object *call = json_object_new_object();
        add_number(call, "t_ns", item->ring.call[i].t_ns);
        add_fn(to, call, "function", item->ring.call[i].fn);
        add_number(call, "what", item->ring.call[i].what);
        add_number(call, "stream", item->ring.call[i].stream);
        json_object_array_add(calls, call);
    }
    json_object_object_add(object, "calls", calls);
}

static void add_process(json_object *object, const gw_item *item)
{
    add_number(object, "parent_pid", item->process.parent_pid);
    add_number(object, "start_realtime_ns", item->process.start_realtime_ns);
    add_string(object, "exe", item->process.exe);
    add_string(object, "driver", item->process.driver_path);
    add_string(object, "driver_build_id", item->process.driver_build_id);
    if (item->process.pid_namespace != 0)
        add_number(object, "pid_namespace", item->process.pid_namespace);
}

static void add_exit(json_object *object, const gw_exit_fact *exit_fact)
{
    bool known = exit_fact->status_known;
    json_object_object_add(object, "is_command", json_object_new_boolean(exit_fact->is_command));
    json_object_object_add(object, "status_known", json_object_new_boolean(known));
    if (!known)
        return;
    json_object_object_add(object, "exit_code", json_object_new_int(exit_fact->exit_code));
    json_object_object_add(object, "signal", json_object_new_int(exit_fact->signal));
    json_object_object_add(object, "core_dumped", json_object_new_boolean(exit_fact->core_dumped));
}

static void add_symbol(json_object *object, const gw_item *item)
{
    add_string(object, "path", item->symbol.path);
    add_number(object, "address", item->symbol.address);
    json_object *frames = json_object_new_array();
    for (uint32_t i = 0; i < item->symbol.count; i++) {
        json_object *frame = json_object_new_object();
        if (item->symbol.frame[i].function != NULL)
            add_string(frame, "function", item->symbol.frame[i].function);
        if (item->symbol.frame[i].file != NULL)
            add_string(frame, "file", item->symbol.frame[i].file);
        add_number(frame, "line", item->symbol.frame[i].line);
        if (item->symbol.frame[i].column != 0)
            add_number(frame, "column", item->symbol.frame[i].column);
        json_object_array_add(frames, frame);
    }
    json_object_object_add(object, "frames", frames);
}

static void add_device(json_object *object, uint32_t device)
{
    if (device != GW_NO_DEVICE)
        add_number(object, "card", device);
}

static void add_sample(json_object *object, const gw_item *item)
{
    json_object *values = json_object_new_object(), *unknown = json_object_new_object();
    add_string(object, "source", gw_source_text(item->sample.source));
    add_device(object, item->sample.device);
    json_object_object_add(object, "whole", json_object_new_boolean(item->sample.whole));
    for (uint32_t i = 0; i < item->sample.count; i++) {
        const gw_sample_value *value = &item->sample.value[i];
        const char *name = gw_metric_find(value->metric)->name;
        if (value->state == GW_SAMPLE_KNOWN)
            add_number(values, name, value->value);
        else
            add_string(unknown, name, gw_sample_state_text(value->state));
    }
    json_object_object_add(object, "values", values);
    json_object_object_add(object, "unknown", unknown);
}

static void add_machine(json_object *object, const gw_item *item)
{
    add_string(object, "kind", gw_machine_event_text(item->machine.kind));
    add_string(object, "source", gw_source_text(item->machine.source));
    add_device(object, item->machine.device);
    add_number(object, "count", item->machine.count);
    add_number(object, "code", item->machine.code);
    add_number(object, "value", item->machine.value);
    add_string(object, "text", item->machine.text);
}

static void add_rest(const gw_export_to *to, json_object *object, const gw_item *item)
{
    switch (item->kind) {
    case GW_ITEM_EVENT:
        add_event(to, object, &item->event);
        break;
    case GW_ITEM_META:
    case GW_ITEM_SUPERVISOR:
        add_string(object, "key", item->pair.key);
        add_string(object, "value", item->pair.value);
        break;
    case GW_ITEM_MAPS:
        add_string(object, "path", item->pair.key);
        add_string(object, "build_id", item->pair.value);
        break;
    case GW_ITEM_PROCESS:
        add_process(object, item);
        break;
    case GW_ITEM_COUNTERS:
        add_counters(to, object, item);
        break;
    case GW_ITEM_RING:
        add_ring(to, object, item);
        break;
    case GW_ITEM_LOST:
        add_number(object, "events", item->lost.events);
        add_number(object, "failures", item->lost.failures);
        add_number(object, "threads", item->lost.threads);
        break;
    case GW_ITEM_STDERR:
        json_object_object_add(object, "text", new_string(item->stderr_part.bytes, item->stderr_part.count));
        break;
    case GW_ITEM_EXIT:
        add_exit(object, &item->exit);
        break;
    case GW_ITEM_SYMBOL:
        add_symbol(object, item);
        break;
    case GW_ITEM_SAMPLE:
        add_sample(object, item);
        break;
    case GW_ITEM_MACHINE:
        add_machine(object, item);
        break;
    default:
        break;
    }
}

/* Print the object and free it. */
static gw_status put_object(gw_export_to *to, json_object *object, const char *separator, gw_error *err)
{
    const char *text = object == NULL ? NULL : json_object_to_json_string_ext(object, JSON_C_TO_STRING_NOSLASHESCAPE);
    gw_text shown = {0};
    if (text != NULL)
        gw_add_json(&shown, text);
    bool is_written = text != NULL && !shown.failed;
    if (is_written)
        fprintf(to->file, "%s%s", separator, gw_text_str(&shown));
    gw_text_free(&shown);
    json_object_put(object);
    return is_written ? GW_OK : gw_fail(err, GW_NOMEM, "no memory for the export");
}

static gw_status begin(gw_export_to *to, gw_error *err)
{
    uint32_t count = gw_reader_fn_count(to->reader);
    json_object *functions = json_object_new_array();
    for (uint32_t i = 0; i < count && functions != NULL; i++) {
        const char *name = gw_reader_fn_name(to->reader, (uint16_t)i);
        json_object_array_add(functions, new_string(name, strlen(name)));
    }
    gw_status st = put_object(to, functions, "{\"schema\":1,\n\"functions\":", err);
    fputs(",\n\"items\":[", to->file);
    return st;
}

static const char *separator_of(const gw_export_to *to)
{
    return to->item_count == 0 ? "\n" : ",\n";
}

static gw_status put_item(gw_export_to *to, const gw_item *item, gw_error *err)
{
    json_object *object = json_object_new_object();
    if (object == NULL)
        return gw_fail(err, GW_NOMEM, "no memory for the export");
    add_string(object, "item", gw_item_kind_name(item->kind));
    add_number(object, "t_ns", item->t_ns);
    if (item->pid != 0)
        add_number(object, "pid", item->pid);
    if (item->tid != 0)
        add_number(object, "tid", item->tid);
    add_rest(to, object, item);
    return put_object(to, object, separator_of(to), err);
}

static gw_status put_fault(gw_export_to *to, const char *reason, gw_error *err)
{
    json_object *object = json_object_new_object();
    if (object == NULL)
        return gw_fail(err, GW_NOMEM, "no memory for the export");
    add_string(object, "item", "damage");
    add_string(object, "reason", reason);
    return put_object(to, object, separator_of(to), err);
}

static gw_status end(gw_export_to *to, gw_error *err)
{
    (void)err;
    fputs("\n]}\n", to->file);
    return GW_OK;
}

const gw_export_format gwi_export_json = {
    .name = "json",
    .about = "one object, one line per item",
    .begin = begin,
    .item = put_item,
    .fault = put_fault,
    .end = end,
};
