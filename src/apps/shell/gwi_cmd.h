/* The table of commands. */
#ifndef GWI_CMD_H
#define GWI_CMD_H

#include "gwi_manual.h"

#include "gw_exit.h"
#include "gw_status.h"

#include <stdbool.h>

/* X(name, arguments, one line of help). gwi_cmd_<name>(argc, argv) runs a command and returns the exit status. argv[0]
 * is the command's name. gwi_manual_<name> is its help. */
#define GWI_COMMANDS(X)                                                                                                \
    X(run, "[options] -- program [arguments]", "run a program, explain failures")                                      \
    X(rehearse, "[options] -- program [arguments]", "does it fit? computes nothing")                                   \
    X(fit, "[options] -- program [arguments]", "find the largest batch that fits")                                     \
    X(explain, "[--json] [file.. | code]", "explain a recording, log or code")                                         \
    X(report, "[file..] [-o report.html]", "write an HTML page about a run")                                           \
    X(diff, "[--json] GOOD BAD", "compare two recordings")                                                             \
    X(whatif, "[options] RECORDING", "replay with other PyTorch settings")                                             \
    X(history, "[--where SQL] [words of command]", "list runs, compare the failed ones")                               \
    X(export, "file --to json|csv [-o out]", "convert, also for Perfetto")                                             \
    X(causes, "[id | --search WORD..]", "list the causes gpuwhy can find")                                             \
    X(watch, "[options]", "show cards and runs, live")                                                                 \
    X(who, "[--json] [text]", "list who uses this machine's cards")                                                    \
    X(poke, "[--json] [--job] PID", "show what a process is doing now")                                                \
    X(doctor, "[options] [-- python]", "check this machine for problems")                                              \
    X(lab, "list|run ID|check [options]", "lessons, and a check of verdicts")                                          \
    X(jupyter, "install|uninstall|list [options]", "manage gpuwhy's notebook kernel")                                  \
    X(config, "[key | --check [file]]", "show what is configured, and where")                                          \
    X(mcp, "[--logs DIR]", "serve verdicts to an agent")                                                               \
    X(version, "", "version and optional features")                                                                    \
    X(help, "[command | topic | topics]", "print this help, or a document")

#define GW_X(name, arguments, help)                                                                                    \
    int gwi_cmd_##name(int argc, char **argv);                                                                         \
    extern const gwi_manual gwi_manual_##name;
GWI_COMMANDS(GW_X)
#undef GW_X

typedef struct gwi_command_row {
    const char *name, *arguments, *help;
    int (*run)(int argc, char **argv);
    const gwi_manual *page;
} gwi_command_row;

/* The table of commands, in the order of `gpuwhy help`. */
const gwi_command_row *gwi_commands(size_t *ret_count);
/* Return the title of the group that begins with this command, or NULL. A group ends where the next one begins. */
const char *gwi_command_group(const char *name);
/* NULL: there is no such command. */
const gwi_command_row *gwi_command_find(const char *name);
/* The page of gpuwhy(1), whose options may stand before a command. */
extern const gwi_manual gwi_manual_gpuwhy;

/* Print what `gpuwhy causes ID` prints. Returns false, and prints nothing, if there is no such cause. */
bool gwi_causes_show(const char *id);

/* Check that all words are options of `gpuwhy run`. GW_USAGE: `err` names the first word that is not an option. */
GW_MUST_CHECK gw_status gwi_run_options_check(int count, char *const *words, gw_error *err);

#endif
