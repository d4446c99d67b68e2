/* See card.h. */
#include "card.h"

#include <stdio.h>
#include <unistd.h>

#include "gw_embedded.h"

extern const gw_embedded conformance_kernels[];

const char *group_name = "";
CUdevice device;
CUcontext context;
CUmodule module;

void need(CUresult result, const char *what)
{
    if (result == 0)
        return;
    printf("not ok %s.setup got %d want 0 (%s)\n", group_name, (int)result, what);
    fflush(stdout);
    _exit(1);
}

void up(void)
{
    need(cuInit(0), "cuInit");
    need(cuDeviceGet(&device, 0), "cuDeviceGet");
    need(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    need(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

void up_with_module(void)
{
    up();
    need(cuModuleLoadData(&module, kernels_text()), "cuModuleLoadData");
}

const char *kernels_text(void)
{
    return conformance_kernels[0].text;
}

CUfunction function(const char *name)
{
    CUfunction found = NULL;
    need(cuModuleGetFunction(&found, module, name), name);
    return found;
}

CUdeviceptr must_alloc(size_t bytes)
{
    CUdeviceptr address = 0;
    need(cuMemAlloc(&address, bytes), "cuMemAlloc");
    return address;
}

size_t free_bytes(void)
{
    size_t free_now = 0, total = 0;
    need(cuMemGetInfo(&free_now, &total), "cuMemGetInfo");
    return free_now;
}
