/* Kernel launches, with the checks that a real driver makes. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gwi_virt.h"

/* --- the checks ----------------------------------------------------------------------------------------- */

static int check_shape(const gwi_function *function, const unsigned grid[3], const unsigned block[3], unsigned shared)
{
    static const char axes[] = "XYZ";
    const int *a = gwi.spec.card.attributes;
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    for (int i = 0; i < 3; i++) {
        if (grid[i] == 0 || block[i] == 0) {
            gwi_say("%s Dimension %c must be nonzero", grid[i] == 0 ? "Grid" : "Block", axes[i]);
            return CUDA_ERROR_INVALID_VALUE;
        }
        if (grid[i] > (unsigned)a[5 + i]) {
            gwi_say("Grid Dimension %c of %u exceeds maximum value of %d", axes[i], grid[i], a[5 + i]);
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (block[0] > (unsigned)a[2] || block[1] > (unsigned)a[3] || block[2] > (unsigned)a[4]) {
        gwi_say("One or more of block dimensions of (%u,%u,%u) exceeds the maximum value of (%d,%d,%d)", block[0],
                block[1], block[2], a[2], a[3], a[4]);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (threads > (unsigned)a[1]) {
        gwi_say("A block of %llu threads exceeds the maximum of %d", (unsigned long long)threads, a[1]);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (function->info->threads_max != 0 && threads > function->info->threads_max) {
        gwi_say("A block of %llu threads exceeds the kernel's own maximum of %u", (unsigned long long)threads,
                function->info->threads_max);
        return CUDA_ERROR_INVALID_VALUE;
    }
    int shared_max =
        function->shared_dynamic_max != 0 ? function->shared_dynamic_max : a[8] - (int)function->info->shared_bytes;
    if (shared > (unsigned)(shared_max > 0 ? shared_max : 0)) {
        gwi_say("Requested dynamic shared memory size of %u bytes exceeds maximum dynamic shared memory size of %d "
                "bytes",
                shared, shared_max);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return 0;
}

/* Copy all parameters to one new buffer, from pointers (`params`) or from the packed buffer in `extra`. */
static int take_params(const gwi_function *function, void **params, void **extra, unsigned char **ret_params)
{
    const gwi_kernel_info *info = function->info;
    if (params != NULL && extra != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (info->param_count == 0)
        return 0;
    if (params == NULL && extra == NULL) {
        gwi_say("CUDA kernel %.100s has %u parameters but none provided at launch", info->name, info->param_count);
        return CUDA_ERROR_INVALID_VALUE;
    }
    unsigned char *buffer = calloc(1, info->param_bytes);
    if (buffer == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (params != NULL) {
        for (uint32_t i = 0; i < info->param_count; i++)
            memcpy(buffer + info->params[i].offset, params[i], info->params[i].bytes);
    } else {
        const void *from = NULL;
        size_t bytes = 0;
        for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
            if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
                from = extra[1];
            else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
                bytes = *(size_t *)extra[1];
        }
        if (from == NULL || bytes > info->param_bytes) {
            free(buffer);
            return from == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        }
        memcpy(buffer, from, bytes);
    }
    *ret_params = buffer;
    return 0;
}

/* Check a launch and convert it to work. Also used for kernel nodes of graphs. */
int gwi_kernel_work(CUfunction handle, const unsigned grid[3], const unsigned block[3], unsigned shared, void **params,
                    void **extra, gwi_work *ret_work)
{
    gwi_function *function = gwi_function_find(handle);
    if (function == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    int result = check_shape(function, grid, block, shared);
    unsigned char *buffer = NULL;
    if (result == 0)
        result = take_params(function, params, extra, &buffer);
    if (result != 0)
        return result;
    memset(ret_work, 0, sizeof *ret_work);
    ret_work->kind = GWI_WORK_KERNEL;
    ret_work->kernel.function = function;
    memcpy(ret_work->kernel.grid, grid, sizeof ret_work->kernel.grid);
    memcpy(ret_work->kernel.block, block, sizeof ret_work->kernel.block);
    ret_work->kernel.shared_bytes = shared;
    ret_work->kernel.params = buffer;
    return 0;
}

static int launch(CUfunction handle, const unsigned grid[3], const unsigned block[3], unsigned shared,
                  CUstream stream_handle, void **params, void **extra)
{
    gwi_work work;
    int result = gwi_kernel_work(handle, grid, block, shared, params, extra, &work);
    if (result != 0)
        return result;
    gwi_stream *stream = gwi_stream_find(stream_handle);
    if (stream->context != work.kernel.function->module->context) {
        gwi_work_free(&work);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    work.kernel.launch_number = ++gwi.launch_count;
    result = gwi_submit(stream, &work, NULL, NULL);
    if (result != 0)
        gwi_work_free(&work);
    else
        result = gwi_block_after_launch(stream);
    return result;
}

GWI_API(cuLaunchKernel)
(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,
 unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams,
 void **extra)
{
    const unsigned grid[3] = {gridDimX, gridDimY, gridDimZ};
    const unsigned block[3] = {blockDimX, blockDimY, blockDimZ};
    return launch(f, grid, block, sharedMemBytes, hStream, kernelParams, extra);
}

GWI_API(cuLaunchKernelEx)(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
    if (config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
    const unsigned block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
    return launch(f, grid, block, config->sharedMemBytes, config->hStream, kernelParams, extra);
}

GWI_API(cuLaunchCooperativeKernel)
(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,
 unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams)
{
    const unsigned grid[3] = {gridDimX, gridDimY, gridDimZ};
    const unsigned block[3] = {blockDimX, blockDimY, blockDimZ};
    const int *a = gwi.spec.card.attributes;
    uint64_t threads = (uint64_t)blockDimX * blockDimY * blockDimZ;
    uint64_t resident = threads > 0 && threads <= (unsigned)a[39] ? (uint64_t)a[16] * ((unsigned)a[39] / threads) : 0;
    if ((uint64_t)gridDimX * gridDimY * gridDimZ > resident && threads <= (unsigned)a[1] && resident > 0)
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return launch(f, grid, block, sharedMemBytes, hStream, kernelParams, NULL);
}
