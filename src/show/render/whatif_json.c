/* Writes the replays of PyTorch's allocator as JSON. */
#include "gw_json.h"
#include "gw_render.h"
#include "gw_render_whatif.h"

static void add_bytes(json_object *object, const char *key, uint64_t bytes, bool is_known)
{
    json_object_object_add(object, key, is_known ? json_object_new_int64((int64_t)bytes) : NULL);
}

static json_object *of_result(const char *name, const gw_replay_result *result, gw_whatif_outcome outcome)
{
    json_object *object = json_object_new_object();
    json_object_object_add(object, "name", gw_json_string(name));
    add_bytes(object, "reserved_peak_least_bytes", result->reserved_least, true);
    add_bytes(object, "reserved_peak_most_bytes", result->reserved_most, true);
    add_bytes(object, "allocated_peak_bytes", result->live_peak, true);
    json_object_object_add(object, "retries", json_object_new_int64((int64_t)result->retry_count));
    json_object_object_add(object, "outcome",
                           outcome == GW_WHATIF_NO_REFUSAL ? NULL : gw_json_string(gw_whatif_outcome_text(outcome)));
    return object;
}

static json_object *of_row(const gw_whatif_row *row)
{
    json_object *object = of_result(row->name, &row->result, row->outcome);
    json_object_object_add(object, "is_setting", json_object_new_boolean(row->is_setting));
    json_object_object_add(object, "needs_memory_fraction", json_object_new_boolean(row->needs_fraction));
    json_object_object_add(object, "is_own", json_object_new_boolean(row->is_own));
    return object;
}

static json_object *of_check(const gw_whatif *whatif)
{
    const gw_replay_check *check = &whatif->check;
    json_object *object = json_object_new_object();
    json_object_object_add(object, "requests", json_object_new_int64((int64_t)whatif->request_count));
    json_object_object_add(object, "driver_calls", json_object_new_int64((int64_t)check->step_count));
    json_object_object_add(object, "addresses", json_object_new_int64((int64_t)check->place_count));
    json_object_object_add(object, "unknown_sizes", json_object_new_int64((int64_t)check->unsure_count));
    add_bytes(object, "reserved_peak_bytes", check->reserved_peak, true);
    add_bytes(object, "allocated_peak_bytes", check->live_peak, true);
    add_bytes(object, "wanted_bytes", whatif->wanted_bytes, whatif->ran_out);
    add_bytes(object, "needed_bytes", whatif->need_bytes, true);
    return object;
}

static void add_whatif(json_object *whole, const gw_whatif *whatif)
{
    char sentence[GW_WHATIF_TEXT_MAX];
    const gw_whatif_row *cure = gw_whatif_cure(whatif);
    json_object *list = json_object_new_array();
    for (size_t i = 0; i < whatif->row_count; i++)
        json_object_array_add(list, of_row(&whatif->row[i]));
    json_object_object_add(whole, "recorded", of_check(whatif));
    add_bytes(whole, "memory_bytes", whatif->room_bytes, whatif->room_bytes != 0);
    json_object_object_add(whole, "other_card", json_object_new_boolean(whatif->is_other_card));
    json_object_object_add(whole, "same", of_result("recorded settings", &whatif->same, whatif->same_outcome));
    add_bytes(whole, "unlimited_peak_bytes", whatif->unlimited.reserved_most, true);
    json_object_object_add(whole, "tried", list);
    json_object_object_add(whole, "cure", cure == NULL ? NULL : gw_json_string(cure->name));
    json_object_object_add(whole, "summary", gw_json_string(gw_whatif_sentence(sentence, whatif)));
}

gw_status gw_render_whatif_json(const gw_whatif_story *story, gw_text *text, gw_error *err)
{
    json_object *whole = json_object_new_object();
    json_object_object_add(whole, "schema", json_object_new_int(GW_JSON_SCHEMA));
    json_object_object_add(whole, "kind", json_object_new_string("whatif"));
    json_object_object_add(whole, "recording", gw_json_string(story->recording));
    json_object_object_add(whole, "command", gw_json_string(story->command));
    json_object_object_add(whole, "device", story->device < 0 ? NULL : json_object_new_int(story->device));
    json_object_object_add(whole, "possible", json_object_new_boolean(story->impossible == NULL));
    json_object_object_add(whole, "reason", gw_json_string(story->impossible));
    if (story->impossible == NULL)
        add_whatif(whole, story->whatif);
    const char *written =
        json_object_to_json_string_ext(whole, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
    gw_status st = written == NULL ? gw_fail(err, GW_NOMEM, "write JSON") : GW_OK;
    if (st == GW_OK)
        gw_text_addf(text, "%s\n", written);
    json_object_put(whole);
    return st;
}
