/* A fake libnvidia-ml for tests. It has two cards with fixed values.
 *
 * Functions that are not defined here are missing, as in an older driver. Words in the environment variable
 * GW_FAKE_NVML cause faults:
 * - "init": initialisation fails
 * - "hang": the utilisation call never returns
 * - "crash": the clock call aborts the process */
#include "gw_nvml_abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT      __attribute__((visibility("default")))
#define CARD(index) ((nvmlDevice_t)(uintptr_t)(0x1000 + (index)))

#define DECLARE(name, parameters) EXPORT gw_nvml_fn_##name name;
GW_NVML_FUNCTIONS(DECLARE)

#pragma GCC diagnostic ignored "-Wunused-parameter"

static unsigned index_of(nvmlDevice_t device)
{
    return (unsigned)((uintptr_t)device - 0x1000);
}

static int has_word(const char *word)
{
    const char *words = getenv("GW_FAKE_NVML");
    return words != NULL && strstr(words, word) != NULL;
}

nvmlReturn_t nvmlInit_v2(void)
{
    return has_word("init") ? NVML_ERROR_LIB_RM_VERSION_MISMATCH : NVML_SUCCESS;
}

EXPORT gw_nvml_fn_nvmlErrorString nvmlErrorString;
const char *nvmlErrorString(nvmlReturn_t result)
{
    return result == NVML_ERROR_LIB_RM_VERSION_MISMATCH ? "versions differ" : "?";
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = 2;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    *device = CARD(index);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
    snprintf(name, length, "Fake card");
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", 0x18 + index_of(device));
    return NVML_SUCCESS;
}

/* This library has only the older variant of nvmlDeviceGetMemoryInfo_v2(), as an older driver does. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    *memory = (nvmlMemory_t){.total = 1000 + index_of(device), .free = 600, .used = 400};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned *degrees)
{
    static unsigned calls[2];
    *degrees = 40 + ++calls[index_of(device)] % 3;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *power_mw)
{
    *power_mw = 70000;
    return index_of(device) == 1 ? NVML_ERROR_NO_PERMISSION : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned *clock_mhz)
{
    if (has_word("crash"))
        abort();
    *clock_mhz = 1980;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, uint64_t *reasons)
{
    *reasons = nvmlClocksEventReasonSwPowerCap;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                                         uint64_t *count)
{
    static uint64_t calls;
    *count = type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED && index_of(device) == 1 ? ++calls : 0;
    return index_of(device) == 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned *count)
{
    return index_of(device) == 1 ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    while (has_word("hang"))
        pause();
    *utilization = (nvmlUtilization_t){.gpu = 99, .memory = 50};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    for (int i = 0; i < count; i++) {
        values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
        if (values[i].fieldId == NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY && values[i].scopeId < 4) {
            values[i].nvmlReturn = NVML_SUCCESS;
            values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
            values[i].value.ullVal = 10;
        }
        if (values[i].fieldId == NVML_FI_DEV_GET_GPU_RECOVERY_ACTION) {
            values[i].nvmlReturn = NVML_SUCCESS;
            values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
            values[i].value.uiVal = NVML_GPU_RECOVERY_ACTION_GPU_RESET;
        }
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *processes)
{
    if (index_of(device) == 1)
        return NVML_ERROR_NOT_SUPPORTED;
    *count = 2;
    processes[0] = (nvmlProcessInfo_t){.pid = (unsigned)getppid(), .usedGpuMemory = 100};
    processes[1] = (nvmlProcessInfo_t){.pid = 4711, .usedGpuMemory = NVML_VALUE_NOT_AVAILABLE};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, uint64_t types, nvmlEventSet_t set)
{
    return (types & nvmlEventTypeXidCriticalError) != 0 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    static char one;
    *set = (nvmlEventSet_t)(void *)&one;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms)
{
    static unsigned calls;
    if (calls++ > 0) {
        usleep(timeout_ms * 1000);
        return NVML_ERROR_TIMEOUT;
    }
    *data = (nvmlEventData_t){.device = CARD(1), .eventType = nvmlEventTypeXidCriticalError, .eventData = 79};
    return NVML_SUCCESS;
}
