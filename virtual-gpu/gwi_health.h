/* Faults and load of a run's GPUs: faults requested by the specification, faults caused by the program's kernels,
 * and how busy each GPU is. The shared state stores everything, so that the program's driver and NVML report the same.
 *
 * The functions for faults may be called from any thread and take the state's lock themselves. The gwi_busy functions
 * take no lock: a process changes only the spans in its own slot, and holds its driver's lock when it does so. */
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
