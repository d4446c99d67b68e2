/* Open a device, load PTX, and exit on errors: see gpu.h. */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>

void (*gpu_before_giving_up)(CUresult result);

void gpu_check(CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return;
    const char *name = NULL;
    if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL)
        name = "unknown error";
    fprintf(stderr, "%s: %s (%d)\n", call, name, (int)result);
    void (*last_words)(CUresult) = gpu_before_giving_up;
    gpu_before_giving_up = NULL;
    if (last_words != NULL)
        last_words(result);
    exit(1);
}

void gpu_open(struct gpu *gpu, int ordinal)
{
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&gpu->device, ordinal));
    CHECK(cuDevicePrimaryCtxRetain(&gpu->context, gpu->device));
    CHECK(cuCtxSetCurrent(gpu->context));
}

void gpu_close(struct gpu *gpu)
{
    CHECK(cuCtxSetCurrent(NULL));
    CHECK(cuDevicePrimaryCtxRelease(gpu->device));
}

CUmodule gpu_load(const char *ptx)
{
    CUmodule module;
    CHECK(cuModuleLoadData(&module, ptx));
    return module;
}

CUfunction gpu_kernel(CUmodule module, const char *name)
{
    CUfunction kernel;
    CHECK(cuModuleGetFunction(&kernel, module, name));
    return kernel;
}
