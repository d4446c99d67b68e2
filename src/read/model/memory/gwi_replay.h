/* The parts of gw_model_replay.h: the two sources of an input. */
#ifndef GWI_MODEL_REPLAY_H
#define GWI_MODEL_REPLAY_H

#include "gw_array.h"
#include "gw_model_replay.h"

/* Append an element to an array of the input. False: no memory. */
static inline bool gwi_replay_event_add(gw_replay_input *input, const gw_replay_event *event)
{
    if (!gw_array_more(&input->event, input->event_count, sizeof *event))
        return false;
    input->event[input->event_count++] = *event;
    return true;
}

static inline bool gwi_replay_step_add(gw_replay_input *input, const gw_replay_step *step)
{
    if (!gw_array_more(&input->step, input->step_count, sizeof *step))
        return false;
    input->step[input->step_count++] = *step;
    return true;
}

/* replay_input.c. True if the call site is in PyTorch's allocator. */
bool gwi_replay_is_torchs(const gw_model *model, uint32_t site);

/* replay_history.c. Fill the events and steps from PyTorch's memory history. A snapshot may have more entries than the
 * report, which ends with a refused request. */
GW_MUST_CHECK gw_status gwi_replay_from_history(const gw_allocator_report *report, bool is_snapshot,
                                                gw_replay_input *input, gw_error *err);

#endif
