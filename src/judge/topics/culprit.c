/* Finds the kernel that is proved to be at fault: by a GPU core dump, or by a run that waits for each launch. */
#include "gwi_culprit.h"

#include <stdlib.h>

enum { SIGNAL_ABORT = 6 };

const gw_gpu_fault *gwi_gpu_fault(const gwi_case *c)
{
    const gw_fault_facts *facts = &c->model->faults;
    const gw_gpu_fault *first = NULL;
    for (size_t i = 0; c->process != NULL && i < facts->fault_count; i++) {
        const gw_gpu_fault *fault = &facts->fault[i];
        if (fault->pid != c->process->pid)
            continue;
        if (c->sticky != NULL && fault->result == c->sticky->result)
            return fault; /* the dump contains the reported fault */
        first = first == NULL ? fault : first;
    }
    return first;
}

bool gwi_launches_block(const gwi_case *c)
{
    const char *value = gw_model_meta(c->model, "env.CUDA_LAUNCH_BLOCKING");
    return value != NULL && atoi(value) != 0;
}

bool gwi_is_own_report(const gwi_case *c, const gw_failure *sticky)
{
    return gwi_is_launch_failure(sticky) && gwi_launches_block(c);
}

const gw_blame *gwi_blamed_launch(const gwi_case *c, const gw_failure *sticky)
{
    const gw_blame *blame = &c->model->faults.blame;
    return blame->known && blame->end == GW_BLAME_IN_LAUNCH && blame->result == sticky->result ? blame : NULL;
}

const char *gwi_kernel_at_fault(const gwi_case *c, const gw_failure *sticky)
{
    const gw_gpu_fault *fault = gwi_gpu_fault(c);
    const gw_blame *blame = gwi_blamed_launch(c, sticky);
    if (fault != NULL && fault->kernel != NULL && fault->result == sticky->result)
        return fault->kernel;
    if (sticky->kind == GW_EV_LAUNCH && gwi_is_own_report(c, sticky))
        return sticky->kernel;
    return blame == NULL ? NULL : blame->kernel;
}

bool gwi_ended_by_dump(const gwi_case *c)
{
    const gw_fault_facts *facts = &c->model->faults;
    for (size_t i = 0; c->signal == SIGNAL_ABORT && i < facts->dump_count; i++)
        if (c->process == NULL || facts->dump[i].pid == c->process->pid)
            return true;
    return false;
}
