/* Launches of a rehearsal: the kernel is loaded, not run. */
#include "gw_hook_rehearsal.h"
#include "gwi_rehearse.h"

#include <string.h>

enum { LAUNCH_NS = 10000, SET_BITS = 15, SET_COUNT = 1 << SET_BITS };

/* A set of handles that only grows. If it is full, nothing more is added. */
typedef struct handle_set {
    _Atomic uint64_t handle[SET_COUNT];
    _Atomic uint32_t count;
} handle_set;

static handle_set kernels; /* CUkernels: launches take them in place of functions */
static handle_set loaded;
static handle_set steps; /* of `loaded`: functions that an optimizer's step launches */

static bool set_has(handle_set *set, uint64_t handle)
{
    uint32_t i = (uint32_t)(handle * 0x9e3779b97f4a7c15u >> (64 - SET_BITS));
    for (uint64_t at; (at = atomic_load_explicit(&set->handle[i], memory_order_acquire)) != 0; i = (i + 1) % SET_COUNT)
        if (at == handle)
            return true;
    return false;
}

static void set_add(handle_set *set, uint64_t handle)
{
    uint32_t i = (uint32_t)(handle * 0x9e3779b97f4a7c15u >> (64 - SET_BITS));
    if (handle == 0 || set_has(set, handle) || atomic_fetch_add(&set->count, 1) >= SET_COUNT / 2)
        return;
    for (uint64_t empty = 0; !atomic_compare_exchange_strong(&set->handle[i], &empty, handle); empty = 0)
        i = (i + 1) % SET_COUNT;
}

/* ---- which handles are kernels ---- */

GWI_REHEARSE(cuLibraryGetKernel)(CUkernel *pKernel, CUlibrary library, const char *name)
{
    int result = GWI_DRIVER(cuLibraryGetKernel)(pKernel, library, name);
    if (result == 0 && pKernel != NULL)
        set_add(&kernels, (uint64_t)(uintptr_t)*pKernel);
    return result;
}

GWI_REHEARSE(cuLibraryEnumerateKernels)(CUkernel *kernels_out, unsigned int numKernels, CUlibrary lib)
{
    int result = GWI_DRIVER(cuLibraryEnumerateKernels)(kernels_out, numKernels, lib);
    for (unsigned i = 0; result == 0 && i < numKernels; i++)
        set_add(&kernels, (uint64_t)(uintptr_t)kernels_out[i]);
    return result;
}

/* ---- load ---- */

/* By default, PyTorch's optimizers update many tensors by one launch of multi_tensor_apply_kernel().
 * Hardly anything else launches it, except what belongs to the step: clipping and unscaling of gradients. */
static void note_step(uint64_t handle, CUfunction function)
{
    const char *name = NULL;
    if (GWI_DRIVER(cuFuncGetName) != NULL && GWI_DRIVER(cuFuncGetName)(&name, function) == 0 && name != NULL &&
        strstr(name, "multi_tensor_apply_kernel") != NULL)
        set_add(&steps, handle);
}

/* Load the function as its first launch would. */
static int load(uint64_t handle)
{
    CUfunction function = (CUfunction)(uintptr_t)handle;
    int registers = 0;
    if (set_has(&kernels, handle)) {
        int result = GWI_DRIVER(cuKernelGetFunction)(&function, (CUkernel)(uintptr_t)handle);
        if (result != 0)
            return result;
    }
    note_step(handle, function);
    if (GWI_DRIVER(cuFuncLoad) != NULL)
        return GWI_DRIVER(cuFuncLoad)(function);
    return GWI_DRIVER(cuFuncGetAttribute)(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
}

/* The code that was loaded may be too large for the card. */
static int loaded_now(void)
{
    gwi_here here;
    int result = gwi_here_find(&here);
    if (result != 0)
        return result;
    const gwi_card *card = here.card;
    if (card->held_bytes + card->share_bytes + card->extra_bytes > card->total_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    gwi_card_tell(here.card);
    return 0;
}

static int load_first(uint64_t function)
{
    bool is_first = atomic_load(&loaded.count) == 0;
    int result = load(function);
    if (result != 0)
        return result;
    set_add(&loaded, function);
    result = loaded_now();
    if (is_first && gwi_lock()) {
        gwi_cards_launched();
        gwi_unlock();
    }
    return result;
}

/* ---- launch ---- */

bool gwi_rehearses_launch(uint64_t stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return GWI_DRIVER(cuStreamIsCapturing) == NULL ||
           GWI_DRIVER(cuStreamIsCapturing)((CUstream)(uintptr_t)stream, &status) != 0 ||
           status == CU_STREAM_CAPTURE_STATUS_NONE;
}

int gwi_rehearse_launch(unsigned fn, uint64_t function)
{
    CUcontext context = NULL;
    int result = GWI_DRIVER(cuCtxGetCurrent)(&context);
    (void)fn;
    if (result != 0 || context == NULL)
        return result != 0 ? result : CUDA_ERROR_INVALID_CONTEXT;
    if (function != 0 && !set_has(&loaded, function))
        result = load_first(function);
    gwi_clock_pass(LAUNCH_NS);
    gwi_steady_launch(function, set_has(&steps, function));
    return result;
}

/* The first launch of a graph uploads it, which takes memory of the card. */
static int graph_launch(CUgraphExec graph, CUstream stream)
{
    uint64_t handle = (uint64_t)(uintptr_t)graph;
    int result = 0;
    if (GWI_DRIVER(cuGraphUpload) != NULL && !set_has(&loaded, handle)) {
        result = GWI_DRIVER(cuGraphUpload)(graph, stream);
        if (result == 0)
            result = loaded_now();
        set_add(&loaded, handle);
    }
    gwi_clock_pass(LAUNCH_NS);
    gwi_steady_launch(handle, false);
    return result;
}

GWI_REHEARSE(cuGraphLaunch)(CUgraphExec hGraph, CUstream hStream)
{
    if (!gwi_rehearses_launch((uint64_t)(uintptr_t)hStream))
        return GWI_DRIVER(cuGraphLaunch)(hGraph, hStream);
    return graph_launch(hGraph, hStream);
}

/* ---- waits in a stream for values in memory: nothing would write them ---- */

#define GWI_REHEARSE_VALUE(symbol, word)                                                                               \
    GWI_REHEARSE(symbol)(CUstream stream, CUdeviceptr addr, word value, unsigned int flags)                            \
    {                                                                                                                  \
        return gwi_rehearses(addr) ? 0 : GWI_DRIVER(symbol)(stream, addr, value, flags);                               \
    }
GWI_REHEARSE_VALUE(cuStreamWaitValue32, cuuint32_t)
GWI_REHEARSE_VALUE(cuStreamWaitValue64, cuuint64_t)
GWI_REHEARSE_VALUE(cuStreamWriteValue32, cuuint32_t)
GWI_REHEARSE_VALUE(cuStreamWriteValue64, cuuint64_t)
GWI_REHEARSE_VALUE(cuStreamWaitValue32_v2, cuuint32_t)
GWI_REHEARSE_VALUE(cuStreamWaitValue64_v2, cuuint64_t)
GWI_REHEARSE_VALUE(cuStreamWriteValue32_v2, cuuint32_t)
GWI_REHEARSE_VALUE(cuStreamWriteValue64_v2, cuuint64_t)

/* Graphs of a rehearsal. A graph is built and instantiated by the driver, because that takes memory of the card; it is
 * never launched. A node that copies or fills memory of the books becomes an empty node. */

GWI_REHEARSE(cuGraphAddMemsetNode)
(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies,
 const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    if (memsetParams == NULL || !gwi_rehearses(memsetParams->dst))
        return GWI_DRIVER(cuGraphAddMemsetNode)(phGraphNode, hGraph, dependencies, numDependencies, memsetParams, ctx);
    return GWI_DRIVER(cuGraphAddEmptyNode)(phGraphNode, hGraph, dependencies, numDependencies);
}

static bool copies_ours(const CUDA_MEMCPY3D *copy)
{
    return copy != NULL && ((copy->dstMemoryType != CU_MEMORYTYPE_HOST && gwi_rehearses(copy->dstDevice)) ||
                            (copy->srcMemoryType != CU_MEMORYTYPE_HOST && gwi_rehearses(copy->srcDevice)));
}

GWI_REHEARSE(cuGraphAddMemcpyNode)
(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies,
 const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    if (!copies_ours(copyParams))
        return GWI_DRIVER(cuGraphAddMemcpyNode)(phGraphNode, hGraph, dependencies, numDependencies, copyParams, ctx);
    return GWI_DRIVER(cuGraphAddEmptyNode)(phGraphNode, hGraph, dependencies, numDependencies);
}

/* Parameters of a node that became an empty one. */
GWI_REHEARSE(cuGraphExecMemsetNodeSetParams)
(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    if (memsetParams != NULL && gwi_rehearses(memsetParams->dst))
        return 0;
    return GWI_DRIVER(cuGraphExecMemsetNodeSetParams)(hGraphExec, hNode, memsetParams, ctx);
}

GWI_REHEARSE(cuGraphExecMemcpyNodeSetParams)
(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    if (copies_ours(copyParams))
        return 0;
    return GWI_DRIVER(cuGraphExecMemcpyNodeSetParams)(hGraphExec, hNode, copyParams, ctx);
}

/* Synchronisations of a rehearsal. The driver waits for what really runs, such as host functions. Pools give memory
 * back. */

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
