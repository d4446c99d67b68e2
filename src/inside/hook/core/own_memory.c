/* What a process holds of a card's memory, by NVML: see gwi_hook.h. */

#include "gwi_hook.h"

#include "gw_nvml_abi.h"

#include <dlfcn.h>
#include <unistd.h>

enum { PROCESSES_MAX = 256, DEVICES_MAX = 64 };

/* A card holds about 9 MiB beyond its processes (H100, driver 580.159.04). If it is much more, there are processes that
 * NVML does not list here, such as those of other containers, or one has just allocated. */
static const uint64_t extra_most_bytes = (uint64_t)256 << 20;

static struct {
    int (*by_bus)(const char *bus, void **device);
    int (*processes)(void *device, unsigned *count, nvmlProcessInfo_t *info);
    int (*memory)(void *device, nvmlMemory_v2_t *memory);
    void *device[DEVICES_MAX];
    _Atomic bool ready; /* the members above are set */
} nvml;

static void nvml_open(void)
{
    static _Atomic int state; /* 0: not tried, 1: in progress or done */
    if (atomic_exchange(&state, 1) != 0)
        return;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return;
    int (*init)(void) = (int (*)(void))dlsym(library, "nvmlInit_v2");
    *(void **)&nvml.by_bus = dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&nvml.processes = dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
    *(void **)&nvml.memory = dlsym(library, "nvmlDeviceGetMemoryInfo_v2");
    nvml.ready = init != NULL && nvml.by_bus != NULL && nvml.processes != NULL && init() == 0;
}

static void *device_of(int device)
{
    char bus[32] = "";
    nvml_open();
    if (!nvml.ready || device < 0 || device >= DEVICES_MAX)
        return NULL;
    if (nvml.device[device] == NULL &&
        (GWI_DRIVER(cuDeviceGetPCIBusId) == NULL || GWI_DRIVER(cuDeviceGetPCIBusId)(bus, sizeof bus, device) != 0 ||
         nvml.by_bus(bus, &nvml.device[device]) != 0))
        return NULL;
    return nvml.device[device];
}

uint64_t gwi_own_memory_read(int device, uint64_t *ret_extra)
{
    nvmlProcessInfo_t info[PROCESSES_MAX];
    unsigned count = PROCESSES_MAX, own = (unsigned)getpid();
    uint64_t share = UINT64_MAX, all = 0;
    nvmlMemory_v2_t memory = {.version = GW_NVML_VERSION_OF(nvmlMemory_v2_t, 2)};
    void *handle = device_of(device);
    *ret_extra = UINT64_MAX;
    bool is_complete = true;
    if (handle == NULL || nvml.processes(handle, &count, info) != 0)
        return UINT64_MAX;
    for (unsigned i = 0; i < count; i++) {
        is_complete = is_complete && info[i].usedGpuMemory != NVML_VALUE_NOT_AVAILABLE;
        all += info[i].usedGpuMemory;
        if (info[i].pid == own)
            share = info[i].usedGpuMemory;
    }
    if (is_complete && nvml.memory != NULL && nvml.memory(handle, &memory) == 0 && memory.used >= all &&
        memory.used - all <= extra_most_bytes)
        *ret_extra = memory.used - all;
    return share;
}
