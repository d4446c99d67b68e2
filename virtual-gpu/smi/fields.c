/* The fields that the virtual nvidia-smi can query, one per row: see gwi_smi.h. */
#include "gwi_smi.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

static nvmlReturn_t enabled(nvmlReturn_t result, unsigned mode, const char *yes, const char *no, char *out)
{
    snprintf(out, GWI_SMI_VALUE_MAX, "%s", mode ? yes : no);
    return result;
}

static nvmlReturn_t timestamp(nvmlDevice_t device, char *out)
{
    (void)device;
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    size_t bytes = strftime(out, GWI_SMI_VALUE_MAX, "%Y/%m/%d %H:%M:%S", &local);
    snprintf(out + bytes, GWI_SMI_VALUE_MAX - bytes, ".%03ld", now.tv_nsec / 1000000);
    return NVML_SUCCESS;
}

static nvmlReturn_t driver(nvmlDevice_t device, char *out)
{
    (void)device;
    return nvmlSystemGetDriverVersion(out, GWI_SMI_VALUE_MAX);
}

static nvmlReturn_t count(nvmlDevice_t device, unsigned *value)
{
    (void)device;
    return nvmlDeviceGetCount_v2(value);
}

#define TEXT(function, call)                                                                                           \
    static nvmlReturn_t function(nvmlDevice_t device, char *out)                                                       \
    {                                                                                                                  \
        return call(device, out, GWI_SMI_VALUE_MAX);                                                                   \
    }
TEXT(name, nvmlDeviceGetName)
TEXT(serial, nvmlDeviceGetSerial)
TEXT(uuid, nvmlDeviceGetUUID)

static nvmlReturn_t bus_id(nvmlDevice_t device, char *out)
{
    nvmlPciInfo_t pci = {0};
    nvmlReturn_t result = nvmlDeviceGetPciInfo_v3(device, &pci);
    snprintf(out, GWI_SMI_VALUE_MAX, "%s", pci.busId);
    return result;
}

static nvmlReturn_t pci_part(nvmlDevice_t device, const char *format, unsigned part, char *out)
{
    nvmlPciInfo_t pci = {0};
    nvmlReturn_t result = nvmlDeviceGetPciInfo_v3(device, &pci);
    const unsigned parts[] = {pci.domain, pci.bus, pci.device, pci.pciDeviceId, pci.pciSubSystemId};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(out, GWI_SMI_VALUE_MAX, format, parts[part]);
#pragma GCC diagnostic pop
    return result;
}

#define PCI_PART(function, format, part)                                                                               \
    static nvmlReturn_t function(nvmlDevice_t device, char *out)                                                       \
    {                                                                                                                  \
        return pci_part(device, format, part, out);                                                                    \
    }
PCI_PART(pci_domain, "0x%04X", 0)
PCI_PART(pci_bus, "0x%02X", 1)
PCI_PART(pci_device, "0x%02X", 2)
PCI_PART(pci_device_id, "0x%08X", 3)
PCI_PART(pci_sub_device_id, "0x%08X", 4)

#define ENABLED(function, call)                                                                                        \
    static nvmlReturn_t function(nvmlDevice_t device, char *out)                                                       \
    {                                                                                                                  \
        nvmlEnableState_t mode = NVML_FEATURE_DISABLED;                                                                \
        nvmlReturn_t result = call(device, &mode);                                                                     \
        return enabled(result, mode, "Enabled", "Disabled", out);                                                      \
    }
ENABLED(display_mode, nvmlDeviceGetDisplayMode)
ENABLED(display_active, nvmlDeviceGetDisplayActive)
ENABLED(persistence, nvmlDeviceGetPersistenceMode)

static nvmlReturn_t ecc_mode(nvmlDevice_t device, char *out)
{
    nvmlEnableState_t current = NVML_FEATURE_DISABLED;
    nvmlEnableState_t pending = NVML_FEATURE_DISABLED;
    nvmlReturn_t result = nvmlDeviceGetEccMode(device, &current, &pending);
    return enabled(result, current, "Enabled", "Disabled", out);
}

static nvmlReturn_t mig_mode(nvmlDevice_t device, char *out)
{
    unsigned current = 0;
    unsigned pending = 0;
    nvmlReturn_t result = nvmlDeviceGetMigMode(device, &current, &pending);
    return enabled(result, current, "Enabled", "Disabled", out);
}

static nvmlReturn_t compute_mode(nvmlDevice_t device, char *out)
{
    static const char *const names[] = {"Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"};
    nvmlComputeMode_t mode = NVML_COMPUTEMODE_DEFAULT;
    nvmlReturn_t result = nvmlDeviceGetComputeMode(device, &mode);
    snprintf(out, GWI_SMI_VALUE_MAX, "%s", (unsigned)mode < 4 ? names[mode] : "Unknown");
    return result;
}

static nvmlReturn_t compute_cap(nvmlDevice_t device, char *out)
{
    int major = 0;
    int minor = 0;
    nvmlReturn_t result = nvmlDeviceGetCudaComputeCapability(device, &major, &minor);
    snprintf(out, GWI_SMI_VALUE_MAX, "%d.%d", major, minor);
    return result;
}

static nvmlReturn_t pstate(nvmlDevice_t device, char *out)
{
    nvmlPstates_t state = NVML_PSTATE_UNKNOWN;
    nvmlReturn_t result = nvmlDeviceGetPerformanceState(device, &state);
    snprintf(out, GWI_SMI_VALUE_MAX, "P%u", (unsigned)state);
    return result;
}

/* --- numbers -------------------------------------------------------------------------------------------- */

/* Define a field that is one part, kind or identifier of what `call` returns. */
#define PART(function, call, part)                                                                                     \
    static nvmlReturn_t function(nvmlDevice_t device, unsigned *value)                                                 \
    {                                                                                                                  \
        return call(device, part, value);                                                                              \
    }

static nvmlReturn_t memory(nvmlDevice_t device, unsigned part, unsigned *value)
{
    nvmlMemory_v2_t all = {.version = GW_NVML_VERSION_OF(nvmlMemory_v2_t, 2)};
    nvmlReturn_t result = nvmlDeviceGetMemoryInfo_v2(device, &all);
    const uint64_t parts[] = {all.total, all.reserved, all.used, all.free};
    *value = (unsigned)(parts[part] >> 20);
    return result;
}

PART(memory_total, memory, 0)
PART(memory_reserved, memory, 1)
PART(memory_used, memory, 2)
PART(memory_free, memory, 3)

static nvmlReturn_t utilization(nvmlDevice_t device, unsigned part, unsigned *value)
{
    nvmlUtilization_t both = {0};
    nvmlReturn_t result = nvmlDeviceGetUtilizationRates(device, &both);
    *value = part == 0 ? both.gpu : both.memory;
    return result;
}

PART(utilization_gpu, utilization, 0)
PART(utilization_memory, utilization, 1)
PART(temperature, nvmlDeviceGetTemperature, NVML_TEMPERATURE_GPU)

static nvmlReturn_t field_value(nvmlDevice_t device, unsigned id, unsigned *value)
{
    nvmlFieldValue_t field = {.fieldId = id};
    nvmlReturn_t result = nvmlDeviceGetFieldValues(device, 1, &field);
    *value = field.value.uiVal;
    return result != NVML_SUCCESS ? result : field.nvmlReturn;
}

PART(temperature_memory, field_value, NVML_FI_DEV_MEMORY_TEMP)
PART(power_min, field_value, NVML_FI_DEV_POWER_MIN_LIMIT)
PART(power_max, field_value, NVML_FI_DEV_POWER_MAX_LIMIT)
PART(clock_graphics, nvmlDeviceGetClockInfo, NVML_CLOCK_GRAPHICS)
PART(clock_sm, nvmlDeviceGetClockInfo, NVML_CLOCK_SM)
PART(clock_memory, nvmlDeviceGetClockInfo, NVML_CLOCK_MEM)
PART(clock_video, nvmlDeviceGetClockInfo, NVML_CLOCK_VIDEO)
PART(clock_max_graphics, nvmlDeviceGetMaxClockInfo, NVML_CLOCK_GRAPHICS)
PART(clock_max_sm, nvmlDeviceGetMaxClockInfo, NVML_CLOCK_SM)
PART(clock_max_memory, nvmlDeviceGetMaxClockInfo, NVML_CLOCK_MEM)

#define ECC(function, type, counter)                                                                                   \
    static nvmlReturn_t function(nvmlDevice_t device, unsigned *value)                                                 \
    {                                                                                                                  \
        uint64_t all = 0;                                                                                              \
        nvmlReturn_t result = nvmlDeviceGetTotalEccErrors(device, type, counter, &all);                                \
        *value = (unsigned)all;                                                                                        \
        return result;                                                                                                 \
    }
ECC(ecc_corrected_volatile, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC)
ECC(ecc_uncorrected_volatile, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC)
ECC(ecc_corrected_aggregate, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_AGGREGATE_ECC)
ECC(ecc_uncorrected_aggregate, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_AGGREGATE_ECC)

static nvmlReturn_t remapped(nvmlDevice_t device, unsigned part, unsigned *value)
{
    unsigned parts[4] = {0};
    nvmlReturn_t result = nvmlDeviceGetRemappedRows(device, &parts[0], &parts[1], &parts[2], &parts[3]);
    *value = parts[part];
    return result;
}

PART(remapped_corrected, remapped, 0)
PART(remapped_uncorrected, remapped, 1)

#define REMAPPED_TEXT(function, part)                                                                                  \
    static nvmlReturn_t function(nvmlDevice_t device, char *out)                                                       \
    {                                                                                                                  \
        unsigned value = 0;                                                                                            \
        nvmlReturn_t result = remapped(device, part, &value);                                                          \
        return enabled(result, value, "Yes", "No", out);                                                               \
    }
REMAPPED_TEXT(remapped_pending, 2)
REMAPPED_TEXT(remapped_failure, 3)

/* --- why clocks are low --------------------------------------------------------------------------------- */

static nvmlReturn_t reasons(nvmlDevice_t device, char *out)
{
    uint64_t bits = 0;
    nvmlReturn_t result = nvmlDeviceGetCurrentClocksEventReasons(device, &bits);
    snprintf(out, GWI_SMI_VALUE_MAX, "0x%016" PRIX64, bits);
    return result;
}

#define REASON(function, bit)                                                                                          \
    static nvmlReturn_t function(nvmlDevice_t device, char *out)                                                       \
    {                                                                                                                  \
        uint64_t bits = 0;                                                                                             \
        nvmlReturn_t result = nvmlDeviceGetCurrentClocksEventReasons(device, &bits);                                   \
        return enabled(result, (bits & (bit)) != 0, "Active", "Not Active", out);                                      \
    }
REASON(reason_idle, nvmlClocksEventReasonGpuIdle)
REASON(reason_power_cap, nvmlClocksEventReasonSwPowerCap)
REASON(reason_slowdown, nvmlClocksEventReasonHwSlowdown)
REASON(reason_hw_thermal, nvmlClocksEventReasonHwThermalSlowdown)
REASON(reason_power_brake, nvmlClocksEventReasonHwPowerBrakeSlowdown)
REASON(reason_sw_thermal, nvmlClocksEventReasonSwThermalSlowdown)

/* --- the table ------------------------------------------------------------------------------------------ */

#define EVENT_REASON(what, function)                                                                                   \
    {                                                                                                                  \
        .name = "clocks_event_reasons." what, .other_name = "clocks_throttle_reasons." what, .text = (function)        \
    }

static const gwi_smi_field fields[] = {
    {.name = "timestamp", .text = timestamp},
    {.name = "driver_version", .text = driver},
    {.name = "count", .number = count},
    {.name = "name", .other_name = "gpu_name", .text = name},
    {.name = "serial", .other_name = "gpu_serial", .text = serial},
    {.name = "uuid", .other_name = "gpu_uuid", .text = uuid},
    {.name = "pci.bus_id", .other_name = "gpu_bus_id", .text = bus_id},
    {.name = "pci.domain", .text = pci_domain},
    {.name = "pci.bus", .text = pci_bus},
    {.name = "pci.device", .text = pci_device},
    {.name = "pci.device_id", .text = pci_device_id},
    {.name = "pci.sub_device_id", .text = pci_sub_device_id},
    {.name = "pcie.link.gen.current",
     .other_name = "pcie.link.gen.gpucurrent",
     .number = nvmlDeviceGetCurrPcieLinkGeneration},
    {.name = "pcie.link.gen.max", .other_name = "pcie.link.gen.gpumax", .number = nvmlDeviceGetMaxPcieLinkGeneration},
    {.name = "pcie.link.width.current", .number = nvmlDeviceGetCurrPcieLinkWidth},
    {.name = "pcie.link.width.max", .number = nvmlDeviceGetMaxPcieLinkWidth},
    {.name = "index", .number = nvmlDeviceGetIndex},
    {.name = "display_mode", .text = display_mode},
    {.name = "display_active", .text = display_active},
    {.name = "persistence_mode", .text = persistence},
    {.name = "mig.mode.current", .other_name = "mig.mode.pending", .text = mig_mode},
    {.name = "fan.speed", .unit = "%", .number = nvmlDeviceGetFanSpeed},
    {.name = "pstate", .text = pstate},
    EVENT_REASON("active", reasons),
    EVENT_REASON("gpu_idle", reason_idle),
    EVENT_REASON("sw_power_cap", reason_power_cap),
    EVENT_REASON("hw_slowdown", reason_slowdown),
    EVENT_REASON("hw_thermal_slowdown", reason_hw_thermal),
    EVENT_REASON("hw_power_brake_slowdown", reason_power_brake),
    EVENT_REASON("sw_thermal_slowdown", reason_sw_thermal),
    {.name = "memory.total", .unit = "MiB", .number = memory_total},
    {.name = "memory.reserved", .unit = "MiB", .number = memory_reserved},
    {.name = "memory.used", .unit = "MiB", .number = memory_used},
    {.name = "memory.free", .unit = "MiB", .number = memory_free},
    {.name = "compute_mode", .text = compute_mode},
    {.name = "compute_cap", .text = compute_cap},
    {.name = "utilization.gpu", .unit = "%", .number = utilization_gpu},
    {.name = "utilization.memory", .unit = "%", .number = utilization_memory},
    {.name = "temperature.gpu", .number = temperature},
    {.name = "temperature.memory", .number = temperature_memory},
    {.name = "power.draw",
     .other_name = "power.draw.instant",
     .unit = "W",
     .number = nvmlDeviceGetPowerUsage,
     .divisor = 1000},
    {.name = "power.draw.average", .unit = "W", .number = nvmlDeviceGetPowerUsage, .divisor = 1000},
    {.name = "power.limit", .unit = "W", .number = nvmlDeviceGetPowerManagementLimit, .divisor = 1000},
    {.name = "enforced.power.limit", .unit = "W", .number = nvmlDeviceGetEnforcedPowerLimit, .divisor = 1000},
    {.name = "power.default_limit", .unit = "W", .number = nvmlDeviceGetPowerManagementDefaultLimit, .divisor = 1000},
    {.name = "power.min_limit", .unit = "W", .number = power_min, .divisor = 1000},
    {.name = "power.max_limit", .unit = "W", .number = power_max, .divisor = 1000},
    {.name = "clocks.current.graphics", .other_name = "clocks.gr", .unit = "MHz", .number = clock_graphics},
    {.name = "clocks.current.sm", .other_name = "clocks.sm", .unit = "MHz", .number = clock_sm},
    {.name = "clocks.current.memory", .other_name = "clocks.mem", .unit = "MHz", .number = clock_memory},
    {.name = "clocks.current.video", .other_name = "clocks.video", .unit = "MHz", .number = clock_video},
    {.name = "clocks.max.graphics", .other_name = "clocks.max.gr", .unit = "MHz", .number = clock_max_graphics},
    {.name = "clocks.max.sm", .unit = "MHz", .number = clock_max_sm},
    {.name = "clocks.max.memory", .other_name = "clocks.max.mem", .unit = "MHz", .number = clock_max_memory},
    {.name = "ecc.mode.current", .other_name = "ecc.mode.pending", .text = ecc_mode},
    {.name = "ecc.errors.corrected.volatile.total", .number = ecc_corrected_volatile},
    {.name = "ecc.errors.uncorrected.volatile.total", .number = ecc_uncorrected_volatile},
    {.name = "ecc.errors.corrected.aggregate.total", .number = ecc_corrected_aggregate},
    {.name = "ecc.errors.uncorrected.aggregate.total", .number = ecc_uncorrected_aggregate},
    {.name = "remapped_rows.correctable", .number = remapped_corrected},
    {.name = "remapped_rows.uncorrectable", .number = remapped_uncorrected},
    {.name = "remapped_rows.pending", .text = remapped_pending},
    {.name = "remapped_rows.failure", .text = remapped_failure},
};

const gwi_smi_field *gwi_smi_field_find(const char *name)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(fields[i].name, name) == 0 ||
            (fields[i].other_name != NULL && strcmp(fields[i].other_name, name) == 0))
            return &fields[i];
    return NULL;
}

void gwi_smi_value(const gwi_smi_field *field, nvmlDevice_t device, char out[GWI_SMI_VALUE_MAX])
{
    unsigned value = 0;
    out[0] = '\0';
    nvmlReturn_t result = field->number != NULL ? field->number(device, &value) : field->text(device, out);
    if (result == NVML_ERROR_NOT_SUPPORTED)
        snprintf(out, GWI_SMI_VALUE_MAX, "[N/A]");
    else if (result != NVML_SUCCESS)
        snprintf(out, GWI_SMI_VALUE_MAX, "[%s]", nvmlErrorString(result));
    else if (field->number != NULL && field->divisor != 0)
        snprintf(out, GWI_SMI_VALUE_MAX, "%.2f", (double)value / field->divisor);
    else if (field->number != NULL)
        snprintf(out, GWI_SMI_VALUE_MAX, "%u", value);
}

const char *gwi_smi_get(const char *name, nvmlDevice_t device, char out[GWI_SMI_VALUE_MAX])
{
    const gwi_smi_field *field = gwi_smi_field_find(name);
    if (field == NULL)
        return "";
    gwi_smi_value(field, device, out);
    return strcmp(out, "[N/A]") == 0 ? "N/A" : out;
}
