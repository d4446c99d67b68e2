/* What a notebook's kernel asks of the hook by name, from Python: see python/gpuwhy_ipython.py. Both work from any
 * thread, before and after the driver's first call, and do nothing where nothing is recorded. */
#include "gwi_hook.h"

__attribute__((visibility("default"))) int gpuwhy_phase_mark_since(const char *name, uint64_t age_ns);
__attribute__((visibility("default"))) int64_t gpuwhy_failure_count(void);

/* From `age_ns` ago on this process is in the phase `name` (NULL or "": in none). 1: recorded. The age is for a caller
 * that could not say so in time, because the hook comes into a process with its first driver call. */
int gpuwhy_phase_mark_since(const char *name, uint64_t age_ns)
{
    return gwi_fact(GW_EV_PHASE, age_ns, 0, 0, 0, name == NULL || name[0] == '\0' ? NULL : name);
}

/* Failed driver calls of this process so far, without answers such as "not ready"; -1: nothing is recorded. */
int64_t gpuwhy_failure_count(void)
{
    const gw_slot *slot = gwi_slot_usable();
    if (slot == NULL || !gwi_slot_is_shared(slot))
        return -1;
    return atomic_load_explicit(&gwi.head->failures, memory_order_relaxed);
}
