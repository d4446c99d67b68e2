/* Finds the names of launched kernels and graphs, and their launch sites. A handle may be reused for another function,
 * so the name is looked up when the launch event is read. */
#include "gwi_find.h"

#include <stdio.h>
#include <string.h>

enum { LAUNCH_SITES_MAX = 1 << 16 };

/* ---- launched kernels and graphs ---- */

bool gwi_was_captured(const gwi_process *process, uint32_t tid, uint64_t t_ns)
{
    for (size_t i = 0; i < process->capture_count; i++) {
        const gwi_capture *capture = &process->capture[i];
        if (capture->tid == tid && t_ns >= capture->t_begin_ns && t_ns <= capture->t_end_ns)
            return true;
    }
    return false;
}

const char *gwi_function_name(const gw_model *model, const gwi_process *process, uint64_t function)
{
    uint32_t index;
    if (!gwi_object_find(process, GWI_SPACE_FUNCTION, function, &index) || process->object[index].name == 0)
        return NULL;
    return model->inner->texts.item[process->object[index].name - 1];
}

const char *gwi_exec_names(gw_model *model, gwi_process *process, uint64_t exec)
{
    uint32_t index;
    if (!gwi_object_find(process, GWI_SPACE_EXEC, exec, &index))
        return NULL;
    uint64_t graph = process->object[index].owner;
    char text[400] = "";
    size_t used = 0, more = 0;
    for (size_t i = 0; i < process->node_count; i++) {
        if (process->node[i].graph != graph)
            continue;
        const char *name = gwi_function_name(model, process, process->node[i].function);
        if (name == NULL || used + strlen(name) + 16 > sizeof text) {
            more++;
            continue;
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? ", " : "", name);
    }
    if (used > 0 && more > 0)
        snprintf(text + used, sizeof text - used, " +%zu", more);
    return gwi_copy_bytes(model, text, used);
}

/* ---- launch sites ---- */

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
                         .site = model->inner->event_site};
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
