/* What the recording of a run lacks, and the peak of its device memory. The peak is unknown if anything is missing that
 * could have made it higher. */
#include "gwi_peak.h"

#include "gw_text.h"

#include <inttypes.h>
#include <string.h>

/* Append what the recording of the process lacks. */
static void add_lost(const gw_process *process, gw_text *text)
{
    if (process->lost_events > 0)
        gw_text_addf(text, "%" PRIu64 " %s lost because a buffer was full", process->lost_events,
                     process->lost_events == 1 ? "event was" : "events were");
    else if (process->lost_threads > 0)
        gw_text_addf(text, "the calls of %" PRIu64 " %s not recorded", process->lost_threads,
                     process->lost_threads == 1 ? "thread were" : "threads were");
    else if (process->is_several)
        gw_text_add_str(text, "processes of several pid namespaces had the same pid");
}

bool gwi_fill_incomplete(const gw_model *model, gw_verdict *verdict)
{
    gw_text text = {0};
    if (!verdict->is_coverage_known)
        gw_text_add_str(&text, "no recording was judged");
    else if (verdict->observed_count == 0 && model->damaged_count == 0)
        gw_text_add_str(&text, "no CUDA driver call was observed");
    else if (model->truncated)
        gw_text_add_str(&text, "the recording was cut");
    else if (model->damaged_count > 0)
        gw_text_add_str(&text, "the recording is damaged");
    else if (gw_model_fact(model, GW_FACT_DROPPED_EVENTS) != NULL)
        gw_text_add_str(&text, "old events were dropped to keep the recording small");
    for (size_t i = 0; i < model->process_count && text.bytes == 0; i++)
        add_lost(&model->process[i], &text);
    if (text.bytes == 0 && verdict->unobserved.count > 0)
        gw_text_addf(&text, "part of the run was not observed: %s", verdict->unobserved.item[0]);
    verdict->incomplete = text.bytes == 0 ? NULL : strdup(gw_text_str(&text));
    bool good = !text.failed && (text.bytes == 0 || verdict->incomplete != NULL);
    gw_text_free(&text);
    return good;
}

void gwi_fill_peak(const gw_model *model, gw_verdict *verdict)
{
    gw_verdict_peak *peak = &verdict->peak;
    const gw_verdict_rehearsal *rehearsal = verdict->rehearsal;
    bool is_beyond = false;
    for (size_t i = 0; i < model->process_count; i++)
        is_beyond = is_beyond || model->process[i].usage[GW_MODEL_DEVICE_BEYOND].used;
    /* the element for all cards beyond the first 16 has their sum, which is not the peak of one card */
    if (model->asked_phase != NULL || verdict->incomplete != NULL || is_beyond)
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
