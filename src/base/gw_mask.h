/* Keep secrets out of recordings and verdicts. Secrets can be in the program's arguments, in its environment and in
 * the text that it wrote.
 *
 * The name before a value and the form of the value decide what is masked. In arguments, every value of a secret name
 * is masked. In text, "key" and "token" are ordinary words, so only passwords and values that look random are masked
 * there. */
#ifndef GW_MASK_H
#define GW_MASK_H

#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>

/* the text that replaces a secret */
#define GW_MASKED "***"

/* True if the name suggests a secret: one of its words ends in token, key, secret or password, or is auth, pass or pat,
 * for example. The full lists are in mask.c. */
bool gw_name_is_secret(const char *name);

/* Append argv[index] with secrets masked: values of arguments with secret names (also inside JSON and `sh -c`
 * commands), passwords and signatures in URLs, and tokens of known forms. argv[0] is read to find out whether -pVALUE
 * is a password, and argv[index - 1] to recognise `--token VALUE`. */
void gw_mask_argument(gw_text *text, char *const *argv, int index);

/* Append `text`, which a program wrote, and mask everything in it that looks like a secret. */
void gw_mask_text(gw_text *out, const char *text, size_t bytes);

/* True if this environment variable may be recorded, because a framework, the driver or a scheduler reads it. */
bool gw_environment_is_recorded(const char *name);

#endif
