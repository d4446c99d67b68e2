/* Reads from a model what its ranks did last with NCCL, and where they stand. */
#ifndef GWI_RANKS_H
#define GWI_RANKS_H

#include "gwi_cause.h"

/* List the processes of the run that have a rank or used NCCL, except those that their launcher started again later.
 * With `with_places`, call sites are resolved, which may be slow. The index of a process in `ret_ranks` follows the
 * order of the model. Free the result with gw_ranks_free(). Returns false if there is no memory. */
bool gwi_ranks_of(const gwi_case *c, bool with_places, gw_ranks *ret_ranks);

/* Find the rank that keeps others waiting, and judge it instead of c->process: sets `ranks`, `stall` and `process`. An
 * error that came before, of a rank or of a process that a rank started, keeps its own verdict. Returns false if there
 * is no memory. */
bool gwi_ranks_find_stall(gwi_case *c);

#endif
