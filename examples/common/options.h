/* Command-line options for small programs: one row an option, `--help` comes out of the rows. */
#ifndef EXAMPLE_OPTIONS_H
#define EXAMPLE_OPTIONS_H

enum option_kind {
    OPTION_FLAG,   /* --name: int, set to 1 */
    OPTION_NUMBER, /* --name N: long long; K, M, G or KiB, MiB, GiB may follow */
    OPTION_TEXT    /* --name TEXT: const char *, borrowed from argv */
};

struct option_row {
    const char *name; /* NULL ends the table */
    enum option_kind kind;
    void *target;
    const char *help;
};

/* Fill the targets. `--help` prints the rows and exits 0; anything that no row knows exits 2 with one line. */
void options_parse(int argc, char **argv, const struct option_row *rows, const char *summary);

#endif
