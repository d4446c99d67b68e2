/* A server of the Model Context Protocol: answers one message with at most one line of JSON. It knows no tool, and
 * reads and writes no file. One thread.
 *
 * Whatever a client sends, the answer is bounded. What a tool quotes from programs, logs and files is masked like
 * everything that gpuwhy prints, has no control characters, and is marked as data. */
#ifndef GWI_MCP_H
#define GWI_MCP_H

#include "gw_json.h"
#include "gw_status.h"
#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    GWI_MCP_MESSAGE_BYTES_MAX = 256 << 10, /* of a line from the client */
    GWI_MCP_DEPTH_MAX = 32,                /* how deep objects and arrays of a message may be nested */
    GWI_MCP_BATCH_MAX = 16,                /* messages in a line */
    GWI_MCP_ID_BYTES_MAX = 256,
    GWI_MCP_TEXT_BYTES_MAX = 24 << 10, /* of the text of an answer */
    GWI_MCP_DATA_BYTES_MAX = 48 << 10  /* of the values of its JSON, before characters are escaped */
};

/* What a tool returns. The server frees it. */
typedef struct gwi_mcp_found {
    gw_text text;      /* for people */
    json_object *data; /* an object with the same for programs */
    bool is_ours;      /* all of it is gpuwhy's own words: nothing is quoted */
} gwi_mcp_found;

/* A tool has at most one parameter, a string. All texts are static. */
typedef struct gwi_mcp_tool {
    const char *name, *title, *about;
    const char *parameter; /* NULL: none */
    const char *parameter_about;
    bool is_required; /* the parameter must be given */
    bool needs_logs;  /* listed only if there is a folder of logs */
    /* `value` is NULL if the parameter was not given. `logs` is the open folder of logs, or -1. After an error, `err`
     * has the reason. */
    gw_status (*call)(int logs, const char *value, gwi_mcp_found *ret_found, gw_error *err);
} gwi_mcp_tool;

typedef struct gwi_mcp {
    const gwi_mcp_tool *tool;
    size_t tool_count;
    int logs;
    const char *program_version; /* static */
    const char *protocol;        /* static; the version that was negotiated; NULL: not yet */
} gwi_mcp;

/* Answer one line of the client, without its line end: append a line to `out`, or nothing if the message needs no
 * answer. GW_NOMEM: out of memory. */
GW_MUST_CHECK gw_status gwi_mcp_answer(gwi_mcp *server, const char *line, size_t bytes, gw_text *out, gw_error *err);
/* Answer a line that is longer than GWI_MCP_MESSAGE_BYTES_MAX. */
GW_MUST_CHECK gw_status gwi_mcp_answer_too_long(gw_text *out, gw_error *err);

/* ---- quoted.c ---- */

/* Room for what an answer quotes. */
typedef struct gwi_mcp_room {
    size_t bytes;
    bool is_cut; /* something was left out */
} gwi_mcp_room;

/* Append text with secrets masked, without colours and control characters except line ends. What exceeds the room is
 * cut, and a mark says so. */
void gwi_mcp_add_quoted(const char *from, gwi_mcp_room *room, gw_text *to);
/* Copy JSON, with all its texts and names as gwi_mcp_add_quoted() makes them. Once the room is used up, elements of
 * arrays and members of objects are left out. */
json_object *gwi_mcp_quote(json_object *from, gwi_mcp_room *room);

/* ---- tools.c ---- */

extern const gwi_mcp_tool gwi_mcp_tools[];
extern const size_t gwi_mcp_tool_count;

#endif
