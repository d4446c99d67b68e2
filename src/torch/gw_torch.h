/* PyTorch's saved memory snapshots: the files of torch.cuda.memory._dump_snapshot().
 *
 * Such a file is a pickle of plain data: the allocator's segments with their blocks, and for each device a history of
 * allocations and frees, with the stack of each entry if the program requested stacks. Supports PyTorch 1.12 and later.
 * Data that a version does not store (times, stacks, requested sizes, whole histories) is unknown, never zero.
 *
 * The snapshot is converted to the same facts that the observer of a recorded run would have written, so that model and
 * verdicts do not depend on the source. */
#ifndef GW_TORCH_H
#define GW_TORCH_H

#include "gw_model.h"
#include "gw_status.h"

#include <stdbool.h>

/* Return whether the file starts like a pickle. Such a file can only be one for gw_torch_snapshot_model(). False also
 * if it cannot be read. */
bool gw_torch_is_snapshot(const char *path);

/* Read the snapshot into a finished model, which the caller owns. Times are ns since the oldest entry of any device's
 * history. GW_IO, GW_CORRUPT, GW_UNSUPPORTED, GW_NOMEM: `err` names file, place and reason; *ret_model is unchanged. */
GW_MUST_CHECK gw_status gw_torch_snapshot_model(const char *path, gw_model **ret_model, gw_error *err);

#endif
