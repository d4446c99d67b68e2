/* The peak of a run's device memory. It is unknown if anything is missing that could have made it higher. */
#include "gwi_peak.h"

/* True if allocations or frees of the process may be missing in the recording. */
static bool is_partly_recorded(const gw_process *process)
{
    return process->lost_events > 0 || process->lost_threads > 0;
}

static bool is_complete(const gw_model *model, const gw_verdict *verdict)
{
    if (!verdict->is_coverage_known || verdict->observed_count == 0 || verdict->unobserved.count > 0 ||
        model->truncated || model->damaged_count > 0 || gw_model_fact(model, GW_FACT_DROPPED_EVENTS) != NULL)
        return false;
    for (size_t i = 0; i < model->process_count; i++) {
        const gw_process *process = &model->process[i];
        /* the element for all other devices has their sum, which is not the peak of one card */
        if (is_partly_recorded(process) || process->is_several || process->usage[GW_MODEL_DEVICE_BEYOND].used)
            return false;
    }
    return true;
}

void gwi_fill_peak(const gw_model *model, gw_verdict *verdict)
{
    gw_verdict_peak *peak = &verdict->peak;
    const gw_verdict_rehearsal *rehearsal = verdict->rehearsal;
    if (model->asked_phase != NULL || !is_complete(model, verdict))
        return;
    peak->is_known = true;
    if (rehearsal != NULL) {
        *peak = (gw_verdict_peak){true, rehearsal->peak_bytes, rehearsal->device, rehearsal->pid};
        return;
    }
    for (size_t i = 0; i < model->process_count; i++) {
        for (int device = 0; device < GW_MODEL_DEVICES_MAX; device++) {
            const gw_usage *usage = &model->process[i].usage[device];
            if (usage->peak_bytes > peak->bytes)
                *peak = (gw_verdict_peak){true, usage->peak_bytes, device, model->process[i].pid};
        }
    }
}
