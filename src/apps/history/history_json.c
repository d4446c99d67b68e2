/* Write the list of past runs as JSON, with json-c. */
#include "gw_json.h"
#include "gwi_history.h"

#include "gw_render.h"
#include "gw_say.h"

#include <json-c/json.h>
#include <stdio.h>

static void add_count(json_object *object, const char *name, size_t count)
{
    json_object_object_add(object, name, json_object_new_int64((int64_t)count));
}

static json_object *of_peaks(const gwi_peaks *peaks)
{
    if (peaks->count == 0)
        return NULL;
    json_object *object = json_object_new_object();
    add_count(object, "earlier", peaks->count);
    json_object_object_add(object, "earlier_good", json_object_new_boolean(peaks->all_good));
    json_object_object_add(object, "least_bytes", json_object_new_uint64(peaks->least_bytes));
    json_object_object_add(object, "most_bytes", json_object_new_uint64(peaks->most_bytes));
    json_object_object_add(object, "newest_bytes", gw_json_number(peaks->is_known, peaks->bytes));
    json_object_object_add(object, "newest_failed",
                           peaks->is_end_known ? json_object_new_boolean(peaks->failed) : NULL);
    return object;
}

/* json_<type>() returns the value of a column. NULL is null. */

static json_object *json_time(uint64_t ns)
{
    return json_object_new_double((double)ns / 1e9);
}

static json_object *json_key(uint64_t key)
{
    char text[GWI_KEY_TEXT_MAX];
    return json_object_new_string(gwi_past_key_text(text, key));
}

static json_object *json_kind(bool is_answer)
{
    return json_object_new_string(gwi_past_kind_text(is_answer));
}

static json_object *json_status(gw_verdict_status status)
{
    return json_object_new_string(gw_verdict_status_text(status));
}

static json_object *json_certainty(gw_certainty certainty)
{
    return certainty == GW_CERTAINTY_NONE ? NULL : json_object_new_string(gw_certainty_text(certainty));
}

static json_object *json_flag(bool value)
{
    return json_object_new_boolean(value);
}

static json_object *json_number(gwi_column_number number)
{
    return gw_json_number(number.is_known, number.value);
}

static json_object *json_seconds(double seconds)
{
    return seconds < 0 ? NULL : json_object_new_double(seconds);
}

static json_object *json_words(const char *text)
{
    return gw_json_text(text);
}

static json_object *json_text(const char *text)
{
    return gw_json_text(text);
}

static json_object *json_attempts(gwi_column_attempts attempts)
{
    json_object *array = json_object_new_array();
    for (size_t i = 0; i < attempts.count; i++) {
        json_object *one = json_object_new_object();
        json_object_object_add(one, "cause", gw_json_text(attempts.item[i].cause));
        json_object_object_add(one, "end", gw_json_text(attempts.item[i].end));
        json_object_object_add(one, "recording", gw_json_text(attempts.item[i].recording));
        json_object_array_add(array, one);
    }
    return array;
}

static json_object *of_run(const gwi_past *past)
{
    json_object *object = json_object_new_object();
#define GWI_COLUMN(type, field, column, json, meaning) json_object_object_add(object, json, json_##type(past->field));
#include "past_columns.def"
    json_object_object_add(object, "fit", past->is_answer ? gw_json_text(past->end) : NULL);
    return object;
}

static json_object *of_split(const gw_split *split)
{
    json_object *object = json_object_new_object();
    json_object_object_add(object, "area", json_object_new_string(gw_area_text(split->area)));
    json_object_object_add(object, "name", gw_json_text(split->name));
    json_object_object_add(object, "failed", gw_json_text(split->bad));
    json_object_object_add(object, "good", gw_json_text(split->good));
    return object;
}

static json_object *of_attempts(const gwi_attempts_view *attempts)
{
    if (!attempts->is_there)
        return NULL;
    json_object *object = json_object_new_object(), *compared = json_object_new_object(),
                *splits = json_object_new_array();
    for (size_t i = 0; i < attempts->splits.count; i++)
        json_object_array_add(splits, of_split(&attempts->splits.item[i]));
    add_count(compared, "good", attempts->splits.good_count);
    add_count(compared, "failed", attempts->splits.bad_count);
    json_object_object_add(object, "command", gw_json_text(attempts->newest->command));
    json_object_object_add(object, "folder", gw_json_text(attempts->newest->folder));
    add_count(object, "good", attempts->good);
    add_count(object, "failed", attempts->failed);
    add_count(object, "unknown", attempts->unknown);
    json_object_object_add(object, "compared", compared);
    add_count(object, "gone", attempts->gone);
    add_count(object, "too_slow", attempts->slow);
    json_object_object_add(object, "in_common", splits);
    json_object_object_add(object, "peaks", of_peaks(&attempts->peaks));
    json_object_object_add(object, "may_be_chance", json_object_new_boolean(attempts->may_be_chance));
    return object;
}

gw_status gwi_history_write_json(const gwi_history_view *view, gw_error *err)
{
    json_object *whole = json_object_new_object(), *runs = json_object_new_array();
    for (size_t i = 0; i < view->run_count; i++)
        json_object_array_add(runs, of_run(view->run[i]));
    json_object_object_add(whole, "schema", json_object_new_int(1));
    json_object_object_add(whole, "kind", json_object_new_string("history"));
    json_object_object_add(whole, "runs", runs);
    json_object_object_add(whole, "attempts", of_attempts(&view->attempts));
    const char *text = json_object_to_json_string_ext(whole, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
    gw_status st = text == NULL ? gw_fail(err, GW_NOMEM, "write JSON") : GW_OK;
    gw_put(text == NULL ? "" : text);
    putchar('\n');
    json_object_put(whole);
    return st;
}
