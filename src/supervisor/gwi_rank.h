/* The rank of a process in a distributed run, from the environment variables of its launcher. */
#ifndef GWI_RANK_H
#define GWI_RANK_H

#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>

/* Find the rank in an environment with the format of /proc/PID/environ: NAME=value, each with a final NUL. Appends
 * "rank=3 of=8 local=1 by=RANK" to `text`, without the parts that are not known; `by` is last. TF_CONFIG also gives
 * "task=worker". If there are several launchers, the innermost one counts. False: none was found, nothing is appended.
 */
bool gwi_rank_find(const char *environment, size_t bytes, gw_text *text);

#endif
