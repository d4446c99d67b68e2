/* Computes a GPU's sensor values from its faults and its busy time. There is no noise: the same program always shows
 * the same values. */
#include "gwi_nvml.h"

#include "gw_clock.h"

static const uint64_t window_ns = 1000000000u;

static bool is_hot(const gwi_shared_card *card)
{
    return card->thermal_since_ns != 0;
}

static bool is_braked(const gwi_shared_card *card)
{
    return card->power_brake_since_ns != 0;
}

static bool is_capped(const gwi_shared_card *card)
{
    return card->power_cap_since_ns != 0;
}

uint64_t gwi_wall_us(void)
{
    return gw_realtime_ns() / 1000;
}

uint64_t gwi_lasted_ns(uint64_t since_ns)
{
    return since_ns != 0 ? gw_monotonic_ns() - since_ns : 0;
}

/* --- how busy ------------------------------------------------------------------------------------------- */

/* Return the start of the window. If spans in the window were overwritten, return the start of the oldest span that is
 * still stored. */
static uint64_t known_from_ns(const gwi_shared_busy *busy, uint64_t now_ns)
{
    uint64_t from_ns = now_ns - window_ns;
    if (busy->count <= GWI_SHARED_SPANS)
        return from_ns;
    uint64_t oldest_ns = busy->spans[busy->count % GWI_SHARED_SPANS].from_ns;
    return oldest_ns > from_ns ? oldest_ns : from_ns;
}

unsigned gwi_process_busy_percent(unsigned slot, unsigned device)
{
    const gwi_shared_busy *busy = &gwi_nvml.shared->busy[slot][device];
    uint64_t now_ns = gw_monotonic_ns();
    uint64_t from_ns = known_from_ns(busy, now_ns);
    if (from_ns >= now_ns)
        return 0;
    uint64_t percent = gwi_busy_ns(busy, from_ns, now_ns) * 100 / (now_ns - from_ns);
    return percent > 100 ? 100 : (unsigned)percent;
}

/* Check for dead processes at most every 10 ms: a monitor requests many values at once, and a check before each value
 * would be too slow. */
static void tidy_sometimes(void)
{
    const uint64_t every_ns = 10000000;
    static uint64_t last_ns;
    uint64_t now_ns = gw_monotonic_ns();
    if (now_ns - __atomic_load_n(&last_ns, __ATOMIC_RELAXED) < every_ns)
        return;
    __atomic_store_n(&last_ns, now_ns, __ATOMIC_RELAXED);
    gwi_shared_tidy(gwi_nvml.shared);
}

/* Return the percentage of the last second in which kernels ran on the GPU. */
static unsigned card_busy_percent(unsigned device)
{
    unsigned percent = 0;
    tidy_sometimes();
    for (unsigned slot = 0; slot < GWI_SHARED_PROCESSES; slot++)
        if (gwi_nvml.shared->processes[slot].pid != 0)
            percent += gwi_process_busy_percent(slot, device);
    return percent > 100 ? 100 : percent;
}

unsigned gwi_memory_busy_percent(unsigned busy_percent)
{
    return busy_percent * 2 / 5;
}

/* Return the busy time since the GPUs were first used. */
static uint64_t busy_total_ns(unsigned device)
{
    uint64_t sum_ns = gwi_nvml.shared->cards[device].busy_ns;
    uint64_t now_ns = gw_monotonic_ns();
    for (unsigned slot = 0; slot < GWI_SHARED_PROCESSES; slot++)
        if (gwi_nvml.shared->processes[slot].pid != 0)
            sum_ns += gwi_busy_ns(&gwi_nvml.shared->busy[slot][device], 0, now_ns);
    return sum_ns;
}

GWI_NVML nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    nvmlReturn_t result = gwi_enter(device, utilization);
    if (result != NVML_SUCCESS)
        return result;
    utilization->gpu = card_busy_percent(device->index);
    utilization->memory = gwi_memory_busy_percent(utilization->gpu);
    return NVML_SUCCESS;
}

/* The video engines are always idle. */
GWI_ANSWER_BOTH(nvmlDeviceGetEncoderUtilization, unsigned, 0, window_ns / 1000)
GWI_NVML_ALIAS(nvmlDeviceGetDecoderUtilization, nvmlDeviceGetEncoderUtilization);

/* --- heat ----------------------------------------------------------------------------------------------- */

unsigned gwi_temperature(nvmlDevice_t device)
{
    const gw_virt_board *board = gwi_board();
    uint64_t rise = (board->temperature_busy - board->temperature_idle) * card_busy_percent(device->index) / 100;
    return (unsigned)(is_hot(gwi_card_of(device)) ? board->temperature_slowdown + 1 : board->temperature_idle + rise);
}

GWI_NVML nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned *degrees)
{
    nvmlReturn_t result = gwi_enter(device, degrees);
    if (result == NVML_SUCCESS && sensor != NVML_TEMPERATURE_GPU)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *degrees = gwi_temperature(device);
    return result;
}

GWI_NVML nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t *temperature)
{
    nvmlReturn_t result = gwi_enter(device, temperature);
    if (result == NVML_SUCCESS && temperature->version != GW_NVML_VERSION_OF(nvmlTemperature_v1_t, 1))
        result = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (result == NVML_SUCCESS && temperature->sensorType != NVML_TEMPERATURE_GPU)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        temperature->temperature = (int)gwi_temperature(device);
    return result;
}

GWI_NVML nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_v1_t *margin)
{
    nvmlReturn_t result = gwi_enter(device, margin);
    if (result == NVML_SUCCESS && margin->version != GW_NVML_VERSION_OF(nvmlMarginTemperature_v1_t, 1))
        result = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (result == NVML_SUCCESS)
        margin->marginTemperature = (int)gwi_board()->temperature_slowdown - (int)gwi_temperature(device);
    return result;
}

GWI_NVML nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t threshold,
                                                        unsigned *degrees)
{
    const gw_virt_board *board = gwi_board();
    const uint64_t values[] = {[NVML_TEMPERATURE_THRESHOLD_SHUTDOWN] = board->temperature_shutdown,
                               [NVML_TEMPERATURE_THRESHOLD_SLOWDOWN] = board->temperature_slowdown,
                               [NVML_TEMPERATURE_THRESHOLD_MEM_MAX] = board->temperature_memory_max,
                               [NVML_TEMPERATURE_THRESHOLD_GPU_MAX] = board->temperature_gpu_max};
    nvmlReturn_t result = gwi_enter(device, degrees);
    if (result != NVML_SUCCESS)
        return result;
    if ((unsigned)threshold >= sizeof values / sizeof *values || values[threshold] == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *degrees = (unsigned)values[threshold];
    return NVML_SUCCESS;
}

/* Fans turn faster when the GPU is busy. */
GWI_ANSWER_IF(nvmlDeviceGetFanSpeed, unsigned, gwi_board()->fan_count > 0,
              30 + card_busy_percent(device->index) * 2 / 5)
GWI_ANSWER(nvmlDeviceGetNumFans, unsigned, gwi_board()->fan_count)

GWI_NVML nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned fan, unsigned *percent)
{
    nvmlReturn_t result = gwi_enter(device, percent);
    if (result == NVML_SUCCESS && gwi_board()->fan_count > 0 && fan >= gwi_board()->fan_count)
        result = NVML_ERROR_INVALID_ARGUMENT;
    return result != NVML_SUCCESS ? result : nvmlDeviceGetFanSpeed(device, percent);
}

/* --- power ---------------------------------------------------------------------------------------------- */

unsigned gwi_power_limit_mw(nvmlDevice_t device)
{
    const gw_virt_board *board = gwi_board();
    /* If the fault `power-cap` is active, the limit is half way between the minimum and the default. */
    return (unsigned)(is_capped(gwi_card_of(device)) ? (board->power_min_mw + board->power_limit_mw) / 2
                                                     : board->power_limit_mw);
}

unsigned gwi_power_mw(nvmlDevice_t device)
{
    const gw_virt_board *board = gwi_board();
    const gwi_shared_card *card = gwi_card_of(device);
    uint64_t rise = (board->power_busy_mw - board->power_idle_mw) * card_busy_percent(device->index) / 100;
    if (is_hot(card) || is_braked(card))
        rise /= 2;
    uint64_t power_mw = board->power_idle_mw + rise;
    unsigned limit_mw = gwi_power_limit_mw(device);
    return power_mw < limit_mw ? (unsigned)power_mw : limit_mw;
}

uint64_t gwi_energy_mj(nvmlDevice_t device)
{
    const gw_virt_board *board = gwi_board();
    uint64_t elapsed_us = (gw_monotonic_ns() - gwi_nvml.shared->began_ns) / 1000;
    uint64_t busy_us = busy_total_ns(device->index) / 1000;
    return (board->power_idle_mw * elapsed_us + (board->power_busy_mw - board->power_idle_mw) * busy_us) / 1000000;
}

GWI_ANSWER(nvmlDeviceGetPowerUsage, unsigned, gwi_power_mw(device))
GWI_ANSWER(nvmlDeviceGetPowerManagementMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)
GWI_ANSWER(nvmlDeviceGetPowerManagementLimit, unsigned, gwi_power_limit_mw(device))
GWI_ANSWER(nvmlDeviceGetEnforcedPowerLimit, unsigned, gwi_power_limit_mw(device))
GWI_ANSWER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, gwi_board()->power_limit_mw)
GWI_ANSWER(nvmlDeviceGetTotalEnergyConsumption, uint64_t, gwi_energy_mj(device))

GWI_ANSWER_BOTH(nvmlDeviceGetPowerManagementLimitConstraints, unsigned, gwi_board()->power_min_mw,
                gwi_board()->power_limit_mw)

/* --- clocks --------------------------------------------------------------------------------------------- */

static unsigned clock_max_mhz(nvmlClockType_t type)
{
    unsigned sm_mhz = gwi_attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) / 1000;
    if (type == NVML_CLOCK_MEM)
        return gwi_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) / 1000;
    return type == NVML_CLOCK_VIDEO ? sm_mhz * 4 / 5 : sm_mhz;
}

static unsigned clock_now_mhz(nvmlDevice_t device, nvmlClockType_t type)
{
    const gwi_shared_card *card = gwi_card_of(device);
    unsigned highest_mhz = clock_max_mhz(type);
    if (type == NVML_CLOCK_MEM)
        return highest_mhz;
    if (card_busy_percent(device->index) == 0)
        return (unsigned)gwi_board()->clock_idle_mhz;
    if (is_hot(card) || is_braked(card))
        return highest_mhz / 2;
    return is_capped(card) ? highest_mhz * 4 / 5 : highest_mhz;
}

static nvmlReturn_t clock_answer(nvmlDevice_t device, nvmlClockType_t type, bool is_max, unsigned *clock_mhz)
{
    nvmlReturn_t result = gwi_enter(device, clock_mhz);
    if (result == NVML_SUCCESS && (unsigned)type >= NVML_CLOCK_COUNT)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *clock_mhz = is_max ? clock_max_mhz(type) : clock_now_mhz(device, type);
    return result;
}

GWI_RETURN(nvmlDeviceGetClockInfo, (nvmlDevice_t device, nvmlClockType_t type, unsigned *clock_mhz),
           clock_answer(device, type, false, clock_mhz))
GWI_RETURN(nvmlDeviceGetMaxClockInfo, (nvmlDevice_t device, nvmlClockType_t type, unsigned *clock_mhz),
           clock_answer(device, type, true, clock_mhz))
GWI_NVML_ALIAS(nvmlDeviceGetApplicationsClock, nvmlDeviceGetMaxClockInfo);
GWI_NVML_ALIAS(nvmlDeviceGetDefaultApplicationsClock, nvmlDeviceGetMaxClockInfo);

GWI_RETURN(nvmlDeviceGetClock, (nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t id, unsigned *clock_mhz),
           clock_answer(device, type, id != NVML_CLOCK_ID_CURRENT, clock_mhz))

GWI_ANSWER(nvmlDeviceGetPerformanceState, nvmlPstates_t,
           gwi_board()->fan_count > 0 && card_busy_percent(device->index) == 0 ? NVML_PSTATE_8 : NVML_PSTATE_0)
GWI_ANSWER(nvmlDeviceGetPowerState, nvmlPstates_t,
           gwi_board()->fan_count > 0 && card_busy_percent(device->index) == 0 ? NVML_PSTATE_8 : NVML_PSTATE_0)

static uint64_t clock_reasons(nvmlDevice_t device)
{
    const gwi_shared_card *card = gwi_card_of(device);
    bool is_busy = card_busy_percent(device->index) > 0;
    uint64_t reasons = 0;
    if (is_hot(card))
        reasons |= nvmlClocksEventReasonHwSlowdown | nvmlClocksEventReasonHwThermalSlowdown |
                   nvmlClocksEventReasonSwThermalSlowdown;
    if (is_braked(card))
        reasons |= nvmlClocksEventReasonHwSlowdown | nvmlClocksEventReasonHwPowerBrakeSlowdown;
    if (is_capped(card) && is_busy)
        reasons |= nvmlClocksEventReasonSwPowerCap;
    return reasons == 0 && !is_busy ? nvmlClocksEventReasonGpuIdle : reasons;
}

GWI_ANSWER(nvmlDeviceGetCurrentClocksEventReasons, uint64_t, clock_reasons(device))
GWI_ANSWER(nvmlDeviceGetCurrentClocksThrottleReasons, uint64_t, clock_reasons(device))
GWI_ANSWER(nvmlDeviceGetSupportedClocksEventReasons, uint64_t, 0x1ff)
GWI_ANSWER(nvmlDeviceGetSupportedClocksThrottleReasons, uint64_t, 0x1ff)

/* --- the link ------------------------------------------------------------------------------------------- */

static unsigned link_generation(nvmlDevice_t device)
{
    const gwi_shared_card *card = gwi_card_of(device);
    return card->link_generation != 0 ? card->link_generation : (unsigned)gwi_board()->link_generation;
}

GWI_ANSWER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, link_generation(device))
GWI_ANSWER(nvmlDeviceGetCurrPcieLinkWidth, unsigned,
           gwi_card_of(device)->link_lanes != 0 ? gwi_card_of(device)->link_lanes : gwi_board()->link_lanes)
GWI_ANSWER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, gwi_board()->link_generation)
GWI_ANSWER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned, gwi_board()->link_generation)
GWI_ANSWER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, gwi_board()->link_lanes)
GWI_ANSWER(nvmlDeviceGetPcieReplayCounter, unsigned, gwi_card_of(device)->link_replays)

static unsigned link_speed_mbps(nvmlDevice_t device)
{
    static const unsigned speeds_mbps[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};
    return speeds_mbps[link_generation(device)];
}

GWI_ANSWER(nvmlDeviceGetPcieSpeed, unsigned, link_speed_mbps(device))
