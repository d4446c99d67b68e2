#ifndef GWI_RAS_H
#define GWI_RAS_H

#include "gw_ras.h"

enum { GWI_RAS_RANKS_MAX = 1 << 20 };

/* Return the communicator with this hash, which is added if it is new. NULL: no memory, or too many. */
gw_ras_comm *gwi_ras_comm(gw_ras *ras, uint64_t hash);
/* Return the rank, which is added if it is new. NULL: no memory, or too many. */
gw_ras_rank *gwi_ras_rank(gw_ras_comm *comm, uint32_t rank);
/* Return the index of a kind by NCCL's name, such as "AllReduce"; GW_RAS_ALL for "collective"; -1 for others. */
int gwi_ras_kind(const char *name, size_t bytes);
GW_MUST_CHECK gw_status gwi_ras_read_json(const char *name, const char *text, size_t bytes, gw_ras *ras, gw_error *err);

#endif
