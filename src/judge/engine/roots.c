/* Finds the failures of one process that no earlier failure explains. How the process ended does not matter here. */
#include "gwi_roots.h"

static const gw_failure *first_sticky(const gw_model *model, uint32_t pid)
{
    const gw_failure *failure = gw_model_first_failure(model, pid);
    while (failure != NULL && !failure->is_sticky)
        failure = gw_model_next_failure(model, failure);
    return failure;
}

/* True if the program did not recover from the refused allocation. This includes two kinds of later faults:
 * - A copy or fill used the NULL pointer of the refused request.
 * - The context was lost. Since the refusal, no wait for work and no repeated request had succeeded. */
static bool is_unrecovered(const gw_failure *failure, const gw_process *process, const gw_failure *sticky)
{
    if (failure->after.null_used_at != 0 && !failure->next.is_retry)
        return true;
    if (sticky == NULL || sticky->t_ns <= failure->t_ns)
        return failure->recovery == GW_RECOVERED_NOT;
    bool waited = process != NULL && process->synced_at_ns > failure->t_last_ns;
    return !failure->after.worked && !failure->next.is_retry && failure->recovery != GW_RECOVERED_BY_REQUESTS &&
           !(waited && failure->recovery != GW_RECOVERED_NOT);
}

bool gwi_is_asked_again(const gw_failure *first, const gw_failure *last, const gw_failure *later)
{
    const uint64_t soon_ns = 2000000000u;
    return later->bytes_wanted == first->bytes_wanted && later->fn == first->fn && later->t_ns - last->t_ns < soon_ns;
}

gwi_roots gwi_roots_of(const gw_model *model, uint32_t pid)
{
    gwi_roots found = {0};
    const gw_process *process = gw_model_process(model, pid);
    found.sticky = first_sticky(model, pid);
    const gw_failure *failure = gw_model_first_failure(model, pid);
    for (; failure != NULL; failure = gw_model_next_failure(model, failure)) {
        if (failure->is_probe || failure->is_echo || failure->is_earlier)
            continue;
        if (failure->is_allocation && is_unrecovered(failure, process, found.sticky)) {
            if (found.oom == NULL)
                found.oom = found.oom_last = failure;
            else if (gwi_is_asked_again(found.oom, found.oom_last, failure))
                found.oom_last = failure;
        } else if (failure->is_allocation) {
            found.handled = found.handled == NULL ? failure : found.handled;
            found.handled_count += (size_t)failure->repeat_count;
        } else if (!failure->is_sticky && found.other == NULL) {
            found.other = failure;
        }
    }
    return found;
}

/* Return the earlier one of two failures. Either may be NULL. */
static const gw_failure *earlier(const gw_failure *a, const gw_failure *b)
{
    if (a == NULL || b == NULL)
        return a == NULL ? b : a;
    return a->t_ns <= b->t_ns ? a : b;
}

const gw_failure *gwi_root_of(const gwi_roots *found)
{
    const gw_failure *heavy = earlier(found->oom, found->sticky);
    return heavy != NULL ? heavy : found->other;
}
