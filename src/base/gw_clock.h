/* Read clocks in ns, as unsigned 64-bit numbers. Any thread may call these functions. */
#ifndef GW_CLOCK_H
#define GW_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Return the time of a POSIX clock in ns. */
static inline uint64_t gw_clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Return the ns since an arbitrary start, usually boot. Never goes back. */
static inline uint64_t gw_monotonic_ns(void)
{
    return gw_clock_ns(CLOCK_MONOTONIC);
}

/* Return the ns since 1970-01-01 UTC. Jumps when the system clock is set. */
static inline uint64_t gw_realtime_ns(void)
{
    return gw_clock_ns(CLOCK_REALTIME);
}

/* Return the CPU time that this process has used, in ns. Use it for time limits that must not depend on the machine's
 * load. */
static inline uint64_t gw_processor_ns(void)
{
    return gw_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

#endif
