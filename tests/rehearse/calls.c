/* Run all groups of calls, or those that are named: see calls.h. */
#include "calls.h"

#include "gw_embedded.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern const gw_embedded rehearse_kernels[];

const char *group_name = "";
CUdevice device;
CUcontext context;
CUmodule module;

void need(CUresult result, const char *what)
{
    if (result == 0)
        return;
    printf("%s.%s failed with %d\n", group_name, what, (int)result);
    exit(1);
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
    need(cuModuleLoadData(&module, rehearse_kernels[0].text), "cuModuleLoadData");
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

static bool is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc == 1;
}

/* Run a group in a child process, which has not used the driver yet. */
static void run(const group *g)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        group_name = g->name;
        setvbuf(stdout, NULL, _IOLBF, 0);
        g->run();
        exit(0);
    }
    waitpid(child, &status, 0);
    printf("%s.end = %d\n", g->name, status);
}

int main(int argc, char **argv)
{
    const group *const lists[] = {memory_groups, work_groups};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (const group *g = lists[k]; g->name != NULL; g++)
            if (is_wanted(g->name, argc, argv))
                run(g);
    return 0;
}
