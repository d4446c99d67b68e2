/* S08: blocks of 1 MiB share pages of 2 MiB. If every other block is freed, no page returns to the GPU, and one large
 * block does not fit. Repaired: the blocks are large, with pages of their own. */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS_MAX = 1 << 18 };
static CUdeviceptr blocks[BLOCKS_MAX];

static size_t fill(size_t block_bytes, size_t leave_bytes)
{
    size_t count = 0, bytes_free, bytes_total;
    scenario_memory(&bytes_free, &bytes_total);
    while (bytes_free >= leave_bytes && count < BLOCKS_MAX) {
        CHECK(cuMemAlloc(&blocks[count++], block_bytes));
        if (count % 16 == 0 || block_bytes > (1 << 20))
            scenario_memory(&bytes_free, &bytes_total);
    }
    return count;
}

int main(int argc, char **argv)
{
    bool repaired = scenario_begin(argc, argv, NULL, "Fragments the driver's memory with small blocks.");
    struct gpu gpu;
    CUdeviceptr large;
    gpu_open(&gpu, 0);
    size_t block_bytes = (size_t)(repaired ? 64 : 1) << 20;
    size_t count = fill(block_bytes, (size_t)1 << 30);
    for (size_t index = 0; index < count; index += 2)
        CHECK(cuMemFree(blocks[index]));
    size_t kept = count / 2;
    truth("kept_blocks", "%zu", kept);
    truth("kept_bytes", "%zu", kept * block_bytes);
    truth("held_bytes", "%zu", kept * ((size_t)2 << 20));
    truth("wanted_bytes", "%zu", (size_t)2 << 30);
    CUresult result = cuMemAlloc(&large, (size_t)2 << 30);
    if (result != CUDA_SUCCESS)
        scenario_fail("no room for 2 GiB although half of the blocks is free: %d", (int)result);
    CHECK(cuMemFree(large));
    for (size_t index = 1; index < count; index += 2)
        CHECK(cuMemFree(blocks[index]));
    gpu_close(&gpu);
    printf("there was room\n");
    return 0;
}
