/* What happens to the cards of a run: faults that a specification asks for, what the program's kernels do to a card,
 * how busy it is. All of it lies in the shared state, so that the program's driver and NVML tell the same story.
 *
 * Any thread; every function that changes something takes the state's lock itself. */
#ifndef GWI_HEALTH_H
#define GWI_HEALTH_H

#include "gwi_shared.h"

/* Let the faults happen whose time has come. Cheap when there are none. */
void gwi_health_look(gwi_shared *shared, const gw_virt_spec *spec);
/* The specification's fault `index` happens now, once for all processes; `pid` brought it about (0: nobody). */
void gwi_health_strike(gwi_shared *shared, const gw_virt_spec *spec, unsigned index, int pid);
/* The driver reports an Xid of this process's work; nothing else follows from it. */
void gwi_health_xid(gwi_shared *shared, unsigned device, unsigned xid, int pid);

/* A kernel of the process in `slot` runs from..until, monotonic; UINT64_MAX: nobody knows until when. */
void gwi_busy_add(gwi_shared *shared, unsigned slot, unsigned device, uint64_t from_ns, uint64_t until_ns);
/* It was abandoned: nothing runs after now. */
void gwi_busy_cut(gwi_shared *shared, unsigned slot, unsigned device, uint64_t now_ns);
/* How long since from_ns (0: ever). */
uint64_t gwi_busy_ns(const gwi_shared_busy *busy, uint64_t from_ns, uint64_t now_ns);

#endif
