/* Fuzz the messages of a client of `gpuwhy mcp`. The tools return the input itself, as a hostile log would. */
#include "gwi_mcp.h"
#include "seeds.h"

#include <stdlib.h>
#include <string.h>

static const char *input;

static void write_seeds(const char *folder)
{
    static const char *const seeds[] = {
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-03-26\"}}\n"
        "[{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"tools/list\"},{\"jsonrpc\":\"2.0\",\"method\":\"x\"}]\n"
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/"
        "call\",\"params\":{\"name\":\"echo\",\"arguments\":{\"x\":\"```\"}}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":-1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\"}}\n"
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/"
        "call\",\"params\":{\"name\":\"json\"}}\n{\"a\":[\"token=abc\"]}\n",
        "{\"id\":1.5}\n[]\nnull\n{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}\n",
    };
    write_texts(folder, seeds, sizeof seeds / sizeof seeds[0]);
}

static gw_status echo(int logs, const char *value, gwi_mcp_found *ret_found, gw_error *err)
{
    (void)logs;
    if (value == NULL)
        return gw_fail(err, GW_USAGE, "%.300s", input);
    gw_text_add_str(&ret_found->text, value);
    gw_text_add_str(&ret_found->text, input);
    ret_found->data = json_object_new_object();
    json_object_object_add(ret_found->data, value, gw_json_string(input));
    return GW_OK;
}

static gw_status json(int logs, const char *value, gwi_mcp_found *ret_found, gw_error *err)
{
    (void)logs;
    (void)value;
    const char *last = strrchr(input, '{');
    ret_found->data = last == NULL ? NULL : json_tokener_parse(last);
    return ret_found->data == NULL ? gw_fail(err, GW_CORRUPT, "no object") : GW_OK;
}

static const gwi_mcp_tool tools[] = {
    {.name = "echo", .title = "", .about = "", .parameter = "x", .parameter_about = "", .call = echo},
    {.name = "json", .title = "", .about = "", .needs_logs = true, .call = json}};

/* An answer is one line of printable JSON in UTF-8, and bounded. */
static void check(const gw_text *out)
{
    enum { BYTES_MAX = 16 * (2 * GWI_MCP_TEXT_BYTES_MAX + 6 * GWI_MCP_DATA_BYTES_MAX) };
    const char *text = gw_text_str(out);
    if (out->bytes == 0)
        return;
    if (out->bytes > BYTES_MAX || strlen(text) != out->bytes || strchr(text, '\n') != text + out->bytes - 1)
        abort();
    for (const char *c = text; c[1] != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            abort();
    json_tokener *parser = json_tokener_new();
    json_tokener_set_flags(parser, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    json_object *answer = json_tokener_parse_ex(parser, text, (int)out->bytes - 1);
    if (answer == NULL)
        abort();
    json_object_put(answer);
    json_tokener_free(parser);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gwi_mcp server = {.tool = tools, .tool_count = 2, .logs = -1, .program_version = "0"};
    char *all = fuzz_text(data, size);
    input = all;
    for (size_t at = 0; at < size;) {
        const char *end = memchr(all + at, '\n', size - at);
        size_t bytes = (end == NULL ? size : (size_t)(end - all)) - at;
        gw_text out = {0};
        if (gwi_mcp_answer(&server, all + at, bytes, &out, NULL) == GW_OK)
            check(&out);
        gw_text_free(&out);
        at += bytes + 1;
    }
    free(all);
    return 0;
}
