/* Strings of unknown origin, made safe to print. Whatever comes from a file, a process or a name goes through one of
 * these functions before it reaches a terminal or a JSON text. */
#ifndef GW_CLEAN_H
#define GW_CLEAN_H

#include "gw_text.h"

/* Add `string`, with '?' for every control character and every invalid UTF-8 byte. The string may come from the
 * program's arguments or its stderr, and must not control the user's terminal. */
void gw_add_printable(gw_text *text, const char *string);

/* Add `string` as valid UTF-8. Invalid bytes become U+FFFD. Control characters stay, because JSON escapes them. */
void gw_add_utf8(gw_text *text, const char *string);

#endif
