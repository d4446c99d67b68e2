/* A check that is shared by the causes of lost contexts. */
#ifndef GWI_CAUSES_STICKY_H
#define GWI_CAUSES_STICKY_H

#include "gwi_fault.h"

/* True if an earlier problem explains the fault better, or if its events may be missing: an allocation failure that the
 * program did not check, or a reset that destroyed its memory. */
static inline bool gwi_is_explained_earlier(const gwi_case *c, const gw_failure *sticky)
{
    bool may_be_lost = c->model->damaged_count > 0 || (c->process != NULL && c->process->lost_failures > 0);
    if (may_be_lost || (c->oom != NULL && c->oom->t_ns < sticky->t_ns))
        return true;
    for (size_t i = 0; i < c->model->teardown_count; i++) {
        const gw_teardown *teardown = &c->model->teardown[i];
        if (teardown->pid == sticky->pid && teardown->t_ns < sticky->t_ns && teardown->kind == GW_TEARDOWN_RESET &&
            teardown->bytes > 0)
            return true;
    }
    return false;
}

#endif
