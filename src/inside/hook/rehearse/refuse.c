/* Calls that a rehearsal does not understand. */
#include "gwi_rehearse.h"

int gwi_rehearse_refuse(unsigned fn)
{
    static _Atomic uint8_t said[GW_FN_COUNT];
    if (atomic_exchange(&said[fn], 1) == 0)
        gwi_fact(GW_EV_REHEARSAL, GW_REHEARSAL_REFUSED, fn, 0, 0, gw_api_fns[fn].symbol);
    return CUDA_ERROR_NOT_SUPPORTED;
}
