/* Shared by the files of this folder. */
#ifndef GWI_CONFIG_H
#define GWI_CONFIG_H

#include "gw_config.h"

/* Return the line of the last key with this name in a JSON text that json-c accepts, 0 if it is not there. `name`:
 * "a.b" is the member "b" of the object "a" at the top. A key with an escape is not found. */
unsigned gwi_config_line(const char *text, size_t bytes, const char *name);
/* Return the number of bytes of blanks and comments from `at` on. */
size_t gwi_config_blank(const char *text, size_t bytes, size_t at);

/* Errors that are listed. The others are only counted. */
enum { GWI_CONFIG_ERRORS_MAX = 20 };
/* Add a line to `errors`. Control characters become '?'. */
__attribute__((format(printf, 2, 3))) void gwi_config_complain(gw_config *config, const char *format, ...);

#endif
