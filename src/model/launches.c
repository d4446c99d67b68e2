/* From where kernels were launched. A handle may name another function later, so names are looked up when the event
 * comes. */
#include "gwi_inner.h"

enum { LAUNCH_SITES_MAX = 1 << 16 };

void gwi_launch_site(gw_model *model, const gwi_process *process, const gw_event *event)
{
    if (event->site == 0 || model->launch_site_count >= LAUNCH_SITES_MAX ||
        !gwi_room(model, &model->launch_site, model->launch_site_count, &model->inner->launch_site_capacity,
                  sizeof *model->launch_site))
        return;
    model->launch_site[model->launch_site_count++] =
        (gw_launch_site){.t_ns = event->t_ns,
                         .function = event->arg[0],
                         .kernel = gwi_function_name(model, process, event->arg[0]),
                         .stream = event->arg[3],
                         .pid = event->pid,
                         .tid = event->tid,
                         .site = gw_sites_number(model->sites, event->pid, event->site)};
}

void gwi_launches_finish(gw_model *model)
{
    for (size_t i = 0; i < model->launch_site_count; i++) {
        gw_launch_site *it = &model->launch_site[i];
        for (size_t k = model->process_count; k-- > 0 && it->kernel == NULL;)
            if (model->process[k].pid == it->pid)
                it->kernel = gwi_function_name(model, model->inner->process[k], it->function);
    }
}
