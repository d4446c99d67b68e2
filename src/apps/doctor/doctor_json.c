/* Write the result of `gpuwhy doctor` as JSON, with json-c. Its values come from files and the environment, and may
 * contain invalid UTF-8. */
#include "gw_json.h"
#include "gwi_doctor_cmd.h"

#include "gw_render.h"

#include <json-c/json.h>
#include <stdio.h>

static json_object *of_check(const gw_check *check)
{
    json_object *object = json_object_new_object();
    json_object_object_add(object, "section", json_object_new_string(check->section));
    json_object_object_add(object, "id", json_object_new_string(check->id));
    json_object_object_add(object, "state", json_object_new_string(gw_check_state_text(check->state)));
    json_object_object_add(object, "text", gw_json_string(check->text));
    json_object_object_add(object, "todo", gw_json_string(check->todo));
    return object;
}

gw_status gwi_doctor_write_json(const gw_checkup *checkup, const gw_facts *facts, gw_error *err)
{
    json_object *whole = json_object_new_object(), *checks = json_object_new_array(),
                *counts = json_object_new_object(), *values = json_object_new_object();
    for (size_t i = 0; i < checkup->count; i++)
        json_object_array_add(checks, of_check(&checkup->item[i]));
    for (int i = 0; i < GW_CHECK_STATE_COUNT; i++)
        json_object_object_add(counts, gw_check_state_text((gw_check_state)i),
                               json_object_new_int64((int64_t)checkup->counts[i]));
    for (size_t i = 0; i < facts->count; i++)
        json_object_object_add(values, facts->item[i].key, gw_json_string(facts->item[i].value));
    json_object_object_add(whole, "schema", json_object_new_int(1));
    json_object_object_add(whole, "kind", json_object_new_string("doctor"));
    json_object_object_add(whole, "counts", counts);
    json_object_object_add(whole, "checks", checks);
    json_object_object_add(whole, "facts", values);
    const char *text = json_object_to_json_string_ext(whole, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
    gw_status st = text == NULL || puts(text) < 0 ? gw_fail(err, GW_IO, "write JSON") : GW_OK;
    json_object_put(whole);
    return st;
}
