/* Versions as numbers with dots: "525.60.13", "12.4", "8.3.2.44". They compare as integers. Missing parts are 0, so
 * "12.4" and "12.4.0" are equal. 0 means "not known". */
#ifndef GW_VERSION_H
#define GW_VERSION_H

#include <stdbool.h>
#include <stdint.h>

typedef uint64_t gw_version; /* four parts of 16 bits, the first one in the highest bits */

/* Parse one to four parts, each below 65536. Parsing stops at the first character that is not part of the version.
 * False: there is no number at `text`, a part is too large, or there are too many parts; *ret_version is then
 * unchanged. If `ret_end` is not NULL, it is set to the rest of the text; if it is NULL, any rest is an error. */
bool gw_version_parse(const char *text, gw_version *ret_version, const char **ret_end);
/* Build a version from three parts; the fourth is 0. Only the low 16 bits of each part are used. */
gw_version gw_version_of(unsigned major, unsigned minor, unsigned patch);
/* Return one part of a version, 0 for an index above 3. */
unsigned gw_version_part(gw_version version, unsigned index); /* 0: major */

/* Format as "12.4" or "8.9.2.26": at least two parts, and further ones up to the last that is not 0. "?" for 0. Do NOT
 * use this for driver versions, which are written with leading zeros: keep their text. Writes to `out` and returns
 * it. */
enum { GW_VERSION_TEXT_MAX = 24 };
char *gw_version_text(char out[GW_VERSION_TEXT_MAX], gw_version version);

#endif
