/* A healthy program that keeps a virtual card busy for more than a second with few calls, so that the card is read
 * meanwhile. On a real card its kernels take no time. */
#include "scenario.h"

#include "kernel_ptx.h"

#include <stdio.h>

enum { ROUNDS = 6, KERNELS_OF_A_ROUND = 4, BLOCK_BYTES = 64 << 20 };

static const char slow_ptx[] =
    PTX_HEAD PTX_MODEL("slow", "0", "0", "0", "0", "50000") ".visible .entry slow()\n{\nret;\n}\n";

int main(int argc, char **argv)
{
    const char *truth_path = NULL;
    struct gpu gpu;
    const struct option_row rows[] = {{"truth", OPTION_TEXT, &truth_path, "file for what the program knows"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    options_parse(argc, argv, rows, "Runs kernels of 50 ms for more than a second.");
    truth_open(truth_path);
    gpu_open(&gpu, 0);
    CUfunction slow = gpu_kernel(gpu_load(slow_ptx), "slow");
    CUdeviceptr block[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(cuMemAlloc(&block[round], BLOCK_BYTES)); /* so that a chart of the memory has steps */
        for (int i = 0; i < KERNELS_OF_A_ROUND; i++)
            CHECK(cuLaunchKernel(slow, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
        CHECK(cuCtxSynchronize());
    }
    for (int round = 0; round < ROUNDS; round++)
        CHECK(cuMemFree(block[round]));
    truth("rounds", "%d", ROUNDS);
    gpu_close(&gpu);
    printf("%d kernels\n", ROUNDS * KERNELS_OF_A_ROUND);
    return 0;
}
