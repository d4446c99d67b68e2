/* The pace of a process: how often it launches, waits and copies, and how long waits and copies take. It is measured
 * from counters and from the busiest thread's most recent calls.
 *
 * A ring has only the start times of calls, and not every call has its own clock reading:
 * - The hook reads the clock at each copy and each synchronisation.
 * - A launch may share its reading with up to seven calls before it.
 * - The first launch after a synchronisation has the time when that ended.
 *
 * The duration of a synchronisation is known only if such a launch follows. The duration of a copy is known only if the
 * next call has its own reading. */
#ifndef GWI_PACE_H
#define GWI_PACE_H

#include "gwi_cause.h"

typedef struct gwi_pace {
    const gw_process *process;                                    /* the process with the most launches */
    const gw_thread *thread;                                      /* thread of `process` with the most launches */
    uint64_t launches, graph_launches, syncs, copies, copy_bytes; /* counted over the lifetime of the process */
    double seconds;                                               /* from the first driver call to the end */
    /* Measured over the calls in the thread's ring. */
    uint64_t span_ns;
    size_t call_count, launch_count, sync_count, host_copy_count;
    double wait_share;       /* share of span_ns inside synchronisations, a lower bound */
    double copy_share;       /* share of span_ns inside copies from and to the host, an estimate */
    uint64_t sync_period_ns; /* median time from one synchronisation to the next; 0: fewer than 32 such times */
    uint64_t gap_ns;         /* total time of pauses >= 1 ms before copies to the device */
    size_t gap_count;
    uint64_t host_copy_bytes;
    bool busy_known;
    double busy_percent; /* the highest utilisation that NVML reported for a card of the process; only if busy_known */
} gwi_pace;

/* Measure the pace. Returns false if the run did not end well or launched too few kernels. Such a run gets no advice
 * about its pace. */
bool gwi_pace_find(const gwi_case *c, gwi_pace *ret_pace);

#endif
