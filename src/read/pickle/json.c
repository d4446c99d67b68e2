/* Reads JSON into the values of a pickle, so that one reader of records serves both forms of a file. Containers are
 * read here, and json-c reads each text and number: its objects need up to 300 times the bytes of the text, while a
 * record that is complete is folded at once. */
#include "gwi_store.h"

#include "gw_own.h"
#include "gw_text.h"

#include <json-c/json.h>

#include <string.h>

enum { BYTES_MAX = 64 << 20, DEPTH_MAX = 32, MEMORY_FACTOR = 8, MEMORY_MIN = 16 << 20 };

typedef struct conversion {
    gw_pickle *store;
    const gw_pickle_options *options;
    struct json_tokener *parser;
    const char *text;
    size_t at, bytes;
    int depth;
    gw_error *err;
} conversion;

static gw_status convert(conversion *it, gw_pickle_value *ret_value);

/* Return the next byte that is no white space. 0: the end of the text. */
static char next_byte(conversion *it)
{
    it->at += strspn(it->text + it->at, " \t\r\n");
    return it->text[it->at];
}

static gw_status fail_at(const conversion *it, const char *why)
{
    return gw_fail(it->err, GW_CORRUPT, "%s", it->at >= it->bytes ? "the file ends early" : why);
}

static gw_status convert_text(const conversion *it, const char *text, size_t bytes, gw_pickle_value *ret_value)
{
    uint32_t id = 0;
    gw_status st = gw_pickle_add_text(it->store, text, (uint32_t)bytes, &id, it->err); /* at most BYTES_MAX */
    *ret_value = (gw_pickle_value){.type = GW_PICKLE_TEXT, .number = id};
    return st;
}

static gw_status value_of(const conversion *it, json_object *from, gw_pickle_value *ret_value)
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
    default:
        return GW_OK;
    }
}

/* Read a text, a number, or a word such as null. */
static gw_status convert_scalar(conversion *it, gw_pickle_value *ret_value)
{
    json_tokener_reset(it->parser);
    json_object *from = json_tokener_parse_ex(it->parser, it->text + it->at, (int)(it->bytes - it->at));
    enum json_tokener_error why = json_tokener_get_error(it->parser);
    size_t read = json_tokener_get_parse_end(it->parser);
    if (why == json_tokener_continue) { /* a number may be the last value of the file; its NUL ends it */
        from = json_tokener_parse_ex(it->parser, "", 1);
        why = json_tokener_get_error(it->parser);
        read = it->bytes - it->at;
    }
    it->at += read;
    gw_status st = why == json_tokener_success    ? value_of(it, from, ret_value)
                   : why == json_tokener_continue ? gw_fail(it->err, GW_CORRUPT, "the file ends early")
                                                  : fail_at(it, json_tokener_error_desc(why));
    json_object_put(from);
    return st;
}

static gw_status add(conversion *it, uint32_t node)
{
    gw_pickle_value value;
    gw_status st = convert(it, &value);
    return st == GW_OK ? gwi_store_append(it->store, node, &value, 1, it->err) : st;
}

/* Read "name: value" into a dict, or a value into a list. */
static gw_status add_member(conversion *it, uint32_t node, bool is_dict)
{
    gw_pickle_value key;
    if (!is_dict)
        return add(it, node);
    if (next_byte(it) != '"')
        return fail_at(it, "expected a name");
    gw_status st = convert_scalar(it, &key);
    if (st == GW_OK && next_byte(it) != ':')
        st = fail_at(it, "expected a colon");
    if (st == GW_OK)
        st = gwi_store_append(it->store, node, &key, 1, it->err);
    it->at += st == GW_OK;
    return st == GW_OK ? add(it, node) : st;
}

static gw_status convert_container(conversion *it, gw_pickle_value *ret_value)
{
    uint32_t node;
    bool is_dict = it->text[it->at] == '{';
    const char close = is_dict ? '}' : ']';
    gw_status st = it->depth == DEPTH_MAX
                       ? fail_at(it, "nesting too deep")
                       : gwi_store_node(it->store, is_dict ? GW_PICKLE_DICT : GW_PICKLE_LIST, &node, it->err);
    if (st != GW_OK)
        return st;
    it->depth++;
    it->at++;
    for (bool is_first = true; st == GW_OK && next_byte(it) != close; is_first = false) {
        if (!is_first && it->text[it->at] != ',')
            return fail_at(it, "expected a comma");
        it->at += !is_first;
        st = add_member(it, node, is_dict);
    }
    it->depth--;
    it->at += st == GW_OK;
    if (st == GW_OK)
        st = gwi_store_complete(it->store, node, it->options, it->err);
    if (st == GW_OK)
        *ret_value = gwi_store_value(it->store, node);
    return st;
}

/* The depth of the recursion is that of the JSON, which is at most DEPTH_MAX. */
static gw_status convert(conversion *it, gw_pickle_value *ret_value)
{
    char first = next_byte(it);
    if (first == '\0')
        return fail_at(it, "a byte of 0");
    return first == '{' || first == '[' ? convert_container(it, ret_value) : convert_scalar(it, ret_value);
}

/* Read all values of the text: several dumps may have been appended to one file. */
static gw_status read_values(conversion *it, gw_pickle_value *ret_root)
{
    uint32_t all = 0;
    gw_status st = it->parser == NULL ? gw_fail(it->err, GW_NOMEM, "out of memory")
                                      : gwi_store_node(it->store, GW_PICKLE_LIST, &all, it->err);
    do {
        if (st == GW_OK)
            st = add(it, all);
        (void)next_byte(it);
    } while (st == GW_OK && it->at < it->bytes);
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
    conversion it = {.options = options, .err = err};
    gw_pickle_options bounded = *options;
    gw_status st = gw_plain_read(path, BYTES_MAX, &text, err);
    if (st != GW_OK)
        goto out;
    if (options->memory_max == 0)
        bounded.memory_max = MEMORY_MIN + MEMORY_FACTOR * (uint64_t)text.bytes;
    it.text = gw_text_str(&text);
    it.bytes = text.bytes;
    it.parser = json_tokener_new_ex(1);
    st = gw_pickle_new(&bounded, &it.store, err);
    if (st == GW_OK)
        st = read_values(&it, ret_root);
    if (st != GW_OK) {
        gw_wrap(err, "%s: at byte %zu", path, it.at);
        goto out;
    }
    *ret_pickle = it.store;
    it.store = NULL;
out:
    if (it.parser != NULL)
        json_tokener_free(it.parser);
    gw_pickle_free(it.store);
    gw_text_free(&text);
    return st;
}
