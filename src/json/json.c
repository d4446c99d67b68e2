/* Small helpers for json-c. */
#include "gwi_json.h"

#include "gw_clean.h"

json_object *gwi_json_member(json_object *object, const char *name)
{
    json_object *value = NULL;
    return json_object_object_get_ex(object, name, &value) ? value : NULL;
}

const char *gwi_json_text(json_object *object, const char *name)
{
    json_object *value = gwi_json_member(object, name);
    return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

json_object *gwi_json_string(const char *text)
{
    gw_text clean = {0};
    if (text == NULL)
        return NULL;
    gw_add_utf8(&clean, text);
    json_object *object = json_object_new_string(gw_text_str(&clean));
    gw_text_free(&clean);
    return object;
}
