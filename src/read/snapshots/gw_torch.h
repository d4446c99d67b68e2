/* Read what other programs save: PyTorch's memory snapshots (the files of torch.cuda.memory._dump_snapshot(), since
 * PyTorch 1.12), and files about the ranks of a job.
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

/* The files that other programs saved about the ranks of a job:
 * - FLIGHT: a Flight Recorder dump of PyTorch, as a pickle or as JSON. PyTorch writes one for each rank when a
 *   collective times out; it lists the last calls of each process group (torch/csrc/distributed/c10d, format 2).
 * - STACKS: what `py-spy dump` printed about one process or several, as text or as JSON
 * - RAS: an answer of NCCL's RAS (gw_ras.h) */
typedef enum gw_saved_kind { GW_SAVED_NONE, GW_SAVED_FLIGHT, GW_SAVED_STACKS, GW_SAVED_RAS } gw_saved_kind;
/* Look at the beginning of a file. NONE also if it cannot be read, and for a FIFO. */
gw_saved_kind gw_saved_kind_of(const char *path);

/* Read such files into one finished model, with one process for each rank.
 *
 * The digits at the end of a dump's name are its rank, as PyTorch writes it; in the name of a file of py-spy, those
 * after "rank", else the last ones if they are not the process's pid. A file of py-spy with several processes, besides
 * those that load data, has no ranks. Several dumps of a process, the oldest first, may be in one file or in several.
 * The communicators have the calls that became one NCCL call; others, such as grouped ones, only count. Times are ns
 * since the oldest call in any dump, and as wrong as the hosts' clocks.
 *
 * A file that cannot be used is skipped: `skip` gets one line, with its path and the reason. If no file is left, the
 * last reason is the error. The caller owns the model. Errors are those of gw_torch_snapshot_model(); GW_USAGE: two
 * Flight Recorder dumps are of the same rank. */
typedef void gw_saved_skip(void *user, const char *why);
GW_MUST_CHECK gw_status gw_saved_model(const char *const *path, size_t count, gw_saved_skip *skip, void *user,
                                       gw_model **ret_model, gw_error *err);

/* Add the Flight Recorder dumps that a recording names (fact torch.flight) to its model: the communicators of ranks
 * whose calls of NCCL were not recorded. Call it between gw_model_read() and gw_model_finish(). A dump that has
 * changed, that cannot be read, or that another user's recording names, is ignored. Errors: GW_NOMEM. */
GW_MUST_CHECK gw_status gw_torch_flights_add(gw_model *model, gw_error *err);

/* Read the snapshot, or one dump, into a finished model, which the caller owns. Times are nanoseconds since the oldest
 * history entry of all devices. Returns GW_OK, GW_IO, GW_CORRUPT, GW_UNSUPPORTED or GW_NOMEM. On failure, `err` names
 * the file, the place and the reason, and *ret_model is unchanged. */
GW_MUST_CHECK gw_status gw_torch_snapshot_model(const char *path, gw_model **ret_model, gw_error *err);

#endif
