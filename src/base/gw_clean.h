/* Make strings of unknown origin safe to print. Every string from a file, a process or a name must pass one of these
 * functions before it is written to a terminal or a JSON text. */
#ifndef GW_CLEAN_H
#define GW_CLEAN_H

#include "gw_text.h"

/* Append `string`, with '?' in place of every control character and every byte that is not valid UTF-8. Otherwise, a
 * string from the program's arguments or stderr could control the user's terminal. */
void gw_add_printable(gw_text *text, const char *string);

/* Append `string` as valid UTF-8. Invalid bytes become U+FFFD. Control characters stay, because JSON escapes them. */
void gw_add_utf8(gw_text *text, const char *string);

#endif
