/* Finds the rank of a process in a distributed run, from the environment variables of its launcher. */
#ifndef GWI_RANK_H
#define GWI_RANK_H

#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>

/* Find the rank in an environment in the format of /proc/PID/environ: NAME=value strings, each with a final NUL.
 * Appends text such as "rank=3 of=8 local=1 by=RANK" to `text`, without the parts that are unknown. `by` names the
 * variable from which the rank was read, and is always the last part. TF_CONFIG also yields "task=worker". If several
 * launchers set variables, the innermost launcher is used. Returns false and appends nothing if there is no rank. */
bool gwi_rank_find(const char *environment, size_t bytes, gw_text *text);

#endif
