/* The entry point: find the command in the table and run it. */
#include "gw_say.h"
#include "gwi_cmd.h"
#include "gwi_options.h"
#include "gwi_terminal.h"

#include <signal.h>
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
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
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

int main(int argc, char **argv)
{
    gw_error err;
    int first = 1;
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
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return gwi_cmd_help(1, argv);
    if (strcmp(argv[1], "--version") == 0)
        return gwi_cmd_version(1, argv);
    const command_row *command = find(argv[1]);
    if (command == NULL) {
        gw_say("unknown command %s; `gpuwhy help` lists the commands", argv[1]);
        return GW_EXIT_USAGE;
    }
    if (argc == 3 && strcmp(argv[2], "--help") == 0)
        gwi_pager_begin();
    return command->run(argc - 1, argv + 1);
}
