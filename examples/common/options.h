/* Parse command-line options of small programs from a table with one row per option. `--help` is generated from the
 * rows. */
#ifndef EXAMPLE_OPTIONS_H
#define EXAMPLE_OPTIONS_H

enum option_kind {
    OPTION_FLAG,   /* --name; the target is an int, which is set to 1 */
    OPTION_NUMBER, /* --name N, with an optional suffix K, M, G, T, KiB, MiB, GiB or TiB; the target is a long long */
    OPTION_TEXT    /* --name TEXT; the target is a const char *, which is set to a string of argv */
};

struct option_row {
    const char *name; /* NULL ends the table */
    enum option_kind kind;
    void *target;
    const char *help;
};

/* Store the values of the given options in their targets. `--help` prints the rows and exits with status 0. A wrong
 * option or value prints a line on stderr and exits with status 2. */
void options_parse(int argc, char **argv, const struct option_row *rows, const char *summary);

#endif
