/* The values that an option or a word can have, for the completion of a shell.
 *
 * The table of options names the argument of an option: "FILE", "auto|always|never", "real|virtual:CARD[,..]". Each
 * part between two `|` is a value if it has no capital letters. A part with a name of the table in values.c stands for
 * a list, possibly after a beginning such as `virtual:`. All other parts are free text. */
#ifndef GWI_VALUES_H
#define GWI_VALUES_H

#include "gw_text.h"

/* What a shell completes by itself. */
typedef enum gwi_values_shell {
    GWI_VALUES_NOTHING,
    GWI_VALUES_FILES,
    GWI_VALUES_RECORDINGS, /* files that end in .gpuwhy */
    GWI_VALUES_FOLDERS,
    GWI_VALUES_PROGRAM /* a program, or, as words, a program and its arguments */
} gwi_values_shell;

/* A list of values under construction. */
typedef struct gwi_values {
    gw_text *text;          /* receives one line for each value: value, tab, meaning */
    const char *before;     /* the value is part of a word and follows this: "--gpu=" */
    const char *typed;      /* only values that begin with this are added */
    gwi_values_shell shell; /* what the shell adds */
} gwi_values;

/* Append a value if it begins with values->typed. `meaning` may be NULL. */
void gwi_values_add(gwi_values *values, const char *value, const char *meaning);
/* Append all values of an argument. */
void gwi_values_add_argument(gwi_values *values, const char *argument);

#endif
