/* Shared inside out/: foreign strings made harmless. */
#ifndef GWI_OUT_H
#define GWI_OUT_H

#include "gw_text.h"

/* Add `string` with every control character and every byte that is not part of valid UTF-8 replaced by '?': it may
 * come from the program's arguments or its stderr, and must not steer the reader's terminal. */
void gwi_add_printable(gw_text *text, const char *string);

/* Add `string` as valid UTF-8: wrong bytes become U+FFFD, control characters stay (JSON escapes them). */
void gwi_add_utf8(gw_text *text, const char *string);

/* Bytes of the well-formed UTF-8 sequence at `string`; 0: there is none. */
size_t gwi_utf8_length(const char *string);

#endif
