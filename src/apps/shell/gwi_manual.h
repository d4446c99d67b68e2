/* The manual of a command: what its help, its manual page and its completion need to know about the command: one table
 * per command.
 *
 * `gpuwhy COMMAND --help`, the manual page gpuwhy-COMMAND(1), the completion of the shells and the table of exit
 * statuses (docs/exit-status.md) are generated from it. Everything is static. */
#ifndef GWI_MANUAL_H
#define GWI_MANUAL_H

#include "gwi_options.h"

enum {
    GWI_MANUAL_GROUPS = 4,
    GWI_MANUAL_SECTIONS = 6,
    GWI_MANUAL_EXITS = 6,
    GWI_MANUAL_ROWS = 12,
    GWI_EXIT_PROGRAM = -1 /* in gwi_manual_exit: the exit status of the program */
};

/* Options with a title: those of a subcommand, such as `gpuwhy lab run`. */
typedef struct gwi_manual_group {
    const char *name;          /* of the subcommand; NULL: the options are the command's own */
    const char *words;         /* like gwi_manual.words, for the words after the subcommand */
    const gwi_option *options; /* NULL: the group does not exist */
    size_t count;
} gwi_manual_group;

typedef struct gwi_manual_exit {
    int status; /* GW_EXIT_* or GWI_EXIT_PROGRAM */
    const char *meaning;
} gwi_manual_exit;

/* The meaning of a name: an environment variable, a file, an example's command line. */
typedef struct gwi_manual_row {
    const char *name, *meaning;
} gwi_manual_row;

/* What is in a row that several commands have. */
#define GWI_MANUAL_STATE_HOME                                                                                          \
    "XDG_STATE_HOME", "recordings and the list of runs are in its folder gpuwhy; default: ~/.local/state"
#define GWI_MANUAL_RECORDINGS                                                                                          \
    "$XDG_STATE_HOME/gpuwhy/*.gpuwhy", "recordings, by default in ~/.local/state/gpuwhy; mode 0600"
#define GWI_MANUAL_HANDLE "@3", "the recording of the third newest run of `gpuwhy history`; @1 is the newest"
#define GWI_MANUAL_RUNS   "$XDG_STATE_HOME/gpuwhy/runs.db", "the list of past runs, an SQLite database"

/* Arrays end at their first empty row, or when they are full. */
typedef struct gwi_manual {
    const char *usage; /* the forms of the command line, one per line */
    const char *about; /* full sentences; an empty line separates paragraphs. Printed wrapped */
    /* Values of the words that are not options, as in complete.c. "PROGRAM": a command line begins at the first such
     * word, or after `--`; "-- PROGRAM": only after `--`. With subcommands: their names. NULL: free text, or none. */
    const char *words;
    gwi_manual_group group[GWI_MANUAL_GROUPS];
    gwi_manual_row sections[GWI_MANUAL_SECTIONS]; /* parts of the first group: the option that begins one, its title */
    const char *brief; /* the options that -h lists, separated by spaces; NULL: -h prints what --help prints */
    void (*add_more)(gw_text *text); /* append a list that is only known at run time, indented by two; NULL: none */
    const char *more_title;          /* its title, in lower case */
    gwi_manual_exit exits[GWI_MANUAL_EXITS];
    gwi_manual_row environment[GWI_MANUAL_ROWS], files[GWI_MANUAL_ROWS], examples[GWI_MANUAL_ROWS];
    const char
        *see_also; /* names of manual pages of gpuwhy, separated by spaces: "run explain"; NULL: only gpuwhy(1) */
} gwi_manual;

/* Return the title of the section that begins with this option, or NULL. */
const char *gwi_manual_section(const gwi_manual *page, const char *option);
/* Print the help of a command on standard output, the short one if the user has asked for it with -h. Returns
 * GW_EXIT_OK. */
int gwi_manual_print(const gwi_manual *page);
/* Print the error of a command as `gpuwhy: NAME: text`. Returns GW_EXIT_USAGE. */
int gwi_refuse(const char *name, const gw_error *err);
/* Read the options of a command that starts a program: those of the page's first group, into `fields`. `help` is one of
 * them; if it is set, the help is printed. Returns an exit status. GW_EXIT_OK without `help`: *ret_program is the
 * program and its arguments. GW_EXIT_USAGE: the reason was printed, such as that gpuwhy is switched off. */
int gwi_program_take(const gwi_manual *page, void *fields, const bool *help, int argc, char **argv,
                     char ***ret_program);

/* Append the manual page gpuwhy-NAME(1), in the macros of man(7). `name` is NULL for gpuwhy(1), which lists all
 * commands. `help` is the line of help in the table of commands. */
void gwi_manual_add_page(const gwi_manual *page, const char *name, const char *help, gw_text *text);

#endif
