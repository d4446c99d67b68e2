/* The live bytes of each group of a model. All groups of a process that have live bytes are found without a look at the
 * groups of other processes. */
#ifndef GWI_ALIVE_H
#define GWI_ALIVE_H

#include "gw_model_facts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gwi_alive {
    uint64_t *bytes; /* owned; live bytes of each group */
    uint32_t *next;  /* owned; the next group in the list of its process; 0: the group is in no list */
    uint32_t *slot;  /* owned; index in `pid` and `first` of each group */
    uint32_t *pid;   /* owned; ascending */
    uint32_t *first; /* owned; first group in the list of each pid */
    size_t group_count, pid_count;
    uint64_t steps; /* number of groups that were read from lists, for tests */
} gwi_alive;

/* Prepare for the groups of `model`, without live bytes. Returns false, with an empty result, if there is no memory. */
bool gwi_alive_start(const gw_model *model, gwi_alive *ret_alive);
void gwi_alive_free(gwi_alive *alive);
/* Add to the live bytes of a group, or subtract from them. A sum never wraps. Groups that are not known are ignored. */
void gwi_alive_change(gwi_alive *alive, uint32_t group, uint64_t bytes, bool made);
/* Take one group of the process, and set its bytes to 0. Returns its index, and its bytes in *ret_bytes, which may be
 * 0. Returns 0 if none is left. */
uint32_t gwi_alive_take(gwi_alive *alive, uint32_t pid, uint64_t *ret_bytes);

#endif
