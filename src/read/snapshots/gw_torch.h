/* Read what PyTorch saves: memory snapshots (the files of torch.cuda.memory._dump_snapshot(), since PyTorch 1.12) and
 * Flight Recorder dumps.
 *
 * A snapshot is a pickle of plain data: the allocator's segments with their blocks, and a history of allocations and
 * frees per device. Entries have stacks if the program requested them. What a version does not store is unknown, never
 * zero. The snapshot becomes the same facts that the observer of a recorded run writes. */
#ifndef GW_TORCH_H
#define GW_TORCH_H

#include "gw_model.h"
#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>

/* True if the file starts like a pickle; gw_torch_snapshot_model() checks whether it is a snapshot or a dump. False if
 * the file cannot be read. */
bool gw_torch_is_snapshot(const char *path);

/* True if the file starts like a Flight Recorder dump: a pickle with the configuration of process groups. */
bool gw_torch_is_flight(const char *path);

/* Read Flight Recorder dumps, one for each rank, into a finished model with one process for each. PyTorch writes them
 * when a collective times out; they list the last calls of each process group (torch/csrc/distributed/c10d, format 2).
 * A dump does not contain its rank: the digits at the end of the file's name are the rank, as PyTorch writes it. The
 * communicators have the calls that became one NCCL call; others, such as grouped ones, only count. Times are ns since
 * the oldest call in any dump, and as wrong as the hosts' clocks.
 *
 * The caller owns the model. Errors are those of gw_torch_snapshot_model(); GW_USAGE: two files are of the same rank.
 */
GW_MUST_CHECK gw_status gw_torch_flight_model(const char *const *path, size_t count, gw_model **ret_model,
                                              gw_error *err);

/* Add the Flight Recorder dumps that a recording names (fact torch.flight) to its model: the communicators of ranks
 * whose calls of NCCL were not recorded. Call it between gw_model_read() and gw_model_finish(). A dump that has
 * changed, that cannot be read, or that another user's recording names, is ignored. Errors: GW_NOMEM. */
GW_MUST_CHECK gw_status gw_torch_flights_add(gw_model *model, gw_error *err);

/* Read the snapshot, or one dump, into a finished model, which the caller owns. Times are nanoseconds since the oldest
 * history entry of all devices. Returns GW_OK, GW_IO, GW_CORRUPT, GW_UNSUPPORTED or GW_NOMEM. On failure, `err` names
 * the file, the place and the reason, and *ret_model is unchanged. */
GW_MUST_CHECK gw_status gw_torch_snapshot_model(const char *path, gw_model **ret_model, gw_error *err);

#endif
