/* How fast a process went, as far as counters and the last calls of its busiest thread tell: what causes of waste
 * share.
 *
 * A ring holds when calls began. Copies and synchronisations looked at the clock themselves; launches share a look with
 * up to seven calls before them, and the first one after a synchronisation carries the time of its end. So the time
 * inside a synchronisation is known only where such a call follows, and the time inside a copy only where the next call
 * looked at the clock itself. */
#ifndef GWI_PACE_H
#define GWI_PACE_H

#include "gwi_cause.h"

typedef struct gwi_pace {
    const gw_process *process;                                    /* the one with the most launches */
    const gw_thread *thread;                                      /* its busiest one */
    uint64_t launches, graph_launches, syncs, copies, copy_bytes; /* of the process, over its life */
    double seconds;                                               /* its life */
    /* Of the thread's last calls. */
    uint64_t span_ns;
    size_t call_count, launch_count, sync_count, host_copy_count;
    double wait_share;       /* of the span inside synchronisations, a lower bound */
    double copy_share;       /* about so much of it inside copies from and to the host */
    uint64_t sync_period_ns; /* median time from one synchronisation to the next; 0: too few */
    uint64_t gap_ns;         /* in pauses of at least a millisecond before copies to the device */
    size_t gap_count;
    uint64_t host_copy_bytes;
    bool busy_known;
    double busy_percent; /* the highest reading of NVML for its cards: never busier than that */
} gwi_pace;

/* False: the run did not end well, or launched too little for any claim. Nothing is said about such runs. */
bool gwi_pace_find(const gwi_case *c, gwi_pace *ret_pace);

#endif
