/* The pace of a process, measured from counters and from the last calls of its busiest thread. The causes of wasted
 * time share it.
 *
 * A ring holds the start times of calls. Copies and synchronisations read the clock themselves. Launches share a clock
 * reading with up to seven preceding calls, and the first launch after a synchronisation carries the time of its end.
 * So the duration of a synchronisation is known only if such a call follows, and the duration of a copy only if the
 * next call read the clock itself. */
#ifndef GWI_PACE_H
#define GWI_PACE_H

#include "gwi_cause.h"

typedef struct gwi_pace {
    const gw_process *process;                                    /* the process with the most launches */
    const gw_thread *thread;                                      /* its busiest thread */
    uint64_t launches, graph_launches, syncs, copies, copy_bytes; /* of the process, over its lifetime */
    double seconds;                                               /* its lifetime */
    /* From the thread's last calls. */
    uint64_t span_ns;
    size_t call_count, launch_count, sync_count, host_copy_count;
    double wait_share;       /* share of the span inside synchronisations, a lower bound */
    double copy_share;       /* approximate share inside copies from and to the host */
    uint64_t sync_period_ns; /* median time from one synchronisation to the next; 0: too few */
    uint64_t gap_ns;         /* time in pauses of at least a millisecond before copies to the device */
    size_t gap_count;
    uint64_t host_copy_bytes;
    bool busy_known;
    double busy_percent; /* the highest NVML reading for its cards */
} gwi_pace;

/* False: the run did not end well, or launched too little for any claim. Such runs get no advice. */
bool gwi_pace_find(const gwi_case *c, gwi_pace *ret_pace);

#endif
