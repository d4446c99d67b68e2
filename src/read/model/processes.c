/* Stores the processes and threads of a run. If several processes had the same pid, the pid stands for the newest of
 * them. */
#include "gwi_inner.h"

#include <stdlib.h>
#include <string.h>

/* ---- look-up ---- */

typedef struct pid_key {
    const gwi_pid *pid;
    uint32_t wanted;
} pid_key;

static bool pid_is(const void *context, uint32_t index)
{
    const pid_key *key = context;
    return key->pid[index].pid == key->wanted;
}

gwi_pid *gwi_pid_find(const gw_model *model, uint32_t pid)
{
    gwi_model *inner = model->inner;
    pid_key key = {inner->pid, pid};
    gwi_spot spot = gwi_table_find(&inner->pid_table, gwi_hash(pid), pid_is, &key);
    return spot.bucket == NULL ? NULL : &inner->pid[gwi_spot_value(spot)];
}

/* Return the entry of a pid. If there is none, add one. Returns NULL and sets nomem if there is no memory. */
static gwi_pid *pid_of(gw_model *model, uint32_t pid)
{
    gwi_model *inner = model->inner;
    gwi_pid *found = gwi_pid_find(model, pid);
    if (found != NULL)
        return found;
    if (!gwi_room(model, &inner->pid, inner->pid_count, &inner->pid_capacity, sizeof(gwi_pid)))
        return NULL;
    if (!gwi_table_add(&inner->pid_table, gwi_hash(pid), (uint32_t)inner->pid_count)) {
        inner->nomem = true;
        return NULL;
    }
    inner->pid[inner->pid_count] = (gwi_pid){.pid = pid};
    return &inner->pid[inner->pid_count++];
}

/* ---- processes ---- */

/* All processes that have created no object yet share this usage. It is never written, so all values stay 0. */
gw_usage gwi_no_usage[GW_MODEL_DEVICE_PLACES];

GWI_RARE gwi_process *gwi_process_add(gw_model *model, uint32_t pid, uint64_t t_ns)
{
    gwi_model *inner = model->inner;
    size_t capacity = inner->process_capacity;
    gwi_pid *entry = pid_of(model, pid);
    if (entry == NULL)
        return NULL;
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
    process->allocator_full = -1;
    process->communicator_now = -1;
    process->t_replaced_ns = GWI_NOT_REPLACED;
    model->process[model->process_count] =
        (gw_process){.pid = pid, .t_seen_ns = t_ns, .usage = gwi_no_usage, .end_snapshot = -1};
    inner->process[model->process_count++] = process;
    entry->process_plus_1 = (uint32_t)model->process_count;
    return process;
}

gwi_process *gwi_process_known(const gw_model *model, uint32_t pid)
{
    const gwi_pid *entry = gwi_pid_find(model, pid);
    return entry == NULL || entry->process_plus_1 == 0 ? NULL : model->inner->process[entry->process_plus_1 - 1];
}

GWI_RARE gwi_process *gwi_process_find(gw_model *model, uint32_t pid, uint64_t t_ns)
{
    gwi_process *known = gwi_process_known(model, pid);
    return model->inner->last = known != NULL ? known : gwi_process_add(model, pid, t_ns);
}

GWI_RARE bool gwi_process_holds(gw_model *model, gwi_process *process)
{
    gwi_model *inner = model->inner;
    gw_usage *usage = calloc(GW_MODEL_DEVICE_PLACES, sizeof *usage);
    if (usage == NULL)
        return false;
    model->process[process->index].usage = usage;
    if (inner->holding_count < GWI_HOLDING_MAX &&
        gwi_room(model, &inner->holder, inner->holding_count, &inner->holding_capacity, sizeof *inner->holder))
        inner->holder[inner->holding_count++] = process->index;
    return true;
}

void gwi_process_ended(gw_model *model, gwi_process *process)
{
    gwi_model *inner = model->inner;
    for (size_t i = 0; process->object_capacity > 0 && i < inner->holding_count; i++) {
        if (inner->holder[i] != process->index)
            continue;
        inner->holding_count--;
        memmove(&inner->holder[i], &inner->holder[i + 1], (inner->holding_count - i) * sizeof *inner->holder);
        return;
    }
}

/* ---- threads ---- */

typedef struct thread_key {
    const gw_thread *thread;
    uint32_t pid, tid;
} thread_key;

static bool thread_is(const void *context, uint32_t index)
{
    const thread_key *key = context;
    return key->thread[index].pid == key->pid && key->thread[index].tid == key->tid;
}

/* Add gw_model.thread[index] to thread_table, and to the list of threads of its pid. Returns false if there is no
 * memory. */
static bool link_thread(gw_model *model, uint32_t hash, size_t index)
{
    gwi_pid *entry = pid_of(model, model->thread[index].pid);
    if (entry == NULL)
        return false;
    if (!gwi_table_add(&model->inner->thread_table, hash, (uint32_t)index)) {
        model->inner->nomem = true;
        return false;
    }
    uint32_t plus_1 = (uint32_t)index + 1;
    if (entry->thread_plus_1 == 0)
        entry->thread_plus_1 = plus_1;
    else
        model->thread[entry->thread_last_plus_1 - 1].next_plus_1 = plus_1;
    entry->thread_last_plus_1 = plus_1;
    return true;
}

size_t gwi_thread_of(gw_model *model, uint32_t pid, uint32_t tid)
{
    gwi_model *inner = model->inner;
    uint32_t hash = gwi_hash((uint64_t)pid << 32 | tid);
    thread_key key = {model->thread, pid, tid};
    gwi_spot spot = gwi_table_find(&inner->thread_table, hash, thread_is, &key);
    if (spot.bucket != NULL)
        return gwi_spot_value(spot);
    size_t capacity = inner->thread_capacity, again = capacity;
    if (!gwi_room(model, &inner->ring, model->thread_count, &capacity, sizeof(gwi_hot_ring)) ||
        !gwi_room(model, &inner->inside_fn_plus_1, model->thread_count, &again, sizeof(uint16_t)) ||
        !gwi_room(model, &model->thread, model->thread_count, &inner->thread_capacity, sizeof(gw_thread)))
        return SIZE_MAX;
    size_t index = model->thread_count;
    model->thread[index] = (gw_thread){.pid = pid, .tid = tid};
    inner->ring[index] = (gwi_hot_ring){0};
    inner->inside_fn_plus_1[index] = 0;
    if (!link_thread(model, hash, index))
        return SIZE_MAX;
    model->thread_count++;
    return index;
}
