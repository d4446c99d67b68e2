/* A function that a notebook kernel calls from Python after each cell: see python/gpuwhy_ipython.py. */
#include "gwi_hook.h"

__attribute__((visibility("default"))) int64_t gpuwhy_failure_count(void);

/* Return how many driver calls of this process have failed, or -1 if nothing is recorded. Results such as "not ready"
 * are no failures. Any thread may call this. */
int64_t gpuwhy_failure_count(void)
{
    const gw_slot *slot = gwi_slot_usable();
    if (slot == NULL || !gwi_slot_is_shared(slot))
        return -1;
    return atomic_load_explicit(&gwi.head->failures, memory_order_relaxed);
}
