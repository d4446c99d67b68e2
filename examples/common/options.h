/* Command-line options for small programs: one row per option. `--help` is generated from the rows. */
#ifndef EXAMPLE_OPTIONS_H
#define EXAMPLE_OPTIONS_H

enum option_kind {
    OPTION_FLAG,   /* --name: int, set to 1 */
    OPTION_NUMBER, /* --name N: long long; the suffixes K, M, G, KiB, MiB and GiB are allowed */
    OPTION_TEXT    /* --name TEXT: const char *, borrowed from argv */
};

struct option_row {
    const char *name; /* NULL ends the table */
    enum option_kind kind;
    void *target;
    const char *help;
};

/* Set the targets of the options that are given. `--help` prints the rows and exits 0. An unknown option prints one
 * line and exits 2. */
void options_parse(int argc, char **argv, const struct option_row *rows, const char *summary);

#endif
