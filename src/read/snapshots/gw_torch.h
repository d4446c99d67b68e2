/* Read PyTorch's saved memory snapshots: the files of torch.cuda.memory._dump_snapshot(), since PyTorch 1.12.
 *
 * A snapshot is a pickle of plain data: the allocator's segments with their blocks, and a history of allocations and
 * frees per device. Entries have stacks if the program requested them. What a version does not store is unknown, never
 * zero. The snapshot becomes the same facts that the observer of a recorded run writes. */
#ifndef GW_TORCH_H
#define GW_TORCH_H

#include "gw_model.h"
#include "gw_status.h"

#include <stdbool.h>

/* True if the file starts like a pickle; gw_torch_snapshot_model() checks whether it is a snapshot. False if the file
 * cannot be read. */
bool gw_torch_is_snapshot(const char *path);

/* Read the snapshot into a finished model, which the caller owns. Times are nanoseconds since the oldest history entry
 * of all devices. Returns GW_OK, GW_IO, GW_CORRUPT, GW_UNSUPPORTED or GW_NOMEM. On failure, `err` names the file, the
 * place and the reason, and *ret_model is unchanged. */
GW_MUST_CHECK gw_status gw_torch_snapshot_model(const char *path, gw_model **ret_model, gw_error *err);

#endif
