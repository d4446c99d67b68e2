/* The program keeps allocating and freeing device memory by driver calls. This is not a fault.
 *
 * Never established: this is advice, not the cause of a failure. */
#include "gwi_pace.h"

#include <inttypes.h>

enum { MADE_MIN = 1000, LAUNCHES_EACH = 20 };
static const double share_min = 0.1;

typedef struct churn {
    uint64_t made, freed;
    uint64_t t_first_ns, t_last_ns;
    const gw_group *most;
} churn;

static churn find_churn(const gw_model *model, uint32_t pid)
{
    churn found = {.t_first_ns = UINT64_MAX};
    for (size_t i = 0; i < model->group_count; i++) {
        const gw_group *group = &model->group[i];
        if (group->pid != pid || group->cls != GW_CLASS_PLAIN || group->alloc_count == 0)
            continue;
        found.made += group->alloc_count;
        found.freed += group->free_count - group->buried_count;
        found.t_first_ns = group->t_first_ns < found.t_first_ns ? group->t_first_ns : found.t_first_ns;
        found.t_last_ns = group->t_last_ns > found.t_last_ns ? group->t_last_ns : found.t_last_ns;
        if (found.most == NULL || group->alloc_count > found.most->alloc_count)
            found.most = group;
    }
    return found;
}

static bool advise(const gwi_case *c, gw_string_list *advice)
{
    gwi_pace pace;
    char at[GWI_PLACE_TEXT_MAX];
    /* Give no advice for the virtual GPU: the durations of its calls do not predict those of a real card. */
    if (c->model->is_virtual || !gwi_pace_find(c, &pace))
        return true;
    churn found = find_churn(c->model, pace.process->pid);
    uint64_t end_ns = pace.thread->ring[pace.thread->ring_count - 1].t_ns;
    bool goes_on = found.made > 0 && found.t_first_ns < end_ns &&
                   found.t_last_ns >= found.t_first_ns + (end_ns - found.t_first_ns) / 10 * 8;
    double share = goes_on ? (double)pace.process->allocation_us * 1e3 / (double)(end_ns - found.t_first_ns) : 0;
    if (found.made < MADE_MIN || found.freed < found.made / 10 * 9 || found.made * LAUNCHES_EACH < pace.launches ||
        share < share_min)
        return true;
    return gwi_list_addf(advice,
                         "alloc-churn: the program allocated device memory %" PRIu64 " times and freed it %" PRIu64
                         " times, one allocation per %.1f launches, until the end of the run%s; at least %.0f %% of "
                         "the time was spent in these calls: reuse buffers, or use stream-ordered memory",
                         found.made, found.freed, (double)pace.launches / (double)found.made,
                         gwi_at(c, found.most->site, at), 100 * share);
}

const gw_cause gwi_cause_alloc_churn = {
    .id = "alloc-churn",
    .summary = "The program keeps allocating and freeing device memory while it works. Advice, never a fault.",
    .proof = "at least a thousand driver allocations until the end of the run, at least one per 20 launches, nine in "
             "ten of them freed again, and a tenth of the time spent inside these calls",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Reuse buffers between steps, or use cuMemAllocAsync with a pool that keeps its memory",
              [GW_FRAMEWORK_TORCH] = "Do not call torch.cuda.empty_cache() inside the loop\n"
                                     "Use constant shapes, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"
                                     "Lower the peak: PyTorch flushes its cache when it reaches the limit"},
    .advise = advise,
};
