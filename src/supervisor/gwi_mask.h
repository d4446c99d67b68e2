/* Secrets kept out of the recording: what is said of the program's arguments and environment. */
#ifndef GWI_MASK_H
#define GWI_MASK_H

#include "gw_text.h"

#include <stdbool.h>

/* What stands where a secret stood. */
#define GWI_MASKED "***"

/* Whether something of this name holds a secret: one of its words ends in token, key, secret, password, ... */
bool gwi_name_is_secret(const char *name);

/* Add argv[index] as it may be recorded: values of arguments named like secrets, and passwords in URLs, masked.
 * argv[index - 1] is looked at too, for `--token VALUE`. */
void gwi_mask_argument(gw_text *text, char *const *argv, int index);

/* Whether this environment variable is recorded at all: what frameworks, driver and scheduler read. */
bool gwi_environment_is_recorded(const char *name);

#endif
