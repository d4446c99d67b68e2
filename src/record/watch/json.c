/* Writes a snapshot as JSON with json-c (gw_watch.h, docs/json-schema.md). Unknown values are null. */
#include "gw_watch.h"

#include "gw_json.h"

enum { SCHEMA = 1 };

static void add(json_object *to, const char *key, json_object *value)
{
    json_object_object_add(to, key, value);
}

static json_object *number_or_null(uint64_t number)
{
    return gw_json_number(number != GW_WATCH_UNKNOWN, number);
}

static void add_metric(json_object *to, const char *key, const gw_watch_card *card, gw_metric metric)
{
    uint64_t value;
    bool is_known = gw_watch_metric(card, metric, &value);
    add(to, key, gw_json_number(is_known, value));
}

static json_object *of_reasons(const gw_watch_card *card)
{
    static const struct {
        uint64_t bit;
        const char *name;
    } reasons[] = {{GW_CLOCK_REASON_IDLE, "idle"},
                   {GW_CLOCK_REASON_SETTING, "setting"},
                   {GW_CLOCK_REASON_POWER_CAP, "power_cap"},
                   {GW_CLOCK_REASON_HW_SLOWDOWN, "hardware_slowdown"},
                   {GW_CLOCK_REASON_SYNC_BOOST, "sync_boost"},
                   {GW_CLOCK_REASON_SW_THERMAL, "software_thermal"},
                   {GW_CLOCK_REASON_HW_THERMAL, "hardware_thermal"},
                   {GW_CLOCK_REASON_POWER_BRAKE, "power_brake"}};
    uint64_t bits;
    if (!gw_watch_metric(card, GW_METRIC_CARD_CLOCK_REASONS, &bits))
        return NULL;
    json_object *list = json_object_new_array();
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if ((bits & reasons[i].bit) != 0)
            json_object_array_add(list, json_object_new_string(reasons[i].name));
    return list;
}

static json_object *of_card(const gw_watch_card *card)
{
    json_object *object = json_object_new_object();
    add(object, "index", json_object_new_uint64(card->index));
    add(object, "virtual", json_object_new_boolean(card->is_virtual));
    add(object, "name", gw_json_text(card->is.name));
    add(object, "uuid", gw_json_text(card->is.uuid));
    add(object, "pci", gw_json_text(card->is.pci));
    add(object, "total_bytes", number_or_null(card->total_bytes));
    add(object, "used_bytes", number_or_null(card->used_bytes));
    add(object, "free_bytes", number_or_null(card->free_bytes));
    add(object, "needed_bytes", number_or_null(card->need_bytes));
    add(object, "unjudged_bytes", number_or_null(card->unjudged_bytes));
    add(object, "alarm", json_object_new_boolean(card->is_alarm));
    add_metric(object, "temperature_c", card, GW_METRIC_CARD_TEMPERATURE);
    add_metric(object, "memory_temperature_c", card, GW_METRIC_CARD_TEMPERATURE_MEMORY);
    add_metric(object, "power_mw", card, GW_METRIC_CARD_POWER);
    add_metric(object, "power_limit_mw", card, GW_METRIC_CARD_POWER_LIMIT);
    add_metric(object, "sm_clock_mhz", card, GW_METRIC_CARD_CLOCK_SM);
    add_metric(object, "memory_clock_mhz", card, GW_METRIC_CARD_CLOCK_MEMORY);
    add_metric(object, "utilization_percent", card, GW_METRIC_CARD_UTILISATION);
    add(object, "clock_reasons", of_reasons(card));
    add_metric(object, "ecc_corrected", card, GW_METRIC_CARD_ECC_CORRECTED);
    add_metric(object, "ecc_uncorrected", card, GW_METRIC_CARD_ECC_UNCORRECTED);
    add(object, "xid_count", json_object_new_uint64(card->is.xid_count));
    add(object, "xid_last", gw_json_number(card->is.xid_count > 0, card->is.xid_last));
    add(object, "lost", json_object_new_boolean(card->is.is_lost));
    return object;
}

static json_object *of_process(const gw_watch_snapshot *s, const gw_watch_process *process)
{
    json_object *object = json_object_new_object();
    bool is_idle_known = process->idle != GW_WATCH_IDLE_UNKNOWN;
    add(object, "pid", json_object_new_uint64(process->pid));
    add(object, "gpu", json_object_new_uint64(s->card[process->card].index));
    add(object, "virtual", json_object_new_boolean(s->card[process->card].is_virtual));
    add(object, "used_bytes", number_or_null(process->bytes));
    add(object, "user", gw_json_text(process->user));
    add(object, "command", gw_json_text(process->command));
    add(object, "started_by", gw_json_text(process->started_by));
    add(object, "idle_s", gw_json_number(is_idle_known, process->idle_s));
    add(object, "idle_at_least",
        is_idle_known ? json_object_new_boolean(process->idle == GW_WATCH_IDLE_AT_LEAST) : NULL);
    add(object, "run", process->run == GW_WATCH_NONE ? NULL : gw_json_text(s->run[process->run].id));
    return object;
}

static json_object *of_use(const gw_watch_snapshot *s, const gw_watch_use *use)
{
    json_object *object = json_object_new_object();
    bool has_cache = use->is.reserved_bytes > 0;
    add(object, "device", json_object_new_uint64(use->device));
    add(object, "gpu", use->card == GW_WATCH_NONE ? NULL : json_object_new_uint64(s->card[use->card].index));
    add(object, "allocated_bytes", json_object_new_uint64(use->is.live_bytes));
    add(object, "reserved_by_framework_bytes", gw_json_number(has_cache, use->is.reserved_bytes));
    add(object, "used_by_framework_bytes", gw_json_number(has_cache, use->is.allocated_bytes));
    add(object, "held_by_driver_bytes", number_or_null(use->outside_bytes));
    add(object, "needed_bytes", number_or_null(use->need_bytes));
    add(object, "needed_unknown_because", gw_json_text(use->need_why));
    add(object, "limit_bytes", gw_json_number(use->is.limit_bytes != 0, use->is.limit_bytes));
    add(object, "growth_bytes_per_minute", gw_json_number(use->is.grows, use->is.bytes_per_minute));
    add(object, "full_in_s", number_or_null(use->full_s));
    add(object, "alarm", json_object_new_boolean(use->is_alarm));
    return object;
}

static json_object *of_failure(const gw_watch_run *run)
{
    if (run->is.failure_count == 0)
        return NULL;
    json_object *object = json_object_new_object();
    add(object, "call", gw_json_text(run->is.failed_call));
    add(object, "result", json_object_new_uint64(run->is.failed_result));
    add(object, "result_name", gw_json_text(run->failed_as));
    add(object, "pid", json_object_new_uint64(run->is.failed_pid));
    add(object, "ago_s", number_or_null(run->failed_s));
    return object;
}

static json_object *of_run(const gw_watch_snapshot *s, const gw_watch_run *run)
{
    json_object *object = json_object_new_object(), *pids = json_object_new_array(), *uses = json_object_new_array();
    for (uint32_t i = 0; i < run->is.pid_count; i++)
        json_object_array_add(pids, json_object_new_uint64(run->is.pid[i]));
    for (size_t i = 0; i < run->use_count; i++)
        json_object_array_add(uses, of_use(s, &run->use[i]));
    const char *cards = run->is.virtual_cards[0] != '\0' ? "virtual" : "real";
    add(object, "id", gw_json_text(run->id));
    add(object, "user", gw_json_text(run->user));
    add(object, "command", gw_json_text(run->is.command));
    add(object, "recording", gw_json_text(run->is.recording));
    add(object, "cards", json_object_new_string(run->is.is_rehearsal ? "rehearsal" : cards));
    add(object, "supervisor_pid", json_object_new_uint64(run->is.supervisor_pid));
    add(object, "pids", pids);
    add(object, "seconds", json_object_new_uint64(run->seconds));
    add(object, "updated_ago_s", json_object_new_uint64(run->stale_s));
    add(object, "idle_s", number_or_null(run->idle_s));
    add(object, "failed_calls", json_object_new_uint64(run->is.failure_count));
    add(object, "last_failure", of_failure(run));
    add(object, "memory", uses);
    return object;
}

static json_object *of_processes(const gw_watch_snapshot *s, const char *filter)
{
    json_object *list = json_object_new_array();
    for (size_t i = 0; i < s->process_count; i++)
        if (gw_watch_passes(filter, &s->process[i]))
            json_object_array_add(list, of_process(s, &s->process[i]));
    return list;
}

static json_object *head(const gw_watch_snapshot *s, const char *kind)
{
    json_object *whole = json_object_new_object();
    add(whole, "schema", json_object_new_int(SCHEMA));
    add(whole, "kind", json_object_new_string(kind));
    add(whole, "time_s", json_object_new_double((double)(s->t_realtime_ns / 1000000u) / 1000));
    add(whole, "host", gw_json_text(s->host));
    add(whole, "gpus_unreadable_because", gw_json_text(s->no_cards_why));
    return whole;
}

gw_status gw_watch_json(const gw_watch_snapshot *s, gw_text *text, gw_error *err)
{
    json_object *whole = head(s, "watch"), *cards = json_object_new_array(), *runs = json_object_new_array();
    for (size_t i = 0; i < s->card_count; i++)
        json_object_array_add(cards, of_card(&s->card[i]));
    for (size_t i = 0; i < s->run_count; i++)
        json_object_array_add(runs, of_run(s, &s->run[i]));
    add(whole, "gpus", cards);
    add(whole, "runs", runs);
    add(whole, "processes", of_processes(s, ""));
    add(whole, "hidden_runs", json_object_new_uint64(s->hidden_runs));
    add(whole, "unreadable_runs", json_object_new_uint64(s->broken_runs));
    return gw_json_write(whole, JSON_C_TO_STRING_PLAIN, text, err);
}

gw_status gw_watch_json_who(const gw_watch_snapshot *s, const char *filter, gw_text *text, gw_error *err)
{
    json_object *whole = head(s, "who");
    add(whole, "processes", of_processes(s, filter));
    return gw_json_write(whole, JSON_C_TO_STRING_PLAIN, text, err);
}
