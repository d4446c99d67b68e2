/* Records in the shared state when each GPU of a run was busy, and computes for how long it was. */
#include "gwi_health.h"

void gwi_busy_add(gwi_shared *shared, unsigned slot, unsigned device, uint64_t from_ns, uint64_t until_ns)
{
    const uint64_t gap_ns = 1000000;
    gwi_shared_busy *busy = &shared->busy[slot][device];
    gwi_shared_span *last = &busy->spans[(busy->count + GWI_SHARED_SPANS - 1) % GWI_SHARED_SPANS];
    if (busy->count > 0 && (from_ns <= last->until_ns || from_ns - last->until_ns < gap_ns)) {
        if (until_ns > last->until_ns)
            last->until_ns = until_ns;
        return;
    }
    gwi_shared_span *next = &busy->spans[busy->count % GWI_SHARED_SPANS];
    busy->past_ns += next->until_ns - next->from_ns;
    *next = (gwi_shared_span){from_ns, until_ns};
    busy->count++;
}

void gwi_busy_cut(gwi_shared *shared, unsigned slot, unsigned device, uint64_t now_ns)
{
    gwi_shared_busy *busy = &shared->busy[slot][device];
    gwi_shared_span *last = &busy->spans[(busy->count + GWI_SHARED_SPANS - 1) % GWI_SHARED_SPANS];
    if (last->until_ns > now_ns)
        last->until_ns = now_ns > last->from_ns ? now_ns : last->from_ns;
}

uint64_t gwi_busy_ns(const gwi_shared_busy *busy, uint64_t from_ns, uint64_t now_ns)
{
    uint64_t sum_ns = from_ns == 0 ? busy->past_ns : 0;
    for (unsigned i = 0; i < GWI_SHARED_SPANS; i++) {
        uint64_t begin_ns = busy->spans[i].from_ns > from_ns ? busy->spans[i].from_ns : from_ns;
        uint64_t end_ns = busy->spans[i].until_ns < now_ns ? busy->spans[i].until_ns : now_ns;
        sum_ns += end_ns > begin_ns ? end_ns - begin_ns : 0;
    }
    return sum_ns;
}
