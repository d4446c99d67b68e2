/* Extract the text that is inside JSON:
 * - the outputs of a Jupyter notebook: what the cells printed, and their tracebacks; versions 3 and 4 of the format
 * - the exception in an error file of torchrun (torch/distributed/elastic/multiprocessing/errors): the member
 *   "message" is a text, or an object with "message" and extraInfo.py_callstack, a whole traceback */
#include "gwi_logs.h"

#include "gw_json.h"
#include "gw_text.h"

#include <string.h>

static bool has(const char *bytes, size_t count, const char *word)
{
    return memmem(bytes, count, word, strlen(word)) != NULL;
}

bool gwi_is_notebook(const char *bytes, size_t count)
{
    static const char error_start[] = "{\"message\":";
    size_t at = 0;
    while (at < count && strchr(" \t\r\n", bytes[at]) != NULL && bytes[at] != '\0')
        at++;
    bool is_error_file = at < count && count - at > strlen(error_start) &&
                         memcmp(bytes + at, error_start, strlen(error_start)) == 0 &&
                         (has(bytes, count, "\"extraInfo\"") || has(bytes, count, "\"errorCode\""));
    return at < count && bytes[at] == '{' && (has(bytes, count, "\"cell_type\"") || is_error_file);
}

/* Return the number of items of a list; 0: it is not a list. */
static size_t count_of(json_object *list)
{
    return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

static void add_string(json_object *value, const char *end, gw_text *text)
{
    if (json_object_is_type(value, json_type_string)) {
        gw_text_add(text, json_object_get_string(value), (size_t)json_object_get_string_len(value));
        gw_text_add_str(text, end);
    }
}

/* Append a string, or all strings of a list, to `text`. `end` is appended after each string. */
static void add_texts(json_object *value, const char *end, gw_text *text)
{
    add_string(value, end, text);
    for (size_t i = 0; i < count_of(value); i++)
        add_string(json_object_array_get_idx(value, i), end, text);
}

static void end_line(gw_text *text)
{
    if (text->bytes > 0 && gw_text_str(text)[text->bytes - 1] != '\n')
        gw_text_add_str(text, "\n");
}

static void add_output(json_object *output, gw_text *text)
{
    json_object *traceback = gw_json_member(output, "traceback");
    /* text of a stream output (stdout, stderr); in notebook format 3, also the text of results */
    add_texts(gw_json_member(output, "text"), "", text);
    end_line(text);
    add_texts(gw_json_member(gw_json_member(output, "data"), "text/plain"), "", text);
    end_line(text);
    if (count_of(traceback) > 0) {
        add_texts(traceback, "\n", text);
    } else if (gw_json_member(output, "ename") != NULL) {
        add_string(gw_json_member(output, "ename"), ": ", text);
        add_string(gw_json_member(output, "evalue"), "\n", text);
    }
    end_line(text);
}

static void add_cells(json_object *cells, gw_text *text)
{
    for (size_t i = 0; i < count_of(cells); i++) {
        json_object *outputs = gw_json_member(json_object_array_get_idx(cells, i), "outputs");
        for (size_t k = 0; k < count_of(outputs); k++)
            add_output(json_object_array_get_idx(outputs, k), text);
    }
}

/* Append the exception of an error file. Returns false if there is none. */
static bool add_error(json_object *root, gw_text *text)
{
    json_object *message = gw_json_member(root, "message");
    json_object *stack = gw_json_member(gw_json_member(message, "extraInfo"), "py_callstack");
    if (!json_object_is_type(stack, json_type_string) || json_object_get_string_len(stack) == 0)
        stack = json_object_is_type(message, json_type_object) ? gw_json_member(message, "message") : message;
    add_string(stack, "", text);
    end_line(text);
    return json_object_is_type(stack, json_type_string);
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
    json_object *notebook = parser != NULL ? json_tokener_parse_ex(parser, bytes, (int)count) : NULL;
    json_object *sheets = gw_json_member(notebook, "worksheets"); /* only in notebook format 3 */
    bool is_notebook = gw_json_member(notebook, "cells") != NULL || sheets != NULL;
    is_notebook = is_notebook || add_error(notebook, ret_text);
    add_cells(gw_json_member(notebook, "cells"), ret_text);
    for (size_t i = 0; i < count_of(sheets); i++)
        add_cells(gw_json_member(json_object_array_get_idx(sheets, i), "cells"), ret_text);
    json_object_put(notebook);
    if (parser != NULL)
        json_tokener_free(parser);
    if (!is_notebook)
        add_strings(bytes, count, ret_text);
}
