/* Find objects by address or handle, and the device of a context. */
#include "gwi_find.h"

bool gwi_object_find(const gwi_process *process, gwi_space space, uint64_t key, uint32_t *ret_index)
{
    gwi_spot spot = gwi_spot_of(process, space, key);
    if (spot.bucket == NULL)
        return false;
    *ret_index = gwi_spot_value(spot);
    return true;
}

GWI_RARE int gwi_device_find(gwi_process *process, uint64_t context)
{
    uint32_t index;
    bool known = context != 0 && gwi_object_find(process, GWI_SPACE_CONTEXT, context, &index);
    /* also store an unknown context, as device 0, so that the next call need not search for it */
    process->context_last = context;
    process->context_last_device = known ? process->object[index].device : 0;
    return process->context_last_device;
}
