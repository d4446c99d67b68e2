/* Writes the result of `gpuwhy fit` as JSON (docs/json-schema.md). Unknown values are null. */
#include "gw_json.h"
#include "gwi_fit_state.h"

#include "gw_mask.h"

#include <stdio.h>

static json_object *number_or_null(uint64_t number)
{
    return gw_json_number(number != 0, number);
}

static json_object *seconds(double value)
{
    char shown[40];
    snprintf(shown, sizeof shown, "%.3f", value);
    return json_object_new_double_s(value, shown);
}

static json_object *of_command(const gwi_fit *fit)
{
    json_object *array = json_object_new_array();
    for (int i = 0; fit->plan.command[i] != NULL; i++) {
        gw_text word = {0};
        gw_mask_argument(&word, fit->plan.command, i);
        json_object_array_add(array, gw_json_string(gw_text_str(&word)));
        gw_text_free(&word);
    }
    return array;
}

static json_object *of_trial(const gwi_fit_trial *trial)
{
    static const char *const kinds[] = {[GWI_FIT_REHEARSAL] = "rehearsal",
                                        [GWI_FIT_LARGER] = "rehearsal on a larger card",
                                        [GWI_FIT_REAL] = "real run"};
    json_object *object = json_object_new_object();
    bool is_known = trial->fit == GW_FIT_YES || trial->fit == GW_FIT_NO;
    json_object_object_add(object, "batch", json_object_new_int64((int64_t)trial->number));
    json_object_object_add(object, "kind", json_object_new_string(kinds[trial->kind]));
    json_object_object_add(object, "fits", is_known ? json_object_new_boolean(trial->fit == GW_FIT_YES) : NULL);
    json_object_object_add(object, "why", gw_json_string(trial->why));
    json_object_object_add(object, "peak_bytes", trial->fit == GW_FIT_YES ? number_or_null(trial->peak_bytes) : NULL);
    json_object_object_add(object, "limit_bytes", number_or_null(trial->limit_bytes));
    json_object_object_add(object, "launches", number_or_null(trial->launches));
    json_object_object_add(object, "launches_each", number_or_null(trial->launches_each));
    json_object_object_add(object, "items_per_second",
                           trial->items_per_second > 0 ? json_object_new_double(trial->items_per_second) : NULL);
    json_object_object_add(object, "ended_by_gpuwhy", json_object_new_boolean(trial->was_ended));
    json_object_object_add(object, "seconds", seconds(trial->seconds));
    return object;
}

static const char *end_text(gw_fit_end end)
{
    static const char *const texts[] = {
        [GW_FIT_END_OPEN] = "unfinished", [GW_FIT_END_FOUND] = "found",     [GW_FIT_END_MAX] = "max",
        [GW_FIT_END_NONE] = "none",       [GW_FIT_END_UNKNOWN] = "unknown", [GW_FIT_END_FULL] = "unfinished"};
    return texts[end];
}

static json_object *of_values(const gwi_fit *fit, size_t combination)
{
    json_object *object = json_object_new_object();
    for (size_t i = 0; i < fit->plan.name_count; i++)
        json_object_object_add(object, fit->plan.name[i].name,
                               gw_json_string(gw_fit_plan_value(&fit->plan, combination, i)));
    return object;
}

static json_object *of_combination(const gwi_fit *fit, size_t combination)
{
    const gwi_fit_case *one = &fit->one[combination];
    const gwi_fit_trial *real = gwi_fit_trial_of(fit, combination, one->answer.largest, GWI_FIT_REAL);
    json_object *object = json_object_new_object(), *trials = json_object_new_array();
    for (size_t i = 0; i < fit->trial_count; i++)
        if (fit->trial[i]->combination == combination)
            json_object_array_add(trials, of_trial(fit->trial[i]));
    json_object_object_add(object, "values", of_values(fit, combination));
    json_object_object_add(object, "answer", json_object_new_string(end_text(one->answer.end)));
    json_object_object_add(object, "largest", number_or_null(one->answer.largest));
    json_object_object_add(object, "next", number_or_null(one->answer.next));
    json_object_object_add(object, "fails_below", number_or_null(one->answer.hole));
    json_object_object_add(object, "largest_rehearsed", number_or_null(one->rehearsed));
    json_object_object_add(object, "by", json_object_new_string(one->by_real_runs ? "real runs" : "rehearsals"));
    json_object_object_add(object, "not_rehearsed", gw_json_string(one->not_rehearsed));
    json_object_object_add(object, "need_bytes", number_or_null(one->need_bytes));
    json_object_object_add(object, "fixed_bytes", number_or_null(one->fixed_bytes));
    json_object_object_add(object, "items_per_second",
                           real != NULL && real->items_per_second > 0 ? json_object_new_double(real->items_per_second)
                                                                      : NULL);
    json_object_object_add(object, "trials", trials);
    return object;
}

gw_status gwi_fit_json(const gwi_fit *fit, gw_text *text, gw_error *err)
{
    json_object *root = json_object_new_object(), *list = json_object_new_array();
    size_t fastest = gwi_fit_fastest(fit);
    for (size_t i = 0; i < fit->plan.combination_count; i++)
        json_object_array_add(list, of_combination(fit, i));
    json_object_object_add(root, "schema", json_object_new_int(1));
    json_object_object_add(root, "kind", json_object_new_string("fit"));
    json_object_object_add(root, "command", of_command(fit));
    json_object_object_add(root, "memory_bytes", number_or_null(fit->memory_bytes));
    json_object_object_add(root, "card", gw_json_string(fit->card));
    json_object_object_add(root, "seconds", seconds(fit->seconds));
    json_object_object_add(root, "combinations", list);
    json_object_object_add(root, "fastest",
                           fastest < fit->plan.combination_count ? json_object_new_int64((int64_t)fastest) : NULL);
    return gw_json_write(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED, text, err);
}
