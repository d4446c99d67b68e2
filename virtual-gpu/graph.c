/* CUDA graphs, built node by node or by stream capture. A launch submits the nodes' work to a stream, each node after
 * those it depends on. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "gw_array.h"
#include "gwi_virt.h"

typedef struct graph_exec {
    gwi_object object;
    gwi_work *works; /* owned, in the order of execution */
    size_t count;
} graph_exec;

static gwi_graph *graph_make(void)
{
    gwi_graph *graph = calloc(1, sizeof *graph);
    if (graph != NULL)
        gwi_object_add(&graph->object, GWI_GRAPH);
    return graph;
}

/* --- capturing ------------------------------------------------------------------------------------------ */

GWI_API(cuStreamBeginCapture_v2)(CUstream hStream, CUstreamCaptureMode mode)
{
    gwi_stream *stream = gwi_stream_find(hStream);
    if ((unsigned)mode > 2)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->is_legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (gwi_capture_owner(stream) != NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    stream->capture = graph_make();
    if (stream->capture == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->capture_mode = (unsigned)mode;
    stream->capture_thread = pthread_self();
    stream->capture_broken = false;
    stream->capture_tail_count = 0;
    gwi.capture_count++;
    return 0;
}

GWI_RETURN(cuStreamBeginCapture, (CUstream hStream),
           gwi_virt_cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL))

GWI_API(cuStreamEndCapture)(CUstream hStream, CUgraph *phGraph)
{
    gwi_stream *stream = gwi_stream_find(hStream);
    if (phGraph == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture == NULL)
        return stream->capture_owner != NULL ? CUDA_ERROR_STREAM_CAPTURE_UNMATCHED : CUDA_ERROR_ILLEGAL_STATE;
    gwi_graph *graph = stream->capture;
    bool broken = stream->capture_broken;
    gwi_capture_forget(stream);
    if (broken) {
        gwi_graph_free(graph);
        *phGraph = NULL;
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    *phGraph = (CUgraph)graph;
    return 0;
}

static CUstreamCaptureStatus capture_status(gwi_stream *stream)
{
    const gwi_stream *owner = gwi_capture_owner(stream);
    if (owner == NULL)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return owner->capture_broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

GWI_ANSWER(cuStreamIsCapturing, (CUstream hStream, CUstreamCaptureStatus *captureStatus), captureStatus,
           capture_status(gwi_stream_find(hStream)))

GWI_API(cuStreamGetCaptureInfo_v2)
(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out,
 const CUgraphNode **dependencies_out, size_t *numDependencies_out)
{
    gwi_stream *stream = gwi_stream_find(hStream);
    gwi_stream *owner = gwi_capture_owner(stream);
    if (captureStatus_out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *captureStatus_out = capture_status(stream);
    if (owner == NULL)
        return 0;
    if (id_out != NULL)
        *id_out = owner->id;
    if (graph_out != NULL)
        *graph_out = (CUgraph)owner->capture;
    if (dependencies_out != NULL)
        *dependencies_out = (const CUgraphNode *)stream->capture_tail;
    if (numDependencies_out != NULL)
        *numDependencies_out = stream->capture_tail_count;
    return 0;
}

GWI_API(cuStreamGetCaptureInfo_v3)
(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out,
 const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out)
{
    if (edgeData_out != NULL)
        *edgeData_out = NULL;
    return gwi_virt_cuStreamGetCaptureInfo_v2(hStream, captureStatus_out, id_out, graph_out, dependencies_out,
                                              numDependencies_out);
}

GWI_RETURN(cuStreamGetCaptureInfo, (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out),
           gwi_virt_cuStreamGetCaptureInfo_v2(hStream, captureStatus_out, id_out, NULL, NULL, NULL))

/* --- graphs, node by node ------------------------------------------------------------------------------- */

GWI_API(cuGraphCreate)(CUgraph *phGraph, unsigned int flags)
{
    if (phGraph == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *phGraph = (CUgraph)graph_make();
    return *phGraph != NULL ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

GWI_API(cuGraphDestroy)(CUgraph hGraph)
{
    gwi_graph *graph = gwi_object_find(hGraph, GWI_GRAPH);
    if (graph == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    gwi_graph_free(graph);
    return 0;
}

static int add(CUgraphNode *ret_node, CUgraph handle, const CUgraphNode *after, size_t after_count, int result,
               gwi_work *work)
{
    gwi_graph *graph = gwi_object_find(handle, GWI_GRAPH);
    if (result != 0)
        return result;
    bool ok = ret_node != NULL && graph != NULL && (after_count == 0 || after != NULL);
    for (size_t i = 0; ok && i < after_count; i++) {
        const gwi_node *node = gwi_object_find(after[i], GWI_NODE);
        ok = node != NULL && node->graph == graph;
    }
    gwi_node *node = ok ? gwi_node_add(graph, work, (gwi_node *const *)after, after_count) : NULL;
    if (node == NULL) {
        gwi_work_free(work);
        return ok ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    }
    *ret_node = (CUgraphNode)node;
    return 0;
}

static int kernel_node(const CUDA_KERNEL_NODE_PARAMS_v1 *params, gwi_work *work)
{
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const unsigned grid[3] = {params->gridDimX, params->gridDimY, params->gridDimZ};
    const unsigned block[3] = {params->blockDimX, params->blockDimY, params->blockDimZ};
    return gwi_kernel_work(params->func, grid, block, params->sharedMemBytes, params->kernelParams, params->extra,
                           work);
}

GWI_API(cuGraphAddKernelNode)
(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies,
 const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    gwi_work work;
    int result = kernel_node(nodeParams, &work);
    return add(phGraphNode, hGraph, dependencies, numDependencies, result, &work);
}

GWI_API(cuGraphAddKernelNode_v2)
(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies,
 const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    gwi_work work;
    CUDA_KERNEL_NODE_PARAMS_v1 params;
    if (nodeParams == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&params, nodeParams, sizeof params);
    if (params.func == NULL)
        params.func = (CUfunction)nodeParams->kern;
    int result = kernel_node(&params, &work);
    return add(phGraphNode, hGraph, dependencies, numDependencies, result, &work);
}

GWI_API(cuGraphAddMemcpyNode)
(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies,
 const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    gwi_work work;
    int result = copyParams == NULL ? CUDA_ERROR_INVALID_VALUE : gwi_copy_work(copyParams, &work);
    return add(phGraphNode, hGraph, dependencies, numDependencies, result, &work);
}

GWI_API(cuGraphAddMemsetNode)
(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies,
 const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    gwi_work work;
    const CUDA_MEMSET_NODE_PARAMS *p = memsetParams;
    int result = CUDA_ERROR_INVALID_VALUE;
    if (p != NULL && (p->elementSize == 1 || p->elementSize == 2 || p->elementSize == 4))
        result = gwi_fill_work(p->dst, p->pitch, p->value, p->elementSize, p->width, p->height, &work);
    return add(phGraphNode, hGraph, dependencies, numDependencies, result, &work);
}

GWI_API(cuGraphAddHostNode)
(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies,
 const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    gwi_work work = {.kind = GWI_WORK_HOST};
    int result = nodeParams == NULL || nodeParams->fn == NULL ? CUDA_ERROR_INVALID_VALUE : 0;
    if (result == 0) {
        work.host.function = nodeParams->fn;
        work.host.argument = nodeParams->userData;
    }
    return add(phGraphNode, hGraph, dependencies, numDependencies, result, &work);
}

GWI_API(cuGraphAddEmptyNode)
(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies)
{
    gwi_work work = {.kind = GWI_WORK_EMPTY};
    return add(phGraphNode, hGraph, dependencies, numDependencies, 0, &work);
}

/* Memory allocated by a graph belongs to the graph. It is allocated when the node is created and kept until the
 * process ends. */
static int alloc_node(CUDA_MEM_ALLOC_NODE_PARAMS *params, gwi_work *work)
{
    gwi_device *device = params != NULL ? gwi_device_find(params->poolProps.location.id) : NULL;
    gwi_block *block = NULL;
    if (device == NULL || params->bytesize == 0)
        return CUDA_ERROR_INVALID_VALUE;
    gwi_pool *pool = gwi_pool_default(device);
    int result = pool == NULL ? CUDA_ERROR_OUT_OF_MEMORY : gwi_pool_alloc(pool, params->bytesize, &block);
    if (result != 0)
        return result;
    params->dptr = block->range.base;
    *work = (gwi_work){.kind = GWI_WORK_ALLOC, .memory = {.address = params->dptr, .bytes = params->bytesize}};
    return 0;
}

GWI_API(cuGraphAddMemAllocNode)
(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies,
 CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
    gwi_work work;
    int result = alloc_node(nodeParams, &work);
    return add(phGraphNode, hGraph, dependencies, numDependencies, result, &work);
}

GWI_API(cuGraphAddMemFreeNode)
(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUdeviceptr dptr)
{
    gwi_work work = {.kind = GWI_WORK_EMPTY, .memory = {.address = dptr}};
    int result = gwi_block_at(dptr) == NULL ? CUDA_ERROR_INVALID_VALUE : 0;
    return add(phGraphNode, hGraph, dependencies, numDependencies, result, &work);
}

static gwi_graph *graph_copy(gwi_graph *graph);

static bool nodes_copy(gwi_graph *copy, gwi_graph *graph)
{
    bool ok = true;
    for (gwi_node *node = graph->first; ok && node != NULL; node = node->next) {
        gwi_work work;
        ok = gwi_work_copy(&work, &node->work);
        if (ok && node->work.kind == GWI_WORK_CHILD)
            ok = (work.child.graph = graph_copy(node->work.child.graph)) != NULL;
        node->copy = ok ? gwi_node_add(copy, &work, NULL, 0) : NULL;
        ok = node->copy != NULL;
    }
    return ok;
}

/* Copy the dependencies of all nodes. Copy all nodes before: a node may depend on one that was added later. */
static bool dependencies_copy(const gwi_graph *graph)
{
    for (const gwi_node *node = graph->first; node != NULL; node = node->next)
        for (size_t i = 0; i < node->after_count; i++)
            if (!gwi_node_after(node->copy, node->after[i]->copy))
                return false;
    return true;
}

/* Make a deep copy of a graph. Returns NULL if out of memory. */
static gwi_graph *graph_copy(gwi_graph *graph)
{
    gwi_graph *copy = graph_make();
    if (copy == NULL || (nodes_copy(copy, graph) && dependencies_copy(graph)))
        return copy;
    gwi_graph_free(copy);
    return NULL;
}

GWI_API(cuGraphClone)(CUgraph *phGraphClone, CUgraph originalGraph)
{
    gwi_graph *graph = gwi_object_find(originalGraph, GWI_GRAPH);
    if (phGraphClone == NULL || graph == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *phGraphClone = (CUgraph)graph_copy(graph);
    return *phGraphClone != NULL ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

GWI_API(cuGraphAddChildGraphNode)
(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUgraph childGraph)
{
    gwi_graph *child = gwi_object_find(childGraph, GWI_GRAPH);
    if (child == NULL || childGraph == hGraph)
        return CUDA_ERROR_INVALID_VALUE;
    gwi_work work = {.kind = GWI_WORK_CHILD};
    work.child.graph = graph_copy(child);
    return add(phGraphNode, hGraph, dependencies, numDependencies,
               work.child.graph != NULL ? 0 : CUDA_ERROR_OUT_OF_MEMORY, &work);
}

GWI_API(cuGraphAddDependencies)(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies)
{
    const gwi_graph *graph = gwi_object_find(hGraph, GWI_GRAPH);
    for (size_t i = 0; i < numDependencies; i++) {
        gwi_node *first = gwi_object_find(from[i], GWI_NODE);
        gwi_node *second = gwi_object_find(to[i], GWI_NODE);
        if (graph == NULL || first == NULL || second == NULL || first->graph != graph || second->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
        if (!gwi_node_after(second, first))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return 0;
}

GWI_API(cuGraphGetNodes)(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    const gwi_graph *graph = gwi_object_find(hGraph, GWI_GRAPH);
    if (graph == NULL || numNodes == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    size_t count = 0;
    for (gwi_node *node = graph->first; nodes != NULL && node != NULL && count < *numNodes; node = node->next)
        nodes[count++] = (CUgraphNode)node;
    *numNodes = nodes != NULL ? count : graph->node_count;
    return 0;
}

GWI_API(cuGraphNodeGetType)(CUgraphNode hNode, CUgraphNodeType *type)
{
    static const struct {
        gwi_work_kind work;
        CUgraphNodeType type;
    } types[] = {{GWI_WORK_KERNEL, CU_GRAPH_NODE_TYPE_KERNEL},   {GWI_WORK_COPY, CU_GRAPH_NODE_TYPE_MEMCPY},
                 {GWI_WORK_FILL, CU_GRAPH_NODE_TYPE_MEMSET},     {GWI_WORK_HOST, CU_GRAPH_NODE_TYPE_HOST},
                 {GWI_WORK_ALLOC, CU_GRAPH_NODE_TYPE_MEM_ALLOC}, {GWI_WORK_CHILD, CU_GRAPH_NODE_TYPE_GRAPH}};
    const gwi_node *node = gwi_object_find(hNode, GWI_NODE);
    if (node == NULL || type == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *type = node->work.memory.address != 0 ? CU_GRAPH_NODE_TYPE_MEM_FREE : CU_GRAPH_NODE_TYPE_EMPTY;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].work == node->work.kind)
            *type = types[i].type;
    return 0;
}

/* --- running them --------------------------------------------------------------------------------------- */

static void exec_clear(graph_exec *exec)
{
    for (size_t i = 0; i < exec->count; i++)
        gwi_work_free(&exec->works[i]);
    free(exec->works);
    exec->works = NULL;
    exec->count = 0;
}

static bool exec_add(graph_exec *exec, const gwi_work *work)
{
    if (!gw_array_more(&exec->works, exec->count, sizeof *exec->works))
        return false;
    if (!gwi_work_copy(&exec->works[exec->count], work))
        return false;
    exec->count++;
    return true;
}

static bool is_ready(const gwi_node *node)
{
    for (size_t i = 0; i < node->after_count; i++)
        if (!node->after[i]->visited)
            return false;
    return true;
}

/* Collect all nodes in an order that respects the dependencies. Returns CUDA_ERROR_INVALID_VALUE (1) if they form a
 * cycle. */
static int exec_fill(graph_exec *exec, gwi_graph *graph)
{
    size_t left = graph->node_count;
    for (gwi_node *node = graph->first; node != NULL; node = node->next)
        node->visited = false;
    while (left > 0) {
        size_t before = left;
        for (gwi_node *node = graph->first; node != NULL; node = node->next) {
            if (node->visited || !is_ready(node))
                continue;
            node->visited = true;
            left--;
            int result = CUDA_ERROR_OUT_OF_MEMORY;
            if (node->work.kind == GWI_WORK_CHILD)
                result = exec_fill(exec, node->work.child.graph);
            else if (exec_add(exec, &node->work))
                result = 0;
            if (result != 0)
                return result;
        }
        if (left == before)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return 0;
}

static int instantiate(CUgraphExec *ret_exec, CUgraph handle)
{
    gwi_graph *graph = gwi_object_find(handle, GWI_GRAPH);
    if (ret_exec == NULL || graph == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    graph_exec *exec = calloc(1, sizeof *exec);
    if (exec == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    int result = exec_fill(exec, graph);
    if (result != 0) {
        exec_clear(exec);
        free(exec);
        return result;
    }
    gwi_object_add(&exec->object, GWI_EXEC);
    *ret_exec = (CUgraphExec)exec;
    return 0;
}

GWI_RETURN(cuGraphInstantiateWithFlags, (CUgraphExec * phGraphExec, CUgraph hGraph, unsigned long long flags),
           instantiate(phGraphExec, hGraph))

GWI_API(cuGraphInstantiateWithParams)
(CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    int result = instantiate(phGraphExec, hGraph);
    if (instantiateParams != NULL) {
        instantiateParams->hErrNode_out = NULL;
        instantiateParams->result_out = (CUgraphInstantiateResult)(result == 0 ? 0 : 1);
    }
    return result;
}

GWI_API(cuGraphInstantiate_v2)
(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
    if (phErrorNode != NULL)
        *phErrorNode = NULL;
    if (logBuffer != NULL && bufferSize > 0)
        logBuffer[0] = '\0';
    return instantiate(phGraphExec, hGraph);
}
GWI_ALIAS(cuGraphInstantiate, cuGraphInstantiate_v2);

GWI_API(cuGraphUpload)(CUgraphExec hGraphExec, CUstream hStream)
{
    gwi_stream_find(hStream);
    return gwi_object_find(hGraphExec, GWI_EXEC) != NULL ? 0 : CUDA_ERROR_INVALID_VALUE;
}

/* False if a device reset has unloaded modules, and with them the functions of the graph's kernel nodes. */
static bool has_its_functions(const graph_exec *exec)
{
    for (size_t i = 0; i < exec->count; i++) {
        const gwi_work *work = &exec->works[i];
        if (work->kind == GWI_WORK_KERNEL && gwi_object_find(work->kernel.function, GWI_FUNCTION) == NULL &&
            gwi_object_find(work->kernel.function, GWI_KERNEL) == NULL)
            return false;
    }
    return true;
}

GWI_API(cuGraphLaunch)(CUgraphExec hGraphExec, CUstream hStream)
{
    graph_exec *exec = gwi_object_find(hGraphExec, GWI_EXEC);
    gwi_stream *stream = gwi_stream_find(hStream);
    if (exec == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!has_its_functions(exec))
        return CUDA_ERROR_INVALID_HANDLE;
    for (size_t i = 0; i < exec->count; i++) {
        gwi_work work;
        if (!gwi_work_copy(&work, &exec->works[i]))
            return CUDA_ERROR_OUT_OF_MEMORY;
        if (work.kind == GWI_WORK_KERNEL)
            work.kernel.launch_number = ++gwi.launch_count;
        int result = gwi_submit(stream, &work, NULL, NULL);
        if (result != 0) {
            gwi_work_free(&work);
            return result;
        }
    }
    return gwi_block_after_launch(stream);
}

GWI_API(cuGraphExecDestroy)(CUgraphExec hGraphExec)
{
    graph_exec *exec = gwi_object_find(hGraphExec, GWI_EXEC);
    if (exec == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    gwi_object_remove(&exec->object);
    exec_clear(exec);
    free(exec);
    return 0;
}

/* Give an executable graph's nodes the parameters of another graph. Unless that graph has the same kinds of nodes in
 * the same order, return an error and change nothing. */
GWI_API(cuGraphExecUpdate_v2)(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
    graph_exec *exec = gwi_object_find(hGraphExec, GWI_EXEC);
    gwi_graph *graph = gwi_object_find(hGraph, GWI_GRAPH);
    graph_exec fresh = {.count = 0};
    if (exec == NULL || graph == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    int result = exec_fill(&fresh, graph);
    bool same = result == 0 && fresh.count == exec->count;
    for (size_t i = 0; same && i < fresh.count; i++)
        same = fresh.works[i].kind == exec->works[i].kind;
    if (resultInfo != NULL) {
        memset(resultInfo, 0, sizeof *resultInfo);
        resultInfo->result = (CUgraphExecUpdateResult)(same ? 0 : 2);
    }
    if (!same) {
        exec_clear(&fresh);
        return result != 0 ? result : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    exec_clear(exec);
    exec->works = fresh.works;
    exec->count = fresh.count;
    return 0;
}
