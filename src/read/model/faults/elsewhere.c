/* Finds calls that fail because they use an object of another device:
 * - a kernel of one device is launched into a stream of another
 * - an event of one device is recorded in a stream of another
 * - memory of one device is filled or copied in a stream of another
 *
 * A default stream has the device of the current context. A function has the device of its module. Other objects have
 * the device that was current when they were created.
 *
 * It also finds the memory that a refused address refers to: a live block or, in the list of the process's calls for
 * memory, one that was freed. */
#include "gwi_find.h"

enum { INVALID_VALUE = 1, INVALID_HANDLE = 400, STREAM_NAMES = 2 };

static const gwi_object *find(const gwi_process *process, gwi_space space, uint64_t key)
{
    uint32_t index;
    return key != 0 && gwi_object_find(process, space, key, &index) ? &process->object[index] : NULL;
}

/* Return the device of the call's stream, or of the current context if the call uses a default stream. Returns -1 if
 * the device is unknown. */
static int device_of_call(gwi_process *process, const gw_failure *failure)
{
    uint64_t stream = failure->arg[3];
    const gwi_object *it = stream > STREAM_NAMES ? find(process, GWI_SPACE_STREAM, stream)
                                                 : find(process, GWI_SPACE_CONTEXT, failure->context);
    return it == NULL ? -1 : it->device;
}

/* Return the module that a function was loaded from, NULL if unknown. Kernels of a CUlibrary also return NULL, because
 * they work on every device. */
static const gwi_object *module_of(const gwi_process *process, uint64_t function)
{
    const gwi_object *it = find(process, GWI_SPACE_FUNCTION, function);
    return it == NULL || it->kind != GW_OWNER_MODULE ? NULL : find(process, GWI_SPACE_MODULE, it->owner);
}

static const gwi_object *named_by(const gwi_process *process, const gw_failure *failure, unsigned argument)
{
    bool handle = failure->result == INVALID_HANDLE, value = failure->result == INVALID_VALUE;
    switch ((gw_event_kind)failure->kind) {
    case GW_EV_LAUNCH:
        return handle && argument == 0 ? module_of(process, failure->arg[0]) : NULL;
    case GW_EV_EVENT_RECORD:
        return handle && argument == 0 ? find(process, GWI_SPACE_EVENT, failure->arg[0]) : NULL;
    case GW_EV_FILL:
        return value && argument == 0 ? find(process, GWI_SPACE_MEMORY, failure->arg[0]) : NULL;
    case GW_EV_COPY:
        return value && argument <= 1 ? find(process, GWI_SPACE_MEMORY, failure->arg[argument]) : NULL;
    default:
        return NULL;
    }
}

void gwi_elsewhere_find(const gw_model *model, gwi_process *process, gw_failure *failure)
{
    int device = device_of_call(process, failure);
    for (unsigned argument = 0;
         argument < 2 && device >= 0 && device != GW_MODEL_DEVICE_BEYOND && !failure->elsewhere.found; argument++) {
        const gwi_object *it = named_by(process, failure, argument);
        if (it == NULL || it->device == device || it->device == GW_MODEL_DEVICE_BEYOND)
            continue;
        failure->elsewhere = (gw_elsewhere){.found = true,
                                            .cls = it->cls == GW_CLASS_MODULE ? GW_CLASS_FUNCTION : it->cls,
                                            .key = failure->arg[argument],
                                            .bytes = gwi_is_counted(it->cls) ? it->bytes : 0,
                                            .device = it->device,
                                            .call_device = device,
                                            .stream = failure->arg[3],
                                            .site = model->group[it->group].site,
                                            .t_made_ns = it->t_ns};
    }
}

/* ---- the memory of a refused address ---- */

/* Return the number of addresses of the call that are examined. */
static unsigned addresses_of(const gw_failure *failure)
{
    bool is_copy = failure->kind == GW_EV_COPY, moves = is_copy || failure->kind == GW_EV_FILL;
    if (failure->result != INVALID_VALUE || (moves && failure->arg[2] == 0))
        return 0;
    return is_copy ? 2 : moves || failure->kind == GW_EV_FREE;
}

/* Return the live block or mapping that contains the address. The size of another process's block is not known. */
static const gwi_object *find_live(const gwi_process *process, uint64_t address)
{
    for (uint32_t i = 0; i < process->object_count; i++) {
        const gwi_object *it = &process->object[i];
        if ((it->space == GWI_SPACE_MEMORY || it->space == GWI_SPACE_MAPPING) &&
            (address == it->key || address - it->key < it->bytes))
            return it;
    }
    return NULL;
}

/* Return the newest request whose block contained the address. Its index is *ret_index. */
static const gwi_memory_call_made *find_request(const gwi_memory_calls *calls, uint64_t address, size_t *ret_index)
{
    for (size_t i = calls->count; i-- > 0;) {
        const gwi_memory_call_made *call = &calls->call[i];
        *ret_index = i;
        if (call->kind == GW_EV_ALLOC && !call->is_refused && address - call->address < call->bytes)
            return call;
    }
    return NULL;
}

static void look_up_live(const gw_model *model, const gwi_object *it, uint64_t address, uint64_t bytes,
                         gw_target *target)
{
    target->offset = address - it->key;
    /* the next mapping may continue this one */
    if (it->space == GWI_SPACE_MAPPING || it->bytes == 0 || bytes <= it->bytes - target->offset)
        return;
    target->what = GW_TARGET_PAST_END;
    target->bytes = it->bytes;
    target->t_made_ns = it->t_ns;
    target->made_site = model->group[it->group].site;
}

static void look_up_freed(const gwi_memory_calls *calls, uint64_t address, gw_target *target)
{
    size_t index = 0;
    const gwi_memory_call_made *made = calls->is_cut ? NULL : find_request(calls, address, &index);
    for (size_t i = index + 1; made != NULL && i < calls->count; i++) {
        const gwi_memory_call_made *call = &calls->call[i];
        if (call->kind != GW_EV_FREE || call->address != made->address)
            continue;
        *target = (gw_target){.what = GW_TARGET_FREED,
                              .argument = target->argument,
                              .offset = address - made->address,
                              .bytes = made->bytes,
                              .t_made_ns = made->t_ns,
                              .made_site = made->site,
                              .t_freed_ns = call->t_ns,
                              .freed_site = call->site};
        return;
    }
}

void gwi_target_find(const gw_model *model, const gwi_process *process, gw_failure *failure)
{
    unsigned count = addresses_of(failure);
    for (unsigned i = 0; i < count && failure->target.what == GW_TARGET_UNKNOWN; i++) {
        uint64_t address = failure->arg[i], bytes = failure->kind == GW_EV_FREE ? 0 : failure->arg[2];
        const gwi_object *live = address == 0 ? NULL : find_live(process, address);
        failure->target =
            (gw_target){.what = address == 0 ? GW_TARGET_NULL : GW_TARGET_UNKNOWN, .argument = (uint8_t)i};
        if (live != NULL)
            look_up_live(model, live, address, bytes, &failure->target);
        else if (address != 0)
            look_up_freed(&process->memory_calls, address, &failure->target);
    }
}
