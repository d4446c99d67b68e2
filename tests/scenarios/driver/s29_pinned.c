/* S29: the program registers the same host memory twice, or requests more page-locked memory than the host can lock
 * (--bytes). The driver refuses, but the GPU has memory. Repaired: it registers once, or requests little. */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static CUresult register_twice(int repaired)
{
    enum { BYTES = 1 << 20 };
    void *memory = aligned_alloc(4096, BYTES);
    if (memory == NULL)
        scenario_fail("no host memory");
    memset(memory, 0, BYTES);
    truth("bytes", "%d", BYTES);
    CHECK(cuMemHostRegister(memory, BYTES, 0));
    CUresult result = repaired ? CUDA_SUCCESS : cuMemHostRegister(memory, BYTES, 0);
    CHECK(cuMemHostUnregister(memory));
    free(memory);
    return result;
}

static CUresult ask_for_much(long long bytes)
{
    void *memory = NULL;
    truth("bytes", "%lld", bytes);
    CUresult result = cuMemHostAlloc(&memory, (size_t)bytes, 0);
    if (result == CUDA_SUCCESS)
        CHECK(cuMemFreeHost(memory));
    return result;
}

int main(int argc, char **argv)
{
    long long bytes = 0;
    const struct option_row rows[] = {{"bytes", OPTION_NUMBER, &bytes, "ask for that much instead of registering"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired = scenario_begin(argc, argv, rows, "Asks for page-locked memory that it cannot have.");
    struct gpu gpu;
    gpu_open(&gpu, 0);
    CUresult result = bytes > 0 ? ask_for_much(repaired ? 1 << 20 : bytes) : register_twice(repaired);
    truth("result", "%d", (int)result);
    gpu_close(&gpu);
    if (result != CUDA_SUCCESS)
        scenario_fail("page-locked memory was refused: %d", (int)result);
    printf("the memory was locked\n");
    return 0;
}
