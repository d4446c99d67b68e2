/* S33: host code accesses memory that only the GPU may access. The address is that of a block, or NULL from an
 * unchecked allocation. Repaired: the data is copied to the host, and the result is checked. */
#include "scenario.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 48 << 20, OFFSET = 4096 };

static int host_read(CUdeviceptr address)
{
    const volatile int *there = (const int *)(uintptr_t)address;
    return *there;
}

static CUdeviceptr block_make(size_t bytes)
{
    CUdeviceptr block;
    CHECK(cuMemAlloc(&block, bytes));
    return block;
}

static int read_block(int repaired)
{
    CUdeviceptr other = block_make(1 << 20), block = block_make(BLOCK_BYTES);
    int value = 0;
    CHECK(cuMemsetD8(block, 0, BLOCK_BYTES));
    truth("block", "%llu", (unsigned long long)block);
    truth("address", "%llu", (unsigned long long)block + OFFSET);
    truth("block_bytes", "%d", BLOCK_BYTES);
    if (repaired)
        CHECK(cuMemcpyDtoH(&value, block + OFFSET, sizeof value));
    else
        value = host_read(block + OFFSET);
    CHECK(cuMemFree(block));
    CHECK(cuMemFree(other));
    return value;
}

static int read_null(int repaired)
{
    CUdeviceptr kept = block_make(BLOCK_BYTES), block = 0;
    size_t free_bytes, total_bytes;
    scenario_memory(&free_bytes, &total_bytes);
    truth("wanted_bytes", "%llu", (unsigned long long)total_bytes);
    CUresult result = cuMemAlloc(&block, repaired ? BLOCK_BYTES : total_bytes);
    if (repaired && result != CUDA_SUCCESS)
        scenario_fail("no room");
    int value = repaired ? 0 : host_read(block);
    if (repaired)
        CHECK(cuMemFree(block));
    CHECK(cuMemFree(kept));
    return value;
}

static void cope(int signal)
{
    (void)signal;
    const char text[] = "handled by the program\n";
    fwrite(text, 1, sizeof text - 1, stdout);
    fflush(stdout);
    _Exit(7);
}

int main(int argc, char **argv)
{
    const char *what = "block";
    int handles = 0;
    struct gpu gpu;
    const struct option_row rows[] = {{"what", OPTION_TEXT, &what, "block or null"},
                                      {"handles", OPTION_FLAG, &handles, "has a handler of its own, which exits 7"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired = scenario_begin(argc, argv, rows, "Reads GPU memory by a plain access of the host.");
    if (handles)
        signal(SIGSEGV, cope);
    gpu_open(&gpu, 0);
    int value = strcmp(what, "null") == 0 ? read_null(repaired) : read_block(repaired);
    printf("read %d\n", value);
    gpu_close(&gpu);
    return 0;
}
