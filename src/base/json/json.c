/* Small helpers for json-c. */
#include "gw_json.h"

#include "gw_say.h"

json_object *gw_json_string(const char *text)
{
    gw_text clean = {0};
    if (text == NULL)
        return NULL;
    gw_add_utf8(&clean, text);
    json_object *object = json_object_new_string_len(gw_text_str(&clean), (int)clean.bytes);
    gw_text_free(&clean);
    return object;
}

json_object *gw_json_text(const char *text)
{
    return text == NULL || text[0] == '\0' ? NULL : gw_json_string(text);
}

json_object *gw_json_number(bool is_known, uint64_t number)
{
    return is_known ? json_object_new_uint64(number) : NULL;
}

gw_status gw_json_write(json_object *whole, int style, gw_text *text, gw_error *err)
{
    const char *written = json_object_to_json_string_ext(whole, style | JSON_C_TO_STRING_NOSLASHESCAPE);
    if (written != NULL) {
        gw_add_json(text, written);
        gw_text_add_str(text, "\n");
    }
    json_object_put(whole);
    return written == NULL || text->failed ? gw_fail(err, GW_NOMEM, "write JSON") : GW_OK;
}

gw_status gw_json_print(json_object *whole, gw_error *err)
{
    gw_text text = {0};
    gw_status st = gw_json_write(whole, JSON_C_TO_STRING_PRETTY, &text, err);
    if (st == GW_OK)
        gw_put(gw_text_str(&text));
    gw_text_free(&text);
    return st;
}

json_object *gw_json_member(json_object *object, const char *name)
{
    json_object *value = NULL;
    return json_object_object_get_ex(object, name, &value) ? value : NULL;
}

const char *gw_json_member_text(json_object *object, const char *name)
{
    json_object *value = gw_json_member(object, name);
    return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}
