/* Graphs of a rehearsal. A graph is built and instantiated by the driver, because that takes memory of the card; it is
 * never launched. A node that copies or fills memory of the books becomes an empty node. */
#include "gw_hook_rehearsal.h"
#include "gwi_rehearse.h"

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
