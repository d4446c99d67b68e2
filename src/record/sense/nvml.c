/* Calls NVML, which is loaded at run time, and stores its values as metrics. The table `rows` lists every call and its
 * interval. */
#include "gwi_nvml.h"

#include "gw_clock.h"
#include "gw_fact.h"
#include "gw_nvml_abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The NVML functions in use, loaded by name. */
#define FUNCTIONS(X)                                                                                                   \
    X(nvmlInit_v2)                                                                                                     \
    X(nvmlShutdown)                                                                                                    \
    X(nvmlErrorString)                                                                                                 \
    X(nvmlSystemGetDriverVersion)                                                                                      \
    X(nvmlSystemGetNVMLVersion)                                                                                        \
    X(nvmlDeviceGetCount_v2)                                                                                           \
    X(nvmlDeviceGetHandleByIndex_v2)                                                                                   \
    X(nvmlDeviceGetName)                                                                                               \
    X(nvmlDeviceGetUUID)                                                                                               \
    X(nvmlDeviceGetPciInfo_v3)                                                                                         \
    X(nvmlDeviceGetMemoryInfo_v2)                                                                                      \
    X(nvmlDeviceGetMemoryInfo)                                                                                         \
    X(nvmlDeviceGetTemperature)                                                                                        \
    X(nvmlDeviceGetTemperatureThreshold)                                                                               \
    X(nvmlDeviceGetPowerUsage)                                                                                         \
    X(nvmlDeviceGetEnforcedPowerLimit)                                                                                 \
    X(nvmlDeviceGetPowerManagementDefaultLimit)                                                                        \
    X(nvmlDeviceGetClockInfo)                                                                                          \
    X(nvmlDeviceGetMaxClockInfo)                                                                                       \
    X(nvmlDeviceGetCurrentClocksEventReasons)                                                                          \
    X(nvmlDeviceGetCurrentClocksThrottleReasons)                                                                       \
    X(nvmlDeviceGetViolationStatus)                                                                                    \
    X(nvmlDeviceGetEccMode)                                                                                            \
    X(nvmlDeviceGetTotalEccErrors)                                                                                     \
    X(nvmlDeviceGetRemappedRows)                                                                                       \
    X(nvmlDeviceGetCurrPcieLinkGeneration)                                                                             \
    X(nvmlDeviceGetMaxPcieLinkGeneration)                                                                              \
    X(nvmlDeviceGetCurrPcieLinkWidth)                                                                                  \
    X(nvmlDeviceGetMaxPcieLinkWidth)                                                                                   \
    X(nvmlDeviceGetPcieReplayCounter)                                                                                  \
    X(nvmlDeviceGetFieldValues)                                                                                        \
    X(nvmlDeviceGetUtilizationRates)                                                                                   \
    X(nvmlDeviceGetPerformanceState)                                                                                   \
    X(nvmlDeviceGetComputeMode)                                                                                        \
    X(nvmlDeviceGetPersistenceMode)                                                                                    \
    X(nvmlDeviceGetComputeRunningProcesses_v3)                                                                         \
    X(nvmlDeviceGetComputeRunningProcesses_v2)                                                                         \
    X(nvmlDeviceGetComputeRunningProcesses)                                                                            \
    X(nvmlDeviceGetGraphicsRunningProcesses_v3)                                                                        \
    X(nvmlDeviceGetGraphicsRunningProcesses_v2)                                                                        \
    X(nvmlDeviceGetSupportedEventTypes)                                                                                \
    X(nvmlDeviceRegisterEvents)                                                                                        \
    X(nvmlEventSetCreate)                                                                                              \
    X(nvmlEventSetWait_v2)                                                                                             \
    X(nvmlEventSetFree)                                                                                                \
    X(nvmlDeviceGetProcessUtilization)

struct gwi_nvml {
    void *library; /* owned */
    gwi_nvml_progress *progress;
    uint32_t card_count;
    nvmlDevice_t card[GWI_NVML_CARDS_MAX]; /* NULL: no handle for this card */
    nvmlReturn_t card_answer[GWI_NVML_CARDS_MAX];
    nvmlReturn_t status[GWI_NVML_CARDS_MAX]; /* last return code of success, lost, or reset required */
    nvmlEventSet_t events;
#define GW_X(name) gw_nvml_fn_##name *name;
    FUNCTIONS(GW_X)
#undef GW_X
};

static uint8_t state_of(nvmlReturn_t answer)
{
    switch (answer) {
    case NVML_SUCCESS:
        return GW_SAMPLE_KNOWN;
    case NVML_ERROR_NOT_SUPPORTED:
    case NVML_ERROR_FUNCTION_NOT_FOUND:
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
    case NVML_ERROR_DEPRECATED:
    case NVML_ERROR_INVALID_ARGUMENT: /* returned if the driver does not know the field */
        return GW_SAMPLE_NOT_SUPPORTED;
    case NVML_ERROR_NO_PERMISSION:
        return GW_SAMPLE_NO_PERMISSION;
    case NVML_ERROR_NO_DATA:
    case NVML_ERROR_NOT_READY:
    case NVML_ERROR_NOT_FOUND:
        return GW_SAMPLE_NOT_YET;
    default:
        return GW_SAMPLE_FAILED;
    }
}

/* ---- rows ---- */

typedef struct row_info row_info;
typedef struct request { /* arguments for reading one row of one card */
    gwi_nvml *nvml;
    nvmlDevice_t card;
    uint32_t index;
    const row_info *row;
    gw_sample_value *value;
} request;

struct row_info {
    const char *name;
    gw_metric first;
    uint8_t count; /* number of metrics that the row yields, starting with `first` */
    uint8_t argument;
    uint64_t interval_ns; /* 0: read once */
    void (*read)(const request *r);
};

static void put(const request *r, unsigned at, nvmlReturn_t answer, uint64_t value)
{
    uint8_t state = state_of(answer);
    uint64_t number = 0;
    if (state == GW_SAMPLE_KNOWN)
        number = value;
    else if (state == GW_SAMPLE_FAILED)
        number = (uint64_t)answer;
    r->value[at] = (gw_sample_value){(uint16_t)(r->row->first + at), state, number};
    if (answer == NVML_ERROR_GPU_IS_LOST || answer == NVML_ERROR_RESET_REQUIRED || answer == NVML_SUCCESS)
        r->nvml->status[r->index] = answer;
}

static void put_all(const request *r, nvmlReturn_t answer)
{
    for (unsigned i = 0; i < r->row->count; i++)
        put(r, i, answer, 0);
}

/* Call an NVML function for the card. If the function is missing, the result is NVML_ERROR_FUNCTION_NOT_FOUND. */
#define ASK(r, name, ...)                                                                                              \
    ((r)->nvml->name == NULL ? NVML_ERROR_FUNCTION_NOT_FOUND : (r)->nvml->name((r)->card, __VA_ARGS__))

/* Define a reader of one number. The arguments after `name` are those of the function. */
#define READ_NUMBER(reader, type, name, ...)                                                                           \
    static void reader(const request *r)                                                                               \
    {                                                                                                                  \
        type number = 0;                                                                                               \
        nvmlReturn_t answer = ASK(r, name, __VA_ARGS__);                                                               \
        put(r, 0, answer, number);                                                                                     \
    }
READ_NUMBER(read_power, unsigned, nvmlDeviceGetPowerUsage, &number)
READ_NUMBER(read_power_limit, unsigned, nvmlDeviceGetEnforcedPowerLimit, &number)
READ_NUMBER(read_power_default, unsigned, nvmlDeviceGetPowerManagementDefaultLimit, &number)
READ_NUMBER(read_pcie_generation, unsigned, nvmlDeviceGetCurrPcieLinkGeneration, &number)
READ_NUMBER(read_pcie_generation_max, unsigned, nvmlDeviceGetMaxPcieLinkGeneration, &number)
READ_NUMBER(read_pcie_width, unsigned, nvmlDeviceGetCurrPcieLinkWidth, &number)
READ_NUMBER(read_pcie_width_max, unsigned, nvmlDeviceGetMaxPcieLinkWidth, &number)
READ_NUMBER(read_pcie_replays, unsigned, nvmlDeviceGetPcieReplayCounter, &number)
READ_NUMBER(read_temperature, unsigned, nvmlDeviceGetTemperature, NVML_TEMPERATURE_GPU, &number)
READ_NUMBER(read_threshold, unsigned, nvmlDeviceGetTemperatureThreshold, (nvmlTemperatureThresholds_t)r->row->argument,
            &number)
READ_NUMBER(read_clock, unsigned, nvmlDeviceGetClockInfo, (nvmlClockType_t)r->row->argument, &number)
READ_NUMBER(read_clock_max, unsigned, nvmlDeviceGetMaxClockInfo, (nvmlClockType_t)r->row->argument, &number)
READ_NUMBER(read_ecc_mode, nvmlEnableState_t, nvmlDeviceGetEccMode, &number, &(nvmlEnableState_t){0})
READ_NUMBER(read_compute_mode, nvmlComputeMode_t, nvmlDeviceGetComputeMode, &number)
READ_NUMBER(read_persistence, nvmlEnableState_t, nvmlDeviceGetPersistenceMode, &number)
#undef READ_NUMBER

static void read_memory(const request *r)
{
    nvmlMemory_v2_t memory = {.version = GW_NVML_VERSION_OF(nvmlMemory_v2_t, 2)};
    nvmlReturn_t answer = ASK(r, nvmlDeviceGetMemoryInfo_v2, &memory);
    if (state_of(answer) == GW_SAMPLE_NOT_SUPPORTED) {
        nvmlMemory_t older = {0};
        answer = ASK(r, nvmlDeviceGetMemoryInfo, &older);
        memory.used = older.used;
        memory.free = older.free;
        memory.total = older.total;
    }
    put(r, 0, answer, memory.used);
    put(r, 1, answer, memory.free);
    put(r, 2, answer, memory.total);
}

static void read_reasons(const request *r)
{
    uint64_t bits = 0;
    nvmlReturn_t answer = ASK(r, nvmlDeviceGetCurrentClocksEventReasons, &bits);
    if (answer == NVML_ERROR_FUNCTION_NOT_FOUND) /* drivers before 535 have only the older name */
        answer = ASK(r, nvmlDeviceGetCurrentClocksThrottleReasons, &bits);
    put(r, 0, answer, bits);
}

static void read_violations(const request *r)
{
    for (unsigned i = 0; i < r->row->count; i++) {
        nvmlViolationTime_t time = {0};
        nvmlReturn_t answer = ASK(r, nvmlDeviceGetViolationStatus, (nvmlPerfPolicyType_t)i, &time);
        put(r, i, answer, time.violationTime);
    }
}

/* Read corrected and uncorrected errors, first those since the driver was loaded, then those of the card's lifetime. */
static void read_ecc(const request *r)
{
    for (unsigned i = 0; i < r->row->count; i++) {
        uint64_t count = 0;
        nvmlReturn_t answer = ASK(r, nvmlDeviceGetTotalEccErrors,
                                  i & 1 ? NVML_MEMORY_ERROR_TYPE_UNCORRECTED : NVML_MEMORY_ERROR_TYPE_CORRECTED,
                                  i < 2 ? NVML_VOLATILE_ECC : NVML_AGGREGATE_ECC, &count);
        put(r, i, answer, count);
    }
}

static void read_remaps(const request *r)
{
    unsigned count[4] = {0};
    nvmlReturn_t answer = ASK(r, nvmlDeviceGetRemappedRows, &count[0], &count[1], &count[2], &count[3]);
    for (unsigned i = 0; i < r->row->count; i++)
        put(r, i, answer, count[i]);
}

static void read_utilisation(const request *r)
{
    nvmlUtilization_t percent = {0};
    nvmlReturn_t answer = ASK(r, nvmlDeviceGetUtilizationRates, &percent);
    put(r, 0, answer, percent.gpu);
    put(r, 1, answer, percent.memory);
}

static void read_performance_state(const request *r)
{
    nvmlPstates_t state = NVML_PSTATE_UNKNOWN;
    nvmlReturn_t answer = ASK(r, nvmlDeviceGetPerformanceState, &state);
    put(r, 0, answer == NVML_SUCCESS && state == NVML_PSTATE_UNKNOWN ? NVML_ERROR_NO_DATA : answer, state);
}

/* ---- rows with field values ---- */

static bool field_number(const nvmlFieldValue_t *field, uint64_t *ret_number)
{
    switch (field->valueType) {
    case NVML_VALUE_TYPE_DOUBLE:
        *ret_number = field->value.dVal >= 0 && field->value.dVal < 1.8e19 ? (uint64_t)field->value.dVal : 0;
        return field->value.dVal >= 0;
    case NVML_VALUE_TYPE_UNSIGNED_INT:
        *ret_number = field->value.uiVal;
        return true;
    case NVML_VALUE_TYPE_UNSIGNED_LONG:
        *ret_number = field->value.ulVal;
        return true;
    case NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
        *ret_number = field->value.ullVal;
        return true;
    case NVML_VALUE_TYPE_SIGNED_LONG_LONG:
        *ret_number = (uint64_t)field->value.sllVal;
        return field->value.sllVal >= 0;
    case NVML_VALUE_TYPE_SIGNED_INT:
        *ret_number = (uint64_t)field->value.siVal;
        return field->value.siVal >= 0;
    case NVML_VALUE_TYPE_UNSIGNED_SHORT:
        *ret_number = field->value.usVal;
        return true;
    }
    return false;
}

static nvmlReturn_t ask_field(const request *r, unsigned id, uint64_t *ret_number)
{
    nvmlFieldValue_t field = {.fieldId = id};
    nvmlReturn_t answer = ASK(r, nvmlDeviceGetFieldValues, 1, &field);
    if (answer == NVML_SUCCESS)
        answer = field.nvmlReturn;
    if (answer == NVML_SUCCESS && !field_number(&field, ret_number))
        answer = NVML_ERROR_NO_DATA;
    return answer;
}

static void read_field(const request *r)
{
    uint64_t number = 0;
    nvmlReturn_t answer = ask_field(r, r->row->argument, &number);
    put(r, 0, answer, number);
}

/* Read the error counts of all NVLink links together: the card's own totals or, if not supported, the sums over the
 * links. */
static void read_nvlink(const request *r)
{
    static const struct {
        unsigned sum[2], link;
    } fields[] = {{{NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL}, NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY},
                  {{NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL}, NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY},
                  {{NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL},
                   NVML_FI_DEV_NVLINK_ERROR_DL_CRC}};
    for (unsigned i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        uint64_t number = 0, all = 0;
        nvmlReturn_t answer = ask_field(r, fields[i].sum[0], &all);
        if (answer == NVML_SUCCESS && fields[i].sum[1] != 0 && ask_field(r, fields[i].sum[1], &number) == NVML_SUCCESS)
            all += number;
        if (state_of(answer) == GW_SAMPLE_NOT_SUPPORTED && r->nvml->nvmlDeviceGetFieldValues != NULL) {
            nvmlFieldValue_t field[NVML_NVLINK_MAX_LINKS];
            memset(field, 0, sizeof field);
            for (unsigned link = 0; link < NVML_NVLINK_MAX_LINKS; link++) {
                field[link].fieldId = fields[i].link;
                field[link].scopeId = link;
            }
            nvmlReturn_t asked = ASK(r, nvmlDeviceGetFieldValues, NVML_NVLINK_MAX_LINKS, field);
            for (unsigned link = 0; asked == NVML_SUCCESS && link < NVML_NVLINK_MAX_LINKS; link++)
                if (field[link].nvmlReturn == NVML_SUCCESS && field_number(&field[link], &number)) {
                    answer = NVML_SUCCESS;
                    all += number;
                }
        }
        put(r, i, answer, all);
    }
}

/* Read the state of the card: the last return code of the other calls that was success, lost or reset required. So this
 * must be the last row. */
static void read_status(const request *r)
{
    r->value[0] = (gw_sample_value){(uint16_t)r->row->first, GW_SAMPLE_KNOWN, (uint64_t)r->nvml->status[r->index]};
}

#define S UINT64_C(1000000000)
static const row_info rows[] = {
    {"nvmlDeviceGetMemoryInfo", GW_METRIC_CARD_MEMORY_USED, 3, 0, S, read_memory},
    {"nvmlDeviceGetTemperature", GW_METRIC_CARD_TEMPERATURE, 1, 0, S, read_temperature},
    {"memory temperature", GW_METRIC_CARD_TEMPERATURE_MEMORY, 1, NVML_FI_DEV_MEMORY_TEMP, S, read_field},
    {"slowdown temperature", GW_METRIC_CARD_TEMPERATURE_SLOWDOWN, 1, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, 0,
     read_threshold},
    {"shutdown temperature", GW_METRIC_CARD_TEMPERATURE_SHUTDOWN, 1, NVML_TEMPERATURE_THRESHOLD_SHUTDOWN, 0,
     read_threshold},
    {"highest memory temperature", GW_METRIC_CARD_TEMPERATURE_MEMORY_MAX, 1, NVML_TEMPERATURE_THRESHOLD_MEM_MAX, 0,
     read_threshold},
    {"nvmlDeviceGetPowerUsage", GW_METRIC_CARD_POWER, 1, 0, S, read_power},
    {"nvmlDeviceGetEnforcedPowerLimit", GW_METRIC_CARD_POWER_LIMIT, 1, 0, 10 * S, read_power_limit},
    {"nvmlDeviceGetPowerManagementDefaultLimit", GW_METRIC_CARD_POWER_LIMIT_DEFAULT, 1, 0, 0, read_power_default},
    {"SM clock", GW_METRIC_CARD_CLOCK_SM, 1, NVML_CLOCK_SM, S, read_clock},
    {"highest SM clock", GW_METRIC_CARD_CLOCK_SM_MAX, 1, NVML_CLOCK_SM, 0, read_clock_max},
    {"memory clock", GW_METRIC_CARD_CLOCK_MEMORY, 1, NVML_CLOCK_MEM, S, read_clock},
    {"nvmlDeviceGetCurrentClocksEventReasons", GW_METRIC_CARD_CLOCK_REASONS, 1, 0, S, read_reasons},
    {"nvmlDeviceGetViolationStatus", GW_METRIC_CARD_VIOLATION_POWER, 6, 0, 10 * S, read_violations},
    {"nvmlDeviceGetEccMode", GW_METRIC_CARD_ECC_MODE, 1, 0, 0, read_ecc_mode},
    {"nvmlDeviceGetTotalEccErrors", GW_METRIC_CARD_ECC_CORRECTED, 4, 0, 10 * S, read_ecc},
    {"nvmlDeviceGetRemappedRows", GW_METRIC_CARD_REMAP_CORRECTABLE, 4, 0, 10 * S, read_remaps},
    {"PCIe generation", GW_METRIC_CARD_PCIE_GENERATION, 1, 0, S, read_pcie_generation},
    {"highest PCIe generation", GW_METRIC_CARD_PCIE_GENERATION_MAX, 1, 0, 0, read_pcie_generation_max},
    {"PCIe width", GW_METRIC_CARD_PCIE_WIDTH, 1, 0, S, read_pcie_width},
    {"highest PCIe width", GW_METRIC_CARD_PCIE_WIDTH_MAX, 1, 0, 0, read_pcie_width_max},
    {"nvmlDeviceGetPcieReplayCounter", GW_METRIC_CARD_PCIE_REPLAYS, 1, 0, 10 * S, read_pcie_replays},
    {"NVLink error counters", GW_METRIC_CARD_NVLINK_REPLAYS, 3, 0, 10 * S, read_nvlink},
    {"recovery action", GW_METRIC_CARD_RECOVERY_ACTION, 1, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, 10 * S, read_field},
    {"nvmlDeviceGetUtilizationRates", GW_METRIC_CARD_UTILISATION, 2, 0, S, read_utilisation},
    {"nvmlDeviceGetPerformanceState", GW_METRIC_CARD_PERFORMANCE_STATE, 1, 0, S, read_performance_state},
    {"nvmlDeviceGetComputeMode", GW_METRIC_CARD_COMPUTE_MODE, 1, 0, 0, read_compute_mode},
    {"nvmlDeviceGetPersistenceMode", GW_METRIC_CARD_PERSISTENCE, 1, 0, 0, read_persistence},
    {"status", GW_METRIC_CARD_STATUS, 1, 0, S, read_status},
};
#undef S
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

size_t gwi_nvml_row_count(void)
{
    return ROW_COUNT;
}

const char *gwi_nvml_row_name(size_t row)
{
    return row < ROW_COUNT ? rows[row].name : "nvmlInit";
}

uint64_t gwi_nvml_row_interval(size_t row)
{
    return rows[row].interval_ns;
}

/* ---- progress of the current call ---- */

static uint64_t enter(gwi_nvml *nvml, size_t row)
{
    atomic_store_explicit(&nvml->progress->inside_row, (uint32_t)row, memory_order_relaxed);
    atomic_store_explicit(&nvml->progress->inside_since_ns, gw_monotonic_ns(), memory_order_release);
    return gw_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void leave(gwi_nvml *nvml, uint64_t entered_ns)
{
    uint64_t spent = gw_clock_ns(CLOCK_THREAD_CPUTIME_ID) - entered_ns;
    atomic_fetch_add_explicit(&nvml->progress->spent_ns, spent, memory_order_relaxed);
    atomic_fetch_add_explicit(&nvml->progress->call_count, 1, memory_order_relaxed);
    atomic_store_explicit(&nvml->progress->inside_since_ns, 0, memory_order_release);
}

size_t gwi_nvml_read(gwi_nvml *nvml, uint32_t card, size_t row, gw_sample_value *ret_value)
{
    const request r = {nvml, nvml->card[card], card, &rows[row], ret_value};
    uint64_t entered_ns = enter(nvml, row);
    if (r.card == NULL)
        put_all(&r, nvml->card_answer[card]);
    else
        rows[row].read(&r);
    leave(nvml, entered_ns);
    return rows[row].count;
}

/* ---- opening ---- */

static const char *words_of(const gwi_nvml *nvml, nvmlReturn_t answer)
{
    const char *words = nvml->nvmlErrorString == NULL ? NULL : nvml->nvmlErrorString(answer);
    return words == NULL ? "" : words;
}

static void find_functions(gwi_nvml *nvml)
{
#define GW_X(name)                                                                                                     \
    {                                                                                                                  \
        void *address = dlsym(nvml->library, #name);                                                                   \
        memcpy(&nvml->name, &address, sizeof address);                                                                 \
    }
    FUNCTIONS(GW_X)
#undef GW_X
}

static void find_cards(gwi_nvml *nvml)
{
    unsigned count = 0;
    if (nvml->nvmlDeviceGetCount_v2 == NULL || nvml->nvmlDeviceGetHandleByIndex_v2 == NULL ||
        nvml->nvmlDeviceGetCount_v2(&count) != NVML_SUCCESS)
        return;
    nvml->card_count = count < GWI_NVML_CARDS_MAX ? count : GWI_NVML_CARDS_MAX;
    for (uint32_t i = 0; i < nvml->card_count; i++) {
        nvml->card_answer[i] = nvml->nvmlDeviceGetHandleByIndex_v2(i, &nvml->card[i]);
        nvml->status[i] = nvml->card_answer[i];
        if (nvml->card_answer[i] != NVML_SUCCESS)
            nvml->card[i] = NULL;
    }
}

gw_status gwi_nvml_open(const char *path, gwi_nvml_progress *progress, gwi_nvml **ret_nvml, gw_error *err)
{
    gwi_nvml *nvml = calloc(1, sizeof *nvml);
    if (nvml == NULL)
        return gw_fail(err, GW_NOMEM, "NVML");
    nvml->progress = progress;
    nvml->library = dlopen(path == NULL ? "libnvidia-ml.so.1" : path, RTLD_NOW | RTLD_LOCAL);
    if (nvml->library == NULL) {
        const char *why = dlerror();
        free(nvml);
        return gw_fail(err, GW_MISSING, "%s", why == NULL ? "libnvidia-ml.so.1 cannot be loaded" : why);
    }
    find_functions(nvml);
    uint64_t entered_ns = enter(nvml, ROW_COUNT);
    nvmlReturn_t answer = nvml->nvmlInit_v2 == NULL ? NVML_ERROR_FUNCTION_NOT_FOUND : nvml->nvmlInit_v2();
    if (answer == NVML_SUCCESS)
        find_cards(nvml);
    leave(nvml, entered_ns);
    if (answer != NVML_SUCCESS) {
        gw_status st =
            gw_fail(err, GW_UNSUPPORTED, "nvmlInit_v2 returned %d (%s)", (int)answer, words_of(nvml, answer));
        nvml->nvmlShutdown = NULL;
        gwi_nvml_close(nvml);
        return st;
    }
    *ret_nvml = nvml;
    return GW_OK;
}

void gwi_nvml_close(gwi_nvml *nvml)
{
    if (nvml == NULL)
        return;
    if (nvml->events != NULL && nvml->nvmlEventSetFree != NULL)
        (void)nvml->nvmlEventSetFree(nvml->events);
    if (nvml->nvmlShutdown != NULL)
        (void)nvml->nvmlShutdown();
    dlclose(nvml->library);
    free(nvml);
}

uint32_t gwi_nvml_card_count(const gwi_nvml *nvml)
{
    return nvml->card_count;
}

bool gwi_nvml_card_text(gwi_nvml *nvml, uint32_t card, gw_text *text)
{
    nvmlPciInfo_t pci = {0};
    char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "", name[NVML_DEVICE_NAME_V2_BUFFER_SIZE] = "";
    nvmlDevice_t device = nvml->card[card];
    if (device == NULL)
        return false;
    if (nvml->nvmlDeviceGetPciInfo_v3 == NULL || nvml->nvmlDeviceGetPciInfo_v3(device, &pci) != NVML_SUCCESS)
        pci.busId[0] = '\0';
    if (nvml->nvmlDeviceGetUUID != NULL)
        (void)nvml->nvmlDeviceGetUUID(device, uuid, sizeof uuid);
    if (nvml->nvmlDeviceGetName != NULL)
        (void)nvml->nvmlDeviceGetName(device, name, sizeof name);
    const gw_fact_card fact = {GW_FACT_SET(index, card), GW_FACT_SET(pci, gw_fact_text_of(pci.busId)),
                               GW_FACT_SET(uuid, gw_fact_text_of(uuid)), GW_FACT_SET(name, gw_fact_text_of(name))};
    gw_fact_card_write(&fact, text);
    return true;
}

void gwi_nvml_version_text(gwi_nvml *nvml, gw_text *text)
{
    char driver[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = "", own[NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE] = "";
    if (nvml->nvmlSystemGetDriverVersion != NULL)
        (void)nvml->nvmlSystemGetDriverVersion(driver, sizeof driver);
    if (nvml->nvmlSystemGetNVMLVersion != NULL)
        (void)nvml->nvmlSystemGetNVMLVersion(own, sizeof own);
    const gw_fact_nvml fact = {GW_FACT_SET(driver, gw_fact_text_of(driver)), GW_FACT_SET(version, gw_fact_text_of(own)),
                               GW_FACT_SET(cards, nvml->card_count)};
    gw_fact_nvml_write(&fact, text);
}

/* ---- processes ---- */

static void add_process(gwi_nvml_process *list, size_t *count, unsigned pid, uint64_t bytes)
{
    for (size_t i = 0; i < *count; i++)
        /* the process is in both lists, graphics and compute: keep the larger number of bytes */
        if (list[i].pid == pid) {
            if (list[i].bytes == UINT64_MAX || (bytes != UINT64_MAX && bytes > list[i].bytes))
                list[i].bytes = bytes;
            return;
        }
    if (*count < GWI_NVML_PROCESSES_MAX)
        list[(*count)++] = (gwi_nvml_process){.pid = pid, .bytes = bytes};
}

typedef nvmlReturn_t list_function(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *processes);

static nvmlReturn_t add_list(nvmlDevice_t device, list_function *function, gwi_nvml_process *list, size_t *count)
{
    nvmlProcessInfo_t process[GWI_NVML_PROCESSES_MAX];
    unsigned found = GWI_NVML_PROCESSES_MAX;
    nvmlReturn_t answer = function == NULL ? NVML_ERROR_FUNCTION_NOT_FOUND : function(device, &found, process);
    for (unsigned i = 0; answer == NVML_SUCCESS && i < found && i < GWI_NVML_PROCESSES_MAX; i++)
        add_process(list, count, process[i].pid, process[i].usedGpuMemory);
    return answer;
}

static nvmlReturn_t add_old_list(gwi_nvml *nvml, nvmlDevice_t device, gwi_nvml_process *list, size_t *count)
{
    nvmlProcessInfo_v1_t process[GWI_NVML_PROCESSES_MAX];
    unsigned found = GWI_NVML_PROCESSES_MAX;
    nvmlReturn_t answer = nvml->nvmlDeviceGetComputeRunningProcesses == NULL
                              ? NVML_ERROR_FUNCTION_NOT_FOUND
                              : nvml->nvmlDeviceGetComputeRunningProcesses(device, &found, process);
    for (unsigned i = 0; answer == NVML_SUCCESS && i < found && i < GWI_NVML_PROCESSES_MAX; i++)
        add_process(list, count, process[i].pid, process[i].usedGpuMemory);
    return answer;
}

/* Set busy_at_us from the samples in NVML's buffer. Returns the time of the oldest one; 0: none. */
static uint64_t add_use(const gwi_nvml *nvml, nvmlDevice_t device, gwi_nvml_process *list, size_t count)
{
    enum { SAMPLES_MAX = 2048 };
    unsigned found = SAMPLES_MAX;
    uint64_t since_us = 0;
    nvmlProcessUtilizationSample_t *sample = calloc(SAMPLES_MAX, sizeof *sample);
    nvmlReturn_t answer = sample == NULL || nvml->nvmlDeviceGetProcessUtilization == NULL
                              ? NVML_ERROR_FUNCTION_NOT_FOUND
                              : nvml->nvmlDeviceGetProcessUtilization(device, sample, &found, 0);
    for (unsigned i = 0; answer == NVML_SUCCESS && i < found && i < SAMPLES_MAX; i++) {
        const nvmlProcessUtilizationSample_t *one = &sample[i];
        if (one->timeStamp != 0 && (since_us == 0 || one->timeStamp < since_us))
            since_us = one->timeStamp;
        for (size_t k = 0; k < count && (one->smUtil > 0 || one->memUtil > 0); k++)
            if (list[k].pid == one->pid && one->timeStamp > list[k].busy_at_us)
                list[k].busy_at_us = one->timeStamp;
    }
    free(sample);
    if (answer == NVML_ERROR_NOT_FOUND) /* no process has used the card lately */
        since_us = gw_realtime_ns() / 1000;
    return since_us;
}

bool gwi_nvml_processes(gwi_nvml *nvml, uint32_t card, gwi_nvml_process *ret_process, size_t *ret_count,
                        uint8_t *ret_state, uint64_t *ret_busy_since_us)
{
    nvmlDevice_t device = nvml->card[card];
    *ret_count = 0;
    *ret_busy_since_us = 0;
    *ret_state = GW_SAMPLE_FAILED;
    if (device == NULL)
        return false;
    uint64_t entered_ns = enter(nvml, 0);
    list_function *compute = nvml->nvmlDeviceGetComputeRunningProcesses_v3 != NULL
                                 ? nvml->nvmlDeviceGetComputeRunningProcesses_v3
                                 : nvml->nvmlDeviceGetComputeRunningProcesses_v2;
    list_function *graphics = nvml->nvmlDeviceGetGraphicsRunningProcesses_v3 != NULL
                                  ? nvml->nvmlDeviceGetGraphicsRunningProcesses_v3
                                  : nvml->nvmlDeviceGetGraphicsRunningProcesses_v2;
    nvmlReturn_t answer = compute != NULL ? add_list(device, compute, ret_process, ret_count)
                                          : add_old_list(nvml, device, ret_process, ret_count);
    if (answer == NVML_SUCCESS)
        (void)add_list(device, graphics, ret_process, ret_count);
    if (answer == NVML_SUCCESS && *ret_count > 0)
        *ret_busy_since_us = add_use(nvml, device, ret_process, *ret_count);
    leave(nvml, entered_ns);
    *ret_state = state_of(answer);
    return answer == NVML_SUCCESS;
}

/* ---- events ---- */

bool gwi_nvml_listen(gwi_nvml *nvml, gw_error *err)
{
    const uint64_t wanted =
        nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError | nvmlEventTypeSingleBitEccErrorStorm |
        nvmlEventTypeDramRetirementEvent | nvmlEventTypeDramRetirementFailure | nvmlEventTypeNonFatalPoisonError |
        nvmlEventTypeFatalPoisonError | nvmlEventTypeGpuUnavailableError | nvmlEventTypeGpuRecoveryAction;
    if (nvml->nvmlEventSetCreate == NULL || nvml->nvmlDeviceRegisterEvents == NULL || nvml->nvmlEventSetWait_v2 == NULL)
        return gw_fail(err, GW_UNSUPPORTED, "this libnvidia-ml does not support events") == GW_OK;
    nvmlReturn_t answer = nvml->nvmlEventSetCreate(&nvml->events);
    if (answer != NVML_SUCCESS) {
        nvml->events = NULL;
        return gw_fail(err, GW_UNSUPPORTED, "nvmlEventSetCreate returned %d (%s)", (int)answer,
                       words_of(nvml, answer)) == GW_OK;
    }
    bool any = false;
    for (uint32_t i = 0; i < nvml->card_count; i++) {
        uint64_t supported = nvmlEventTypeXidCriticalError;
        if (nvml->card[i] == NULL)
            continue;
        if (nvml->nvmlDeviceGetSupportedEventTypes != NULL)
            (void)nvml->nvmlDeviceGetSupportedEventTypes(nvml->card[i], &supported);
        answer = (supported & wanted) == 0
                     ? NVML_ERROR_NOT_SUPPORTED
                     : nvml->nvmlDeviceRegisterEvents(nvml->card[i], supported & wanted, nvml->events);
        any = any || answer == NVML_SUCCESS;
    }
    if (!any)
        return gw_fail(err, GW_UNSUPPORTED, "no card reports events (%d, %s)", (int)answer, words_of(nvml, answer)) ==
               GW_OK;
    return true;
}

static uint32_t index_of(const gwi_nvml *nvml, nvmlDevice_t device)
{
    for (uint32_t i = 0; i < nvml->card_count; i++)
        if (nvml->card[i] == device)
            return i;
    return GW_NO_DEVICE;
}

gwi_nvml_waited gwi_nvml_wait(gwi_nvml *nvml, unsigned timeout_ms, gwi_nvml_event *ret_event)
{
    nvmlEventData_t data = {0};
    nvmlReturn_t answer = nvml->nvmlEventSetWait_v2(nvml->events, &data, timeout_ms);
    *ret_event = (gwi_nvml_event){.card = index_of(nvml, data.device), .type = data.eventType, .data = data.eventData};
    if (answer == NVML_SUCCESS)
        return GWI_NVML_EVENT;
    if (answer == NVML_ERROR_TIMEOUT)
        return GWI_NVML_NOTHING;
    ret_event->is_lost = answer == NVML_ERROR_GPU_IS_LOST || answer == NVML_ERROR_RESET_REQUIRED;
    ret_event->type = (uint64_t)answer;
    return ret_event->is_lost ? GWI_NVML_EVENT : GWI_NVML_NO_EVENTS;
}
