/* Print lines on stderr and text on stdout. Control characters become '?', because the text may come from other
 * programs. Call gw_print(), gw_print_words() and gw_put() from one thread. */
#ifndef GW_SAY_H
#define GW_SAY_H

#include "gw_text.h"

/* Print one line on stderr, with "gpuwhy: " in front. If the line cannot be written, it is lost. */
__attribute__((format(printf, 1, 2))) void gw_say(const char *format, ...);

/* Print text on stdout. Newlines in it are kept. */
__attribute__((format(printf, 1, 2))) void gw_print(const char *format, ...);
/* Print a part of a line on stdout. Newlines in it become '?', so that a name cannot pretend to be a line of ours. */
__attribute__((format(printf, 1, 2))) void gw_print_words(const char *format, ...);
/* Print text on stdout as it is, with control characters. */
void gw_put(const char *text);

/* Return the error number of the first failure of gw_print() or gw_put(); 0: none. stdout itself forgets it. */
int gw_print_errno(void);

/* Colours for text on a terminal: one table of roles.
 *
 * Lay the text out first and paint it afterwards. Then escape sequences never count as columns, and a text without
 * colours has the same bytes as before. Clean foreign text (gw_text.h) before it is painted. Any thread may call the
 * functions. */

/* What a piece of text means to the reader. */
typedef enum gw_role {
    GW_ROLE_PLAIN,   /* no escape sequence */
    GW_ROLE_FAILED,  /* red */
    GW_ROLE_WARNING, /* yellow: not certain, not known, or a risk */
    GW_ROLE_GOOD,    /* green */
    GW_ROLE_PLACE,   /* cyan: file and line */
    GW_ROLE_STRONG,  /* bold: labels, names that head a text */
    GW_ROLE_DIM,     /* dim: what most readers can skip */
    GW_ROLE_COUNT
} gw_role;

/* Return the escape sequence that begins a role: "" for GW_ROLE_PLAIN. The string is static. */
const char *gw_role_begin(gw_role role);
/* Return the escape sequence that ends a role: "" for GW_ROLE_PLAIN. The string is static. */
const char *gw_role_end(gw_role role);

/* Paint what was appended to `text` since it had `from` bytes. Escape sequences do not cross line ends, and do not
 * include the blanks at the beginning of a line. `text` is unchanged if the role is GW_ROLE_PLAIN, or if memory runs
 * out. */
void gw_paint(gw_text *text, size_t from, gw_role role);

/* Like gw_paint(), but paint only the part that corresponds to the first `bytes` bytes of `what`. The text since `from`
 * must begin with these bytes, apart from blanks and line ends: it may have been wrapped. */
void gw_paint_begin(gw_text *text, size_t from, const char *what, size_t bytes, gw_role role);

/* Append `painted` to `text` without the escape sequences of this header. */
void gw_paint_remove(const char *painted, gw_text *text);

#endif
