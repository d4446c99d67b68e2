/* Synchronisations of a rehearsal. The driver waits for what really runs, such as host functions. Pools give memory
 * back. */
#include "gw_hook_rehearsal.h"
#include "gwi_rehearse.h"

static int synchronised(int result)
{
    if (result == 0)
        gwi_pools_synchronised();
    return result;
}

GWI_REHEARSE(cuCtxSynchronize)(void)
{
    return synchronised(GWI_DRIVER(cuCtxSynchronize)());
}

GWI_REHEARSE(cuCtxSynchronize_v2)(CUcontext ctx)
{
    return synchronised(GWI_DRIVER(cuCtxSynchronize_v2)(ctx));
}

GWI_REHEARSE(cuStreamSynchronize)(CUstream hStream)
{
    return synchronised(GWI_DRIVER(cuStreamSynchronize)(hStream));
}

GWI_REHEARSE(cuStreamSynchronize_ptsz)(CUstream hStream)
{
    return synchronised(GWI_DRIVER(cuStreamSynchronize_ptsz)(hStream));
}

GWI_REHEARSE(cuEventSynchronize)(CUevent hEvent)
{
    return synchronised(GWI_DRIVER(cuEventSynchronize)(hEvent));
}
