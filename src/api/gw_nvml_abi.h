/* The binary interface of the management library (NVML, libnvidia-ml.so.1), as far as gpuwhy uses or implements it,
 * written independently of nvml.h. Never include both. Its users are:
 * - the code that reads a card, which loads NVML at run time
 * - the virtual card's library
 * - NVML programs that are built without NVML's header
 *
 * Names and numbers are those of NVML's manual. tests/e2e/nvml.py compares them with the nvidia-ml-py package, if
 * available.
 *
 * The structures are the same on x86-64 and arm64. Each version of a function (`_v2`, `_v3`) has its own structure. If
 * it begins with `version`, set that to GW_NVML_VERSION_OF(type, number) before the call. */
#ifndef GW_NVML_ABI_H
#define GW_NVML_ABI_H

#include <stdint.h>

/* --- results -------------------------------------------------------------------------------------------- */

// clang-format off
/* Every result, as X(name, number, the text that nvmlErrorString returns). */
#define GW_NVML_RESULTS(X) \
    X(NVML_SUCCESS, 0, "Success") \
    X(NVML_ERROR_UNINITIALIZED, 1, "Uninitialized") \
    X(NVML_ERROR_INVALID_ARGUMENT, 2, "Invalid Argument") \
    X(NVML_ERROR_NOT_SUPPORTED, 3, "Not Supported") \
    X(NVML_ERROR_NO_PERMISSION, 4, "Insufficient Permissions") \
    X(NVML_ERROR_ALREADY_INITIALIZED, 5, "Already Initialized") \
    X(NVML_ERROR_NOT_FOUND, 6, "Not Found") \
    X(NVML_ERROR_INSUFFICIENT_SIZE, 7, "Insufficient Size") \
    X(NVML_ERROR_INSUFFICIENT_POWER, 8, "Insufficient External Power") \
    X(NVML_ERROR_DRIVER_NOT_LOADED, 9, "Driver Not Loaded") \
    X(NVML_ERROR_TIMEOUT, 10, "Timeout") \
    X(NVML_ERROR_IRQ_ISSUE, 11, "Interrupt Request Issue") \
    X(NVML_ERROR_LIBRARY_NOT_FOUND, 12, "NVML Shared Library Not Found") \
    X(NVML_ERROR_FUNCTION_NOT_FOUND, 13, "Function Not Found") \
    X(NVML_ERROR_CORRUPTED_INFOROM, 14, "Corrupted infoROM") \
    X(NVML_ERROR_GPU_IS_LOST, 15, "GPU is lost") \
    X(NVML_ERROR_RESET_REQUIRED, 16, "GPU requires restart") \
    X(NVML_ERROR_OPERATING_SYSTEM, 17, "The operating system has blocked the request.") \
    X(NVML_ERROR_LIB_RM_VERSION_MISMATCH, 18, "Driver/library version mismatch") \
    X(NVML_ERROR_IN_USE, 19, "In use by another client") \
    X(NVML_ERROR_MEMORY, 20, "Insufficient Memory") \
    X(NVML_ERROR_NO_DATA, 21, "No data") \
    X(NVML_ERROR_VGPU_ECC_NOT_SUPPORTED, 22, "vGPU ECC Not Supported") \
    X(NVML_ERROR_INSUFFICIENT_RESOURCES, 23, "Insufficient Resources") \
    X(NVML_ERROR_FREQ_NOT_SUPPORTED, 24, "Frequency Not Supported") \
    X(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, 25, "Argument Version Mismatch") \
    X(NVML_ERROR_DEPRECATED, 26, "Deprecated") \
    X(NVML_ERROR_NOT_READY, 27, "Not Ready") \
    X(NVML_ERROR_GPU_NOT_FOUND, 28, "GPU Not Found") \
    X(NVML_ERROR_INVALID_STATE, 29, "Invalid State") \
    X(NVML_ERROR_UNKNOWN, 999, "Unknown Error")
// clang-format on

typedef enum nvmlReturn_t {
#define GW_NVML_RESULT_ENUM(name, number, text) name = number,
    GW_NVML_RESULTS(GW_NVML_RESULT_ENUM)
#undef GW_NVML_RESULT_ENUM
} nvmlReturn_t;

/* --- numbers -------------------------------------------------------------------------------------------- */

enum {
    NVML_DEVICE_UUID_BUFFER_SIZE = 80,
    NVML_DEVICE_UUID_V2_BUFFER_SIZE = 96,
    NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE = 80,
    NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE = 80,
    NVML_DEVICE_NAME_BUFFER_SIZE = 64,
    NVML_DEVICE_NAME_V2_BUFFER_SIZE = 96,
    NVML_DEVICE_SERIAL_BUFFER_SIZE = 30,
    NVML_DEVICE_VBIOS_VERSION_BUFFER_SIZE = 32,
    NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE = 32,
    NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE = 16
};

#define NVML_VALUE_NOT_AVAILABLE UINT64_MAX /* a 64-bit value that is not available */
#define NVML_NO_INSTANCE         UINT32_MAX /* gpuInstanceId and computeInstanceId if MIG is off */

typedef enum nvmlEnableState_t { NVML_FEATURE_DISABLED, NVML_FEATURE_ENABLED } nvmlEnableState_t;

typedef enum nvmlBrandType_t {
    NVML_BRAND_UNKNOWN = 0,
    NVML_BRAND_TESLA = 2,
    NVML_BRAND_GEFORCE = 5,
    NVML_BRAND_NVIDIA = 14
} nvmlBrandType_t;

typedef enum nvmlTemperatureSensors_t { NVML_TEMPERATURE_GPU } nvmlTemperatureSensors_t;

typedef enum nvmlTemperatureThresholds_t {
    NVML_TEMPERATURE_THRESHOLD_SHUTDOWN,
    NVML_TEMPERATURE_THRESHOLD_SLOWDOWN,
    NVML_TEMPERATURE_THRESHOLD_MEM_MAX,
    NVML_TEMPERATURE_THRESHOLD_GPU_MAX,
    NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MIN,
    NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_CURR,
    NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MAX,
    NVML_TEMPERATURE_THRESHOLD_GPS_CURR
} nvmlTemperatureThresholds_t;

typedef enum nvmlComputeMode_t {
    NVML_COMPUTEMODE_DEFAULT,
    NVML_COMPUTEMODE_EXCLUSIVE_THREAD,
    NVML_COMPUTEMODE_PROHIBITED,
    NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
} nvmlComputeMode_t;

typedef enum nvmlClockType_t {
    NVML_CLOCK_GRAPHICS,
    NVML_CLOCK_SM,
    NVML_CLOCK_MEM,
    NVML_CLOCK_VIDEO,
    NVML_CLOCK_COUNT
} nvmlClockType_t;

typedef enum nvmlClockId_t {
    NVML_CLOCK_ID_CURRENT,
    NVML_CLOCK_ID_APP_CLOCK_TARGET,
    NVML_CLOCK_ID_APP_CLOCK_DEFAULT,
    NVML_CLOCK_ID_CUSTOMER_BOOST_MAX
} nvmlClockId_t;

typedef enum nvmlPstates_t { NVML_PSTATE_0 = 0, NVML_PSTATE_8 = 8, NVML_PSTATE_UNKNOWN = 32 } nvmlPstates_t;

typedef enum nvmlMemoryErrorType_t {
    NVML_MEMORY_ERROR_TYPE_CORRECTED,
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED
} nvmlMemoryErrorType_t;

typedef enum nvmlEccCounterType_t { NVML_VOLATILE_ECC, NVML_AGGREGATE_ECC } nvmlEccCounterType_t;

typedef enum nvmlMemoryLocation_t {
    NVML_MEMORY_LOCATION_L1_CACHE,
    NVML_MEMORY_LOCATION_L2_CACHE,
    NVML_MEMORY_LOCATION_DEVICE_MEMORY,
    NVML_MEMORY_LOCATION_REGISTER_FILE,
    NVML_MEMORY_LOCATION_TEXTURE_MEMORY,
    NVML_MEMORY_LOCATION_TEXTURE_SHM,
    NVML_MEMORY_LOCATION_CBU,
    NVML_MEMORY_LOCATION_SRAM,
    NVML_MEMORY_LOCATION_COUNT
} nvmlMemoryLocation_t;

typedef enum nvmlPageRetirementCause_t {
    NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
    NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR
} nvmlPageRetirementCause_t;

typedef enum nvmlPerfPolicyType_t {
    NVML_PERF_POLICY_POWER,
    NVML_PERF_POLICY_THERMAL,
    NVML_PERF_POLICY_SYNC_BOOST,
    NVML_PERF_POLICY_BOARD_LIMIT,
    NVML_PERF_POLICY_LOW_UTILIZATION,
    NVML_PERF_POLICY_RELIABILITY,
    NVML_PERF_POLICY_TOTAL_APP_CLOCKS = 10,
    NVML_PERF_POLICY_TOTAL_BASE_CLOCKS = 11
} nvmlPerfPolicyType_t;

typedef enum nvmlPcieUtilCounter_t { NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES } nvmlPcieUtilCounter_t;

typedef enum nvmlNvLinkErrorCounter_t {
    NVML_NVLINK_ERROR_DL_REPLAY,
    NVML_NVLINK_ERROR_DL_RECOVERY,
    NVML_NVLINK_ERROR_DL_CRC_FLIT,
    NVML_NVLINK_ERROR_DL_CRC_DATA,
    NVML_NVLINK_ERROR_DL_ECC_DATA
} nvmlNvLinkErrorCounter_t;

enum { NVML_NVLINK_MAX_LINKS = 18 }; /* value in the nvml.h of the 580 drivers */

typedef enum nvmlGpuTopologyLevel_t {
    NVML_TOPOLOGY_INTERNAL = 0,
    NVML_TOPOLOGY_SINGLE = 10,
    NVML_TOPOLOGY_MULTIPLE = 20,
    NVML_TOPOLOGY_HOSTBRIDGE = 30,
    NVML_TOPOLOGY_NODE = 40,
    NVML_TOPOLOGY_SYSTEM = 50
} nvmlGpuTopologyLevel_t;

typedef enum nvmlDeviceArchitecture_t {
    NVML_DEVICE_ARCH_VOLTA = 5,
    NVML_DEVICE_ARCH_TURING = 6,
    NVML_DEVICE_ARCH_AMPERE = 7,
    NVML_DEVICE_ARCH_ADA = 8,
    NVML_DEVICE_ARCH_HOPPER = 9,
    NVML_DEVICE_ARCH_BLACKWELL = 10
} nvmlDeviceArchitecture_t;

typedef enum nvmlRestrictedAPI_t {
    NVML_RESTRICTED_API_SET_APPLICATION_CLOCKS,
    NVML_RESTRICTED_API_SET_AUTO_BOOSTED_CLOCKS
} nvmlRestrictedAPI_t;

typedef enum nvmlBusType_t { NVML_BUS_TYPE_UNKNOWN, NVML_BUS_TYPE_PCI, NVML_BUS_TYPE_PCIE } nvmlBusType_t;

/* The action that a driver requests after a fault (field NVML_FI_DEV_GET_GPU_RECOVERY_ACTION). */
typedef enum nvmlDeviceGpuRecoveryAction_t {
    NVML_GPU_RECOVERY_ACTION_NONE,
    NVML_GPU_RECOVERY_ACTION_GPU_RESET,
    NVML_GPU_RECOVERY_ACTION_NODE_REBOOT,
    NVML_GPU_RECOVERY_ACTION_DRAIN_P2P,
    NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET,
    NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN
} nvmlDeviceGpuRecoveryAction_t;

/* Values of `state` in the result of nvmlDeviceGetGpuFabricInfo. */
enum {
    NVML_GPU_FABRIC_STATE_NOT_SUPPORTED,
    NVML_GPU_FABRIC_STATE_NOT_STARTED,
    NVML_GPU_FABRIC_STATE_IN_PROGRESS,
    NVML_GPU_FABRIC_STATE_COMPLETED
};

/* Bits of the result of nvmlDeviceGetCurrentClocksEventReasons, and of the older
 * nvmlDeviceGetCurrentClocksThrottleReasons. */
#define nvmlClocksEventReasonGpuIdle                   UINT64_C(0x1)
#define nvmlClocksEventReasonApplicationsClocksSetting UINT64_C(0x2)
#define nvmlClocksEventReasonSwPowerCap                UINT64_C(0x4)
#define nvmlClocksEventReasonHwSlowdown                UINT64_C(0x8)
#define nvmlClocksEventReasonSyncBoost                 UINT64_C(0x10)
#define nvmlClocksEventReasonSwThermalSlowdown         UINT64_C(0x20)
#define nvmlClocksEventReasonHwThermalSlowdown         UINT64_C(0x40)
#define nvmlClocksEventReasonHwPowerBrakeSlowdown      UINT64_C(0x80)
#define nvmlClocksEventReasonDisplayClockSetting       UINT64_C(0x100)

/* Event types: bits for nvmlDeviceRegisterEvents. eventType of nvmlEventData_t is one of them. */
#define nvmlEventTypeSingleBitEccError      UINT64_C(0x1)
#define nvmlEventTypeDoubleBitEccError      UINT64_C(0x2)
#define nvmlEventTypePState                 UINT64_C(0x4)
#define nvmlEventTypeXidCriticalError       UINT64_C(0x8)
#define nvmlEventTypeClock                  UINT64_C(0x10)
#define nvmlEventTypePowerSourceChange      UINT64_C(0x80)
#define nvmlEventTypeSingleBitEccErrorStorm UINT64_C(0x200)
#define nvmlEventTypeDramRetirementEvent    UINT64_C(0x400)
#define nvmlEventTypeDramRetirementFailure  UINT64_C(0x800)
#define nvmlEventTypeNonFatalPoisonError    UINT64_C(0x1000)
#define nvmlEventTypeFatalPoisonError       UINT64_C(0x2000)
#define nvmlEventTypeGpuUnavailableError    UINT64_C(0x4000)
#define nvmlEventTypeGpuRecoveryAction      UINT64_C(0x8000)

/* Fields of nvmlDeviceGetFieldValues that gpuwhy reads or implements. Time counters are in ns. */
enum {
    NVML_FI_DEV_ECC_CURRENT = 1,
    NVML_FI_DEV_ECC_PENDING = 2,
    NVML_FI_DEV_ECC_SBE_VOL_TOTAL = 3,
    NVML_FI_DEV_ECC_DBE_VOL_TOTAL = 4,
    NVML_FI_DEV_ECC_SBE_AGG_TOTAL = 5,
    NVML_FI_DEV_ECC_DBE_AGG_TOTAL = 6,
    NVML_FI_DEV_RETIRED_SBE = 29,
    NVML_FI_DEV_RETIRED_DBE = 30,
    NVML_FI_DEV_RETIRED_PENDING = 31,
    NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL = 38,
    NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL = 45,
    NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL = 52,
    NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL = 59,
    NVML_FI_DEV_PERF_POLICY_POWER = 74,
    NVML_FI_DEV_PERF_POLICY_THERMAL = 75,
    NVML_FI_DEV_PERF_POLICY_SYNC_BOOST = 76,
    NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT = 77,
    NVML_FI_DEV_PERF_POLICY_LOW_UTILIZATION = 78,
    NVML_FI_DEV_PERF_POLICY_RELIABILITY = 79,
    NVML_FI_DEV_PERF_POLICY_TOTAL_APP_CLOCKS = 80,
    NVML_FI_DEV_PERF_POLICY_TOTAL_BASE_CLOCKS = 81,
    NVML_FI_DEV_MEMORY_TEMP = 82,
    NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION = 83, /* mJ */
    NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON = 90,
    NVML_FI_DEV_NVLINK_LINK_COUNT = 91,
    NVML_FI_DEV_RETIRED_PENDING_SBE = 92,
    NVML_FI_DEV_RETIRED_PENDING_DBE = 93,
    NVML_FI_DEV_PCIE_REPLAY_COUNTER = 94,
    NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER = 95,
    NVML_FI_DEV_REMAPPED_COR = 142,
    NVML_FI_DEV_REMAPPED_UNC = 143,
    NVML_FI_DEV_REMAPPED_PENDING = 144,
    NVML_FI_DEV_REMAPPED_FAILURE = 145,
    NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY = 161,
    NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY = 162,
    NVML_FI_DEV_NVLINK_ERROR_DL_CRC = 163,
    NVML_FI_DEV_NVLINK_GET_SPEED = 164,
    NVML_FI_DEV_NVLINK_GET_STATE = 165,
    NVML_FI_DEV_PCIE_L0_TO_RECOVERY_COUNTER = 169,
    NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS = 173,
    NVML_FI_DEV_PCIE_COUNT_NAKS_RECEIVED = 174,
    NVML_FI_DEV_PCIE_COUNT_RECEIVER_ERROR = 175,
    NVML_FI_DEV_PCIE_COUNT_BAD_TLP = 176,
    NVML_FI_DEV_PCIE_COUNT_NAKS_SENT = 177,
    NVML_FI_DEV_PCIE_COUNT_BAD_DLLP = 178,
    NVML_FI_DEV_PCIE_COUNT_NON_FATAL_ERROR = 179,
    NVML_FI_DEV_PCIE_COUNT_FATAL_ERROR = 180,
    NVML_FI_DEV_POWER_AVERAGE = 185, /* all POWER fields are in mW */
    NVML_FI_DEV_POWER_INSTANT = 186,
    NVML_FI_DEV_POWER_MIN_LIMIT = 187,
    NVML_FI_DEV_POWER_MAX_LIMIT = 188,
    NVML_FI_DEV_POWER_DEFAULT_LIMIT = 189,
    NVML_FI_DEV_POWER_CURRENT_LIMIT = 190,
    NVML_FI_DEV_ENERGY = 191,
    NVML_FI_DEV_POWER_REQUESTED_LIMIT = 192,
    NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT = 193,
    NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT = 194,
    NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT = 195,
    NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT = 196,
    NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS = 213,
    NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS = 214,
    NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS = 215,
    NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS = 219,
    NVML_FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS = 221,
    NVML_FI_DEV_RESET_STATUS = 226,
    NVML_FI_DEV_DRAIN_AND_RESET_STATUS = 227,
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230,
    NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN = 269,
    NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN = 270,
    NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN = 271
};

typedef enum nvmlValueType_t {
    NVML_VALUE_TYPE_DOUBLE,
    NVML_VALUE_TYPE_UNSIGNED_INT,
    NVML_VALUE_TYPE_UNSIGNED_LONG,
    NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
    NVML_VALUE_TYPE_SIGNED_LONG_LONG,
    NVML_VALUE_TYPE_SIGNED_INT,
    NVML_VALUE_TYPE_UNSIGNED_SHORT
} nvmlValueType_t;

/* --- structures ----------------------------------------------------------------------------------------- */

#define GW_NVML_VERSION_OF(type, number) ((unsigned)sizeof(type) | (unsigned)(number) << 24)

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;

/* Result of nvmlDeviceGetPciInfo and nvmlDeviceGetPciInfo_v2. */
typedef struct nvmlPciInfo_v2_t {
    char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE];
    unsigned domain, bus, device;
    unsigned pciDeviceId; /* device << 16 | vendor */
    unsigned pciSubSystemId;
    unsigned reserved[4];
} nvmlPciInfo_v2_t;

/* Result of nvmlDeviceGetPciInfo_v3. */
typedef struct nvmlPciInfo_t {
    char busIdLegacy[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE]; /* 0000:06:00.0 */
    unsigned domain, bus, device;
    unsigned pciDeviceId; /* device << 16 | vendor */
    unsigned pciSubSystemId;
    char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE]; /* 00000000:06:00.0 */
} nvmlPciInfo_t;

typedef struct nvmlMemory_t {
    uint64_t total, free, used; /* bytes; memory reserved by the driver counts as used */
} nvmlMemory_t;

typedef struct nvmlMemory_v2_t {
    unsigned version; /* GW_NVML_VERSION_OF(nvmlMemory_v2_t, 2) */
    uint64_t total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct nvmlBAR1Memory_t {
    uint64_t bar1Total, bar1Free, bar1Used;
} nvmlBAR1Memory_t;

typedef struct nvmlUtilization_t {
    unsigned gpu, memory; /* percentage of the last sampling period in which the GPU or its memory was busy */
} nvmlUtilization_t;

/* Result of nvmlDeviceGetComputeRunningProcesses without a version suffix: one process. */
typedef struct nvmlProcessInfo_v1_t {
    unsigned pid;
    uint64_t usedGpuMemory; /* bytes, or NVML_VALUE_NOT_AVAILABLE */
} nvmlProcessInfo_v1_t;

/* Result of nvmlDeviceGetComputeRunningProcesses_v2 and _v3: one process. */
typedef struct nvmlProcessInfo_t {
    unsigned pid;
    uint64_t usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct nvmlProcessDetail_v1_t {
    unsigned pid;
    uint64_t usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
    uint64_t usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;

typedef struct nvmlProcessDetailList_v1_t {
    unsigned version;
    unsigned mode; /* 0: compute */
    unsigned numProcArrayEntries;
    nvmlProcessDetail_v1_t *procArray; /* owned by the caller; NULL: the call only returns the number of processes */
} nvmlProcessDetailList_v1_t;

typedef struct nvmlProcessUtilizationSample_t {
    unsigned pid;
    uint64_t timeStamp; /* wall clock time in us */
    unsigned smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct nvmlViolationTime_t {
    uint64_t referenceTime; /* wall clock time in us */
    uint64_t violationTime; /* ns */
} nvmlViolationTime_t;

typedef struct nvmlEccErrorCounts_t {
    uint64_t l1Cache, l2Cache, deviceMemory, registerFile;
} nvmlEccErrorCounts_t;

typedef struct nvmlRowRemapperHistogramValues_t {
    /* number of memory banks that have this many spare rows left (max: all, none: 0) */
    unsigned max, high, partial, low, none;
} nvmlRowRemapperHistogramValues_t;

typedef union nvmlValue_t {
    double dVal;
    int siVal;
    unsigned uiVal;
    unsigned long ulVal;
    uint64_t ullVal;
    int64_t sllVal;
    uint16_t usVal;
} nvmlValue_t;

typedef struct nvmlFieldValue_t {
    unsigned fieldId;  /* input */
    unsigned scopeId;  /* input: number of the NVLink link; 0 if the field is not about a link */
    int64_t timestamp; /* wall clock time in us */
    int64_t latencyUsec;
    nvmlValueType_t valueType;
    nvmlReturn_t nvmlReturn; /* the result of reading this field */
    nvmlValue_t value;
} nvmlFieldValue_t;

typedef struct nvmlSample_t {
    uint64_t timeStamp; /* us */
    nvmlValue_t sampleValue;
} nvmlSample_t;

/* Result of nvmlEventSetWait_v2. nvmlEventSetWait without a suffix fills only the first three members. */
typedef struct nvmlEventData_t {
    nvmlDevice_t device;
    uint64_t eventType; /* one nvmlEventType... bit */
    uint64_t eventData; /* for an Xid event, the number of the Xid; 999: unknown */
    unsigned gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

typedef struct nvmlTemperature_v1_t {
    unsigned version;
    unsigned sensorType;
    int temperature; /* degrees Celsius */
} nvmlTemperature_v1_t;

typedef struct nvmlMarginTemperature_v1_t {
    unsigned version;
    int marginTemperature; /* degrees Celsius below the slowdown temperature */
} nvmlMarginTemperature_v1_t;

typedef struct nvmlSystemDriverBranchInfo_v1_t {
    unsigned version;
    char branch[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE];
} nvmlSystemDriverBranchInfo_v1_t;

typedef struct nvmlGpuFabricInfo_t {
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned cliqueId;
    unsigned state; /* NVML_GPU_FABRIC_STATE_... */
} nvmlGpuFabricInfo_t;

typedef struct nvmlGpuFabricInfo_v2_t {
    unsigned version;
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned cliqueId;
    unsigned state;
    unsigned healthMask;
} nvmlGpuFabricInfo_v2_t;

/* --- functions ------------------------------------------------------------------------------------------ */

// clang-format off
/* The calls whose parameters are known, as X(symbol, (parameters)). All return nvmlReturn_t, and any thread may call
 * them after nvmlInit_v2.
 * - Buffers belong to the caller. `length` is in bytes and includes the terminating 0.
 * - A count is the capacity on input and the number of entries on output. On NVML_ERROR_INSUFFICIENT_SIZE, it is the
 *   needed capacity. */
#define GW_NVML_FUNCTIONS(X) \
    X(nvmlInit, (void)) \
    X(nvmlInit_v2, (void)) \
    X(nvmlInitWithFlags, (unsigned flags)) \
    X(nvmlShutdown, (void)) \
    X(nvmlSystemGetDriverVersion, (char *version, unsigned length)) \
    X(nvmlSystemGetNVMLVersion, (char *version, unsigned length)) \
    X(nvmlSystemGetCudaDriverVersion, (int *version)) \
    X(nvmlSystemGetCudaDriverVersion_v2, (int *version)) \
    X(nvmlSystemGetDriverBranch, (nvmlSystemDriverBranchInfo_v1_t *branch, unsigned length)) \
    X(nvmlSystemGetProcessName, (unsigned pid, char *name, unsigned length)) \
    X(nvmlUnitGetCount, (unsigned *count)) \
    X(nvmlDeviceGetCount, (unsigned *count)) \
    X(nvmlDeviceGetCount_v2, (unsigned *count)) \
    X(nvmlDeviceGetHandleByIndex, (unsigned index, nvmlDevice_t *device)) \
    X(nvmlDeviceGetHandleByIndex_v2, (unsigned index, nvmlDevice_t *device)) \
    X(nvmlDeviceGetHandleBySerial, (const char *serial, nvmlDevice_t *device)) \
    X(nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *device)) \
    X(nvmlDeviceGetHandleByPciBusId, (const char *busId, nvmlDevice_t *device)) \
    X(nvmlDeviceGetHandleByPciBusId_v2, (const char *busId, nvmlDevice_t *device)) \
    X(nvmlDeviceGetIndex, (nvmlDevice_t device, unsigned *index)) \
    X(nvmlDeviceGetMinorNumber, (nvmlDevice_t device, unsigned *minor)) \
    X(nvmlDeviceGetName, (nvmlDevice_t device, char *name, unsigned length)) \
    X(nvmlDeviceGetUUID, (nvmlDevice_t device, char *uuid, unsigned length)) \
    X(nvmlDeviceGetSerial, (nvmlDevice_t device, char *serial, unsigned length)) \
    X(nvmlDeviceGetVbiosVersion, (nvmlDevice_t device, char *version, unsigned length)) \
    X(nvmlDeviceGetBrand, (nvmlDevice_t device, nvmlBrandType_t *brand)) \
    X(nvmlDeviceGetArchitecture, (nvmlDevice_t device, unsigned *architecture)) \
    X(nvmlDeviceGetCudaComputeCapability, (nvmlDevice_t device, int *major, int *minor)) \
    X(nvmlDeviceGetNumGpuCores, (nvmlDevice_t device, unsigned *count)) \
    X(nvmlDeviceGetMemoryBusWidth, (nvmlDevice_t device, unsigned *bits)) \
    X(nvmlDeviceGetBusType, (nvmlDevice_t device, unsigned *type)) \
    X(nvmlDeviceGetPciInfo, (nvmlDevice_t device, nvmlPciInfo_v2_t *pci)) \
    X(nvmlDeviceGetPciInfo_v2, (nvmlDevice_t device, nvmlPciInfo_v2_t *pci)) \
    X(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t device, nvmlPciInfo_t *pci)) \
    X(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t *memory)) \
    X(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t device, nvmlMemory_v2_t *memory)) \
    X(nvmlDeviceGetBAR1MemoryInfo, (nvmlDevice_t device, nvmlBAR1Memory_t *memory)) \
    X(nvmlDeviceGetUtilizationRates, (nvmlDevice_t device, nvmlUtilization_t *utilization)) \
    X(nvmlDeviceGetEncoderUtilization, (nvmlDevice_t device, unsigned *percent, unsigned *period_us)) \
    X(nvmlDeviceGetDecoderUtilization, (nvmlDevice_t device, unsigned *percent, unsigned *period_us)) \
    X(nvmlDeviceGetProcessUtilization, (nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples, unsigned *count, uint64_t since_us)) \
    X(nvmlDeviceGetComputeRunningProcesses, (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *processes)) \
    X(nvmlDeviceGetComputeRunningProcesses_v2, (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *processes)) \
    X(nvmlDeviceGetComputeRunningProcesses_v3, (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *processes)) \
    X(nvmlDeviceGetGraphicsRunningProcesses, (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *processes)) \
    X(nvmlDeviceGetGraphicsRunningProcesses_v2, (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *processes)) \
    X(nvmlDeviceGetGraphicsRunningProcesses_v3, (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *processes)) \
    X(nvmlDeviceGetMPSComputeRunningProcesses, (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *processes)) \
    X(nvmlDeviceGetMPSComputeRunningProcesses_v2, (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *processes)) \
    X(nvmlDeviceGetMPSComputeRunningProcesses_v3, (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *processes)) \
    X(nvmlDeviceGetRunningProcessDetailList, (nvmlDevice_t device, nvmlProcessDetailList_v1_t *list)) \
    X(nvmlDeviceGetTemperature, (nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned *degrees)) \
    X(nvmlDeviceGetTemperatureV, (nvmlDevice_t device, nvmlTemperature_v1_t *temperature)) \
    X(nvmlDeviceGetTemperatureThreshold, (nvmlDevice_t device, nvmlTemperatureThresholds_t threshold, unsigned *degrees)) \
    X(nvmlDeviceGetMarginTemperature, (nvmlDevice_t device, nvmlMarginTemperature_v1_t *margin)) \
    X(nvmlDeviceGetFanSpeed, (nvmlDevice_t device, unsigned *percent)) \
    X(nvmlDeviceGetFanSpeed_v2, (nvmlDevice_t device, unsigned fan, unsigned *percent)) \
    X(nvmlDeviceGetNumFans, (nvmlDevice_t device, unsigned *count)) \
    X(nvmlDeviceGetPowerUsage, (nvmlDevice_t device, unsigned *power_mw)) \
    X(nvmlDeviceGetPowerManagementMode, (nvmlDevice_t device, nvmlEnableState_t *mode)) \
    X(nvmlDeviceGetPowerManagementLimit, (nvmlDevice_t device, unsigned *limit_mw)) \
    X(nvmlDeviceGetPowerManagementDefaultLimit, (nvmlDevice_t device, unsigned *limit_mw)) \
    X(nvmlDeviceGetPowerManagementLimitConstraints, (nvmlDevice_t device, unsigned *min_mw, unsigned *max_mw)) \
    X(nvmlDeviceGetEnforcedPowerLimit, (nvmlDevice_t device, unsigned *limit_mw)) \
    X(nvmlDeviceGetTotalEnergyConsumption, (nvmlDevice_t device, uint64_t *energy_mj)) \
    X(nvmlDeviceGetPerformanceState, (nvmlDevice_t device, nvmlPstates_t *state)) \
    X(nvmlDeviceGetPowerState, (nvmlDevice_t device, nvmlPstates_t *state)) \
    X(nvmlDeviceGetClockInfo, (nvmlDevice_t device, nvmlClockType_t type, unsigned *clock_mhz)) \
    X(nvmlDeviceGetMaxClockInfo, (nvmlDevice_t device, nvmlClockType_t type, unsigned *clock_mhz)) \
    X(nvmlDeviceGetClock, (nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t id, unsigned *clock_mhz)) \
    X(nvmlDeviceGetApplicationsClock, (nvmlDevice_t device, nvmlClockType_t type, unsigned *clock_mhz)) \
    X(nvmlDeviceGetDefaultApplicationsClock, (nvmlDevice_t device, nvmlClockType_t type, unsigned *clock_mhz)) \
    X(nvmlDeviceGetCurrentClocksEventReasons, (nvmlDevice_t device, uint64_t *reasons)) \
    X(nvmlDeviceGetCurrentClocksThrottleReasons, (nvmlDevice_t device, uint64_t *reasons)) \
    X(nvmlDeviceGetSupportedClocksEventReasons, (nvmlDevice_t device, uint64_t *reasons)) \
    X(nvmlDeviceGetSupportedClocksThrottleReasons, (nvmlDevice_t device, uint64_t *reasons)) \
    X(nvmlDeviceGetViolationStatus, (nvmlDevice_t device, nvmlPerfPolicyType_t policy, nvmlViolationTime_t *time)) \
    X(nvmlDeviceGetCurrPcieLinkGeneration, (nvmlDevice_t device, unsigned *generation)) \
    X(nvmlDeviceGetCurrPcieLinkWidth, (nvmlDevice_t device, unsigned *lanes)) \
    X(nvmlDeviceGetMaxPcieLinkGeneration, (nvmlDevice_t device, unsigned *generation)) \
    X(nvmlDeviceGetGpuMaxPcieLinkGeneration, (nvmlDevice_t device, unsigned *generation)) \
    X(nvmlDeviceGetMaxPcieLinkWidth, (nvmlDevice_t device, unsigned *lanes)) \
    X(nvmlDeviceGetPcieSpeed, (nvmlDevice_t device, unsigned *speed_mbps)) \
    X(nvmlDeviceGetPcieThroughput, (nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned *kb_per_s)) \
    X(nvmlDeviceGetPcieReplayCounter, (nvmlDevice_t device, unsigned *count)) \
    X(nvmlDeviceGetEccMode, (nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)) \
    X(nvmlDeviceGetDefaultEccMode, (nvmlDevice_t device, nvmlEnableState_t *mode)) \
    X(nvmlDeviceGetTotalEccErrors, (nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter, uint64_t *count)) \
    X(nvmlDeviceGetMemoryErrorCounter, (nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter, nvmlMemoryLocation_t location, uint64_t *count)) \
    X(nvmlDeviceGetDetailedEccErrors, (nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter, nvmlEccErrorCounts_t *counts)) \
    X(nvmlDeviceGetRemappedRows, (nvmlDevice_t device, unsigned *corrected, unsigned *uncorrected, unsigned *is_pending, unsigned *failed)) \
    X(nvmlDeviceGetRowRemapperHistogram, (nvmlDevice_t device, nvmlRowRemapperHistogramValues_t *values)) \
    X(nvmlDeviceGetRetiredPages, (nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned *count, uint64_t *addresses)) \
    X(nvmlDeviceGetRetiredPagesPendingStatus, (nvmlDevice_t device, nvmlEnableState_t *is_pending)) \
    X(nvmlDeviceGetFieldValues, (nvmlDevice_t device, int count, nvmlFieldValue_t *values)) \
    X(nvmlDeviceGetPersistenceMode, (nvmlDevice_t device, nvmlEnableState_t *mode)) \
    X(nvmlDeviceGetComputeMode, (nvmlDevice_t device, nvmlComputeMode_t *mode)) \
    X(nvmlDeviceGetDisplayMode, (nvmlDevice_t device, nvmlEnableState_t *mode)) \
    X(nvmlDeviceGetDisplayActive, (nvmlDevice_t device, nvmlEnableState_t *is_active)) \
    X(nvmlDeviceGetAccountingMode, (nvmlDevice_t device, nvmlEnableState_t *mode)) \
    X(nvmlDeviceGetMigMode, (nvmlDevice_t device, unsigned *current, unsigned *pending)) \
    X(nvmlDeviceGetMaxMigDeviceCount, (nvmlDevice_t device, unsigned *count)) \
    X(nvmlDeviceIsMigDeviceHandle, (nvmlDevice_t device, unsigned *is_mig)) \
    X(nvmlDeviceGetNvLinkState, (nvmlDevice_t device, unsigned link, nvmlEnableState_t *is_active)) \
    X(nvmlDeviceGetNvLinkVersion, (nvmlDevice_t device, unsigned link, unsigned *version)) \
    X(nvmlDeviceGetNvLinkErrorCounter, (nvmlDevice_t device, unsigned link, nvmlNvLinkErrorCounter_t counter, uint64_t *count)) \
    X(nvmlDeviceGetGpuFabricInfo, (nvmlDevice_t device, nvmlGpuFabricInfo_t *info)) \
    X(nvmlDeviceGetGpuFabricInfoV, (nvmlDevice_t device, nvmlGpuFabricInfo_v2_t *info)) \
    X(nvmlDeviceGetTopologyCommonAncestor, (nvmlDevice_t device, nvmlDevice_t other, nvmlGpuTopologyLevel_t *level)) \
    X(nvmlDeviceOnSameBoard, (nvmlDevice_t device, nvmlDevice_t other, int *is_same)) \
    X(nvmlDeviceGetMultiGpuBoard, (nvmlDevice_t device, unsigned *is_multi)) \
    X(nvmlDeviceGetSupportedEventTypes, (nvmlDevice_t device, uint64_t *types)) \
    X(nvmlDeviceRegisterEvents, (nvmlDevice_t device, uint64_t types, nvmlEventSet_t set)) \
    X(nvmlEventSetCreate, (nvmlEventSet_t *set)) \
    X(nvmlEventSetWait, (nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms)) \
    X(nvmlEventSetWait_v2, (nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms)) \
    X(nvmlEventSetFree, (nvmlEventSet_t set))
// clang-format on

/* Declare gw_nvml_fn_<symbol>, the function type of each call. */
#define GW_NVML_FUNCTION_TYPE(symbol, parameters) typedef nvmlReturn_t gw_nvml_fn_##symbol parameters;
GW_NVML_FUNCTIONS(GW_NVML_FUNCTION_TYPE)
#undef GW_NVML_FUNCTION_TYPE

/* The only call that does not return nvmlReturn_t. It returns the meaning of a result in English, as a static
 * string. */
typedef const char *gw_nvml_fn_nvmlErrorString(nvmlReturn_t result);

#endif
