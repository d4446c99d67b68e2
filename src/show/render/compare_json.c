/* Writes the comparison of two runs as JSON. */
#include "gw_json.h"
#include "gw_render.h"
#include "gw_render_compare.h"

static json_object *of_trait(const gw_trait *trait)
{
    if (trait == NULL)
        return NULL;
    json_object *object = json_object_new_object();
    json_object_object_add(object, "text", gw_json_string(trait->text));
    json_object_object_add(object, "value", trait->has_value ? json_object_new_double(trait->value) : NULL);
    json_object_object_add(object, "unit", trait->has_value ? json_object_new_string(trait->unit) : NULL);
    return object;
}

static json_object *of_difference(const gw_difference *difference)
{
    const gw_trait *any = difference->good != NULL ? difference->good : difference->bad;
    json_object *object = json_object_new_object();
    json_object_object_add(object, "area", json_object_new_string(gw_area_text(difference->area)));
    json_object_object_add(object, "name", gw_json_string(any->name));
    json_object_object_add(object, "matters", json_object_new_boolean(difference->matters));
    json_object_object_add(object, "good", of_trait(difference->good));
    json_object_object_add(object, "bad", of_trait(difference->bad));
    return object;
}

static json_object *of_side(const gw_parting_side *side)
{
    if (side->ended)
        return NULL;
    json_object *object = json_object_new_object();
    json_object_object_add(object, "t_s", json_object_new_double((double)side->t_ns / 1e9));
    json_object_object_add(object, "call", gw_json_string(side->call));
    json_object_object_add(object, "bytes", side->bytes == 0 ? NULL : json_object_new_int64((int64_t)side->bytes));
    json_object_object_add(object, "result", json_object_new_int(side->result));
    json_object_object_add(object, "place", gw_json_string(side->place));
    return object;
}

static json_object *of_parting(const gw_parting *parting)
{
    json_object *object = json_object_new_object();
    json_object_object_add(object, "known", json_object_new_boolean(parting->known));
    json_object_object_add(object, "reason", gw_json_string(parting->reason));
    json_object_object_add(object, "parted", json_object_new_boolean(parting->parted));
    json_object_object_add(object, "complete", json_object_new_boolean(!parting->cut));
    json_object_object_add(object, "same_calls", json_object_new_int64((int64_t)parting->same));
    bool parted = parting->parted;
    json_object_object_add(object, "main", parted ? json_object_new_boolean(parting->is_main) : NULL);
    json_object_object_add(object, "process", parted ? json_object_new_int64(parting->process) : NULL);
    json_object_object_add(object, "thread", parted ? json_object_new_int64(parting->thread) : NULL);
    json_object_object_add(object, "good", parted ? of_side(&parting->good) : NULL);
    json_object_object_add(object, "bad", parted ? of_side(&parting->bad) : NULL);
    return object;
}

static json_object *of_run(gw_portrait *portrait)
{
    json_object *object = json_object_new_object();
    static const struct {
        gw_area area;
        const char *trait, *key;
    } rows[] = {{GW_AREA_COMMAND, "line", "command"}, {GW_AREA_END, "exit", "exit"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const gw_trait *trait = gw_portrait_trait(portrait, rows[i].area, rows[i].trait);
        json_object_object_add(object, rows[i].key, trait == NULL ? NULL : gw_json_string(trait->text));
    }
    json_object_object_add(object, "seconds",
                           json_object_new_double((double)gw_portrait_model(portrait)->t_end_ns / 1e9));
    return object;
}

gw_status gw_render_comparison_json(const gw_comparison *comparison, gw_portrait *good, gw_portrait *bad, gw_text *text,
                                    gw_error *err)
{
    json_object *whole = json_object_new_object(), *list = json_object_new_array(), *same = json_object_new_object();
    for (size_t i = 0; i < comparison->count; i++)
        json_object_array_add(list, of_difference(&comparison->difference[i]));
    for (int i = 0; i < GW_AREA_COUNT; i++)
        json_object_object_add(same, gw_area_text((gw_area)i), json_object_new_int64((int64_t)comparison->same[i]));
    json_object_object_add(whole, "schema", json_object_new_int(GW_JSON_SCHEMA));
    json_object_object_add(whole, "kind", json_object_new_string("diff"));
    json_object_object_add(whole, "differs", json_object_new_boolean(comparison->differs));
    json_object_object_add(whole, "good", of_run(good));
    json_object_object_add(whole, "bad", of_run(bad));
    json_object_object_add(whole, "differences", list);
    json_object_object_add(whole, "same", same);
    json_object_object_add(whole, "parting", of_parting(&comparison->parting));
    const char *written =
        json_object_to_json_string_ext(whole, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
    gw_status st = written == NULL ? gw_fail(err, GW_NOMEM, "write JSON") : GW_OK;
    if (st == GW_OK)
        gw_text_addf(text, "%s\n", written);
    json_object_put(whole);
    return st;
}
