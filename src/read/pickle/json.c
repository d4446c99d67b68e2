/* Reads JSON into the values of a pickle, so that one reader of records serves both forms of a file. */
#include "gwi_store.h"

#include "gw_own.h"
#include "gw_text.h"

#include <json-c/json.h>

#include <string.h>

enum { BYTES_MAX = 64 << 20, DEPTH_MAX = 32 };

typedef struct conversion {
    gw_pickle *store;
    const gw_pickle_options *options;
    gw_error *err;
} conversion;

static gw_status convert(const conversion *it, json_object *from, gw_pickle_value *ret_value);

static gw_status convert_text(const conversion *it, const char *text, size_t bytes, gw_pickle_value *ret_value)
{
    uint32_t id = 0;
    gw_status st = gw_pickle_add_text(it->store, text, (uint32_t)bytes, &id, it->err); /* at most BYTES_MAX */
    *ret_value = (gw_pickle_value){.type = GW_PICKLE_TEXT, .number = id};
    return st;
}

static gw_status add(const conversion *it, uint32_t node, json_object *item)
{
    gw_pickle_value value;
    gw_status st = convert(it, item, &value);
    return st == GW_OK ? gwi_store_append(it->store, node, &value, 1, it->err) : st;
}

static gw_status add_members(const conversion *it, uint32_t node, json_object *from)
{
    gw_status st = GW_OK;
    json_object_object_foreach(from, name, item)
    {
        gw_pickle_value key;
        st = convert_text(it, name, strlen(name), &key);
        if (st == GW_OK)
            st = gwi_store_append(it->store, node, &key, 1, it->err);
        if (st == GW_OK)
            st = add(it, node, item);
        if (st != GW_OK)
            break;
    }
    return st;
}

static gw_status convert_container(const conversion *it, json_object *from, gw_pickle_value *ret_value)
{
    uint32_t node;
    bool is_dict = json_object_is_type(from, json_type_object);
    gw_status st = gwi_store_node(it->store, is_dict ? GW_PICKLE_DICT : GW_PICKLE_LIST, &node, it->err);
    if (st != GW_OK)
        return st;
    if (is_dict)
        st = add_members(it, node, from);
    for (size_t i = 0, count = is_dict ? 0 : json_object_array_length(from); i < count && st == GW_OK; i++)
        st = add(it, node, json_object_array_get_idx(from, i));
    if (st == GW_OK)
        st = gwi_store_complete(it->store, node, it->options, it->err);
    *ret_value = gwi_store_value(it->store, node);
    return st;
}

/* The depth of the recursion is that of the JSON, which is at most DEPTH_MAX. */
static gw_status convert(const conversion *it, json_object *from, gw_pickle_value *ret_value)
{
    double number;
    *ret_value = (gw_pickle_value){.type = GW_PICKLE_NONE};
    switch (json_object_get_type(from)) {
    case json_type_boolean:
        *ret_value = (gw_pickle_value){.type = GW_PICKLE_BOOL, .number = json_object_get_boolean(from) != 0};
        return GW_OK;
    case json_type_int:
        *ret_value = (gw_pickle_value){.type = GW_PICKLE_INT, .number = (uint64_t)json_object_get_int64(from)};
        return GW_OK;
    case json_type_double:
        number = json_object_get_double(from);
        ret_value->type = GW_PICKLE_FLOAT;
        memcpy(&ret_value->number, &number, sizeof number);
        return GW_OK;
    case json_type_string:
        return convert_text(it, json_object_get_string(from), (size_t)json_object_get_string_len(from), ret_value);
    case json_type_array:
    case json_type_object:
        return convert_container(it, from, ret_value);
    default:
        return GW_OK;
    }
}

static size_t skip_space(const gw_text *text, size_t at)
{
    return at + strspn(gw_text_str(text) + at, " \t\r\n");
}

/* Parse one value at *at, and put it into the list `all`. */
static gw_status read_value(const conversion *it, struct json_tokener *parser, const gw_text *text, size_t *at,
                            uint32_t all)
{
    json_tokener_reset(parser);
    json_object *from = json_tokener_parse_ex(parser, gw_text_str(text) + *at, (int)(text->bytes - *at));
    enum json_tokener_error why = json_tokener_get_error(parser);
    *at += json_tokener_get_parse_end(parser);
    gw_status st = GW_OK;
    if (why == json_tokener_continue)
        st = gw_fail(it->err, GW_CORRUPT, "the file ends early");
    else if (why != json_tokener_success)
        st = gw_fail(it->err, GW_CORRUPT, "%s", json_tokener_error_desc(why));
    else
        st = add(it, all, from);
    json_object_put(from);
    return st;
}

static gw_status read_values(const conversion *it, const gw_text *text, size_t *at, gw_pickle_value *ret_root)
{
    uint32_t all = 0;
    struct json_tokener *parser = json_tokener_new_ex(DEPTH_MAX);
    gw_status st = parser == NULL ? gw_fail(it->err, GW_NOMEM, "out of memory")
                                  : gwi_store_node(it->store, GW_PICKLE_LIST, &all, it->err);
    do {
        *at = skip_space(text, *at);
        if (st == GW_OK)
            st = read_value(it, parser, text, at, all);
    } while (st == GW_OK && skip_space(text, *at) < text->bytes);
    if (parser != NULL)
        json_tokener_free(parser);
    if (st == GW_OK) {
        *ret_root = gwi_store_value(it->store, all);
        if (gw_pickle_count(it->store, *ret_root) == 1)
            *ret_root = gw_pickle_at(it->store, *ret_root, 0, NULL);
    }
    return st;
}

gw_status gw_pickle_read_json(const char *path, const gw_pickle_options *options, gw_pickle **ret_pickle,
                              gw_pickle_value *ret_root, gw_error *err)
{
    gw_text text = {0};
    size_t at = 0;
    conversion it = {.options = options, .err = err};
    gw_status st = gw_plain_read(path, BYTES_MAX, &text, err);
    if (st != GW_OK)
        goto out;
    st = gw_pickle_new(options, &it.store, err);
    if (st == GW_OK)
        st = read_values(&it, &text, &at, ret_root);
    if (st != GW_OK) {
        gw_wrap(err, "%s: at byte %zu", path, at);
        goto out;
    }
    *ret_pickle = it.store;
    it.store = NULL;
out:
    gw_pickle_free(it.store);
    gw_text_free(&text);
    return st;
}
