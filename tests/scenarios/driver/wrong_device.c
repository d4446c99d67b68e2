/* A call on one of two GPUs uses an object of the other. It launches a kernel while the wrong GPU is current, uses a
 * stream of the other GPU, or records its event. Repaired: the right GPU is made current first. */
#include "scenario.h"

#include <stdio.h>
#include <string.h>

struct side {
    struct gpu gpu;
    CUfunction store;
    CUstream stream;
    CUevent done;
    CUdeviceptr weights;
};

/* Open a GPU and leave it current. */
static void side_open(struct side *side, int ordinal)
{
    gpu_open(&side->gpu, ordinal);
    side->store = gpu_kernel(gpu_load(scenario_ptx), "store");
    CHECK(cuStreamCreate(&side->stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&side->done, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAlloc(&side->weights, 4 << 20));
}

static void side_close(const struct side *side)
{
    CHECK(cuCtxSetCurrent(side->gpu.context));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree(side->weights));
    CHECK(cuEventDestroy(side->done));
    CHECK(cuStreamDestroy(side->stream));
    CHECK(cuDevicePrimaryCtxRelease(side->gpu.device));
}

static CUresult train(const struct side *side, CUstream stream)
{
    return scenario_store(side->store, side->weights, stream);
}

int main(int argc, char **argv)
{
    const char *use = "kernel";
    const struct option_row rows[] = {{"use", OPTION_TEXT, &use, "what is the other GPU's: kernel, stream or event"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired = scenario_begin(argc, argv, rows, "Uses something of one GPU on another one.");
    struct side first, second;
    CUresult result;
    side_open(&first, 0);
    side_open(&second, 1); /* this GPU is current from here on */
    if (repaired)
        CHECK(cuCtxSetCurrent(first.gpu.context));
    if (strcmp(use, "event") == 0)
        result = cuEventRecord(first.done, repaired ? first.stream : second.stream);
    else if (strcmp(use, "stream") == 0)
        result = train(&first, repaired ? first.stream : second.stream);
    else
        result = train(&first, NULL);
    if (result != CUDA_SUCCESS)
        scenario_fail("GPU 0 does not work: %d", (int)result);
    side_close(&first);
    side_close(&second);
    printf("both GPUs are done\n");
    return 0;
}
