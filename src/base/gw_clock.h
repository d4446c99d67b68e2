/* The clocks. `ticks` are the processor's counter where it is usable as a clock on this machine, else
 * CLOCK_MONOTONIC in ns; gw_clock_kind() says which, with the values of GW_CLOCK_* in gw_buffer.h. */
#ifndef GW_CLOCK_H
#define GW_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t gw_clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t gw_monotonic_ns(void)
{
    return gw_clock_ns(CLOCK_MONOTONIC);
}

static inline uint64_t gw_realtime_ns(void)
{
    return gw_clock_ns(CLOCK_REALTIME);
}

/* What this process has used of processors: for limits that a busy machine must not make tighter. */
static inline uint64_t gw_processor_ns(void)
{
    return gw_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

#endif
