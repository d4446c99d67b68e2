/* The blocks of a rehearsal, by address. */
#include "gwi_rehearse.h"

static gw_ranges blocks;
static uint64_t last_id;

gwi_held *gwi_held_at(uint64_t address)
{
    return (gwi_held *)gw_ranges_at(&blocks, address);
}

gwi_held *gwi_held_from(uint64_t address)
{
    return (gwi_held *)gw_ranges_from(&blocks, address);
}

bool gwi_held_add(gwi_held *held)
{
    held->id = ++last_id;
    return gw_ranges_add(&blocks, &held->range);
}

bool gwi_held_covers(uint64_t address, uint64_t bytes)
{
    for (uint64_t here; bytes > 0; address += here, bytes -= here) {
        const gwi_held *held = gwi_held_at(address);
        if (held == NULL || (held->kind == GWI_HELD_MAPPED && !held->accessible))
            return false;
        here = held->range.bytes - (address - held->range.base);
        if (bytes <= here)
            return true;
        if (held->kind != GWI_HELD_MAPPED)
            return false;
    }
    return true;
}

void gwi_held_remove(gwi_held *held)
{
    gw_ranges_remove(&blocks, &held->range);
}

bool gwi_rehearses(uint64_t address)
{
    if (gwi_physical_is_ours(address))
        return true;
    if (address == 0 || !gwi_lock())
        return false;
    bool is_ours = gwi_held_at(address) != NULL || gwi_addresses_are_ours(address);
    gwi_unlock();
    return is_ours;
}
