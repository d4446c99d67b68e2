/* The entry point: find the command in the table and run it. */
#include "gw_say.h"
#include "gwi_cmd.h"
#include "gwi_config_cmd.h"
#include "gwi_options.h"
#include "gwi_terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct command_row {
    const char *name, *arguments, *help;
    int (*run)(int argc, char **argv);
} command_row;

static const command_row commands[] = {
#define GW_X(name, arguments, help) {#name, arguments, help, gwi_cmd_##name},
    GWI_COMMANDS(GW_X)
#undef GW_X
};
/* A line of `gpuwhy help` has at most 80 columns. */
#define GW_X(name, arguments, help)                                                                                    \
    _Static_assert(sizeof #name <= 9 && sizeof arguments <= 33 && sizeof help <= 35, "the line of " #name);
GWI_COMMANDS(GW_X)
#undef GW_X
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static const command_row *find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static void usage(FILE *out)
{
    fputs("gpuwhy explains why a GPU program failed.\n\n  gpuwhy run -- python train.py\n\ncommands:\n", out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-8s  %-32s  %s\n", commands[i].name, commands[i].arguments, commands[i].help);
    fputs("\n`gpuwhy COMMAND --help` lists the options of a command.\n", out);
}

int gwi_cmd_help(int argc, char **argv)
{
    gwi_pager_begin();
    if (argc < 2 || is_help(argv[1])) {
        usage(stdout);
        return GW_EXIT_OK;
    }
    const command_row *command = find(argv[1]);
    if (command == NULL) {
        gw_say("help: unknown command %s; `gpuwhy help` lists the commands", argv[1]);
        return GW_EXIT_USAGE;
    }
    if (command->run == gwi_cmd_help) {
        usage(stdout);
        return GW_EXIT_OK;
    }
    char *asked[] = {argv[1], (char[]){"--help"}, NULL};
    return command->run(2, asked);
}

/* Text that could not be written, such as on a full disk, must not look like a success. Only `run` keeps its exit
 * status, which is that of the program. A command that returns GW_EXIT_USAGE has printed a reason. */
static int finish(const command_row *command, int status)
{
    errno = 0;
    bool is_written = fflush(stdout) == 0 && !ferror(stdout);
    int why = errno;
    if (is_written || status == GW_EXIT_USAGE || (command != NULL && command->run == gwi_cmd_run))
        return status;
    gw_say("standard output could not be written%s%s", why == 0 ? "" : ": ", why == 0 ? "" : strerror(why));
    return GW_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    gw_error err;
    int first = 1;
    gwi_config_load();
    if (gwi_options_parse_common(argc, argv, &first, &err) != GW_OK) {
        gw_say("%s", err.text);
        return GW_EXIT_USAGE;
    }
    argc -= first - 1;
    argv += first - 1;
    if (argc < 2) {
        usage(stderr);
        return GW_EXIT_USAGE;
    }
    if (is_help(argv[1]))
        return finish(NULL, gwi_cmd_help(1, argv));
    if (strcmp(argv[1], "--version") == 0)
        return finish(NULL, gwi_cmd_version(1, argv));
    const command_row *command = find(argv[1]);
    if (command == NULL) {
        gw_say("unknown command %s; `gpuwhy help` lists the commands", argv[1]);
        return GW_EXIT_USAGE;
    }
    if (command->run != gwi_cmd_config && command->run != gwi_cmd_help)
        gwi_config_say_errors();
    if (argc == 3 && is_help(argv[2]))
        gwi_pager_begin();
    return finish(command, command->run(argc - 1, argv + 1));
}
