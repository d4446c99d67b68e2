/* Make strings of unknown origin safe to print. Pass every string from a file, a process or a name through one of these
 * functions before printing it. */
#ifndef GW_CLEAN_H
#define GW_CLEAN_H

#include "gw_text.h"

/* Append `string`, with '?' for control characters and invalid UTF-8. Otherwise, a program's arguments or stderr could
 * control the user's terminal. */
void gw_add_printable(gw_text *text, const char *string);

/* Append `string` as valid UTF-8. Invalid bytes become U+FFFD. Control characters stay, because JSON escapes them. */
void gw_add_utf8(gw_text *text, const char *string);

#endif
