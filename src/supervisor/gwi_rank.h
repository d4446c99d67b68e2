/* Which of its fellows a process is: the rank that a launcher gave it by environment variables. */
#ifndef GWI_RANK_H
#define GWI_RANK_H

#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>

/* Find the rank in an environment as /proc/PID/environ has it: NAME=value, each ending with a NUL. Appends
 * "rank=3 of=8 local=1 by=RANK" to `text`; what is not known is left out, `by` comes last. TF_CONFIG also has
 * "task=worker". False: no launcher said anything, nothing is appended. Of several launchers the innermost counts. */
bool gwi_rank_find(const char *environment, size_t bytes, gw_text *text);

#endif
