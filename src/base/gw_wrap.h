/* Wrap text at a given width. */
#ifndef GW_WRAP_H
#define GW_WRAP_H

#include "gw_text.h"

/* Return the number of columns of a string. A UTF-8 sequence counts as one column, which suffices for our texts. */
unsigned gw_columns(const char *string, size_t bytes);

/* Append the words of `body`, beginning at column `at`, and then a line break. A line is at most `width` columns long,
 * and the second and later lines are indented by `indent` blanks. A word longer than a line is not broken, because
 * users could not copy a broken path. Returns the number of lines that a terminal of that width shows. */
unsigned gw_add_wrapped(gw_text *text, const char *body, unsigned at, unsigned indent, unsigned width);

#endif
