/* Writes the configuration as JSON. */
#include "gwi_config_cmd.h"

#include "gw_json.h"

#include <inttypes.h>
#include <string.h>

static json_object *names_of(const char *text)
{
    json_object *array = json_object_new_array();
    while (*text != '\0') {
        size_t bytes = strcspn(text, ",");
        json_object_array_add(array, json_object_new_string_len(text, (int)bytes));
        text += bytes + (text[bytes] == ',');
    }
    return array;
}

static json_object *value_of(const gw_config *config, gw_config_id id)
{
    gw_text text = {0};
    json_object *object = NULL;
    switch (gw_config_keys[id].type) {
    case GW_CONFIG_TYPE_BOOL:
        return json_object_new_boolean(config->value[id].number != 0);
    case GW_CONFIG_TYPE_COUNT:
    case GW_CONFIG_TYPE_SIZE:
        return json_object_new_uint64(config->value[id].number);
    case GW_CONFIG_TYPE_NAMES:
        return names_of(config->value[id].text);
    case GW_CONFIG_TYPE_HANG:
    case GW_CONFIG_TYPE_THRESHOLD:
    case GW_CONFIG_TYPE_COLOR:
    case GW_CONFIG_TYPE_FOLDER:
        gwi_config_plain(config, id, &text);
        object = gw_json_text(gw_text_str(&text));
        gw_text_free(&text);
    }
    return object;
}

static const char *source_name(gw_config_source source)
{
    static const char *const names[] = {"built in", "site", "user", "environment", "option"};
    _Static_assert(sizeof names / sizeof names[0] == GW_CONFIG_OPTION + 1, "a name for each source");
    return names[source];
}

static json_object *key_of(const gw_config *config, gw_config_id id)
{
    const gw_config_key *key = &gw_config_keys[id];
    const gw_config_value *value = &config->value[id];
    char variable[GW_CONFIG_VARIABLE_MAX];
    gw_text place = {0};
    json_object *object = json_object_new_object();
    gw_config_add_place(config, id, &place);
    json_object_object_add(object, "key", gw_json_string(key->name));
    json_object_object_add(object, "value", value_of(config, id));
    json_object_object_add(object, "unit", gw_json_string(key->unit));
    json_object_object_add(object, "from", gw_json_string(source_name(value->source)));
    json_object_object_add(object, "place", gw_json_string(gw_text_str(&place)));
    json_object_object_add(object, "standard", gw_json_string(key->standard));
    json_object_object_add(object, "variable", gw_json_string(gw_config_variable(id, variable)));
    json_object_object_add(object, "option", gw_json_string(key->option));
    json_object_object_add(object, "commands", gw_json_text(key->commands));
    json_object_object_add(object, "help", gw_json_string(key->help));
    gw_text_free(&place);
    return object;
}

static json_object *errors_of(const gw_config *config)
{
    json_object *array = json_object_new_array();
    const char *line = gw_text_str(&config->errors);
    while (*line != '\0') {
        size_t bytes = strcspn(line, "\n");
        gw_text one = {0};
        gw_text_addf(&one, "%.*s", (int)bytes, line);
        json_object_array_add(array, gw_json_string(gw_text_str(&one)));
        gw_text_free(&one);
        line += bytes + (line[bytes] == '\n');
    }
    return array;
}

gw_status gwi_config_json(const gw_config *config, gw_text *text, gw_error *err)
{
    json_object *root = json_object_new_object(), *keys = json_object_new_array();
    json_object_object_add(root, "schema", json_object_new_int(1));
    json_object_object_add(root, "kind", gw_json_string("config"));
    for (gw_config_id id = 0; id < GW_CONFIG_COUNT; id++)
        json_object_array_add(keys, key_of(config, id));
    json_object_object_add(root, "keys", keys);
    json_object_object_add(root, "errors", errors_of(config));
    const char *json = json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
    gw_text_addf(text, "%s\n", json == NULL ? "" : json);
    gw_status st = json == NULL || text->failed ? gw_fail(err, GW_NOMEM, "write JSON") : GW_OK;
    json_object_put(root);
    return st;
}
