/* Runs commands from stdin on the GPUs, one per line, and prints the driver's results. Exits at the end of its input.
 *
 *    open CARD          make a context on this card and make it current; prints the first result that is an error
 *    alloc BYTES        allocate a block
 *    launch MS          launch a kernel of this duration
 *    fault              launch a kernel that writes to an invalid address
 *    upload BYTES       copy this many bytes to a new block, wait, and free the block
 *    sync               call cuCtxSynchronize
 *    info               call cuMemGetInfo
 *    ask                call cuStreamQuery */
#include "gpu.h"
#include "kernel_ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char ptx[] =
    PTX_HEAD ".visible .global .align 8 .u64 gpuwhy_model_spin[8] = {0x4D4B594857555047, 1, 0, 0, 0, 0, 0, 1};\n"
             ".visible .entry spin(.param .u64 ns)\n{\nret;\n}\n" PTX_FAULTS(
                 "wild", "0") ".visible .entry wild(.param .u64 at)\n{\nret;\n}\n";

static CUfunction spin, wild;

static CUresult open_card(int card)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGet(&device, card);
    if (result == CUDA_SUCCESS)
        result = cuDevicePrimaryCtxRetain(&context, device);
    if (result == CUDA_SUCCESS)
        result = cuCtxSetCurrent(context);
    if (result == CUDA_SUCCESS)
        result = cuModuleLoadData(&module, ptx);
    if (result == CUDA_SUCCESS)
        result = cuModuleGetFunction(&spin, module, "spin");
    return result == CUDA_SUCCESS ? cuModuleGetFunction(&wild, module, "wild") : result;
}

static CUresult launch(CUfunction kernel, unsigned long long value)
{
    void *arguments[] = {&value};
    return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
}

static CUresult upload(size_t bytes)
{
    CUdeviceptr block;
    CUresult result = cuMemAlloc(&block, bytes);
    void *data = calloc(1, bytes);
    if (result == CUDA_SUCCESS)
        result = cuMemcpyHtoD(block, data, bytes);
    if (result == CUDA_SUCCESS)
        result = cuMemFree(block);
    free(data);
    return result;
}

static CUresult obey(const char *word, unsigned long long number)
{
    CUdeviceptr block;
    size_t bytes_free, bytes_total;
    if (strcmp(word, "open") == 0)
        return open_card((int)number);
    if (strcmp(word, "alloc") == 0)
        return cuMemAlloc(&block, (size_t)number);
    if (strcmp(word, "upload") == 0)
        return upload((size_t)number);
    if (strcmp(word, "launch") == 0)
        return launch(spin, number * 1000000);
    if (strcmp(word, "fault") == 0)
        return launch(wild, 16);
    if (strcmp(word, "sync") == 0)
        return cuCtxSynchronize();
    if (strcmp(word, "info") == 0)
        return cuMemGetInfo(&bytes_free, &bytes_total);
    if (strcmp(word, "ask") == 0)
        return cuStreamQuery(NULL);
    fprintf(stderr, "card_user: unknown word %s\n", word);
    exit(2);
}

int main(void)
{
    char line[128], word[32];
    while (fgets(line, sizeof line, stdin) != NULL) {
        unsigned long long number = 0;
        if (sscanf(line, "%31s %llu", word, &number) < 1)
            continue;
        printf("%d\n", (int)obey(word, number));
        fflush(stdout);
    }
    return 0;
}
