/* Store versions such as "525.60.13", "12.4" and "8.3.2.44" in one integer, so that they compare as integers. Missing
 * parts are 0, so "12.4" and "12.4.0" are equal. 0 means "not known". */
#ifndef GW_VERSION_H
#define GW_VERSION_H

#include <stdbool.h>
#include <stdint.h>

typedef uint64_t gw_version; /* four parts of 16 bits, the first one in the highest bits */

/* Parse one to four parts, each below 65536. Parsing stops at the first character that is not part of the version.
 * Returns false if `text` does not begin with a number, if a part is too large or if there are too many parts;
 * *ret_version is then unchanged. If `ret_end` is not NULL, it is set to the text after the version. If it is NULL, any
 * text after the version is an error. */
bool gw_version_parse(const char *text, gw_version *ret_version, const char **ret_end);
/* Build a version from three parts; the fourth is 0. Only the low 16 bits of each part are used. */
gw_version gw_version_of(unsigned major, unsigned minor, unsigned patch);
/* Return one part of a version, or 0 if `index` is above 3. */
unsigned gw_version_part(gw_version version, unsigned index); /* `index` 0: major version */

/* Format a version as "12.4" or "8.9.2.26": two to four parts, without zeros at the end beyond the second part. A
 * version of 0 becomes "?". Do not use this for driver versions, whose parts can have leading zeros: keep their text
 * instead. Writes to `out` and returns `out`. */
enum { GW_VERSION_TEXT_MAX = 24 };
char *gw_version_text(char out[GW_VERSION_TEXT_MAX], gw_version version);

#endif
