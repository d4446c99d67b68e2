/* Finds the rank of a process in a distributed run, from the environment variables of its launcher
 * (gw_rank_variables.h, in which the sources are). Any thread may call the functions. */
#ifndef GW_RANK_H
#define GW_RANK_H

#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Find the process's rank in `environment`, which has the format of /proc/PID/environ. Appends text such as "rank=3
 * of=8 local=1 by=RANK" to `text`, "restart=2" from torchrun, and "task=worker" from TF_CONFIG. Unknown parts are
 * omitted. `by` is always there, and names the variable with the rank.
 *
 * Of several launchers, the innermost one wins. Returns false and appends nothing if there is no rank. */
bool gw_rank_find(const char *environment, size_t bytes, gw_text *text);

/* The same for the environment with which process `pid` was started. Also false if the process has ended, or is not
 * readable for this user. */
bool gw_rank_of_process(uint32_t pid, gw_text *text);

/* Return the value of a variable in `environment`. Returns NULL if it is not set, or if it is cut. */
const char *gw_environment_value(const char *environment, size_t bytes, const char *name);

#endif
