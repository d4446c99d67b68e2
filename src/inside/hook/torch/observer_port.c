/* Connect the observer to the hook: facts go to the buffer, and driver calls made by the observer are not recorded. */
#include "gwi_course.h"
#include "gwi_hook.h"
#include "gwi_observer.h"

/* Value of a slot's inside_fn while the observer works. It must not be 0, and no function has this number. */
enum { INSIDE_OURSELVES = 0xffff };

static bool put_fact(gw_event_kind kind, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, const char *text)
{
    return gwi_fact(kind, a0, a1, a2, a3, text);
}

static void put_fact_at(gw_event_kind kind, uint32_t site, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
    (void)gwi_fact_at(kind, site, a0, a1, a2, a3);
}

static uint32_t guard_enter(void)
{
    gw_slot *slot = gwi_slot_usable();
    if (slot == NULL)
        return 0;
    uint32_t before = atomic_load_explicit(&slot->inside_fn, memory_order_relaxed);
    if (before == 0)
        atomic_store_explicit(&slot->inside_fn, INSIDE_OURSELVES, memory_order_release);
    return before;
}

static void guard_leave(uint32_t before)
{
    gw_slot *slot = gwi_slot_usable();
    if (slot != NULL && before == 0)
        atomic_store_explicit(&slot->inside_fn, 0, memory_order_release);
}

static bool find_block(uint64_t device, uint64_t address, gwi_observer_block *ret_block)
{
    gwi_course_block block;
    uint64_t age_ns;
    if (!gwi_course_find(device, address, &block) || !gwi_course_age(device, gwi_course_ticks(&block), &age_ns))
        return false;
    *ret_block = (gwi_observer_block){.order = block.order, .age_ns = age_ns, .site = block.site};
    return true;
}

static bool is_quiet(void)
{
    return gwi.is_quiet;
}

/* Return the bytes of device memory that a call has just allocated. Callers do not subtract frees, because a caching
 * allocator rarely frees memory. */
static uint64_t bytes_taken(unsigned kind, int result, const uint64_t arg[4])
{
    /* location type 1 (arg[3]): cuMemCreate() allocated on a device, not on the host */
    bool takes = gw_is_request(kind) && (kind != GW_EV_VMM_CREATE || arg[3] == 1);
    return takes && result == 0 ? arg[1] : 0;
}

void gwi_observer_poke(gwi_slot_ref *th, unsigned kind, int result, const uint64_t arg[4])
{
    static const gwi_observer_port port = {.fact = put_fact,
                                           .fact_at = put_fact_at,
                                           .guard_enter = guard_enter,
                                           .guard_leave = guard_leave,
                                           .course_is_whole = gwi_course_is_whole,
                                           .course_write = gwi_course_write,
                                           .course_find = find_block,
                                           .course_request = gwi_course_refused_site,
                                           .course_report_begin = gwi_course_report_begin,
                                           .course_report_end = gwi_course_report_end,
                                           .is_quiet = is_quiet};
    static _Atomic uint32_t begun_pid; /* process that last started the observer, or reset it after a fork; 0: none */
    if (gwi_unlikely(gwi.head == NULL))
        return;
    uint32_t before = atomic_load_explicit(&begun_pid, memory_order_relaxed);
    if (gwi_unlikely(before != gwi.head->pid)) {
        if (!atomic_compare_exchange_strong(&begun_pid, &before, gwi.head->pid))
            return; /* another thread is starting the observer */
        if (before == 0)
            gwi_observer_start(&port);
        else
            gwi_observer_forked();
    }
    uint64_t bytes = bytes_taken(kind, result, arg);
    if (bytes != 0)
        gwi_observer_taken(bytes, atomic_load_explicit(&gwi.card_bytes, memory_order_relaxed));
    gwi_observer_notice(th->entered_ticks);
}
