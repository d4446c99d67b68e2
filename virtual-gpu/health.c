/* Faults of a GPU: see gwi_shared.h. */
#include "gwi_shared.h"

#include <stddef.h>

#include "gw_clock.h"
#include "gw_cuda_abi.h"
#include "gw_nvml_abi.h"

/* The effect of an Xid on the GPU and its contexts. The numbers are from NVIDIA's list, the driver results from users'
 * reports. An Xid without a row is only reported, except XID_OFF_THE_BUS (lose()). */
static const struct {
    unsigned xid;
    int code;
    bool everybody; /* ruins the contexts of all processes, not only of the one whose work caused the Xid */
    unsigned recovery_action;
} xids[] = {
    {8, CUDA_ERROR_LAUNCH_TIMEOUT, false, NVML_GPU_RECOVERY_ACTION_NONE},
    {13, CUDA_ERROR_LAUNCH_FAILED, false, NVML_GPU_RECOVERY_ACTION_NONE},
    {31, CUDA_ERROR_ILLEGAL_ADDRESS, false, NVML_GPU_RECOVERY_ACTION_NONE},
    {32, CUDA_ERROR_LAUNCH_FAILED, false, NVML_GPU_RECOVERY_ACTION_NONE},
    {43, CUDA_ERROR_LAUNCH_FAILED, false, NVML_GPU_RECOVERY_ACTION_NONE},
    {44, CUDA_ERROR_LAUNCH_FAILED, false, NVML_GPU_RECOVERY_ACTION_NONE},
    {45, CUDA_ERROR_LAUNCH_FAILED, false, NVML_GPU_RECOVERY_ACTION_NONE},
    {48, CUDA_ERROR_ECC_UNCORRECTABLE, true, NVML_GPU_RECOVERY_ACTION_GPU_RESET},
    {62, CUDA_ERROR_LAUNCH_FAILED, true, NVML_GPU_RECOVERY_ACTION_GPU_RESET},
    {74, CUDA_ERROR_NVLINK_UNCORRECTABLE, true, NVML_GPU_RECOVERY_ACTION_GPU_RESET},
    {94, CUDA_ERROR_CONTAINED, false, NVML_GPU_RECOVERY_ACTION_NONE},
    {95, CUDA_ERROR_ECC_UNCORRECTABLE, true, NVML_GPU_RECOVERY_ACTION_GPU_RESET},
    {109, CUDA_ERROR_LAUNCH_FAILED, true, NVML_GPU_RECOVERY_ACTION_GPU_RESET},
    {119, CUDA_ERROR_UNKNOWN, true, NVML_GPU_RECOVERY_ACTION_GPU_RESET},
    {120, CUDA_ERROR_UNKNOWN, true, NVML_GPU_RECOVERY_ACTION_GPU_RESET},
    {140, CUDA_ERROR_ECC_UNCORRECTABLE, true, NVML_GPU_RECOVERY_ACTION_GPU_RESET},
};
enum { XID_OFF_THE_BUS = 79, XID_DOUBLE_BIT = 48, XID_REMAP_RECORDED = 63, XID_CONTAINED = 94 };

static void event_add(gwi_shared_card *card, uint64_t type, uint64_t data, int pid)
{
    gwi_shared_event *event = &card->events[card->event_count % GWI_SHARED_EVENTS];
    *event = (gwi_shared_event){.type = type, .data = data, .at_ns = gw_monotonic_ns(), .pid = pid};
    __atomic_store_n(&card->event_count, card->event_count + 1, __ATOMIC_RELEASE);
}

static void contexts_ruin(gwi_shared_card *card, int code, int pid)
{
    card->strike_code = code;
    card->strike_pid = pid;
    __atomic_store_n(&card->strike_count, card->strike_count + 1, __ATOMIC_RELEASE);
}

/* Mark the GPU as lost: every call on it fails until a reboot. */
static void lose(gwi_shared_card *card)
{
    event_add(card, nvmlEventTypeXidCriticalError, XID_OFF_THE_BUS, 0);
    event_add(card, nvmlEventTypeGpuUnavailableError, 0, 0);
    card->recovery_action = NVML_GPU_RECOVERY_ACTION_NODE_REBOOT;
    card->is_lost = true;
    contexts_ruin(card, CUDA_ERROR_UNKNOWN, 0);
}

/* Report an uncorrectable ECC error (two wrong bits) and ruin all contexts on the GPU. If `can_remap`, the next reset
 * replaces the memory row. */
static void ecc(gwi_shared_card *card, bool can_remap, int pid)
{
    card->ecc_uncorrected++;
    event_add(card, nvmlEventTypeDoubleBitEccError, 0, pid);
    event_add(card, nvmlEventTypeXidCriticalError, XID_DOUBLE_BIT, pid);
    if (can_remap) {
        card->remapped_uncorrected++;
        card->remap_pending = 1;
        event_add(card, nvmlEventTypeXidCriticalError, XID_REMAP_RECORDED, pid);
        event_add(card, nvmlEventTypeXidCriticalError, XID_CONTAINED, pid);
    }
    card->recovery_action = NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET;
    contexts_ruin(card, CUDA_ERROR_ECC_UNCORRECTABLE, 0);
}

static void xid(gwi_shared_card *card, unsigned number, int pid)
{
    if (number == XID_OFF_THE_BUS) {
        lose(card);
        return;
    }
    event_add(card, nvmlEventTypeXidCriticalError, number, pid);
    for (size_t i = 0; i < sizeof xids / sizeof *xids; i++)
        if (xids[i].xid == number) {
            if (xids[i].recovery_action > card->recovery_action)
                card->recovery_action = xids[i].recovery_action;
            contexts_ruin(card, xids[i].code, xids[i].everybody ? 0 : pid);
        }
}

static void strike(gwi_shared *shared, const gw_virt_spec *spec, unsigned index, int pid)
{
    const gw_virt_fault *fault = &spec->faults[index];
    gwi_shared_card *card = &shared->cards[fault->card];
    uint64_t now_ns = gw_monotonic_ns();
    shared->faults_applied |= 1u << index;
    switch ((gw_virt_card_fault)fault->code) {
    case GW_VIRT_CARD_XID:
        xid(card, fault->values[0], pid);
        break;
    case GW_VIRT_CARD_LOST:
        lose(card);
        break;
    case GW_VIRT_CARD_ECC:
        ecc(card, spec->card.board.has_row_remap, pid);
        break;
    case GW_VIRT_CARD_THERMAL:
        card->thermal_since_ns = now_ns;
        break;
    case GW_VIRT_CARD_POWER_CAP:
        card->power_cap_since_ns = now_ns;
        break;
    case GW_VIRT_CARD_POWER_BRAKE:
        card->power_brake_since_ns = now_ns;
        break;
    case GW_VIRT_CARD_LINK:
        card->link_generation = fault->values[0];
        card->link_lanes = fault->values[1];
        card->link_replays++;
        break;
    case GW_VIRT_CARD_FAULT_COUNT:
        break;
    }
}

static bool is_timed(const gw_virt_fault *fault)
{
    return fault->kind == GW_VIRT_FAULT_CARD && fault->when == GW_VIRT_WHEN_TIME;
}

void gwi_health_strike(gwi_shared *shared, const gw_virt_spec *spec, unsigned index, int pid)
{
    gwi_shared_lock(shared);
    if (!(shared->faults_applied & 1u << index))
        strike(shared, spec, index, pid);
    gwi_shared_unlock(shared);
}

void gwi_health_look(gwi_shared *shared, const gw_virt_spec *spec)
{
    uint64_t now_ns = 0;
    for (unsigned i = 0; i < spec->fault_count; i++) {
        if (!is_timed(&spec->faults[i]) || (__atomic_load_n(&shared->faults_applied, __ATOMIC_RELAXED) & 1u << i))
            continue;
        if (now_ns == 0)
            now_ns = gw_monotonic_ns();
        if (now_ns - shared->began_ns >= spec->faults[i].after_ns)
            gwi_health_strike(shared, spec, i, 0);
    }
}

void gwi_health_xid(gwi_shared *shared, unsigned device, unsigned number, int pid)
{
    gwi_shared_lock(shared);
    event_add(&shared->cards[device], nvmlEventTypeXidCriticalError, number, pid);
    gwi_shared_unlock(shared);
}

void gwi_health_lose(gwi_shared *shared, unsigned device)
{
    gwi_shared_lock(shared);
    if (!shared->cards[device].is_lost)
        lose(&shared->cards[device]);
    gwi_shared_unlock(shared);
}
