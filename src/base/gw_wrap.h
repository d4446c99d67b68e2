/* Wrap text at a given width. */
#ifndef GW_WRAP_H
#define GW_WRAP_H

#include "gw_text.h"

/* Return the number of columns of a string. A UTF-8 sequence is one column, which suffices for our texts. */
unsigned gw_columns(const char *string, size_t bytes);

/* Append the words of `body`, beginning at column `at`, and a line break. A line has at most `width` columns, but a
 * longer word is not broken, because users could not copy a broken path. Later lines are indented by `indent`. Returns
 * the number of lines on a terminal of that width. */
unsigned gw_add_wrapped(gw_text *text, const char *body, unsigned at, unsigned indent, unsigned width);

#endif
