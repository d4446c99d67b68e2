/* A client of NVML in C that prints values like a monitor, one "CARD KEY VALUE" per line. An unavailable value is
 * "error N". Options:
 * - --events MS prints the events within that time as "event CARD TYPE DATA".
 * - --layouts prints the sizes and offsets of the structures in gw_nvml_abi.h. tests/e2e/nvml.py compares them with
 *   those of nvidia-ml-py. */
#include "gw_nvml_abi.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECLARE(symbol, parameters) static gw_nvml_fn_##symbol *symbol;
GW_NVML_FUNCTIONS(DECLARE)
#undef DECLARE

static void load(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "nvml_client: %s\n", dlerror());
        exit(2);
    }
#define LOAD(symbol, parameters)                                                                                       \
    *(void **)&symbol = dlsym(library, #symbol);                                                                       \
    if (symbol == NULL) {                                                                                              \
        fprintf(stderr, "nvml_client: %s is missing\n", #symbol);                                                      \
        exit(2);                                                                                                       \
    }
    GW_NVML_FUNCTIONS(LOAD)
#undef LOAD
}

static void print(unsigned card, const char *key, nvmlReturn_t result, uint64_t value)
{
    if (result == NVML_SUCCESS)
        printf("%u %s %" PRIu64 "\n", card, key, value);
    else
        printf("%u %s error %d\n", card, key, (int)result);
}

static void print_number(unsigned card, const char *key, nvmlDevice_t device,
                         nvmlReturn_t (*function)(nvmlDevice_t device, unsigned *value))
{
    unsigned value = 0;
    nvmlReturn_t result = function(device, &value);
    print(card, key, result, value);
}

static void print_memory(unsigned card, nvmlDevice_t device)
{
    nvmlMemory_t old = {0};
    nvmlMemory_v2_t new = {.version = GW_NVML_VERSION_OF(nvmlMemory_v2_t, 2)};
    nvmlProcessInfo_t processes[64];
    unsigned count = 64;
    nvmlReturn_t result = nvmlDeviceGetMemoryInfo(device, &old);
    print(card, "old_used", result, old.used);
    result = nvmlDeviceGetMemoryInfo_v2(device, &new);
    print(card, "total", result, new.total);
    print(card, "used", result, new.used);
    print(card, "free", result, new.free);
    print(card, "reserved", result, new.reserved);
    result = nvmlDeviceGetComputeRunningProcesses_v3(device, &count, processes);
    print(card, "processes", result, count);
    for (unsigned i = 0; i < count && result == NVML_SUCCESS; i++)
        printf("%u process %u %" PRIu64 "\n", card, processes[i].pid, processes[i].usedGpuMemory);
}

static void print_sensors(unsigned card, nvmlDevice_t device)
{
    nvmlUtilization_t busy = {0};
    uint64_t reasons = 0;
    unsigned number = 0;
    nvmlReturn_t result = nvmlDeviceGetUtilizationRates(device, &busy);
    print(card, "busy", result, busy.gpu);
    result = nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &number);
    print(card, "temperature", result, number);
    result = nvmlDeviceGetTemperatureThreshold(device, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, &number);
    print(card, "temperature_slowdown", result, number);
    result = nvmlDeviceGetClockInfo(device, NVML_CLOCK_SM, &number);
    print(card, "clock", result, number);
    result = nvmlDeviceGetCurrentClocksEventReasons(device, &reasons);
    print(card, "reasons", result, reasons);
    print_number(card, "power", device, nvmlDeviceGetPowerUsage);
    print_number(card, "power_limit", device, nvmlDeviceGetEnforcedPowerLimit);
    print_number(card, "power_default", device, nvmlDeviceGetPowerManagementDefaultLimit);
    print_number(card, "link_generation", device, nvmlDeviceGetCurrPcieLinkGeneration);
    print_number(card, "link_lanes", device, nvmlDeviceGetCurrPcieLinkWidth);
    print_number(card, "link_generation_max", device, nvmlDeviceGetMaxPcieLinkGeneration);
    print_number(card, "link_lanes_max", device, nvmlDeviceGetMaxPcieLinkWidth);
}

static void print_health(unsigned card, nvmlDevice_t device)
{
    static const struct {
        const char *key;
        unsigned id;
    } asked[] = {{"field_ecc", NVML_FI_DEV_ECC_DBE_VOL_TOTAL},
                 {"field_pending", NVML_FI_DEV_REMAPPED_PENDING},
                 {"field_thermal_ns", NVML_FI_DEV_PERF_POLICY_THERMAL},
                 {"field_power_ns", NVML_FI_DEV_PERF_POLICY_POWER},
                 {"field_recovery", NVML_FI_DEV_GET_GPU_RECOVERY_ACTION},
                 {"field_nonsense", 9999}};
    nvmlFieldValue_t fields[sizeof asked / sizeof *asked] = {0};
    const int count = sizeof asked / sizeof *asked;
    uint64_t errors = 0;
    nvmlReturn_t result =
        nvmlDeviceGetTotalEccErrors(device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &errors);
    print(card, "ecc", result, errors);
    for (int i = 0; i < count; i++)
        fields[i].fieldId = asked[i].id;
    result = nvmlDeviceGetFieldValues(device, count, fields);
    for (int i = 0; i < count; i++)
        print(card, asked[i].key, result != NVML_SUCCESS ? result : fields[i].nvmlReturn, fields[i].value.ullVal);
}

static int cards(void)
{
    unsigned count = 0;
    char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
    if (nvmlDeviceGetCount_v2(&count) != NVML_SUCCESS)
        return 1;
    for (unsigned card = 0; card < count; card++) {
        nvmlDevice_t device = NULL;
        nvmlReturn_t result = nvmlDeviceGetHandleByIndex_v2(card, &device);
        print(card, "handle", result, card);
        if (result != NVML_SUCCESS)
            continue;
        if (nvmlDeviceGetName(device, name, sizeof name) == NVML_SUCCESS)
            printf("%u name %s\n", card, name);
        print_memory(card, device);
        print_sensors(card, device);
        print_health(card, device);
    }
    return 0;
}

static int events(unsigned wait_ms)
{
    enum { CARDS_MAX = 64 };
    /* kept by index, because NVML does not return the handle of a lost GPU again */
    nvmlDevice_t devices[CARDS_MAX] = {0};
    unsigned count = 0;
    nvmlEventSet_t set = NULL;
    if (nvmlDeviceGetCount_v2(&count) != NVML_SUCCESS || nvmlEventSetCreate(&set) != NVML_SUCCESS)
        return 1;
    for (unsigned card = 0; card < count && card < CARDS_MAX; card++)
        if (nvmlDeviceGetHandleByIndex_v2(card, &devices[card]) == NVML_SUCCESS)
            nvmlDeviceRegisterEvents(devices[card], nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError,
                                     set);
    printf("listening\n");
    fflush(stdout);
    nvmlEventData_t event;
    nvmlReturn_t result;
    while ((result = nvmlEventSetWait_v2(set, &event, wait_ms)) == NVML_SUCCESS) {
        unsigned card = 0;
        while (card < count && card < CARDS_MAX && devices[card] != event.device)
            card++;
        printf("event %u %" PRIu64 " %" PRIu64 "\n", card, event.eventType, event.eventData);
        fflush(stdout);
    }
    printf("end %d\n", (int)result);
    nvmlEventSetFree(set);
    return 0;
}

/* Print the sizes, offsets and constants of gw_nvml_abi.h. */
static int layouts(void)
{
#define SIZE(type)           printf("size %s %zu\n", #type, sizeof(type))
#define OFFSET(type, member) printf("offset %s %s %zu\n", #type, #member, offsetof(type, member))
#define NUMBER(name)         printf("number %s %llu\n", #name, (unsigned long long)(name))
#include "layouts.inc"
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--layouts") == 0)
        return layouts();
    load();
    nvmlReturn_t result = nvmlInit_v2();
    if (result != NVML_SUCCESS) {
        printf("init error %d\n", (int)result);
        return 1;
    }
    int status = argc == 3 && strcmp(argv[1], "--events") == 0 ? events((unsigned)atoi(argv[2])) : cards();
    nvmlShutdown();
    return status;
}
