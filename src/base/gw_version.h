/* Store versions such as "525.60.13", "12.4" and "8.3.2.44" in one integer that can be compared. Missing parts are 0,
 * so "12.4" equals "12.4.0". 0 means "not known". */
#ifndef GW_VERSION_H
#define GW_VERSION_H

#include <stdbool.h>
#include <stdint.h>

typedef uint64_t gw_version; /* four parts of 16 bits, the first one in the highest bits */

/* Parse one to four parts, each below 65536. *ret_end is set to the text after the version. If `ret_end` is NULL, text
 * after the version is an error. Returns false, with *ret_version unchanged, if:
 * - `text` does not begin with a number;
 * - a part is too large, or there are too many parts. */
bool gw_version_parse(const char *text, gw_version *ret_version, const char **ret_end);
/* Build a version from three parts; the fourth is 0. Only the low 16 bits of each part are used. */
gw_version gw_version_of(unsigned major, unsigned minor, unsigned patch);
/* Return one part of a version, or 0 if `index` is above 3. */
unsigned gw_version_part(gw_version version, unsigned index); /* `index` 0: major version */

/* Format a version as "12.4" or "8.9.2.26": two to four parts, or "?" for 0. Returns `out`. Do not use this for driver
 * versions, whose parts can have leading zeros: keep their text. */
enum { GW_VERSION_TEXT_MAX = 24 };
char *gw_version_text(char out[GW_VERSION_TEXT_MAX], gw_version version);

#endif
