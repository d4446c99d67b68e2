/* A healthy program that wastes time: it waits after each small launch. Repaired: it waits only now and then. */
#include "scenario.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    const char *truth_path = NULL;
    int repaired = 0;
    long long launches = 4000;
    struct gpu gpu;
    CUdeviceptr block;
    const struct option_row rows[] = {{"launches", OPTION_NUMBER, &launches, "how many (4000)"},
                                      {"repaired", OPTION_FLAG, &repaired, "waits after a hundred launches"},
                                      {"truth", OPTION_TEXT, &truth_path, "file for what the program knows"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    options_parse(argc, argv, rows, "Waits for the GPU again and again.");
    truth_open(truth_path);
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
