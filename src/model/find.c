/* Find objects by address or handle. */
#include "gwi_find.h"

bool gwi_object_find(const gwi_process *process, gwi_space space, uint64_t key, uint32_t *ret_index)
{
    gwi_spot spot = gwi_spot_of(process, space, key);
    if (spot.bucket == NULL)
        return false;
    *ret_index = gwi_spot_value(spot);
    return true;
}
