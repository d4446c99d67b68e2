/* PyTorch's saved memory snapshots: the files of torch.cuda.memory._dump_snapshot().
 *
 * Such a file is a pickle of plain data: the allocator's segments with their blocks, and per device a history of what
 * was allocated and freed, each entry with its stack where the program asked for stacks. Read for PyTorch 1.12 and
 * later; what a version lacks (times, stacks, requested sizes, whole histories) is unknown, never zero.
 *
 * The snapshot becomes the same facts that the observer inside a recorded run would have written, so that model and
 * verdicts need not know where they come from. */
#ifndef GW_TORCH_H
#define GW_TORCH_H

#include "gw_model.h"
#include "gw_status.h"

#include <stdbool.h>

/* Does the file begin like a pickle? Then it is one for gw_torch_snapshot_model(), or for nobody. */
bool gw_torch_is_snapshot(const char *path);

/* Read the snapshot into a finished model, the caller's. Times are ns since the oldest entry of any device's history.
 * GW_IO, GW_CORRUPT, GW_UNSUPPORTED, GW_NOMEM: `err` names file, place and reason; *ret_model is untouched. */
GW_MUST_CHECK gw_status gw_torch_snapshot_model(const char *path, gw_model **ret_model, gw_error *err);

#endif
