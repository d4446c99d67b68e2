/* Imitates a library that chooses an algorithm. Each step requests the workspace of the fast algorithm, or else the
 * smaller one of the slow algorithm. The program keeps more memory after each step, until only the slow one fits.
 * Repaired: the program keeps less, and the fast one always fits. */
#include "scenario.h"

#include "kernel_ptx.h"

#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

enum { STEPS = 32, KEPT_MAX = 64, ALGORITHMS = 2 };
static const size_t workspace_bytes[ALGORITHMS] = {(size_t)1 << 30, (size_t)96 << 20};

#define KERNEL(name)                                                                                                   \
    ".visible .entry " name "(.param .u64 p)\n{\n.reg .b64 %d0;\n.reg .b32 %r0;\n"                                     \
    "ld.param.u64 %d0, [p];\nmov.u32 %r0, 1;\nst.global.u32 [%d0], %r0;\nret;\n}\n"
static const char ptx[] = PTX_HEAD KERNEL("conv_large") KERNEL("conv_small");

/* Allocate the workspace of the fastest algorithm that fits. Returns the index of the algorithm; 0: the fastest. */
static int take_workspace(CUdeviceptr *workspace)
{
    int algorithm = 0;
    while (algorithm < ALGORITHMS && cuMemAlloc(workspace, workspace_bytes[algorithm]) != CUDA_SUCCESS)
        algorithm++;
    if (algorithm == ALGORITHMS)
        scenario_fail("no algorithm fits");
    return algorithm;
}

static int convolve(const CUfunction kernel[ALGORITHMS])
{
    CUdeviceptr workspace = 0;
    int algorithm = take_workspace(&workspace);
    CHECK(scenario_store(kernel[algorithm], workspace, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree(workspace));
    return algorithm;
}

int main(int argc, char **argv)
{
    const char *library = NULL;
    const struct option_row rows[] = {{"library", OPTION_TEXT, &library, "a library to load first"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired = scenario_begin(argc, argv, rows, "Takes the workspace that there is room for.");
    if (library != NULL && dlopen(library, RTLD_NOW) == NULL)
        scenario_fail("%s", dlerror());
    struct gpu gpu;
    static CUdeviceptr kept[KEPT_MAX];
    size_t kept_count = 0, slow = 0;
    const size_t kept_bytes = (size_t)(repaired ? 16 : 128) << 20;
    const struct timespec a_while = {.tv_nsec = 400000000};
    gpu_open(&gpu, 0);
    nanosleep(&a_while, NULL); /* run for a while, like a real training run */
    CUmodule module = gpu_load(ptx);
    CUfunction kernel[ALGORITHMS] = {gpu_kernel(module, "conv_large"), gpu_kernel(module, "conv_small")};
    truth("large_bytes", "%zu", workspace_bytes[0]);
    truth("small_bytes", "%zu", workspace_bytes[1]);
    for (int step = 0; step < STEPS; step++) {
        slow += convolve(kernel) != 0;
        if (kept_bytes * kept_count < (size_t)3 << 30 && kept_count < KEPT_MAX)
            CHECK(cuMemAlloc(&kept[kept_count++], kept_bytes));
    }
    truth("slow_steps", "%zu", slow);
    while (kept_count > 0)
        CHECK(cuMemFree(kept[--kept_count]));
    printf("worked\n"); /* the context ends with the process, as in programs that use the runtime API */
    return 0;
}
