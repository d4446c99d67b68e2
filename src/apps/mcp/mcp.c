/* `gpuwhy mcp`: a server of the Model Context Protocol on standard input and output, one message a line. */
#include "gw_config.h"
#include "gw_say.h"
#include "gwi_cmd.h"
#include "gwi_mcp.h"
#include "gwi_options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GWI_MCP_OPTIONS(X)                                                                                             \
    X(STRING, const char *, logs, "--logs", "DIR", NULL,                                                               \
      "the folder of text logs that the tool explain_log may read, with its subfolders; default: there is no such "    \
      "tool")

GWI_OPTIONS(mcp_options, GWI_MCP_OPTIONS);

static void add_tools(gw_text *text)
{
    enum { INDENT = 15, COLUMNS = 80 };
    for (size_t i = 0; i < gwi_mcp_tool_count; i++) {
        gw_text_addf(text, "  %-11s  ", gwi_mcp_tools[i].name);
        gw_add_wrapped(text, gwi_mcp_tools[i].about, INDENT, INDENT, COLUMNS);
    }
}

const gwi_manual gwi_manual_mcp = {
    .usage = "gpuwhy mcp [--logs DIR]\n",
    .about =
        "Serves verdicts to an agent, by the Model Context Protocol on standard input and output, until the input "
        "ends. All tools only read: they change no file, start no command and use no network. Answers are bounded, "
        "secrets are masked, and texts of programs and logs are marked as data.",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .add_more = add_tools,
    .more_title = "tools",
    .exits = {{GW_EXIT_OK, "the input ended"},
              {GW_EXIT_USAGE, "usage error, the folder cannot be opened, or an answer cannot be written"}},
    .environment = {{GWI_MANUAL_STATE_HOME}},
    .files = {{GWI_MANUAL_RECORDINGS}, {GWI_MANUAL_RUNS}},
    .examples = {{"gpuwhy mcp --logs ~/runs", "the command line for the configuration of an agent"}},
    .see_also = "explain history doctor causes"};

/* ---- lines ---- */

/* Read the next line, without its end. Returns false at the end of the input. *ret_is_long: the line was too long, and
 * `line` has only a part of it. */
static bool next_line(gw_text *line, bool *ret_is_long)
{
    static char block[64 << 10];
    static size_t at, count;
    gw_text_clear(line);
    *ret_is_long = false;
    for (;;) {
        if (at == count) {
            ssize_t got = read(STDIN_FILENO, block, sizeof block);
            if (got < 0 && errno == EINTR)
                continue;
            at = 0;
            count = got > 0 ? (size_t)got : 0;
            if (got <= 0)
                return line->bytes > 0;
        }
        const char *end = memchr(block + at, '\n', count - at);
        size_t bytes = end == NULL ? count - at : (size_t)(end - block) - at;
        if (line->bytes + bytes <= GWI_MCP_MESSAGE_BYTES_MAX)
            gw_text_add(line, block + at, bytes);
        else
            *ret_is_long = true;
        at += bytes + (end != NULL);
        if (end != NULL)
            return true;
    }
}

static gw_status write_whole(int fd, const gw_text *text, gw_error *err)
{
    for (size_t at = 0; at < text->bytes;) {
        ssize_t bytes = write(fd, text->data + at, text->bytes - at);
        if (bytes < 0 && errno != EINTR)
            return gw_fail(err, GW_IO, "an answer cannot be written: %s", strerror(errno));
        at += bytes > 0 ? (size_t)bytes : 0;
    }
    return GW_OK;
}

static gw_status serve(gwi_mcp *server, int client, gw_error *err)
{
    gw_text line = {0}, out = {0};
    gw_status st = GW_OK;
    bool is_long;
    while (st == GW_OK && next_line(&line, &is_long)) {
        gw_text_clear(&out);
        st = is_long ? gwi_mcp_answer_too_long(&out, err)
                     : gwi_mcp_answer(server, gw_text_str(&line), line.bytes, &out, err);
        if (st == GW_OK)
            st = write_whole(client, &out, err);
    }
    gw_text_free(&line);
    gw_text_free(&out);
    return st;
}

/* Keep standard output for answers alone: what a library or a mistake prints goes to standard error. Returns the
 * descriptor for answers. */
static int take_output(void)
{
    int client = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return client >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0 ? client : -1;
}

int gwi_cmd_mcp(int argc, char **argv)
{
    mcp_options options = {0};
    gw_error err = {0};
    int first = 0;
    gwi_mcp server = {
        .tool = gwi_mcp_tools, .tool_count = gwi_mcp_tool_count, .logs = -1, .program_version = GW_PROGRAM_VERSION};
    gw_status st = gwi_options_parse(options_table, OPTION_COUNT, &options, argc, argv, &first, &err);
    if (st == GW_OK && options.help)
        return gwi_manual_print(&gwi_manual_mcp);
    if (st == GW_OK && first < argc)
        st = gw_fail(&err, GW_USAGE, "%s: the command takes no words", argv[first]);
    if (st == GW_OK && options.logs != NULL &&
        (server.logs = open(options.logs, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        st = gw_fail(&err, GW_IO, "--logs %s: %s", options.logs, strerror(errno));
    if (st == GW_OK) /* list no run that a killed supervisor could not list: the tools change nothing */
        st = gw_config_set(gw_config_process(), GW_CONFIG_ADD_TO_HISTORY, "false", GW_CONFIG_OPTION, 0, &err);
    if (st != GW_OK)
        return gwi_refuse("mcp", &err);
    unsetenv("DEBUGINFOD_URLS"); /* libdw would fetch symbols from there */
    if (isatty(STDIN_FILENO) != 0)
        gw_say("mcp: waiting for an MCP client on standard input; Ctrl-D ends this");
    int client = take_output();
    st = client < 0 ? gw_fail(&err, GW_IO, "standard output: %s", strerror(errno)) : serve(&server, client, &err);
    if (client >= 0)
        close(client);
    if (server.logs >= 0)
        close(server.logs);
    return st == GW_OK ? GW_EXIT_OK : gwi_refuse("mcp", &err);
}
