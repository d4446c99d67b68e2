/* Test the virtual GPU's NVML as a program uses it: load it, pass invalid arguments to every function, then check the
 * values that matter. */
#include "gw_nvml_abi.h"
#include "gw_test_folder.h"
#include "gw_virt_spec.h"
#include "gwi_shared.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *library;

#define DECLARE(symbol, parameters) static gw_nvml_fn_##symbol *symbol;
GW_NVML_FUNCTIONS(DECLARE)
#undef DECLARE
static gw_nvml_fn_nvmlErrorString *nvmlErrorString;

/* A function of any signature, called with six arguments. A function with fewer parameters ignores the others. */
typedef int any_function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

static void *symbol_find(const char *name)
{
    void *symbol = dlsym(library, name);
    if (symbol == NULL)
        fail_msg("%s is not exported", name);
    return symbol;
}

static int library_load(void **state)
{
    library = dlopen(GW_TEST_NVML, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL || gw_test_folder_make(state) != 0)
        return -1;
#define LOAD(symbol, parameters) *(void **)&symbol = symbol_find(#symbol);
    GW_NVML_FUNCTIONS(LOAD)
#undef LOAD
    *(void **)&nvmlErrorString = symbol_find("nvmlErrorString");
    return 0;
}

static int library_unload(void **state)
{
    return gw_test_folder_remove(state) | dlclose(library);
}

static void begin(const char *specification)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", gw_test_folder, GWI_SHARED_NAME);
    unlink(path);
    setenv("GPUWHY_VIRTUAL", specification, 1);
    setenv("GPUWHY_VIRTUAL_DIR", gw_test_folder, 1);
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
}

static nvmlDevice_t device_at(unsigned index)
{
    nvmlDevice_t device = NULL;
    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(index, &device), NVML_SUCCESS);
    return device;
}

/* Call `each` with every exported name. */
static void for_each_export(void (*each)(const char *name, any_function *function))
{
    char name[128];
    int count = 0;
    FILE *list = fopen(GW_TEST_EXPORTS, "r");
    assert_non_null(list);
    while (fgets(name, sizeof name, list) != NULL) {
        name[strcspn(name, "\n")] = '\0';
        if (strncmp(name, "nvml", 4) != 0)
            continue;
        any_function *function;
        *(void **)&function = symbol_find(name);
        count++;
        if (strcmp(name, "nvmlErrorString") != 0 && strncmp(name, "nvmlInit", 8) != 0 &&
            strcmp(name, "nvmlShutdown") != 0)
            each(name, function);
    }
    fclose(list);
    assert_int_equal(count, 404);
}

static void expect_uninitialized(const char *name, any_function *function)
{
    int result = function(0, 0, 0, 0, 0, 0);
    if (result != NVML_ERROR_UNINITIALIZED && result != NVML_ERROR_INVALID_ARGUMENT)
        fail_msg("%s before nvmlInit: %d", name, result);
}

static void expect_refused(const char *name, any_function *function)
{
    int result = function(0, 0, 0, 0, 0, 0);
    if (result != NVML_ERROR_INVALID_ARGUMENT && result != NVML_ERROR_NOT_SUPPORTED &&
        strcmp(name, "nvmlEventSetFree") != 0)
        fail_msg("%s of nothing: %d", name, result);
}

/* Call the function with a valid GPU, and NULL as the pointer for the result. It must return an error. */
static void expect_no_crash(const char *name, any_function *function)
{
    if (strncmp(name, "nvmlDevice", 10) != 0 || strncmp(name, "nvmlDeviceGetCount", 18) == 0 ||
        strncmp(name, "nvmlDeviceGetHandleBy", 21) == 0)
        return; /* the function has no GPU as its parameter */
    int result = function((uintptr_t)device_at(0), 0, 0, 0, 0, 0);
    if (result != NVML_ERROR_INVALID_ARGUMENT && result != NVML_ERROR_NOT_SUPPORTED)
        fail_msg("%s without a place for the answer: %d", name, result);
}

GW_TEST(test_nonsense)
{
    for_each_export(expect_uninitialized);
    begin("h200");
    for_each_export(expect_refused);
    for_each_export(expect_no_crash);
    unsigned value = 7;
    assert_int_equal(nvmlDeviceGetIndex((nvmlDevice_t)(uintptr_t)16, &value), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(value, 7);
    nvmlDevice_t device = NULL;
    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(1, &device), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetHandleByUUID("GPU-nobody", &device), NVML_ERROR_NOT_FOUND);
    assert_int_equal(nvmlDeviceGetHandleByPciBusId_v2("0000:99:00.0", &device), NVML_ERROR_NOT_FOUND);
    assert_int_equal(nvmlDeviceGetHandleByPciBusId_v2("nonsense", &device), NVML_ERROR_INVALID_ARGUMENT);
    assert_string_equal(nvmlErrorString((nvmlReturn_t)12345), "Unknown Error");
    assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
    assert_int_equal(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
}

GW_TEST(test_versions_and_sizes)
{
    begin("2xh200,memory=16GiB");
    nvmlDevice_t device = device_at(1);
    char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
    assert_int_equal(nvmlDeviceGetName(device, name, 4), NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(nvmlDeviceGetName(device, name, sizeof name), NVML_SUCCESS);
    assert_string_equal(name, "NVIDIA H200");
    nvmlMemory_v2_t memory = {.version = 0};
    assert_int_equal(nvmlDeviceGetMemoryInfo_v2(device, &memory), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    memory.version = GW_NVML_VERSION_OF(nvmlMemory_v2_t, 2);
    assert_int_equal(nvmlDeviceGetMemoryInfo_v2(device, &memory), NVML_SUCCESS);
    assert_true(memory.free == (uint64_t)16 << 30);
    assert_true(memory.total == memory.free + memory.reserved);
    nvmlFieldValue_t field = {.fieldId = 9999};
    assert_int_equal(nvmlDeviceGetFieldValues(device, 0, &field), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetFieldValues(device, 1, &field), NVML_SUCCESS);
    assert_int_equal(field.nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    nvmlPciInfo_t pci;
    nvmlDevice_t found = NULL;
    assert_int_equal(nvmlDeviceGetPciInfo_v3(device, &pci), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &found), NVML_SUCCESS);
    assert_ptr_equal(found, device);
    assert_int_equal(nvmlDeviceGetHandleByPciBusId_v2(pci.busIdLegacy, &found), NVML_SUCCESS);
    assert_ptr_equal(found, device);
    nvmlShutdown();
}

/* If a GPU does not have a value, the call returns "not supported", not 0. */
GW_TEST(test_lacking)
{
    unsigned value = 0;
    uint64_t count = 0;
    begin("rtx-4090");
    assert_int_equal(
        nvmlDeviceGetTotalEccErrors(device_at(0), NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &count),
        NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetFanSpeed(device_at(0), &value), NVML_SUCCESS);
    nvmlShutdown();
    begin("h200");
    assert_int_equal(nvmlDeviceGetFanSpeed(device_at(0), &value), NVML_ERROR_NOT_SUPPORTED);
    nvmlShutdown();
}

GW_TEST(test_bad_beginnings)
{
    unsigned count = 7;
    setenv("GPUWHY_VIRTUAL", "h9000", 1);
    assert_int_equal(nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
    setenv("GPUWHY_VIRTUAL", "h200,fault=init:803", 1);
    assert_int_equal(nvmlInit_v2(), NVML_ERROR_LIB_RM_VERSION_MISMATCH);
    setenv("GPUWHY_VIRTUAL", "h200", 1);
    setenv("GPUWHY_VIRTUAL_DIR", "/nowhere/at/all", 1);
    assert_int_equal(nvmlInit_v2(), NVML_ERROR_OPERATING_SYSTEM);
    assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
    begin("h200,fault=init:100");
    assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
    assert_int_equal(count, 0);
    nvmlShutdown();
}

/* Open the shared state like a program that uses the GPUs. */
static gwi_shared *cards_open(unsigned *ret_slot)
{
    gw_virt_spec spec;
    gwi_shared *shared = NULL;
    assert_int_equal(gw_virt_spec_parse(getenv("GPUWHY_VIRTUAL"), &spec, NULL), GW_OK);
    assert_true(gwi_shared_open(gw_test_folder, &spec, &shared, ret_slot));
    return shared;
}

GW_TEST(test_processes)
{
    unsigned slot = 0;
    begin("2xh200");
    gwi_shared *shared = cards_open(&slot);
    assert_true(gwi_shared_take(shared, slot, 1, 12345));
    nvmlProcessInfo_t found[2];
    unsigned count = 0;
    assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(device_at(1), &count, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(count, 1);
    assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(device_at(1), &count, found), NVML_SUCCESS);
    assert_int_equal(found[0].pid, getpid());
    assert_true(found[0].usedGpuMemory == 12345);
    nvmlProcessInfo_v1_t old[1];
    assert_int_equal(nvmlDeviceGetComputeRunningProcesses(device_at(1), &count, old), NVML_SUCCESS);
    assert_true(old[0].usedGpuMemory == 12345);
    assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(device_at(0), &count, NULL), NVML_SUCCESS);
    assert_int_equal(count, 0);
    nvmlProcessDetailList_v1_t list = {.version = 1};
    assert_int_equal(nvmlDeviceGetRunningProcessDetailList(device_at(1), &list), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    gwi_shared_close(shared);
    nvmlShutdown();
}

/* A listener receives the events after its registration, in order. If the state could not store them all, it receives
 * the newest ones. */
GW_TEST(test_events)
{
    unsigned slot = 0;
    nvmlEventSet_t set = NULL;
    nvmlEventData_t event;
    begin("2xh200");
    gwi_shared *shared = cards_open(&slot);
    gwi_health_xid(shared, 1, 13, 0);
    assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceRegisterEvents(device_at(1), UINT64_C(1) << 40, set), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceRegisterEvents(device_at(1), nvmlEventTypeXidCriticalError, set), NVML_SUCCESS);
    assert_int_equal(nvmlEventSetWait_v2(set, &event, 0), NVML_ERROR_TIMEOUT);
    gwi_health_xid(shared, 0, 31, 0); /* no listener has registered for events of this GPU */
    gwi_health_xid(shared, 1, 43, 0);
    gwi_health_xid(shared, 1, 45, 0);
    assert_int_equal(nvmlEventSetWait_v2(set, &event, 0), NVML_SUCCESS);
    assert_ptr_equal(event.device, device_at(1));
    assert_true(event.eventType == nvmlEventTypeXidCriticalError && event.eventData == 43);
    struct {
        nvmlEventData_t data;
    } guarded;
    memset(&guarded, 0x5a, sizeof guarded); /* the first version of the function writes a shorter structure */
    assert_int_equal(nvmlEventSetWait(set, &guarded.data, 0), NVML_SUCCESS);
    assert_true(guarded.data.eventData == 45 && guarded.data.gpuInstanceId == 0x5a5a5a5a);
    for (unsigned i = 0; i < GWI_SHARED_EVENTS + 6; i++)
        gwi_health_xid(shared, 1, 100 + i, 0);
    for (unsigned i = 6; i < GWI_SHARED_EVENTS + 6; i++) {
        assert_int_equal(nvmlEventSetWait_v2(set, &event, 0), NVML_SUCCESS);
        assert_true(event.eventData == 100 + i);
    }
    assert_int_equal(nvmlEventSetWait_v2(set, &event, 0), NVML_ERROR_TIMEOUT);
    assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
    gwi_shared_close(shared);
    nvmlShutdown();
}

/* A fault with a time must have no effect before that time, and must be applied after it. */
GW_TEST(test_timed_fault)
{
    unsigned slot = 0;
    uint64_t reasons = 0;
    begin("2xh200,fault=thermal#1@1000s");
    gwi_shared *shared = cards_open(&slot);
    assert_int_equal(nvmlDeviceGetCurrentClocksEventReasons(device_at(1), &reasons), NVML_SUCCESS);
    assert_true(reasons == nvmlClocksEventReasonGpuIdle);
    shared->began_ns -= UINT64_C(1000000000000);
    assert_int_equal(nvmlDeviceGetCurrentClocksEventReasons(device_at(1), &reasons), NVML_SUCCESS);
    assert_true(reasons & nvmlClocksEventReasonHwThermalSlowdown);
    assert_int_equal(nvmlDeviceGetCurrentClocksEventReasons(device_at(0), &reasons), NVML_SUCCESS);
    assert_true(reasons == nvmlClocksEventReasonGpuIdle);
    gwi_shared_close(shared);
    nvmlShutdown();
}

GW_TEST(test_lost)
{
    unsigned value = 0;
    nvmlDevice_t device = NULL;
    begin("2xh200,fault=lost#1@1000s");
    unsigned slot = 0;
    gwi_shared *shared = cards_open(&slot);
    nvmlDevice_t held = device_at(1);
    nvmlEventSet_t set = NULL;
    nvmlEventData_t event;
    assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceRegisterEvents(held, nvmlEventTypeXidCriticalError, set), NVML_SUCCESS);
    shared->began_ns -= UINT64_C(1000000000000);
    assert_int_equal(nvmlEventSetWait_v2(set, &event, 0), NVML_SUCCESS);
    assert_true(event.eventData == 79);
    assert_int_equal(nvmlEventSetWait_v2(set, &event, 1000000), NVML_ERROR_GPU_IS_LOST);
    assert_int_equal(nvmlDeviceGetTemperature(held, NVML_TEMPERATURE_GPU, &value), NVML_ERROR_GPU_IS_LOST);
    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(1, &device), NVML_ERROR_GPU_IS_LOST);
    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
    nvmlEventSetFree(set);
    gwi_shared_close(shared);
    nvmlShutdown();
}

GW_TEST_MAIN(library_load, library_unload)
