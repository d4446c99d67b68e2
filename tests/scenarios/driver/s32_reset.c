/* S32: the device is reset between two model calls, and something of the first call is used in the second: a pointer
 * by a kernel, a stream, an event, a pointer to be freed. Repaired: the second call makes everything anew. */
#include "scenario.h"

#include <stdio.h>
#include <string.h>

struct call {
    CUfunction store;
    CUdeviceptr weights;
    CUstream stream;
    CUevent done;
};

/* What stands in `call` already is kept, the rest is made. */
static void call_begin(struct call *call)
{
    call->store = gpu_kernel(gpu_load(scenario_ptx), "store");
    if (call->weights == 0)
        CHECK(cuMemAlloc(&call->weights, 4 << 20));
    if (call->stream == NULL)
        CHECK(cuStreamCreate(&call->stream, CU_STREAM_NON_BLOCKING));
    if (call->done == NULL)
        CHECK(cuEventCreate(&call->done, CU_EVENT_DISABLE_TIMING));
}

static void call_compute(const struct call *call)
{
    CHECK(scenario_store(call->store, call->weights, call->stream));
    CHECK(cuEventRecord(call->done, call->stream));
    CHECK(cuEventSynchronize(call->done));
    CHECK(cuStreamSynchronize(call->stream));
}

static void call_end(const struct call *call)
{
    CHECK(cuEventDestroy(call->done));
    CHECK(cuStreamDestroy(call->stream));
    CHECK(cuMemFree(call->weights));
}

int main(int argc, char **argv)
{
    const char *truth_path = NULL, *use = "pointer";
    int repaired = 0;
    const struct option_row rows[] = {{"repaired", OPTION_FLAG, &repaired, "without the fault"},
                                      {"truth", OPTION_TEXT, &truth_path, "file for what the program knows"},
                                      {"use", OPTION_TEXT, &use, "what is kept: pointer, stream, event or free"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    options_parse(argc, argv, rows, "Resets the device between two model calls.");
    truth_open(truth_path);
    struct gpu gpu;
    struct call first = {0}, second = {0};
    gpu_open(&gpu, 0);
    call_begin(&first);
    call_compute(&first);
    truth("pointer", "%llu", (unsigned long long)first.weights);
    CHECK(cuDevicePrimaryCtxReset(gpu.device));
    CHECK(cuDevicePrimaryCtxRetain(&gpu.context, gpu.device));
    CHECK(cuCtxSetCurrent(gpu.context));
    if (!repaired && strcmp(use, "pointer") == 0)
        second.weights = first.weights;
    if (!repaired && strcmp(use, "stream") == 0)
        second.stream = first.stream;
    if (!repaired && strcmp(use, "event") == 0)
        second.done = first.done;
    if (!repaired && strcmp(use, "free") == 0)
        CHECK(cuMemFree(first.weights));
    call_begin(&second);
    call_compute(&second);
    call_end(&second);
    gpu_close(&gpu);
    printf("both calls are done\n");
    return 0;
}
