/* Free memory of a rehearsal: either call frees plain memory and that of pools. */
#include "gw_hook_rehearsal.h"
#include "gwi_rehearse.h"

#include <sys/mman.h>

/* Free the block that begins at the address. No work is pending, so its memory is free at once. Managed memory is freed
 * only if `managed`. Returns the driver's result. *ret_kind is set on success. */
static int drop(uint64_t address, bool managed, gwi_held_kind *ret_kind)
{
    size_t host_bytes = 0;
    void *host = NULL;
    int result = gwi_driver_state();
    if (result != 0)
        return result;
    if (!gwi_lock())
        return CUDA_ERROR_INVALID_VALUE;
    gwi_held *held = gwi_held_at(address);
    bool is_ours = held != NULL && held->range.base == address && held->kind != GWI_HELD_MAPPED &&
                   (held->kind != GWI_HELD_MANAGED || managed);
    if (is_ours) {
        *ret_kind = held->kind;
        if (held->kind == GWI_HELD_POOL)
            gwi_pool_block_drop(held);
        else
            host = gwi_block_drop(held, &host_bytes);
    }
    gwi_unlock();
    if (host != NULL)
        munmap(host, host_bytes);
    return is_ours ? 0 : CUDA_ERROR_INVALID_VALUE;
}

GWI_REHEARSE(cuMemFree_v2)(CUdeviceptr dptr)
{
    gwi_held_kind kind;
    if (!gwi_rehearses(dptr))
        return GWI_DRIVER(cuMemFree_v2)(dptr);
    int result = drop(dptr, true, &kind);
    if (result == 0 && kind == GWI_HELD_POOL)
        gwi_pools_synchronised(); /* cuMemFree waits */
    return result;
}

GWI_REHEARSE(cuMemFreeAsync)(CUdeviceptr dptr, CUstream hStream)
{
    gwi_held_kind kind;
    return gwi_rehearses(dptr) ? drop(dptr, false, &kind) : GWI_DRIVER(cuMemFreeAsync)(dptr, hStream);
}
