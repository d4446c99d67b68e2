/* Read PyTorch's saved memory snapshots: the files of torch.cuda.memory._dump_snapshot().
 *
 * Such a file is a pickle of plain data. It contains the allocator's segments with their blocks, and for each device a
 * history of allocations and frees. If the program requested stacks, each history entry has a stack. PyTorch 1.12 and
 * later are supported. Data that a version does not store (times, stacks, requested sizes, whole histories) is unknown,
 * never zero.
 *
 * The snapshot is converted to the same facts that the observer of a recorded run would have written. The model and the
 * verdicts therefore do not depend on the source. */
#ifndef GW_TORCH_H
#define GW_TORCH_H

#include "gw_model.h"
#include "gw_status.h"

#include <stdbool.h>

/* True if the file starts like a pickle. gw_torch_snapshot_model() checks whether the pickle is a snapshot. Returns
 * false also if the file cannot be read. */
bool gw_torch_is_snapshot(const char *path);

/* Read the snapshot into a finished model, which the caller owns. Times are nanoseconds since the oldest entry in the
 * histories of all devices. Returns GW_OK, GW_IO, GW_CORRUPT, GW_UNSUPPORTED or GW_NOMEM. On failure `err` names the
 * file, the place and the reason, and *ret_model is unchanged. */
GW_MUST_CHECK gw_status gw_torch_snapshot_model(const char *path, gw_model **ret_model, gw_error *err);

#endif
