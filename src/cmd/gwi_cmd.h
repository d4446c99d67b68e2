/* The commands: one row each. A command prints, nobody below it does. */
#ifndef GWI_CMD_H
#define GWI_CMD_H

#include "gw_exit.h"
#include "gw_status.h"

/* X(name, argument summary, one line of help); its function is gwi_cmd_<name>(argc, argv) with argv[0] the name, and
 * its answer is the exit status. */
#define GWI_COMMANDS(X)                                                                                                \
    X(run, "[options] -- program [arguments]", "record a program, watch it, say why it died")                          \
    X(explain, "[--json] [file.. | code]", "the verdict for a recording or a log; what a code may be")                 \
    X(diff, "[--json] GOOD BAD", "two recordings: what was different, and where their calls part")                     \
    X(history, "[--all] [words of the command]", "the last runs, and what failed ones have in common")                 \
    X(poke, "[--json] PID", "what a recorded process does right now")                                                  \
    X(export, "file --to json|csv [-o out]", "a recording for other tools")                                            \
    X(jupyter, "install|uninstall|list [options]", "a notebook kernel that runs under gpuwhy")                         \
    X(doctor, "[options] [-- python]", "what will fail on this machine before it does")                                \
    X(causes, "[id | --search WORD..]", "what gpuwhy knows how to find")                                               \
    X(version, "", "version and parts of this build")                                                                  \
    X(help, "[command]", "this")

#define GW_X(name, arguments, help) int gwi_cmd_##name(int argc, char **argv);
GWI_COMMANDS(GW_X)
#undef GW_X

/* Whether these words are options of `gpuwhy run`, and nothing but options. GW_USAGE: `err` names the wrong one. */
GW_MUST_CHECK gw_status gwi_run_options_check(int count, char *const *words, gw_error *err);

#endif
