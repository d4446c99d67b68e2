/* Wrapping of text at the width of a screen. */
#ifndef GW_WRAP_H
#define GW_WRAP_H

#include "gw_text.h"

/* Number of columns of a string. A UTF-8 sequence counts as one column, which is good enough for our texts. */
unsigned gw_columns(const char *string, size_t bytes);

/* Append the words of `body` from column `at` on, then a line break. A line is at most `width` columns long; further
 * lines are indented by `indent` blanks. Words longer than a line are not broken, because a broken path cannot be
 * copied. Returns the number of lines that a terminal of that width shows. */
unsigned gw_add_wrapped(gw_text *text, const char *body, unsigned at, unsigned indent, unsigned width);

#endif
