/* Extract the outputs of a Jupyter notebook as text: what the cells printed, and their tracebacks. Versions 3 and 4 of
 * the format are read. */
#include "gwi_logs.h"

#include "gw_text.h"

#include <json-c/json.h>

#include <string.h>

bool gwi_is_notebook(const char *bytes, size_t count)
{
    size_t at = 0;
    while (at < count && strchr(" \t\r\n", bytes[at]) != NULL && bytes[at] != '\0')
        at++;
    return at < count && bytes[at] == '{' && memmem(bytes, count, "\"cell_type\"", strlen("\"cell_type\"")) != NULL;
}

static struct json_object *field(struct json_object *of, const char *name)
{
    struct json_object *value = NULL;
    return json_object_is_type(of, json_type_object) && json_object_object_get_ex(of, name, &value) ? value : NULL;
}

static void add_string(struct json_object *value, const char *end, gw_text *text)
{
    if (json_object_is_type(value, json_type_string)) {
        gw_text_add(text, json_object_get_string(value), (size_t)json_object_get_string_len(value));
        gw_text_add_str(text, end);
    }
}

/* Append a string, or all strings of a list, to `text`. `end` is appended after each string. */
static void add_texts(struct json_object *value, const char *end, gw_text *text)
{
    if (!json_object_is_type(value, json_type_array)) {
        add_string(value, end, text);
        return;
    }
    for (size_t i = 0; i < json_object_array_length(value); i++)
        add_string(json_object_array_get_idx(value, i), end, text);
}

static void end_line(gw_text *text)
{
    if (text->bytes > 0 && gw_text_str(text)[text->bytes - 1] != '\n')
        gw_text_add_str(text, "\n");
}

static void add_output(struct json_object *output, gw_text *text)
{
    struct json_object *traceback = field(output, "traceback");
    bool has_traceback = json_object_is_type(traceback, json_type_array) && json_object_array_length(traceback) > 0;
    /* text of a stream output (stdout, stderr); in notebook format 3, also the text of results */
    add_texts(field(output, "text"), "", text);
    end_line(text);
    add_texts(field(field(output, "data"), "text/plain"), "", text);
    end_line(text);
    if (has_traceback) {
        add_texts(traceback, "\n", text);
    } else if (field(output, "ename") != NULL) {
        add_string(field(output, "ename"), ": ", text);
        add_string(field(output, "evalue"), "\n", text);
    }
    end_line(text);
}

static void add_cells(struct json_object *cells, gw_text *text)
{
    for (size_t i = 0; json_object_is_type(cells, json_type_array) && i < json_object_array_length(cells); i++) {
        struct json_object *outputs = field(json_object_array_get_idx(cells, i), "outputs");
        for (size_t k = 0; json_object_is_type(outputs, json_type_array) && k < json_object_array_length(outputs); k++)
            add_output(json_object_array_get_idx(outputs, k), text);
    }
}

/* Append the character for an escape of a JSON string. `at` is the offset after the backslash. Returns the offset after
 * the escape. \u001b becomes ESC, and any other \u escape becomes "?". */
static size_t add_escaped(const char *bytes, size_t at, size_t count, gw_text *text)
{
    enum { HEX_DIGITS = 4 };
    char c = at < count ? bytes[at] : '\\';
    size_t end = at < count ? at + 1 : count;
    if (c == 'u') {
        bool is_escape = count - end >= HEX_DIGITS && memcmp(bytes + end, "001b", HEX_DIGITS) == 0;
        c = is_escape ? '\x1b' : '?';
        end = count - end >= HEX_DIGITS ? end + HEX_DIGITS : count;
    } else if (c == 'n' || c == 'r' || c == 't') {
        c = c == 't' ? '\t' : '\n';
    }
    gw_text_add(text, &c, 1);
    return end;
}

/* Append all strings of a damaged notebook. Each string begins on a new line. */
static void add_strings(const char *bytes, size_t count, gw_text *text)
{
    bool is_inside = false;
    for (size_t at = 0; at < count;) {
        char c = bytes[at++];
        if (c == '"') {
            is_inside = !is_inside;
            if (!is_inside)
                end_line(text);
        } else if (is_inside && c == '\\') {
            at = add_escaped(bytes, at, count, text);
        } else if (is_inside) {
            gw_text_add(text, &c, 1);
        }
    }
    end_line(text);
}

void gwi_notebook_outputs(const char *bytes, size_t count, gw_text *ret_text)
{
    enum { DEPTH_MAX = 64 };
    struct json_tokener *parser = count < INT32_MAX ? json_tokener_new_ex(DEPTH_MAX) : NULL;
    struct json_object *notebook = parser != NULL ? json_tokener_parse_ex(parser, bytes, (int)count) : NULL;
    struct json_object *sheets = field(notebook, "worksheets"); /* only in notebook format 3 */
    bool is_notebook = field(notebook, "cells") != NULL || sheets != NULL;
    add_cells(field(notebook, "cells"), ret_text);
    for (size_t i = 0; json_object_is_type(sheets, json_type_array) && i < json_object_array_length(sheets); i++)
        add_cells(field(json_object_array_get_idx(sheets, i), "cells"), ret_text);
    json_object_put(notebook);
    if (parser != NULL)
        json_tokener_free(parser);
    if (!is_notebook)
        add_strings(bytes, count, ret_text);
}
