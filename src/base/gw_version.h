/* Versions as numbers with dots: "525.60.13", "12.4", "8.3.2.44". They compare as integers: what is not written is 0,
 * so "12.4" and "12.4.0" are the same. 0 is "not known". */
#ifndef GW_VERSION_H
#define GW_VERSION_H

#include <stdbool.h>
#include <stdint.h>

typedef uint64_t gw_version; /* four parts of 16 bits, the first one highest */

/* One to four parts, each below 65536, up to the first character that belongs to none. False: there is no number at
 * `text`, a part or the count is too large; then *ret_version is untouched. `ret_end` may be NULL; else it is set to
 * what follows, and without it anything that follows is an error. */
bool gw_version_parse(const char *text, gw_version *ret_version, const char **ret_end);
gw_version gw_version_of(unsigned major, unsigned minor, unsigned patch);
unsigned gw_version_part(gw_version version, unsigned index); /* 0: major */

/* "12.4", "8.9.2.26": at least two parts, later ones up to the last that is not 0. "?" for 0. NOT for drivers, which
 * write 0 in front of single digits: keep their text. */
enum { GW_VERSION_TEXT_MAX = 24 };
char *gw_version_text(char out[GW_VERSION_TEXT_MAX], gw_version version);

#endif
