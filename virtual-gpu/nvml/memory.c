/* Reports the memory use of a GPU, in total and per process. */
#include "gwi_nvml.h"

#include <string.h>

/* Return the bytes that live processes use. */
static uint64_t used_bytes(unsigned device)
{
    return gwi_nvml.shared->total_bytes[device] - gwi_shared_free_bytes(gwi_nvml.shared, device);
}

static void memory_fill(unsigned device, nvmlMemory_v2_t *memory)
{
    uint64_t usable_bytes = gwi_nvml.shared->total_bytes[device];
    memory->reserved = gwi_board()->reserved_bytes;
    memory->total = usable_bytes + memory->reserved;
    memory->used = used_bytes(device);
    memory->free = usable_bytes - memory->used;
}

GWI_NVML nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    nvmlReturn_t result = gwi_enter(device, memory);
    if (result == NVML_SUCCESS && memory->version != GW_NVML_VERSION_OF(nvmlMemory_v2_t, 2))
        result = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (result == NVML_SUCCESS)
        memory_fill(device->index, memory);
    return result;
}

/* Unlike version 2, the original function counts the memory that the driver reserves as used. */
GWI_NVML nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvmlMemory_v2_t full;
    nvmlReturn_t result = gwi_enter(device, memory);
    if (result != NVML_SUCCESS)
        return result;
    memory_fill(device->index, &full);
    *memory = (nvmlMemory_t){.total = full.total, .free = full.free, .used = full.used + full.reserved};
    return NVML_SUCCESS;
}

GWI_NVML nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
    const uint64_t own_bytes = 1 << 20; /* BAR1 memory that the driver itself maps on each GPU */
    nvmlReturn_t result = gwi_enter(device, memory);
    if (result != NVML_SUCCESS)
        return result;
    uint64_t total_bytes = gwi_board()->bar1_bytes;
    *memory = (nvmlBAR1Memory_t){total_bytes, total_bytes - own_bytes, own_bytes};
    return NVML_SUCCESS;
}

/* --- processes ------------------------------------------------------------------------------------------ */

/* Return the slot of the next process that uses the GPU, starting at `slot`. Returns GWI_SHARED_PROCESSES if there is
 * none. */
static unsigned next_user(unsigned device, unsigned slot)
{
    while (slot < GWI_SHARED_PROCESSES &&
           (gwi_nvml.shared->processes[slot].pid == 0 || gwi_nvml.shared->processes[slot].used_bytes[device] == 0))
        slot++;
    return slot;
}

typedef void put_process(void *list, unsigned index, const gwi_shared_process *process, unsigned device);

static void put_v1(void *list, unsigned index, const gwi_shared_process *process, unsigned device)
{
    ((nvmlProcessInfo_v1_t *)list)[index] =
        (nvmlProcessInfo_v1_t){.pid = (unsigned)process->pid, .usedGpuMemory = process->used_bytes[device]};
}

static void put_v2(void *list, unsigned index, const gwi_shared_process *process, unsigned device)
{
    ((nvmlProcessInfo_t *)list)[index] = (nvmlProcessInfo_t){.pid = (unsigned)process->pid,
                                                             .usedGpuMemory = process->used_bytes[device],
                                                             .gpuInstanceId = NVML_NO_INSTANCE,
                                                             .computeInstanceId = NVML_NO_INSTANCE};
}

static void put_detail(void *list, unsigned index, const gwi_shared_process *process, unsigned device)
{
    ((nvmlProcessDetail_v1_t *)list)[index] =
        (nvmlProcessDetail_v1_t){.pid = (unsigned)process->pid,
                                 .usedGpuMemory = process->used_bytes[device],
                                 .gpuInstanceId = NVML_NO_INSTANCE,
                                 .computeInstanceId = NVML_NO_INSTANCE,
                                 .usedGpuCcProtectedMemory = NVML_VALUE_NOT_AVAILABLE};
}

/* Copy the GPU's processes into `list`, which has room for *count; then set *count. NVML_ERROR_INSUFFICIENT_SIZE if
 * not all fit. */
static nvmlReturn_t processes_put(nvmlDevice_t device, unsigned *count, void *list, put_process *put)
{
    nvmlReturn_t result = gwi_enter(device, count);
    if (result != NVML_SUCCESS)
        return result;
    unsigned room = list != NULL ? *count : 0;
    unsigned found = 0;
    gwi_shared_tidy(gwi_nvml.shared);
    gwi_shared_lock(gwi_nvml.shared);
    for (unsigned slot = next_user(device->index, 0); slot < GWI_SHARED_PROCESSES;
         slot = next_user(device->index, slot + 1), found++)
        if (found < room)
            put(list, found, &gwi_nvml.shared->processes[slot], device->index);
    gwi_shared_unlock(gwi_nvml.shared);
    *count = found;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

GWI_RETURN(nvmlDeviceGetComputeRunningProcesses,
           (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *processes),
           processes_put(device, count, processes, put_v1))
GWI_RETURN(nvmlDeviceGetComputeRunningProcesses_v2,
           (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *processes),
           processes_put(device, count, processes, put_v2))
GWI_NVML_ALIAS(nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetComputeRunningProcesses_v2);

GWI_NVML nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_v1_t *list)
{
    nvmlReturn_t result = gwi_enter(device, list);
    if (result != NVML_SUCCESS)
        return result;
    if (list->version != GW_NVML_VERSION_OF(nvmlProcessDetailList_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return processes_put(device, &list->numProcArrayEntries, list->procArray, put_detail);
}

/* There are no graphics or MPS processes, so return an empty list, which fits into any buffer. */
static nvmlReturn_t nobody(nvmlDevice_t device, unsigned *count)
{
    nvmlReturn_t result = gwi_enter(device, count);
    if (result == NVML_SUCCESS)
        *count = 0;
    return result;
}

#define NOBODY(symbol, type)                                                                                           \
    GWI_NVML nvmlReturn_t symbol(nvmlDevice_t device, unsigned *count, type *processes)                                \
    {                                                                                                                  \
        (void)processes;                                                                                               \
        return nobody(device, count);                                                                                  \
    }
NOBODY(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
NOBODY(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_t)
NOBODY(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
NOBODY(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
NOBODY(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_t)
NOBODY(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)

GWI_NVML nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                                      unsigned *count, uint64_t since_us)
{
    nvmlReturn_t result = gwi_enter(device, count);
    if (result != NVML_SUCCESS)
        return result;
    unsigned room = samples != NULL ? *count : 0;
    unsigned found = 0;
    uint64_t now_us = gwi_wall_us();
    gwi_shared_tidy(gwi_nvml.shared);
    for (unsigned slot = next_user(device->index, 0); slot < GWI_SHARED_PROCESSES && now_us > since_us;
         slot = next_user(device->index, slot + 1), found++) {
        unsigned percent = gwi_process_busy_percent(slot, device->index);
        if (found < room)
            samples[found] = (nvmlProcessUtilizationSample_t){.pid = (unsigned)gwi_nvml.shared->processes[slot].pid,
                                                              .timeStamp = now_us,
                                                              .smUtil = percent,
                                                              .memUtil = gwi_memory_busy_percent(percent)};
    }
    *count = found;
    if (found == 0)
        return NVML_ERROR_NOT_FOUND;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}
