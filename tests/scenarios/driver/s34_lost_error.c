/* S34: a copy fails, and the program ignores its result. As in the runtime API, the error is stored until the program
 * checks for errors: after a later, correct launch, or never (--unnoticed). Repaired: the copy is correct. */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>

static CUresult first_error;

/* Store the first error, like a program that wraps its calls and checks for errors only now and then. */
static void keep(CUresult result)
{
    if (first_error == CUDA_SUCCESS)
        first_error = result;
}

static void copy_in(CUdeviceptr to, const void *from, size_t bytes)
{
    keep(cuMemcpyHtoD(to, from, bytes));
}

static int check(const char *where)
{
    const char *name = "?";
    if (first_error == CUDA_SUCCESS)
        return 0;
    cuGetErrorName(first_error, &name);
    fprintf(stderr, "%s: %s\n", where, name);
    return 1;
}

int main(int argc, char **argv)
{
    enum { BYTES = 1 << 20 };
    int unnoticed = 0;
    struct gpu gpu;
    CUdeviceptr block;
    const struct option_row rows[] = {{"unnoticed", OPTION_FLAG, &unnoticed, "looks at no result"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired = scenario_begin(argc, argv, rows, "Loses the result of a copy; repaired, copies what there is.");
    gpu_open(&gpu, 0);
    CUfunction store = gpu_kernel(gpu_load(scenario_ptx), "store");
    void *host = calloc(2, BYTES);
    CHECK(cuMemAlloc(&block, BYTES));
    copy_in(block, host, repaired ? BYTES : 2 * BYTES);
    for (int step = 0; step < 20; step++)
        keep(scenario_store(store, block, NULL));
    keep(cuCtxSynchronize());
    int bad = unnoticed ? 0 : check("after the launch");
    CHECK(cuMemFree(block));
    free(host);
    gpu_close(&gpu);
    return bad;
}
