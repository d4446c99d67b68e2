/* A healthy program that wastes time: it waits after each small launch. Repaired: it waits only now and then. */
#include "scenario.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    long long launches = 4000;
    struct gpu gpu;
    CUdeviceptr block;
    const struct option_row rows[] = {{"launches", OPTION_NUMBER, &launches, "how many (4000)"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired =
        scenario_begin(argc, argv, rows, "Waits for the GPU again and again; repaired, after a hundred launches.");
    gpu_open(&gpu, 0);
    CUfunction store = gpu_kernel(gpu_load(scenario_ptx), "store");
    long long waits = 0;
    CHECK(cuMemAlloc(&block, 1 << 20));
    for (long long i = 0; i < launches; i++) {
        CHECK(scenario_store(store, block, NULL));
        if (repaired && i % 100 != 99)
            continue;
        CHECK(cuCtxSynchronize());
        waits++;
    }
    truth("waits", "%lld", waits);
    CHECK(cuMemFree(block));
    gpu_close(&gpu);
    printf("%lld launches\n", launches);
    return 0;
}
