/* Implements NVML's error counters, fields and events for a virtual GPU. */
#include "gwi_nvml.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "gw_clock.h"

/* --- memory errors -------------------------------------------------------------------------------------- */

GWI_ANSWER_IF(nvmlDeviceGetDefaultEccMode, nvmlEnableState_t, gwi_board()->has_ecc, NVML_FEATURE_ENABLED)

GWI_NVML nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
    nvmlReturn_t result = nvmlDeviceGetDefaultEccMode(device, current);
    if (result != NVML_SUCCESS || pending == NULL)
        return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;
    *pending = *current;
    return NVML_SUCCESS;
}

static uint64_t ecc_count(nvmlDevice_t device, nvmlMemoryErrorType_t type)
{
    return type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED ? gwi_card_of(device)->ecc_uncorrected : 0;
}

GWI_NVML nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                                  nvmlEccCounterType_t counter, uint64_t *count)
{
    /* Both counters are equal: a virtual GPU has no errors from before this run. */
    (void)counter;
    nvmlReturn_t result = gwi_enter(device, count);
    if (result == NVML_SUCCESS && !gwi_board()->has_ecc)
        result = NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS)
        *count = ecc_count(device, type);
    return result;
}

GWI_NVML nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                                      nvmlEccCounterType_t counter, nvmlMemoryLocation_t location,
                                                      uint64_t *count)
{
    nvmlReturn_t result = nvmlDeviceGetTotalEccErrors(device, type, counter, count);
    if (result == NVML_SUCCESS && (unsigned)location >= NVML_MEMORY_LOCATION_COUNT)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS && location != NVML_MEMORY_LOCATION_DEVICE_MEMORY)
        *count = 0;
    return result;
}

GWI_NVML nvmlReturn_t nvmlDeviceGetDetailedEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                                     nvmlEccCounterType_t counter, nvmlEccErrorCounts_t *counts)
{
    uint64_t total = 0;
    nvmlReturn_t result = nvmlDeviceGetTotalEccErrors(device, type, counter, counts != NULL ? &total : NULL);
    if (result == NVML_SUCCESS)
        *counts = (nvmlEccErrorCounts_t){.deviceMemory = total};
    return result;
}

GWI_NVML nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected, unsigned *uncorrected,
                                                unsigned *is_pending, unsigned *failed)
{
    nvmlReturn_t result = gwi_enter(device, corrected);
    if (result != NVML_SUCCESS)
        return result;
    if (uncorrected == NULL || is_pending == NULL || failed == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!gwi_board()->has_row_remap)
        return NVML_ERROR_NOT_SUPPORTED;
    *corrected = *failed = 0;
    *uncorrected = (unsigned)gwi_card_of(device)->remapped_uncorrected;
    *is_pending = (unsigned)gwi_card_of(device)->remap_pending;
    return NVML_SUCCESS;
}

/* GPUs with ECC retire pages if they cannot replace rows. */
static bool retires_pages(void)
{
    return gwi_board()->has_ecc && !gwi_board()->has_row_remap;
}

GWI_NVML nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned *count,
                                                uint64_t *addresses)
{
    nvmlReturn_t result = gwi_enter(device, count);
    if (result != NVML_SUCCESS || !retires_pages())
        return result != NVML_SUCCESS ? result : NVML_ERROR_NOT_SUPPORTED;
    unsigned room = addresses != NULL ? *count : 0;
    unsigned found = cause == NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR
                         ? (unsigned)ecc_count(device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
                         : 0;
    for (unsigned i = 0; i < found && i < room; i++)
        addresses[i] = i;
    *count = found;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

GWI_ANSWER_IF(nvmlDeviceGetRetiredPagesPendingStatus, nvmlEnableState_t, retires_pages(),
              gwi_card_of(device)->ecc_uncorrected > 0 ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED)

/* --- links between GPUs, the fabric --------------------------------------------------------------------- */

GWI_NVML nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, nvmlEnableState_t *is_active)
{
    nvmlReturn_t result = gwi_enter(device, is_active);
    if (result == NVML_SUCCESS && link >= NVML_NVLINK_MAX_LINKS)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS && link >= gwi_board()->nvlink_count)
        result = NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS) /* a single GPU has no link to another GPU */
        *is_active = gwi_nvml.spec.device_count > 1 ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return result;
}

GWI_NVML nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link,
                                                      nvmlNvLinkErrorCounter_t counter, uint64_t *count)
{
    (void)counter;
    nvmlReturn_t result = gwi_enter(device, count);
    if (result == NVML_SUCCESS && link >= gwi_board()->nvlink_count)
        result = NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS)
        *count = 0;
    return result;
}

/* Return the state of the fabric. Several GPUs have one that is set up, unless the specification makes cuInit return
 * 802 (system not ready). A single GPU has none. */
static unsigned fabric_state(void)
{
    for (unsigned i = 0; i < gwi_nvml.spec.fault_count; i++)
        if (gwi_nvml.spec.faults[i].kind == GW_VIRT_FAULT_INIT &&
            gwi_nvml.spec.faults[i].code == CUDA_ERROR_SYSTEM_NOT_READY)
            return NVML_GPU_FABRIC_STATE_IN_PROGRESS;
    return gwi_nvml.spec.device_count > 1 ? NVML_GPU_FABRIC_STATE_COMPLETED : NVML_GPU_FABRIC_STATE_NOT_SUPPORTED;
}

static bool has_fabric(void)
{
    return gwi_board()->nvlink_count > 0 && gwi_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= 9;
}

GWI_NVML nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
    nvmlReturn_t result = gwi_enter(device, info);
    if (result != NVML_SUCCESS || !has_fabric())
        return result != NVML_SUCCESS ? result : NVML_ERROR_NOT_SUPPORTED;
    *info = (nvmlGpuFabricInfo_t){.status = NVML_SUCCESS, .state = fabric_state()};
    return NVML_SUCCESS;
}

GWI_NVML nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v2_t *info)
{
    nvmlReturn_t result = gwi_enter(device, info);
    if (result != NVML_SUCCESS || !has_fabric())
        return result != NVML_SUCCESS ? result : NVML_ERROR_NOT_SUPPORTED;
    if (info->version != GW_NVML_VERSION_OF(nvmlGpuFabricInfo_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    *info = (nvmlGpuFabricInfo_v2_t){.version = info->version, .status = NVML_SUCCESS, .state = fabric_state()};
    return NVML_SUCCESS;
}

/* --- time lost to lower clocks -------------------------------------------------------------------------- */

static uint64_t policy_lasted_ns(nvmlDevice_t device, unsigned policy)
{
    const gwi_shared_card *card = gwi_card_of(device);
    switch (policy) {
    case NVML_PERF_POLICY_POWER:
        return gwi_lasted_ns(card->power_cap_since_ns != 0 ? card->power_cap_since_ns : card->power_brake_since_ns);
    case NVML_PERF_POLICY_THERMAL:
        return gwi_lasted_ns(card->thermal_since_ns);
    default:
        return 0;
    }
}

GWI_NVML nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, nvmlPerfPolicyType_t policy,
                                                   nvmlViolationTime_t *time)
{
    nvmlReturn_t result = gwi_enter(device, time);
    if (result == NVML_SUCCESS && (unsigned)policy > NVML_PERF_POLICY_TOTAL_BASE_CLOCKS)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *time = (nvmlViolationTime_t){gwi_wall_us(), policy_lasted_ns(device, policy)};
    return result;
}

/* --- fields --------------------------------------------------------------------------------------------- */

typedef struct field_answer {
    bool known;
    nvmlValueType_t type;
    uint64_t value;
} field_answer;

static field_answer known_if(bool has, nvmlValueType_t type, uint64_t value)
{
    return has ? (field_answer){true, type, value} : (field_answer){0};
}

/* One field: its name, whether this GPU has it, and its value, which is an int or a long long. */
#define INT(field, has, value)                                                                                         \
    case NVML_FI_DEV_##field:                                                                                          \
        return known_if(has, NVML_VALUE_TYPE_UNSIGNED_INT, value)
#define LONG(field, has, value)                                                                                        \
    case NVML_FI_DEV_##field:                                                                                          \
        return known_if(has, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, value)

static field_answer field_of(nvmlDevice_t device, unsigned id)
{
    const gwi_shared_card *card = gwi_card_of(device);
    const gw_virt_board *board = gwi_board();
    switch (id) {
        INT(ECC_CURRENT, board->has_ecc, 1);
        INT(ECC_PENDING, board->has_ecc, 1);
        LONG(ECC_SBE_VOL_TOTAL, board->has_ecc, 0);
        LONG(ECC_SBE_AGG_TOTAL, board->has_ecc, 0);
        LONG(ECC_DBE_VOL_TOTAL, board->has_ecc, card->ecc_uncorrected);
        LONG(ECC_DBE_AGG_TOTAL, board->has_ecc, card->ecc_uncorrected);
        LONG(RETIRED_SBE, retires_pages(), 0);
        LONG(RETIRED_DBE, retires_pages(), card->ecc_uncorrected);
        LONG(RETIRED_PENDING, retires_pages(), card->ecc_uncorrected > 0);
        LONG(RETIRED_PENDING_DBE, retires_pages(), card->ecc_uncorrected > 0);
        INT(REMAPPED_COR, board->has_row_remap, 0);
        INT(REMAPPED_FAILURE, board->has_row_remap, 0);
        INT(REMAPPED_UNC, board->has_row_remap, card->remapped_uncorrected);
        INT(REMAPPED_PENDING, board->has_row_remap, card->remap_pending);
        INT(GET_GPU_RECOVERY_ACTION, true, card->recovery_action);
        LONG(PERF_POLICY_POWER, true, policy_lasted_ns(device, NVML_PERF_POLICY_POWER));
        LONG(PERF_POLICY_THERMAL, true, policy_lasted_ns(device, NVML_PERF_POLICY_THERMAL));
        LONG(PERF_POLICY_SYNC_BOOST, true, 0);
        LONG(PERF_POLICY_BOARD_LIMIT, true, 0);
        LONG(PERF_POLICY_LOW_UTILIZATION, true, 0);
        LONG(PERF_POLICY_RELIABILITY, true, 0);
        LONG(CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, true, gwi_lasted_ns(card->thermal_since_ns));
        LONG(CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, true, gwi_lasted_ns(card->thermal_since_ns));
        LONG(CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, true, gwi_lasted_ns(card->power_brake_since_ns));
        INT(POWER_AVERAGE, true, gwi_power_mw(device));
        INT(POWER_INSTANT, true, gwi_power_mw(device));
        INT(POWER_MIN_LIMIT, true, board->power_min_mw);
        INT(POWER_MAX_LIMIT, true, board->power_limit_mw);
        INT(POWER_DEFAULT_LIMIT, true, board->power_limit_mw);
        INT(POWER_CURRENT_LIMIT, true, gwi_power_limit_mw(device));
        INT(POWER_REQUESTED_LIMIT, true, gwi_power_limit_mw(device));
        LONG(TOTAL_ENERGY_CONSUMPTION, true, gwi_energy_mj(device));
        LONG(ENERGY, true, gwi_energy_mj(device));
        INT(MEMORY_TEMP, board->temperature_memory_max > 0, gwi_temperature(device) + 8);
        INT(PCIE_REPLAY_COUNTER, true, card->link_replays);
        INT(PCIE_L0_TO_RECOVERY_COUNTER, true, card->link_replays);
        INT(PCIE_REPLAY_ROLLOVER_COUNTER, true, 0);
        INT(NVLINK_LINK_COUNT, true, board->nvlink_count);
        LONG(NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, board->nvlink_count > 0, 0);
        LONG(NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, board->nvlink_count > 0, 0);
        LONG(NVLINK_REPLAY_ERROR_COUNT_TOTAL, board->nvlink_count > 0, 0);
        LONG(NVLINK_RECOVERY_ERROR_COUNT_TOTAL, board->nvlink_count > 0, 0);
        LONG(NVLINK_ERROR_DL_REPLAY, board->nvlink_count > 0, 0);
        LONG(NVLINK_ERROR_DL_RECOVERY, board->nvlink_count > 0, 0);
        LONG(NVLINK_ERROR_DL_CRC, board->nvlink_count > 0, 0);
    default:
        return (field_answer){0};
    }
}
#undef INT
#undef LONG

static void field_fill(nvmlDevice_t device, nvmlFieldValue_t *field)
{
    field_answer answer = field_of(device, field->fieldId);
    field->timestamp = (int64_t)gwi_wall_us();
    field->latencyUsec = 0;
    field->nvmlReturn = answer.known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    field->valueType = answer.type;
    field->value.ullVal = answer.value; /* the smaller members of the union start at the same address */
}

GWI_NVML nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    nvmlReturn_t result = gwi_enter(device, values);
    if (result == NVML_SUCCESS && count <= 0)
        result = NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < count && result == NVML_SUCCESS; i++)
        field_fill(device, &values[i]);
    return result;
}

/* --- events --------------------------------------------------------------------------------------------- */

enum { LOOK_EVERY_MS = 20 };
static const uint64_t event_types = nvmlEventTypeSingleBitEccError | nvmlEventTypeDoubleBitEccError |
                                    nvmlEventTypeXidCriticalError | nvmlEventTypeGpuUnavailableError;

struct nvmlEventSet_st {
    uint64_t types[GW_VIRT_DEVICES_MAX]; /* by GPU: bits of the requested event types */
    uint64_t seen[GW_VIRT_DEVICES_MAX];  /* by GPU: number of its events that were already handled */
};

GWI_ANSWER(nvmlDeviceGetSupportedEventTypes, uint64_t, event_types)

GWI_NVML nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    if (gwi_nvml_lacks() == NVML_ERROR_UNINITIALIZED)
        return NVML_ERROR_UNINITIALIZED;
    if (set == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *set = calloc(1, sizeof **set);
    return *set != NULL ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

GWI_NVML nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    if (gwi_nvml_lacks() == NVML_ERROR_UNINITIALIZED)
        return NVML_ERROR_UNINITIALIZED;
    free(set);
    return NVML_SUCCESS;
}

/* Report only events that occur after this call. */
GWI_NVML nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, uint64_t types, nvmlEventSet_t set)
{
    nvmlReturn_t result = gwi_enter(device, set);
    if (result != NVML_SUCCESS)
        return result;
    if (types & ~event_types)
        return NVML_ERROR_NOT_SUPPORTED;
    if (set->types[device->index] == 0)
        set->seen[device->index] = __atomic_load_n(&gwi_card_of(device)->event_count, __ATOMIC_ACQUIRE);
    set->types[device->index] |= types;
    return NVML_SUCCESS;
}

/* Get the GPU's next event of a requested type. Returns false if there is none. */
static bool event_next(nvmlEventSet_t set, unsigned d, nvmlEventData_t *ret)
{
    const gwi_shared_card *card = &gwi_nvml.shared->cards[d];
    uint64_t count = __atomic_load_n(&card->event_count, __ATOMIC_ACQUIRE);
    if (count - set->seen[d] > GWI_SHARED_EVENTS)
        set->seen[d] = count - GWI_SHARED_EVENTS; /* older events were overwritten */
    while (set->seen[d] < count) {
        const gwi_shared_event *event = &card->events[set->seen[d]++ % GWI_SHARED_EVENTS];
        if (!(event->type & set->types[d]))
            continue;
        *ret = (nvmlEventData_t){.device = &gwi_nvml.devices[d],
                                 .eventType = event->type,
                                 .eventData = event->data,
                                 .gpuInstanceId = NVML_NO_INSTANCE,
                                 .computeInstanceId = NVML_NO_INSTANCE};
        return true;
    }
    return false;
}

/* Get the next event of the GPUs in the set. If there is none, returns NVML_ERROR_GPU_IS_LOST if a GPU of the set is
 * lost, otherwise NVML_ERROR_TIMEOUT. */
static nvmlReturn_t look(nvmlEventSet_t set, nvmlEventData_t *ret)
{
    bool lost = false;
    gwi_health_look(gwi_nvml.shared, &gwi_nvml.spec);
    for (unsigned d = 0; d < gwi_nvml.spec.device_count; d++) {
        if (set->types[d] != 0 && event_next(set, d, ret))
            return NVML_SUCCESS;
        lost |= set->types[d] != 0 && gwi_nvml.shared->cards[d].is_lost;
    }
    return lost ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_TIMEOUT;
}

static nvmlReturn_t wait(nvmlEventSet_t set, nvmlEventData_t *ret, unsigned timeout_ms)
{
    if (gwi_nvml_lacks() == NVML_ERROR_UNINITIALIZED)
        return NVML_ERROR_UNINITIALIZED;
    if (set == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    uint64_t until_ns = gw_monotonic_ns() + (uint64_t)timeout_ms * 1000000u;
    nvmlReturn_t result = look(set, ret);
    while (result == NVML_ERROR_TIMEOUT && gw_monotonic_ns() < until_ns) {
        uint64_t left_ms = (until_ns - gw_monotonic_ns()) / 1000000 + 1;
        poll(NULL, 0, left_ms < LOOK_EVERY_MS ? (int)left_ms : LOOK_EVERY_MS);
        result = look(set, ret);
    }
    return result;
}

GWI_RETURN(nvmlEventSetWait_v2, (nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms),
           data != NULL ? wait(set, data, timeout_ms) : NVML_ERROR_INVALID_ARGUMENT)

/* The first version: like nvmlEventSetWait_v2(), but its structure ends before the instance ids. */
GWI_NVML nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms)
{
    nvmlEventData_t full;
    if (data == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = wait(set, &full, timeout_ms);
    if (result == NVML_SUCCESS)
        memcpy(data, &full, offsetof(nvmlEventData_t, gpuInstanceId));
    return result;
}
