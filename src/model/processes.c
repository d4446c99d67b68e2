/* The processes and threads of a run. A pid that was reused refers to the newest process. */
#include "gwi_inner.h"

#include <stdlib.h>

GWI_RARE gwi_process *gwi_process_add(gw_model *model, uint32_t pid, uint64_t t_ns)
{
    gwi_model *inner = model->inner;
    size_t capacity = inner->process_capacity;
    if (!gwi_room(model, &inner->process, model->process_count, &inner->process_capacity, sizeof(gwi_process *)))
        return NULL;
    if (!gwi_room(model, &model->process, model->process_count, &capacity, sizeof(gw_process)))
        return NULL;
    gwi_process *process = calloc(1, sizeof *process);
    if (process == NULL) {
        inner->nomem = true;
        return NULL;
    }
    process->pid = pid;
    process->index = (uint32_t)model->process_count;
    process->last_failure = -1;
    process->allocator_now = -1;
    model->process[model->process_count] = (gw_process){.pid = pid, .t_seen_ns = t_ns, .end_snapshot = -1};
    inner->process[model->process_count++] = process;
    return process;
}

GWI_RARE gwi_process *gwi_process_find(gw_model *model, uint32_t pid, uint64_t t_ns)
{
    gwi_model *inner = model->inner;
    for (size_t i = model->process_count; i-- > 0;) { /* newest first, because a pid can be reused */
        if (inner->process[i]->pid == pid)
            return inner->last = inner->process[i];
    }
    return inner->last = gwi_process_add(model, pid, t_ns);
}

size_t gwi_thread_of(gw_model *model, uint32_t pid, uint32_t tid)
{
    gwi_model *inner = model->inner;
    for (size_t i = model->thread_count; i-- > 0;) {
        if (model->thread[i].pid == pid && model->thread[i].tid == tid)
            return i;
    }
    size_t capacity = inner->thread_capacity, again = capacity;
    if (!gwi_room(model, &inner->ring, model->thread_count, &capacity, sizeof(gwi_hot_ring)) ||
        !gwi_room(model, &inner->inside_fn_plus_1, model->thread_count, &again, sizeof(uint16_t)) ||
        !gwi_room(model, &model->thread, model->thread_count, &inner->thread_capacity, sizeof(gw_thread)))
        return SIZE_MAX;
    size_t index = model->thread_count++;
    model->thread[index] = (gw_thread){.pid = pid, .tid = tid};
    inner->ring[index] = (gwi_hot_ring){0};
    inner->inside_fn_plus_1[index] = 0;
    return index;
}
