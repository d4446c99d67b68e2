/* The program used a GPU number that does not exist for this process.
 *
 * Established only by: the result 101 (number out of range), if the run ended because of that result
 * (gwi_sure_of_end()). In addition, one of these must be true:
 * - the call selects a device or creates a context;
 * - the call is a mere query, and the runtime printed its message. */
#include "gwi_start.h"

#include <inttypes.h>

enum { INVALID_DEVICE = 101 };

/* Return the call that failed with 101. Without a root failure, this is the newest such call, even a cuDeviceGet(),
 * which other causes ignore. */
static const gw_failure *find_refused(const gwi_case *c)
{
    if (c->root != NULL)
        return gwi_root_with(c, INVALID_DEVICE);
    for (size_t i = c->model->failure_count; c->process != NULL && i-- > 0;) {
        const gw_failure *failure = &c->model->failure[i];
        if (failure->result == INVALID_DEVICE && failure->pid == c->process->pid && !failure->is_earlier)
            return failure;
    }
    return NULL;
}

static uint32_t visible_count(const gwi_case *c)
{
    uint32_t count = 0;
    for (int i = 0; i < GW_MODEL_DEVICES_MAX; i++)
        count += c->model->device[i].known;
    return count;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *failure = find_refused(c);
    const struct gw_log_find *said = gwi_said(c, finding->cause);
    if (failure == NULL || (c->ended && !c->bad_end))
        return GW_CERTAINTY_NONE;
    bool probed = failure->is_probe && said == NULL; /* the program may have tried numbers until one was refused */
    if (probed && failure->after.worked && failure->after.work >= GW_WORK_MUCH)
        return GW_CERTAINTY_NONE;
    uint32_t count = visible_count(c);
    const char *mask = gwi_visible_devices(c);
    gwi_headline(finding, "the program selected a GPU number that does not exist for this process");
    gwi_say_failed_call(c, finding, failure);
    if (said != NULL)
        gwi_say_said(c, finding, said);
    if (count > 0)
        gwi_measure(finding, GWI_NO_TIME, "driver", count, "count", "the process sees %" PRIu32 " GPU%s", count,
                    GWI_PLURAL(count));
    if (mask != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "host",
                     "CUDA_VISIBLE_DEVICES=\"%s\": the program numbers the cards in it from 0", mask);
    if (c->process != NULL && c->process->has_rank)
        gwi_evidence(finding, GWI_NO_TIME, "host", "the process is rank %" PRIu32, c->process->rank);
    return gwi_sure_of_end(c, failure, probed ? GW_HYPOTHESIS : GW_ESTABLISHED);
}

const gw_cause gwi_cause_invalid_device_ordinal = {
    .id = "invalid-device-ordinal",
    .summary = "The program selected a GPU number that does not exist for this process.",
    .proof = "the creation of a context or the selection of a device that failed with 101",
    .fixes =
        {[GW_FRAMEWORK_RAW] =
             "Start at most one process per visible GPU; use the local rank, not the global one, as the GPU number\n"
             "With CUDA_VISIBLE_DEVICES=2,3 the GPUs are 0 and 1"},
    .judge = judge,
};
