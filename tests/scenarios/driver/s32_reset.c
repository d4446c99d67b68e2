/* S32: between two calls of a model, the device is reset by the program, or by a library on its own thread (--by
 * library). The second call then uses an object of the first call:
 * - a pointer, in a kernel, a copy or a free
 * - a stream, an event or an executable graph
 * - a module or one of its functions
 * - the context
 * Repaired: the second call creates all objects again. */
#include "scenario.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct call {
    CUmodule module;
    CUfunction store;
    CUdeviceptr weights;
    CUstream stream;
    CUevent done;
    CUgraphExec steps;
};

static CUgraphExec steps_record(const struct call *call)
{
    CUgraph graph;
    CUgraphExec steps;
    CHECK(cuStreamBeginCapture(call->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(scenario_store(call->store, call->weights, call->stream));
    CHECK(cuStreamEndCapture(call->stream, &graph));
    CHECK(cuGraphInstantiate(&steps, graph, 0));
    CHECK(cuGraphDestroy(graph));
    return steps;
}

/* Keep the objects that `call` already has, and create the missing ones. */
static void call_begin(struct call *call)
{
    if (call->module == NULL)
        CHECK(cuModuleLoadData(&call->module, scenario_ptx));
    if (call->store == NULL)
        CHECK(cuModuleGetFunction(&call->store, call->module, "store"));
    if (call->weights == 0)
        CHECK(cuMemAlloc(&call->weights, 4 << 20));
    if (call->stream == NULL)
        CHECK(cuStreamCreate(&call->stream, CU_STREAM_NON_BLOCKING));
    if (call->done == NULL)
        CHECK(cuEventCreate(&call->done, CU_EVENT_DISABLE_TIMING));
    if (call->steps == NULL)
        call->steps = steps_record(call);
}

static void call_compute(const struct call *call)
{
    int zero = 0;
    CHECK(cuMemcpyHtoD(call->weights, &zero, sizeof zero));
    CHECK(scenario_store(call->store, call->weights, call->stream));
    CHECK(cuGraphLaunch(call->steps, call->stream));
    CHECK(cuEventRecord(call->done, call->stream));
    CHECK(cuEventSynchronize(call->done));
    CHECK(cuStreamSynchronize(call->stream));
}

/* The part of a call that only uses the pointer `weights`, in a kernel. */
static void call_launch(const struct call *call)
{
    CHECK(scenario_store(call->store, call->weights, call->stream));
    CHECK(cuStreamSynchronize(call->stream));
}

static void call_end(const struct call *call)
{
    CHECK(cuGraphExecDestroy(call->steps));
    CHECK(cuEventDestroy(call->done));
    CHECK(cuStreamDestroy(call->stream));
    CHECK(cuMemFree(call->weights));
}

/* Imitate a second library in the process, such as numba beside PyTorch: reset the device as if nothing else used
 * it. */
static void *library_close(void *device)
{
    CHECK(cuDevicePrimaryCtxReset(*(CUdevice *)device));
    return NULL;
}

static void reset(struct gpu *gpu, const char *by)
{
    pthread_t thread;
    if (strcmp(by, "library") != 0)
        CHECK(cuDevicePrimaryCtxReset(gpu->device));
    else if (pthread_create(&thread, NULL, library_close, &gpu->device) != 0 || pthread_join(thread, NULL) != 0)
        scenario_fail("no thread");
}

static void keep(struct call *second, const struct call *first, const char *use)
{
    if (strcmp(use, "pointer") == 0 || strcmp(use, "copy") == 0)
        second->weights = first->weights;
    if (strcmp(use, "stream") == 0)
        second->stream = first->stream;
    if (strcmp(use, "event") == 0)
        second->done = first->done;
    if (strcmp(use, "module") == 0)
        second->module = first->module;
    if (strcmp(use, "function") == 0)
        second->store = first->store;
    if (strcmp(use, "graph") == 0)
        second->steps = first->steps;
    if (strcmp(use, "free") == 0)
        CHECK(cuMemFree(first->weights));
}

int main(int argc, char **argv)
{
    const char *use = "pointer", *by = "program";
    const struct option_row rows[] = {
        {"use", OPTION_TEXT, &use,
         "what is kept: pointer, copy, free, stream, event, module, function, graph or context"},
        {"by", OPTION_TEXT, &by, "who resets: program, or library on a thread of its own"},
        {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired = scenario_begin(argc, argv, rows, "Resets the device between two model calls.");
    struct gpu gpu;
    struct call first = {0}, second = {0};
    gpu_open(&gpu, 0);
    call_begin(&first);
    call_compute(&first);
    truth("pointer", "%llu", (unsigned long long)first.weights);
    reset(&gpu, by);
    if (repaired || strcmp(use, "context") != 0) {
        CHECK(cuDevicePrimaryCtxRetain(&gpu.context, gpu.device));
        CHECK(cuCtxSetCurrent(gpu.context));
    }
    if (!repaired)
        keep(&second, &first, use);
    call_begin(&second);
    if (!repaired && strcmp(use, "pointer") == 0)
        call_launch(&second);
    call_compute(&second);
    call_end(&second);
    gpu_close(&gpu);
    printf("both calls are done\n");
    return 0;
}
