/* The card's time in a rehearsal. Nothing runs, so the time between two events would be nothing, and programs divide by
 * it. Each launch and copy lets a made-up time pass. Choices that a program makes by time are therefore open. */
#include "gw_hook_rehearsal.h"
#include "gwi_rehearse.h"

enum { EVENTS_BITS = 14, EVENTS_COUNT = 1 << EVENTS_BITS };

static _Atomic uint64_t now_ns = 1000000;

/* The time of each recorded event, hashed. A collision forgets the older event. */
static struct {
    _Atomic uint64_t event, at_ns;
} events[EVENTS_COUNT];

void gwi_clock_pass(uint64_t ns)
{
    atomic_fetch_add_explicit(&now_ns, ns, memory_order_relaxed);
}

static uint32_t place_of(uint64_t event)
{
    return (uint32_t)(event * 0x9e3779b97f4a7c15u >> (64 - EVENTS_BITS));
}

static void record(CUevent event)
{
    uint32_t i = place_of((uint64_t)(uintptr_t)event);
    atomic_store(&events[i].event, (uint64_t)(uintptr_t)event);
    atomic_store(&events[i].at_ns, atomic_load_explicit(&now_ns, memory_order_relaxed));
}

/* Return when the event was recorded; 0: not known. */
static uint64_t recorded(CUevent event)
{
    uint32_t i = place_of((uint64_t)(uintptr_t)event);
    return atomic_load(&events[i].event) == (uint64_t)(uintptr_t)event ? atomic_load(&events[i].at_ns) : 0;
}

static void note_choice(void)
{
    static _Atomic bool said;
    if (!atomic_exchange(&said, true))
        gwi_fact(GW_EV_REHEARSAL, GW_REHEARSAL_TIMED, 0, 0, 0, NULL);
}

static int elapsed(int result, float *ms, CUevent start, CUevent end)
{
    uint64_t from = recorded(start), to = recorded(end);
    if (result != 0 || ms == NULL)
        return result;
    if (from != 0 && to > from && (float)(to - from) * 1e-6f > *ms)
        *ms = (float)(to - from) * 1e-6f;
    note_choice();
    return 0;
}

GWI_REHEARSE(cuEventRecord)(CUevent hEvent, CUstream hStream)
{
    record(hEvent);
    return GWI_DRIVER(cuEventRecord)(hEvent, hStream);
}

GWI_REHEARSE(cuEventRecord_ptsz)(CUevent hEvent, CUstream hStream)
{
    record(hEvent);
    return GWI_DRIVER(cuEventRecord_ptsz)(hEvent, hStream);
}

GWI_REHEARSE(cuEventRecordWithFlags)(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    record(hEvent);
    return GWI_DRIVER(cuEventRecordWithFlags)(hEvent, hStream, flags);
}

GWI_REHEARSE(cuEventRecordWithFlags_ptsz)(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    record(hEvent);
    return GWI_DRIVER(cuEventRecordWithFlags_ptsz)(hEvent, hStream, flags);
}

GWI_REHEARSE(cuEventElapsedTime)(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    return elapsed(GWI_DRIVER(cuEventElapsedTime)(pMilliseconds, hStart, hEnd), pMilliseconds, hStart, hEnd);
}

GWI_REHEARSE(cuEventElapsedTime_v2)(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    return elapsed(GWI_DRIVER(cuEventElapsedTime_v2)(pMilliseconds, hStart, hEnd), pMilliseconds, hStart, hEnd);
}
