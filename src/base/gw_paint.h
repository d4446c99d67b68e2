/* Colours for text on a terminal: one table of roles (paint.c).
 *
 * Lay the text out first and paint it afterwards. Then escape sequences never count as columns, and a text without
 * colours has the same bytes as before. Clean foreign text (gw_clean.h) before it is painted. Any thread may call the
 * functions. */
#ifndef GW_PAINT_H
#define GW_PAINT_H

#include "gw_text.h"

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
