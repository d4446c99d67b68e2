/* exec() replaces the program of a process. The driver then frees everything that the old program created, without a
 * call that could be recorded.
 *
 * A recording describes the new program (GW_ITEM_PROCESS) before the last events of the old one, so the end of the old
 * program's objects waits for the first event of the new program, or for the end of the process. */
#include "gwi_find.h"

void gwi_replaced_seen(gw_model *model, gwi_process *process, uint64_t t_ns)
{
    gwi_replaced_apply(model, process); /* another exec() */
    model->process[process->index].called_exec = true;
    process->t_replaced_ns = t_ns;
}

/* End an object, even one that is not in the table, such as a VMM block that only its mappings keep alive. It counts as
 * freed, not as buried with its context: a program that restarts itself with exec() has no leak. */
static void end_object(gw_model *model, gwi_process *process, uint32_t index)
{
    const gwi_object *object = &process->object[index];
    gwi_spot spot = gwi_spot_of(process, (gwi_space)object->space, object->key);
    if (spot.bucket != NULL && gwi_spot_value(spot) == index)
        gwi_table_erase(&process->table[object->space], spot);
    gwi_object_drop(model, process, index);
}

static void end_objects(gw_model *model, gwi_process *process)
{
    for (uint32_t i = 0; i < process->object_count; i++) {
        const gwi_object *object = &process->object[i];
        /* the names of functions are still needed for earlier launches */
        if (gwi_is_alive(object) && object->cls != GW_CLASS_FUNCTION)
            end_object(model, process, i);
    }
}

static void end_captures(gwi_process *process)
{
    for (size_t i = 0; i < process->capture_count; i++) {
        if (process->capture[i].open)
            process->capture[i].t_end_ns = process->t_replaced_ns;
        process->capture[i].open = false;
    }
    process->captures_open = 0;
}

void gwi_replaced_apply(gw_model *model, gwi_process *process)
{
    gw_process *facts = &model->process[process->index];
    uint64_t t_event_ns = model->inner->t_event_ns;
    if (process->t_replaced_ns == GWI_NOT_REPLACED)
        return;
    model->inner->t_event_ns = process->t_replaced_ns; /* the time of the changes for a follower */
    end_objects(model, process);
    model->inner->t_event_ns = t_event_ns;
    end_captures(process);
    for (int device = 0; device < GW_MODEL_DEVICE_PLACES; device++) {
        process->primary[device] = 0;
        facts->primary_retains[device] = 0;
    }
    process->context_last = 0;
    process->context_last_device = 0;
    process->sticky = false; /* the new program has new contexts */
    process->t_replaced_ns = GWI_NOT_REPLACED;
}
