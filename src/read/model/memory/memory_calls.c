/* Stores the calls of each process that request memory from the driver or return it, with the refused ones, in their
 * order. A replay of a framework's allocator is compared with them (replay_input.c). */
#include "gw_array.h"
#include "gwi_find.h"

enum { CALLS_MAX = 1 << 17, RESULT_NO_MEMORY = 2 };

static bool concerns(const gw_event *event)
{
    switch ((gw_event_kind)event->kind) {
    case GW_EV_ALLOC:
        return event->arg[2] == GW_SPACE_DEVICE;
    case GW_EV_FREE:
        return event->arg[2] == GW_SPACE_DEVICE && event->arg[0] != 0 && event->result == 0;
    case GW_EV_VMM_CREATE:
        return event->arg[3] == 1;
    case GW_EV_VMM_RESERVE:
    case GW_EV_VMM_UNMAP:
        return event->result == 0;
    default:
        return false;
    }
}

void gwi_memory_call(gw_model *model, gwi_process *process, const gw_event *event)
{
    gwi_memory_calls *calls = &process->memory_calls;
    if (!concerns(event) || (event->result != 0 && event->result != RESULT_NO_MEMORY))
        return;
    if (calls->count >= CALLS_MAX) {
        calls->is_cut = true;
        return;
    }
    if (!gw_array_room(&calls->call, calls->count, &calls->capacity, sizeof *calls->call)) {
        model->inner->nomem = true;
        return;
    }
    bool is_page = event->kind == GW_EV_VMM_CREATE;
    int device = is_page ? gwi_device_place(event->arg[2]) : gwi_device_of(process, event->context);
    calls->call[calls->count++] = (gwi_memory_call_made){.t_ns = event->t_ns,
                                                         .address = is_page ? 0 : event->arg[0],
                                                         .bytes = event->kind == GW_EV_FREE ? 0 : event->arg[1],
                                                         .site = model->inner->event_site,
                                                         .kind = event->kind,
                                                         .device = (uint8_t)device,
                                                         .is_refused = event->result != 0};
}
