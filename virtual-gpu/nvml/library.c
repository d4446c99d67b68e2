/* Initialisation and shutdown, handles, and the names and versions of the library and the GPUs: see gwi_nvml.h. */
#include "gwi_nvml.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

gwi_nvml_state gwi_nvml;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

/* For each CUDA version, the version string of the newest driver. */
static const struct {
    int cuda;
    const char *driver;
} drivers[] = {{13000, "580.159.04"}, {12090, "575.57.08"}, {12080, "570.124.06"}, {12060, "560.35.03"},
               {12050, "555.42.06"},  {12040, "550.54.15"}, {12030, "545.23.08"},  {12020, "535.104.05"},
               {12010, "530.30.02"},  {12000, "525.85.12"}, {11080, "520.61.05"},  {11070, "515.48.07"},
               {11060, "510.47.03"},  {11050, "495.29.05"}, {11040, "470.82.01"}};

static const char *driver_text(void)
{
    size_t row = 0;
    while (row + 1 < sizeof drivers / sizeof *drivers && drivers[row].cuda > gwi_nvml.spec.driver_version)
        row++;
    return drivers[row].driver;
}

/* --- initialisation and shutdown ------------------------------------------------------------------------ */

static const gw_virt_fault *init_fault(void)
{
    for (unsigned i = 0; i < gwi_nvml.spec.fault_count; i++)
        if (gwi_nvml.spec.faults[i].kind == GW_VIRT_FAULT_INIT)
            return &gwi_nvml.spec.faults[i];
    return NULL;
}

static nvmlReturn_t initialise(void)
{
    const char *text = getenv("GPUWHY_VIRTUAL");
    const char *folder = getenv("GPUWHY_VIRTUAL_DIR");
    if (gw_virt_spec_parse(text != NULL && text[0] != '\0' ? text : "h200", &gwi_nvml.spec, NULL) != GW_OK)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    const gw_virt_fault *fault = init_fault();
    if (fault != NULL && fault->code == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    if (!gwi_shared_open(folder != NULL && folder[0] != '\0' ? folder : NULL, &gwi_nvml.spec, &gwi_nvml.shared, NULL))
        return NVML_ERROR_OPERATING_SYSTEM;
    if (fault != NULL && fault->code == CUDA_ERROR_NO_DEVICE)
        gwi_nvml.spec.device_count = 0;
    for (unsigned d = 0; d < GW_VIRT_DEVICES_MAX; d++)
        gwi_nvml.devices[d].index = d;
    return NVML_SUCCESS;
}

GWI_NVML nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    nvmlReturn_t result = NVML_SUCCESS;
    pthread_mutex_lock(&init_lock);
    if (gwi_nvml.init_count == 0)
        result = initialise();
    if (result == NVML_SUCCESS)
        __atomic_store_n(&gwi_nvml.init_count, gwi_nvml.init_count + 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&init_lock);
    return result;
}

GWI_RETURN(nvmlInit_v2, (void), nvmlInitWithFlags(0))
GWI_NVML_ALIAS(nvmlInit, nvmlInit_v2);

GWI_NVML nvmlReturn_t nvmlShutdown(void)
{
    nvmlReturn_t result = NVML_SUCCESS;
    pthread_mutex_lock(&init_lock);
    if (gwi_nvml.init_count == 0) {
        result = NVML_ERROR_UNINITIALIZED;
    } else if (gwi_nvml.init_count == 1) {
        __atomic_store_n(&gwi_nvml.init_count, 0, __ATOMIC_RELEASE);
        gwi_shared_close(gwi_nvml.shared);
        gwi_nvml.shared = NULL;
    } else {
        gwi_nvml.init_count--;
    }
    pthread_mutex_unlock(&init_lock);
    return result;
}

static bool is_initialised(void)
{
    return __atomic_load_n(&gwi_nvml.init_count, __ATOMIC_ACQUIRE) > 0;
}

nvmlReturn_t gwi_nvml_lacks(void)
{
    return is_initialised() ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t gwi_enter(nvmlDevice_t device, const void *out)
{
    if (!is_initialised())
        return NVML_ERROR_UNINITIALIZED;
    if (device < gwi_nvml.devices || device >= gwi_nvml.devices + gwi_nvml.spec.device_count || out == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    gwi_health_look(gwi_nvml.shared, &gwi_nvml.spec);
    return gwi_card_of(device)->is_lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

static nvmlReturn_t text_put(char *out, unsigned length, const char *text)
{
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

GWI_NVML const char *nvmlErrorString(nvmlReturn_t result)
{
    switch ((unsigned)result) {
#define CASE(name, number, text)                                                                                       \
    case number:                                                                                                       \
        return text;
        GW_NVML_RESULTS(CASE)
#undef CASE
    default:
        return "Unknown Error";
    }
}

/* --- the system ----------------------------------------------------------------------------------------- */

static nvmlReturn_t system_enter(const void *out)
{
    if (!is_initialised())
        return NVML_ERROR_UNINITIALIZED;
    return out == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

/* Define an NVML function that returns one value of the system. */
#define SYSTEM_ANSWER(symbol, type, expression)                                                                        \
    GWI_NVML nvmlReturn_t symbol(type *ret)                                                                            \
    {                                                                                                                  \
        nvmlReturn_t result = system_enter(ret);                                                                       \
        if (result == NVML_SUCCESS)                                                                                    \
            *ret = expression;                                                                                         \
        return result;                                                                                                 \
    }

GWI_NVML nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    nvmlReturn_t result = system_enter(version);
    return result != NVML_SUCCESS ? result : text_put(version, length, driver_text());
}

GWI_NVML nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
    char text[NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE];
    nvmlReturn_t result = system_enter(version);
    if (result != NVML_SUCCESS)
        return result;
    snprintf(text, sizeof text, "%d.%s", gwi_nvml.spec.driver_version / 1000, driver_text());
    return text_put(version, length, text);
}

SYSTEM_ANSWER(nvmlSystemGetCudaDriverVersion_v2, int, gwi_nvml.spec.driver_version)
GWI_NVML_ALIAS(nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2);

GWI_NVML nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_v1_t *branch, unsigned length)
{
    nvmlReturn_t result = system_enter(branch);
    if (result != NVML_SUCCESS)
        return result;
    if (branch->version != GW_NVML_VERSION_OF(nvmlSystemDriverBranchInfo_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    char text[16];
    snprintf(text, sizeof text, "r%.3s_00", driver_text());
    return text_put(branch->branch, length < sizeof branch->branch ? length : sizeof branch->branch, text);
}

/* Return the path that process `pid` was started with. */
GWI_NVML nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
    char path[40];
    char text[4096];
    nvmlReturn_t result = system_enter(name);
    if (result != NVML_SUCCESS)
        return result;
    if (length == 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (bytes <= 0)
        return NVML_ERROR_NOT_FOUND;
    text[bytes] = '\0';
    snprintf(name, length, "%s", text); /* longer text is truncated */
    return NVML_SUCCESS;
}

SYSTEM_ANSWER(nvmlUnitGetCount, unsigned, 0)

/* --- handles -------------------------------------------------------------------------------------------- */

SYSTEM_ANSWER(nvmlDeviceGetCount_v2, unsigned, gwi_nvml.spec.device_count)
GWI_NVML_ALIAS(nvmlDeviceGetCount, nvmlDeviceGetCount_v2);

GWI_NVML nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    nvmlReturn_t result = system_enter(device);
    if (result == NVML_SUCCESS && index >= gwi_nvml.spec.device_count)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = gwi_enter(&gwi_nvml.devices[index], device);
    if (result == NVML_SUCCESS)
        *device = &gwi_nvml.devices[index];
    return result;
}
GWI_NVML_ALIAS(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2);

/* Write the UUID that cuDeviceGetUuid() returns, as text. Its 16 bytes are a fixed string and then the GPU's number. */
static void uuid_text(unsigned index, char out[NVML_DEVICE_UUID_BUFFER_SIZE])
{
    unsigned char bytes[16];
    memcpy(bytes, "GPUWHY virtual \0", sizeof bytes);
    bytes[15] = (unsigned char)index;
    char *at = out + sprintf(out, "GPU-");
    for (unsigned i = 0; i < sizeof bytes; i++)
        at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
}

static void serial_text(unsigned index, char out[NVML_DEVICE_SERIAL_BUFFER_SIZE])
{
    snprintf(out, NVML_DEVICE_SERIAL_BUFFER_SIZE, "%013u", index + 1);
}

/* Find the GPU whose text, as `write` writes it, is `wanted`. */
static nvmlReturn_t find_by_text(const char *wanted, void (*write)(unsigned index, char *out), nvmlDevice_t *device)
{
    nvmlReturn_t result = system_enter(device);
    if (result != NVML_SUCCESS || wanted == NULL)
        return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned d = 0; d < gwi_nvml.spec.device_count; d++) {
        char text[NVML_DEVICE_UUID_BUFFER_SIZE];
        write(d, text);
        if (strcmp(text, wanted) == 0)
            return nvmlDeviceGetHandleByIndex_v2(d, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

GWI_RETURN(nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *device), find_by_text(uuid, uuid_text, device))
GWI_RETURN(nvmlDeviceGetHandleBySerial, (const char *serial, nvmlDevice_t *device),
           find_by_text(serial, serial_text, device))

static void pci_fill(unsigned index, nvmlPciInfo_t *pci)
{
    memset(pci, 0, sizeof *pci);
    pci->domain = gwi_attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
    pci->bus = gwi_attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
    pci->device = gwi_attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) + index;
    pci->pciDeviceId = (unsigned)gwi_board()->pci_id;
    pci->pciSubSystemId = (unsigned)gwi_board()->pci_subsystem_id;
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff,
             pci->device & 0xff);
}

GWI_NVML nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *busId, nvmlDevice_t *device)
{
    unsigned domain = 0;
    unsigned bus = 0;
    unsigned slot = 0;
    nvmlReturn_t result = system_enter(device);
    if (result != NVML_SUCCESS)
        return result;
    if (busId == NULL || (sscanf(busId, "%x:%x:%x", &domain, &bus, &slot) != 3 &&
                          (domain = 0, sscanf(busId, "%x:%x", &bus, &slot) != 2)))
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned d = 0; d < gwi_nvml.spec.device_count; d++) {
        nvmlPciInfo_t pci;
        pci_fill(d, &pci);
        if (pci.domain == domain && pci.bus == bus && pci.device == slot)
            return nvmlDeviceGetHandleByIndex_v2(d, device);
    }
    return NVML_ERROR_NOT_FOUND;
}
GWI_NVML_ALIAS(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2);

/* --- properties of a GPU -------------------------------------------------------------------------------- */

GWI_ANSWER(nvmlDeviceGetIndex, unsigned, device->index)
GWI_ANSWER(nvmlDeviceGetMinorNumber, unsigned, device->index)
GWI_ANSWER(nvmlDeviceGetNumGpuCores, unsigned,
           gwi_board()->cores_per_sm *gwi_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT))
GWI_ANSWER(nvmlDeviceGetMemoryBusWidth, unsigned, gwi_attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH))
GWI_ANSWER(nvmlDeviceGetBusType, unsigned, NVML_BUS_TYPE_PCIE)
GWI_ANSWER(nvmlDeviceGetBrand, nvmlBrandType_t, gwi_board()->fan_count > 0 ? NVML_BRAND_GEFORCE : NVML_BRAND_NVIDIA)
GWI_ANSWER(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)
GWI_ANSWER(nvmlDeviceGetComputeMode, nvmlComputeMode_t, gwi_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE))
GWI_ANSWER(nvmlDeviceGetDisplayMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
GWI_ANSWER(nvmlDeviceGetDisplayActive, nvmlEnableState_t, NVML_FEATURE_DISABLED)
GWI_ANSWER(nvmlDeviceGetAccountingMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
GWI_ANSWER(nvmlDeviceIsMigDeviceHandle, unsigned, 0)
GWI_ANSWER(nvmlDeviceGetMaxMigDeviceCount, unsigned, 0)
GWI_ANSWER(nvmlDeviceGetMultiGpuBoard, unsigned, 0)

/* Each GPU is on its own board, and all GPUs are in one node. */
GWI_NVML nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other,
                                                          nvmlGpuTopologyLevel_t *level)
{
    nvmlReturn_t result = gwi_enter(device, level);
    if (result == NVML_SUCCESS)
        result = gwi_enter(other, level);
    if (result == NVML_SUCCESS)
        *level = device == other ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_NODE;
    return result;
}

GWI_NVML nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t device, nvmlDevice_t other, int *is_same)
{
    nvmlReturn_t result = gwi_enter(device, is_same);
    if (result == NVML_SUCCESS)
        result = gwi_enter(other, is_same);
    if (result == NVML_SUCCESS)
        *is_same = device == other;
    return result;
}

GWI_NVML nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    nvmlReturn_t result = gwi_enter(device, current);
    if (result != NVML_SUCCESS || pending == NULL)
        return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;
    /* GPUs of capability 8.0 and 9.0 can be divided (MIG); the smaller models of these families cannot. */
    if (gwi_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) < 8 ||
        gwi_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) != 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *current = *pending = 0;
    return NVML_SUCCESS;
}

static unsigned architecture(void)
{
    unsigned major = gwi_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    unsigned minor = gwi_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    switch (major) {
    case 7:
        return minor >= 5 ? NVML_DEVICE_ARCH_TURING : NVML_DEVICE_ARCH_VOLTA;
    case 8:
        return minor == 9 ? NVML_DEVICE_ARCH_ADA : NVML_DEVICE_ARCH_AMPERE;
    case 9:
        return NVML_DEVICE_ARCH_HOPPER;
    default:
        return UINT32_MAX;
    }
}

GWI_ANSWER(nvmlDeviceGetArchitecture, unsigned, architecture())

GWI_ANSWER_BOTH(nvmlDeviceGetCudaComputeCapability, int, gwi_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                gwi_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR))

GWI_NVML nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
    nvmlReturn_t result = gwi_enter(device, name);
    return result != NVML_SUCCESS ? result : text_put(name, length, gwi_nvml.spec.card.name);
}

GWI_NVML nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
    char text[NVML_DEVICE_UUID_BUFFER_SIZE];
    nvmlReturn_t result = gwi_enter(device, uuid);
    if (result != NVML_SUCCESS)
        return result;
    uuid_text(device->index, text);
    return text_put(uuid, length, text);
}

/* Consumer GPUs do not report a serial number. */
GWI_NVML nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned length)
{
    char text[NVML_DEVICE_SERIAL_BUFFER_SIZE];
    nvmlReturn_t result = gwi_enter(device, serial);
    if (result != NVML_SUCCESS || gwi_board()->fan_count > 0)
        return result != NVML_SUCCESS ? result : NVML_ERROR_NOT_SUPPORTED;
    serial_text(device->index, text);
    return text_put(serial, length, text);
}

GWI_NVML nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    nvmlReturn_t result = gwi_enter(device, pci);
    if (result == NVML_SUCCESS)
        pci_fill(device->index, pci);
    return result;
}

GWI_NVML nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *pci)
{
    nvmlPciInfo_t full;
    nvmlReturn_t result = gwi_enter(device, pci);
    if (result != NVML_SUCCESS)
        return result;
    pci_fill(device->index, &full);
    memset(pci, 0, sizeof *pci);
    memcpy(pci->busId, full.busIdLegacy, sizeof pci->busId);
    pci->domain = full.domain;
    pci->bus = full.bus;
    pci->device = full.device;
    pci->pciDeviceId = full.pciDeviceId;
    pci->pciSubSystemId = full.pciSubSystemId;
    return NVML_SUCCESS;
}
GWI_NVML_ALIAS(nvmlDeviceGetPciInfo, nvmlDeviceGetPciInfo_v2);
