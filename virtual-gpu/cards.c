/* Applies faults of the GPUs to this process. The shared state records what happened to each GPU (health.c). This file
 * makes the contexts of the process fail accordingly. */
#include <string.h>
#include <unistd.h>

#include "gwi_virt.h"

static void contexts_ruin(const gwi_device *device, int code)
{
    for (gw_range *range = gw_ranges_from(&gwi.objects, 0); range != NULL;
         range = gw_ranges_from(&gwi.objects, range->base + 1)) {
        gwi_context *context = (gwi_context *)range;
        if (context->object.kind != GWI_CONTEXT || context->device != device || !context->alive)
            continue;
        if (context->fault == 0)
            context->fault = code;
        context->fault_seen = true;
        gwi.process_fault = context->fault;
        gwi_abandon(context);
    }
}

void gwi_cards_look(void)
{
    if (!gwi.cards_fail)
        return;
    gwi_health_look(gwi.shared, &gwi.spec);
    for (unsigned d = 0; d < gwi.spec.device_count; d++) {
        const gwi_shared_card *card = &gwi.shared->cards[d];
        uint64_t strikes = __atomic_load_n(&card->strike_count, __ATOMIC_ACQUIRE);
        if (strikes == gwi.devices[d].strikes_seen)
            continue;
        gwi.devices[d].strikes_seen = strikes;
        if (card->strike_pid == 0 || card->strike_pid == getpid())
            contexts_ruin(&gwi.devices[d], card->strike_code);
    }
}

void gwi_cards_call(unsigned fn)
{
    for (unsigned i = 0; i < gwi.spec.fault_count; i++) {
        const gw_virt_fault *fault = &gwi.spec.faults[i];
        if (fault->kind == GW_VIRT_FAULT_CARD && fault->when == GW_VIRT_WHEN_CALL &&
            strcmp(fault->name, gw_api_fns[fn].symbol) == 0 && ++gwi.fault_calls[i] == fault->count)
            gwi_health_strike(gwi.shared, &gwi.spec, i, getpid());
    }
}

bool gwi_card_is_lost(unsigned device)
{
    return gwi.shared->cards[device].is_lost;
}

uint64_t gwi_card_copy_ns(const gwi_device *device, const gwi_work *work)
{
    static const uint64_t lane_bytes_per_us[] = {0, 250, 500, 985, 1969, 3938, 7563}; /* indexed by PCIe generation */
    const gwi_shared_card *card = &gwi.shared->cards[device->index];
    if (!gwi.cards_fail || card->link_generation == 0 || !work->copy.crosses_link)
        return 0;
    uint64_t bytes = (uint64_t)work->copy.width * work->copy.height * work->copy.depth;
    return bytes * 1000 / (lane_bytes_per_us[card->link_generation] * card->link_lanes);
}

uint64_t gwi_card_slowed_ns(const gwi_device *device, uint64_t duration_ns)
{
    const gwi_shared_card *card = &gwi.shared->cards[device->index];
    if (!gwi.cards_fail || duration_ns > UINT64_MAX / 4)
        return duration_ns;
    if (card->thermal_since_ns != 0 || card->power_brake_since_ns != 0)
        return duration_ns * 2;
    return card->power_cap_since_ns != 0 ? duration_ns + duration_ns / 4 : duration_ns;
}
