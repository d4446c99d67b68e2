/* Records where a rehearsed program reads small values from the card. They are zeros, and may decide a size or whether
 * the program goes on. */
#include "gwi_rehearse.h"

#include "gwi_site.h"

#include <errno.h>

/* Only the first reads of a process are looked at. */
enum { SMALL_BYTES = 4096, SITES_MAX = 64, LOOKS_MAX = 4096 };

/* Add a site. Returns false if it is known, or if there is no room. Threads may add one site twice, which does no
 * harm. */
static bool is_new(uint32_t found)
{
    static _Atomic uint32_t site[SITES_MAX];
    for (unsigned i = 0; i < SITES_MAX; i++) {
        uint32_t here = 0;
        if (atomic_compare_exchange_strong(&site[i], &here, found))
            return true;
        if (here == found)
            return false;
    }
    return false;
}

void gwi_reads_see(unsigned fn, uint64_t bytes)
{
    static _Atomic unsigned looks;
    gw_slot *slot = gwi_slot_usable();
    if (bytes == 0 || bytes > SMALL_BYTES || slot == NULL || !gwi_slot_is_shared(slot) ||
        atomic_load_explicit(&looks, memory_order_relaxed) >= LOOKS_MAX)
        return;
    int saved_errno = errno;
    atomic_fetch_add_explicit(&looks, 1, memory_order_relaxed);
    uint32_t site = gwi_site(slot, fn, gwi_ticks(), false);
    if (site != 0 && is_new(site))
        gwi_fact_at(GW_EV_REHEARSAL, site, GW_REHEARSAL_READ, bytes, 0, 0);
    errno = saved_errno;
}
