/* The table of commands, and the page of gpuwhy itself. */
#include "gwi_cmd.h"

#include <string.h>

static const gwi_command_row commands[] = {
#define GW_X(name, arguments, help) {#name, arguments, help, gwi_cmd_##name, &gwi_manual_##name},
    GWI_COMMANDS(GW_X)
#undef GW_X
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

const gwi_command_row *gwi_commands(size_t *ret_count)
{
    *ret_count = COMMAND_COUNT;
    return commands;
}

const char *gwi_command_group(const char *name)
{
    static const gwi_manual_row groups[] = {{"run", "start a program"},
                                            {"explain", "explain and compare runs"},
                                            {"watch", "look at this machine"},
                                            {"lab", "learn and set up"}};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (strcmp(groups[i].name, name) == 0)
            return groups[i].meaning;
    return NULL;
}

const gwi_command_row *gwi_command_find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

/* main() knows these options by their names. */
static const gwi_option options_table[] = {
    {GWI_OPTION_FLAG, 0, "--version", NULL, NULL, "print the version, as gpuwhy version does; also -V"},
    {GWI_OPTION_FLAG, 0, "--help", NULL, NULL, "print the commands; also -h"}};
enum { OPTION_COUNT = sizeof options_table / sizeof options_table[0] };

const gwi_manual gwi_manual_gpuwhy = {
    .usage = "gpuwhy [options] command [arguments]\n",
    .about =
        "Runs a CUDA program and explains why it failed, with the evidence. The program can be written in C, C++ or "
        "Python (PyTorch, JAX, ...). It needs no changes, and gpuwhy needs no root.",
    .words = "COMMAND",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .exits = {{GW_EXIT_OK, "success; gpuwhy run exits with the status of the program"},
              {GW_EXIT_UNDETERMINED, "the answer is no, or the cause was not determined"},
              {GW_EXIT_USAGE, "usage error, or unreadable input; one line on stderr names it and the reason"},
              {GW_EXIT_CANNOT_RUN, "the program cannot be executed"},
              {GW_EXIT_NOT_FOUND, "there is no such program"}},
    .environment = {{GWI_MANUAL_STATE_HOME},
                    {"XDG_CONFIG_HOME", "the configuration is its file gpuwhy/config; default: ~/.config"},
                    {"XDG_RUNTIME_DIR",
                     "the first choice for the folder of a run in progress, then /dev/shm and /tmp, on a tmpfs"},
                    {"NO_COLOR", "if it is not empty: no colours, unless --color always is given"},
                    {"TERM", "if it is dumb, empty or not set: no colours, and less is not started"},
                    {"GPUWHY_PAGER", "the pager for long text; empty or cat: none"},
                    {"PAGER", "the pager if GPUWHY_PAGER is not set; default: less"},
                    {"LESS", "options of less; gpuwhy sets it to FRX for the pager unless it is set"}},
    .files = {{GWI_MANUAL_RECORDINGS},
              {"$XDG_STATE_HOME/gpuwhy/last", "link to the last recording"},
              {GWI_MANUAL_RUNS},
              {"$XDG_CONFIG_HOME/gpuwhy/config", "the configuration, in JSON"}},
    .examples = {{"gpuwhy run -- python train.py", "record the program and explain why it failed"},
                 {"gpuwhy explain train.log", "explain a text log"},
                 {"gpuwhy doctor -- python", "check this machine before you run anything"}}};
