/* Parse command-line options of small programs from a table with one row per option. `--help` is generated from the
 * rows. */
#ifndef EXAMPLE_OPTIONS_H
#define EXAMPLE_OPTIONS_H

enum option_kind {
    OPTION_FLAG,   /* --name: int, set to 1 */
    OPTION_NUMBER, /* --name N: long long, which may have a suffix K, M, G, KiB, MiB or GiB */
    OPTION_TEXT    /* --name TEXT: const char *, which points into argv */
};

struct option_row {
    const char *name; /* NULL: end of the table */
    enum option_kind kind;
    void *target;
    const char *help;
};

/* Store the values of the given options in their targets. `--help` prints the rows and exits with status 0. An
 * unknown option prints one line and exits with status 2. */
void options_parse(int argc, char **argv, const struct option_row *rows, const char *summary);

#endif
