/* Record a finished call as an event or a failure, or only count it. */
#include "gw_cuda_results.h"
#include "gwi_course.h"
#include "gwi_hook.h"
#include "gwi_site.h"

#include <errno.h>

enum { RESULT_NO_MEMORY = 2, RESULT_NOT_FOUND = 500 };

/* Calls that destroy or free an object. Their event gets the time at which the call began. Another thread may get the
 * address or handle before the event is recorded. The object must not seem to end after the next one begins. */
#define GIVES_BACK(name, price, effect, ...) GW_KIND_BIT(name, GW_EFFECT_##effect == GW_EFFECT_ENDS)

static void write_call(gwi_slot_ref *th, gw_raw_event *event, const char *text)
{
    gw_buffer_head *head = gwi.head;
    bool is_failure = event->result != 0;
    uint64_t now = gwi_ticks();
    event->ticks =
        !is_failure && th->is_timed && gw_kind_is_in(GW_KINDS(GIVES_BACK), event->kind) ? th->entered_ticks : now;
    event->took_us = th->is_timed ? gwi_took_us(now - th->entered_ticks) : 0;
    atomic_store_explicit(&th->slot->inside_since, now,
                          memory_order_relaxed); /* later calls reuse this clock reading */
    if (atomic_load_explicit(&head->captures_open, memory_order_relaxed) != 0)
        event->flags |= GW_EVF_CAPTURING;
    if (is_failure && gw_cuda_is_sticky(event->result)) {
        uint32_t none = 0;
        atomic_compare_exchange_strong(&head->sticky, &none, event->result);
    }
    event->site = gwi_site(th->slot, event->fn, event->ticks, gwi_is_precious(event));
    if (gwi_write(th->slot, event, text) && is_failure && event->result != RESULT_NOT_FOUND)
        atomic_fetch_add(&head->failures, 1);
}

/* Contexts, modules and libraries contain kernels. */
#define HOLDS_KERNELS(thing)                                                                                           \
    (GW_THING_##thing == GW_THING_CONTEXT || GW_THING_##thing == GW_THING_MODULE ||                                    \
     GW_THING_##thing == GW_THING_LIBRARY)
#define MAKES_KERNELS(name, price, effect, thing, ...)                                                                 \
    GW_KIND_BIT(name, HOLDS_KERNELS(thing) && GW_EFFECT_##effect == GW_EFFECT_MAKES)
#define ENDS_KERNELS(name, price, effect, thing, ...)                                                                  \
    GW_KIND_BIT(name, HOLDS_KERNELS(thing) && GW_EFFECT_##effect != GW_EFFECT_MAKES)

/* True if a report about PyTorch's memory may be written now: the first REPORTS_MAX of the process, then at most ten a
 * second. */
static bool may_report_torch(void)
{
    enum { REPORTS_MAX = 64 };
    static _Atomic uint32_t reports;
    static _Atomic uint64_t last_ns;
    bool is_early = atomic_load_explicit(&reports, memory_order_relaxed) < REPORTS_MAX &&
                    atomic_fetch_add(&reports, 1) < REPORTS_MAX;
    return gwi_turn(&last_ns) || is_early;
}

/* If the driver has refused memory to another library than PyTorch, record how PyTorch uses its memory, which may fill
 * the device. PyTorch's own requests are left out: PyTorch frees its cache and tries again, and reports it itself if
 * that does not help. */
static GWI_COLD void report_torch(gw_slot *slot)
{
    int device;
    if (gwi_course_is_any() && gwi_current_device(&device) && device >= 0 &&
        gwi_site_is_not_of(slot, "libc10_cuda.so") && may_report_torch())
        gwi_course_other_refused((uint64_t)device);
}

void gwi_event(gwi_slot_ref *th, unsigned fn, unsigned kind, int result, unsigned flags, uint32_t extra, uint64_t a0,
               uint64_t a1, uint64_t a2, uint64_t a3, const char *text)
{
    int saved_errno = errno;
    gw_raw_event event = {.fn = (uint16_t)fn,
                          .kind = (uint8_t)kind,
                          .flags = (uint8_t)flags,
                          .result = (uint16_t)result,
                          .extra = extra,
                          .arg = {a0, a1, a2, a3}};
    if (kind == GW_EV_INIT && result == 0)
        gwi_initialised();
    event.context = gwi_may_ask(result) ? gwi_current_context() : 0;
    if (gwi_unlikely(gwi_guard_on)) {
        gwi_guard_after(th->slot, kind, result, event.context, event.arg);
        if (result != 0 && gwi_slot_take_refused(th->slot))
            event.flags |= GW_EVF_GUARD;
    }
    if (gw_kind_is_in(GW_KINDS(MAKES_KERNELS), kind))
        atomic_fetch_add(&gwi.handles_made, 1);
    if (gw_kind_is_in(GW_KINDS(ENDS_KERNELS), kind))
        gwi_launch_forget();
    if (gw_is_request(event.kind) && gwi_slot_is_shared(th->slot))
        event.extra = gwi_slot_work(th->slot);
    if (result == 0)
        gwi_order_event(th, &event);
    write_call(th, &event, text);
    gwi_facts_after(kind, result, event.arg);
    if (gwi_unlikely(result == RESULT_NO_MEMORY) && kind != GW_EV_INIT && !gw_is_pinning(kind))
        report_torch(th->slot);
    if (gwi_unlikely(gwi_observer_poke != NULL && gwi.attach_observer))
        gwi_observer_poke(th, kind, result, event.arg);
    errno = saved_errno;
}

/* Return the counter for a result that is a normal answer, such as "not ready", or -1 if the result is a failure. */
static int counter_of_answer(unsigned kind, int result)
{
    if (result == 600)
        return GW_COUNT_NOT_READY;
    if (result == 704 || result == 705)
        return GW_COUNT_PEER_ALREADY;
    if (result == RESULT_NOT_FOUND && kind == GW_EV_FUNCTION)
        return GW_COUNT_NOT_FOUND;
    return -1;
}

/* True if a driver returns this result only after it has read the name or path, which may otherwise be an invalid
 * pointer. */
static bool has_read_text(int result)
{
    return (result == 2 || (result >= 200 && result <= 304 && result != 201) || result == RESULT_NOT_FOUND) &&
           !gw_cuda_is_sticky((unsigned)result);
}

/* Return whether to record a failed lookup of a function: the first 64 of the process, then at most ten per second.
 * Some libraries look up missing functions very often. */
static bool is_worth_a_name(void)
{
    enum { MISSES_MAX = 64 };
    static _Atomic uint32_t misses;
    static _Atomic uint64_t last_ns;
    if (atomic_load_explicit(&misses, memory_order_relaxed) < MISSES_MAX && atomic_fetch_add(&misses, 1) < MISSES_MAX)
        return true;
    return gwi_turn(&last_ns);
}

void gwi_failed(gwi_slot_ref *th, unsigned fn, unsigned kind, int result, unsigned flags, uint32_t extra, uint64_t a0,
                uint64_t a1, uint64_t a2, uint64_t a3, const char *text)
{
    int saved_errno = errno;
    int counter = counter_of_answer(kind, result);
    flags |= gwi_slot_take_forced(th->slot);
    if (counter >= 0) {
        gwi_bump(&th->slot->counter[counter], 1);
        gwi_guard_forget(th->slot);
    }
    if (counter < 0 || (result == RESULT_NOT_FOUND && text != NULL && is_worth_a_name()))
        gwi_event(th, fn, kind, result, flags, extra, a0, a1, a2, a3, has_read_text(result) ? text : NULL);
    errno = saved_errno;
}

void gwi_get_failed(unsigned fn, int result, unsigned flags, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
    gwi_slot_ref th;
    if (!gwi_enter_quick(&th, fn)) /* this is our own call or one of the driver's, or recording is impossible */
        return;
    gwi_failed(&th, fn, GW_EV_CALL, result, flags, 0, a0, a1, a2, a3, NULL);
    gwi_leave(&th);
}
