/* Keeps secrets in the program's arguments and environment out of the recording. */
#ifndef GW_MASK_H
#define GW_MASK_H

#include "gw_text.h"

#include <stdbool.h>

/* Replaces a secret. */
#define GW_MASKED "***"

/* True if the name suggests a secret: one of its words ends in token, key, secret, password, ... */
bool gw_name_is_secret(const char *name);

/* Add argv[index] with secrets masked: values of arguments with such names, and passwords in URLs. argv[index - 1] is
 * needed for `--token VALUE`. */
void gw_mask_argument(gw_text *text, char *const *argv, int index);

/* True if this environment variable is recorded: it is one that frameworks, driver or scheduler read. */
bool gw_environment_is_recorded(const char *name);

#endif
