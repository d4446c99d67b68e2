/* S15: the program launches a kernel with 4096 threads per block, or with too much shared memory. No device supports
 * this. The error is not sticky: a valid launch afterwards works. Repaired: 256 threads and no shared memory. */
#include "scenario.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    long long threads = 4096, shared_bytes = 0;
    const struct option_row rows[] = {{"threads", OPTION_NUMBER, &threads, "threads in a block"},
                                      {"shared", OPTION_NUMBER, &shared_bytes, "dynamic shared memory in bytes"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired = scenario_begin(argc, argv, rows, "Launches a kernel with a configuration that no device takes.");
    if (repaired) {
        threads = 256;
        shared_bytes = 0;
    }
    struct gpu gpu;
    CUdeviceptr block;
    gpu_open(&gpu, 0);
    CUfunction store = gpu_kernel(gpu_load(scenario_ptx), "store");
    CHECK(cuMemAlloc(&block, 4096));
    void *arguments[] = {&block};
    CUresult result =
        cuLaunchKernel(store, 1, 1, 1, (unsigned)threads, 1, 1, (unsigned)shared_bytes, NULL, arguments, NULL);
    truth("threads", "%lld", threads);
    truth("shared_bytes", "%lld", shared_bytes);
    truth("launch_result", "%d", (int)result);
    CHECK(scenario_store(store, block, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree(block));
    gpu_close(&gpu);
    if (result != CUDA_SUCCESS)
        scenario_fail("the launch was refused: %d", (int)result);
    printf("launched\n");
    return 0;
}
