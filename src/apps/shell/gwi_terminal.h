/* Colours, the width of the terminal, and the pager: the only place that decides about them.
 *
 * Every command accepts the options of the table below (options.c parses them): --color and --no-pager, and --folder,
 * which only sets a key of the configuration. The state is one struct of the process. Use it from the main thread. */
#ifndef GWI_TERMINAL_H
#define GWI_TERMINAL_H

#include "gw_say.h"
#include "gw_status.h"

#include <stdbool.h>

#define GWI_COMMON_OPTIONS(X)                                                                                          \
    X(STRING, const char *, folder, "--folder", "DIR", NULL,                                                           \
      "folder of the recordings and of the list of runs; see gpuwhy config folder")                                    \
    X(STRING, const char *, color, "--color", "auto|always|never", NULL, "when to print colours [auto]")               \
    X(FLAG, bool, no_pager, "--no-pager", NULL, NULL, "do not start a pager for long text")

typedef struct gwi_common_settings {
    const char *folder; /* borrowed from argv; NULL: not given */
    const char *color;  /* borrowed from argv; NULL: auto */
    bool no_pager;
    bool is_brief; /* the help was asked for with -h */
} gwi_common_settings;

/* The settings of this process, which the options set. */
gwi_common_settings *gwi_common(void);
/* GW_USAGE: an option has a value that is not valid; `err` names it. */
GW_MUST_CHECK gw_status gwi_common_check(gw_error *err);

/* True if `fd` is a terminal. For standard output, this is true even while the pager collects the text. */
bool gwi_is_terminal(int fd);
/* Return the number of columns of the terminal `fd`; 0: not a terminal, or not known. */
unsigned gwi_terminal_width(int fd);
/* True if text for `fd` should have colours: --color decides, then the configuration. With auto, the text has colours
 * if `fd` is a terminal, TERM is set and not "dumb", and NO_COLOR is not set or empty. */
bool gwi_has_colour(int fd);

/* True if the terminal cannot move its cursor: TERM is "dumb", empty or not set. */
bool gwi_terminal_is_dumb(void);
/* Standard output is replaced, and its text will be shown on `terminal`, a descriptor of the caller's. -1: it is not
 * replaced any more. */
void gwi_terminal_replace(int terminal);
/* Return the descriptor on which text for `fd` is shown: `fd`, or the terminal behind standard output. */
int gwi_terminal_output(int fd);

/* ---- pager.c ---- */

/* Collect what is printed on standard output from now on. At the end of the process, show it with a pager if it is
 * longer than the screen; otherwise print it. Does nothing if standard output is not a terminal, or if the user wants
 * no pager. Further calls do nothing. */
void gwi_pager_begin(void);

#endif
