/* A check that the causes of lost contexts share. */
#ifndef GWI_CAUSES_STICKY_H
#define GWI_CAUSES_STICKY_H

#include "gwi_fault.h"

/* True if an earlier unchecked allocation failure, or an earlier reset that destroyed memory which the program still
 * held, explains the fault better. */
static inline bool gwi_is_explained_earlier(const gwi_case *c, const gw_failure *sticky)
{
    if (c->oom != NULL && c->oom->t_ns < sticky->t_ns)
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
