/* What a recording knows of PyTorch's allocator, as the input of a replay (gw_replay.h). */
#ifndef GW_MODEL_REPLAY_H
#define GW_MODEL_REPLAY_H

#include "gw_allocator_facts.h"
#include "gw_model_facts.h"
#include "gw_replay.h"
#include "gw_status.h"

/* Return the report of the model that a replay should end with: the last one about memory that was refused, or the last
 * one with allocations. Returns NULL if there is no report. */
const gw_allocator_report *gw_model_replay_report(const gw_model *model);

/* Make the input of a replay of all allocations up to the report, which must belong to the finished model. The caller
 * frees it with gw_replay_input_free(). GW_MISSING: the recording lacks something, and `err` says what, as the end of a
 * sentence like "no replay: ...". GW_UNSUPPORTED: the program used another allocator. GW_CORRUPT: the recording
 * contradicts itself. Otherwise GW_NOMEM. Unless GW_OK, *ret_input is not changed. One thread at a time. */
GW_MUST_CHECK gw_status gw_model_replay_input(const gw_model *model, const gw_allocator_report *report,
                                              gw_replay_input *ret_input, gw_error *err);

/* Find the bytes of PyTorch's segments in which nothing is live: torch.cuda.empty_cache() returns these to the driver.
 * `snapshot` is the ledger at the time of the report. Returns false if they are not known: some blocks or segments were
 * not recorded, or PyTorch uses expandable segments. Unless true, *ret_bytes is not changed. */
bool gw_model_empty_segments(const gw_model *model, const gw_allocator_report *report, const gw_snapshot *snapshot,
                             uint64_t *ret_bytes);

/* Find the events of the input at which the process's phases begin: before each of them a program could release the
 * cache. The first phase is left out, because nothing is cached yet. The caller frees the array. Returns NULL, with
 * *ret_count 0, if there are none. */
size_t *gw_model_replay_phases(const gw_model *model, const gw_allocator_report *report, const gw_replay_input *input,
                               size_t *ret_count);

#endif
