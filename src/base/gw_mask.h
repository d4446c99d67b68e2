/* Keeps secrets out of recordings and verdicts. Secrets can be in the program's arguments, environment and output.
 *
 * In arguments, every value of a secret name is masked. In text, "key" and "token" are ordinary words. There, only
 * passwords and random-looking values are masked. */
#ifndef GW_MASK_H
#define GW_MASK_H

#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>

/* the text that replaces a secret */
#define GW_MASKED "***"

/* True if the name suggests a secret. Examples: one of its words ends in token, key, secret or password, or is
 * auth, pass or pat. */
bool gw_name_is_secret(const char *name);

/* Append argv[index] with these secrets masked:
 * - values of arguments with secret names, even inside JSON and `sh -c` commands;
 * - passwords and signatures in URLs;
 * - tokens of known forms.
 * argv[0] decides whether -pVALUE is a password. argv[index - 1] is needed for `--token VALUE`. */
void gw_mask_argument(gw_text *text, char *const *argv, int index);

/* Append `text`, which a program wrote, and mask everything in it that looks like a secret. */
void gw_mask_text(gw_text *out, const char *text, size_t bytes);

/* True if this environment variable may be recorded, because a framework, the driver or a scheduler reads it. */
bool gw_environment_is_recorded(const char *name);

#endif
