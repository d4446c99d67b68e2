/* Keeps secrets out of recordings and verdicts: in the program's arguments and environment, and in text that it wrote.
 *
 * What is hidden depends on the name before a value and on the value's form. In arguments, every value of a secret name
 * is hidden; in text, where "key" and "token" are ordinary words, only values that look random are, and passwords. */
#ifndef GW_MASK_H
#define GW_MASK_H

#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>

/* Replaces a secret. */
#define GW_MASKED "***"

/* True if the name suggests a secret: one of its words ends in token, key, secret, password, or is auth, pass, pat, ...
 */
bool gw_name_is_secret(const char *name);

/* Add argv[index] with secrets masked: values of arguments with such names, in JSON and in commands of `sh -c` too,
 * passwords and signatures in URLs, tokens of known forms. argv[0] and argv[index - 1] are needed for -pVALUE and for
 * `--token VALUE`. */
void gw_mask_argument(gw_text *text, char *const *argv, int index);

/* Add text that a program wrote, with what looks like a secret masked. */
void gw_mask_text(gw_text *out, const char *text, size_t bytes);

/* True if this environment variable is recorded: it is one that frameworks, driver or scheduler read. */
bool gw_environment_is_recorded(const char *name);

#endif
