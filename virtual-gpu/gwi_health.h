/* Stores the faults and the load of a run's GPUs. Faults are requested by the specification or caused by the program's
 * kernels. The data is shared, so that the program's driver and NVML report the same.
 *
 * Any thread may call the functions for faults, which take the state's lock. The gwi_busy functions take no lock: a
 * process changes only its own slot, while it holds its driver's lock. */
#ifndef GWI_HEALTH_H
#define GWI_HEALTH_H

#include "gwi_shared.h"

/* Apply the faults that are due. This is cheap if no fault is due. */
void gwi_health_look(gwi_shared *shared, const gw_virt_spec *spec);
/* Apply the specification's fault `index` now, once for all processes. `pid` is the process that caused the fault; 0 if
 * none did. */
void gwi_health_strike(gwi_shared *shared, const gw_virt_spec *spec, unsigned index, int pid);
/* Let the card be lost now, as the fault `lost` does. */
void gwi_health_lose(gwi_shared *shared, unsigned device);
/* Report an Xid for work of process `pid`. The Xid has no other effect. */
void gwi_health_xid(gwi_shared *shared, unsigned device, unsigned xid, int pid);

/* Record that a kernel of the process in `slot` runs from `from_ns` to `until_ns`, in monotonic time. UINT64_MAX: the
 * end is not known. */
void gwi_busy_add(gwi_shared *shared, unsigned slot, unsigned device, uint64_t from_ns, uint64_t until_ns);
/* Record that the kernels of the process in `slot` were abandoned: none of them runs after `now_ns`. */
void gwi_busy_cut(gwi_shared *shared, unsigned slot, unsigned device, uint64_t now_ns);
/* Return the busy time in ns from `from_ns` to `now_ns`. If from_ns is 0, the result includes the spans that were
 * overwritten. */
uint64_t gwi_busy_ns(const gwi_shared_busy *busy, uint64_t from_ns, uint64_t now_ns);

#endif
