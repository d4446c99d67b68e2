/* Read the memory use and the temperature of a GPU from NVML: see watch.h. */
#include "watch.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEVICES = 16 };

/* Copies of declarations in nvml.h and cuda.h. */
typedef struct nvml_device *nvml_device;
struct nvml_memory {
    unsigned long long total_bytes, free_bytes, used_bytes;
};
struct nvml_process {
    unsigned pid;
    unsigned long long used_bytes; /* ~0ull: NVML does not know the value */
    unsigned instance, compute_instance;
};

#define NVML_CALLS(X)                                                                                                  \
    X(nvmlInit_v2, (void))                                                                                             \
    X(nvmlDeviceGetHandleByPciBusId_v2, (const char *address, nvml_device *ret))                                       \
    X(nvmlDeviceGetMemoryInfo, (nvml_device device, struct nvml_memory * ret))                                         \
    X(nvmlDeviceGetTemperature, (nvml_device device, int sensor, unsigned *ret))                                       \
    X(nvmlDeviceGetComputeRunningProcesses_v3, (nvml_device device, unsigned *count, struct nvml_process *ret))
#define DRIVER_CALLS(X)                                                                                                \
    X(cuInit, (unsigned flags))                                                                                        \
    X(cuDeviceGet, (int *ret, int ordinal))                                                                            \
    X(cuDeviceGetPCIBusId, (char *ret, int bytes, int device))

static struct {
    pthread_once_t once;
    bool is_loaded;
    pthread_mutex_t lock; /* protects is_known and devices */
    bool is_known[DEVICES];
    nvml_device devices[DEVICES]; /* NULL: not looked up yet (see is_known), or NVML does not have the device */
#define X(name, parameters) int(*name) parameters;
    NVML_CALLS(X) DRIVER_CALLS(X)
#undef X
} cards = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static bool find(void *library, const char *name, void *ret_function)
{
    void *found = library == NULL ? NULL : dlsym(library, name);
    memcpy(ret_function, &found, sizeof found);
    return found != NULL;
}

static void load(void)
{
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL), *driver = dlopen("libcuda.so.1", RTLD_NOW);
    bool is_whole = true;
#define X(name, parameters) is_whole = find(nvml, #name, &cards.name) && is_whole;
    NVML_CALLS(X)
#undef X
#define X(name, parameters) is_whole = find(driver, #name, &cards.name) && is_whole;
    DRIVER_CALLS(X)
#undef X
    cards.is_loaded = is_whole && cards.cuInit(0) == 0 && cards.nvmlInit_v2() == 0;
}

static nvml_device look_up(int device)
{
    int number;
    char address[32];
    nvml_device found;
    if (cards.cuDeviceGet(&number, device) != 0 ||
        cards.cuDeviceGetPCIBusId(address, (int)sizeof address, number) != 0 ||
        cards.nvmlDeviceGetHandleByPciBusId_v2(address, &found) != 0)
        return NULL;
    return found;
}

static nvml_device device_of(int device)
{
    pthread_once(&cards.once, load);
    if (!cards.is_loaded || device < 0 || device >= DEVICES)
        return NULL;
    pthread_mutex_lock(&cards.lock);
    if (!cards.is_known[device])
        cards.devices[device] = look_up(device);
    cards.is_known[device] = true;
    nvml_device found = cards.devices[device];
    pthread_mutex_unlock(&cards.lock);
    return found;
}

static int64_t own_bytes(nvml_device device)
{
    struct nvml_process processes[64];
    unsigned count = sizeof processes / sizeof *processes;
    if (cards.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, processes) != 0)
        return -1;
    for (unsigned i = 0; i < count; i++)
        if (processes[i].pid == (unsigned)getpid() && processes[i].used_bytes != ~0ull)
            return (int64_t)processes[i].used_bytes;
    return -1;
}

void card_watch(int device, struct backend_watch *ret_watch)
{
    *ret_watch = (struct backend_watch){.free_bytes = -1, .total_bytes = -1, .own_bytes = -1, .temperature = -1};
    nvml_device card = device_of(device);
    struct nvml_memory memory;
    unsigned degrees;
    if (card == NULL)
        return;
    if (cards.nvmlDeviceGetMemoryInfo(card, &memory) == 0) {
        ret_watch->free_bytes = (int64_t)memory.free_bytes;
        ret_watch->total_bytes = (int64_t)memory.total_bytes;
    }
    if (cards.nvmlDeviceGetTemperature(card, 0, &degrees) == 0)
        ret_watch->temperature = (int)degrees;
    ret_watch->own_bytes = own_bytes(card);
}
