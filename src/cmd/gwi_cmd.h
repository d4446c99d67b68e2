/* The commands: one row each. A command prints, nobody below it does. */
#ifndef GWI_CMD_H
#define GWI_CMD_H

/* X(name, argument summary, one line of help); its function is gwi_cmd_<name>(argc, argv) with argv[0] the name, and
 * its answer is the exit status. */
#define GWI_COMMANDS(X)                                                                                                \
    X(run, "[options] -- program [arguments]", "record a program, watch it, say why it died")                          \
    X(explain, "[--json] [file..]", "the verdict for a recording; without a file: the last one")                       \
    X(poke, "[--json] PID", "what a recorded process does right now")                                                  \
    X(export, "file --to json|csv [-o out]", "a recording for other tools")                                            \
    X(jupyter, "install|uninstall|list [options]", "a notebook kernel that runs under gpuwhy")                         \
    X(causes, "[id]", "what gpuwhy knows how to find")                                                                 \
    X(version, "", "version and parts of this build")                                                                  \
    X(help, "[command]", "this")

#define GW_X(name, arguments, help) int gwi_cmd_##name(int argc, char **argv);
GWI_COMMANDS(GW_X)
#undef GW_X

/* Exit statuses of all commands but `run`, which ends as the program did. */
enum { GWI_EXIT_OK = 0, GWI_EXIT_UNDETERMINED = 1, GWI_EXIT_USAGE = 2 };
/* ... and of `run` itself, as shells have it. */
enum { GWI_EXIT_CANNOT_RUN = 126, GWI_EXIT_NOT_FOUND = 127 };

#endif
