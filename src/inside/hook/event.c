/* Record a finished call as an event or a failure, or only count it. */
#include "gw_cuda_results.h"
#include "gwi_course.h"
#include "gwi_gate.h"
#include "gwi_hook.h"
#include "gwi_site.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* Switch recording off and on from within the process, so that a benchmark can time the same training run with and
 * without recording (bench/gpu/training.py finds the function by the hook's soname). Switching changes the entries
 * of the facade's jump table. So wrappers, except those of resolvers, need not check whether recording is on. While
 * recording is off, a call costs one extra jump. */

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { FACADES_MAX = 16 };

static gw_facade_head *facades[FACADES_MAX]; /* accessed with the lock held; facades are never unmapped */
static bool wipes_reads[FACADES_MAX];
static uint32_t facade_count;
static _Atomic bool is_off;

bool gwi_recording_is_off(void)
{
    return atomic_load_explicit(&is_off, memory_order_relaxed);
}

/* Resolvers are not redirected, because the program may use their results later, when recording is on again. */
static bool is_resolver(int fn)
{
    return fn == GW_FN_cuGetProcAddress || fn == GW_FN_cuGetProcAddress_v2;
}

static void redirect(gw_facade_head *head, bool on)
{
    for (uint32_t i = 0; i < head->name_count; i++) {
        int fn = gw_api_find_symbol(head->strings + head->names[i]);
        if (fn < 0 || gwi_wrappers[fn] == NULL || gwi_real[fn] == NULL || is_resolver(fn))
            continue;
        void *now = __atomic_load_n(&head->table[i], __ATOMIC_RELAXED);
        /* change only entries that jump to one of these two functions */
        if (now == (on ? gwi_real[fn] : gwi_wrappers[fn]))
            __atomic_store_n(&head->table[i], on ? gwi_wrappers[fn] : gwi_real[fn], __ATOMIC_RELEASE);
    }
}

/* Let functions of READ rows in driver.api jump straight to the driver, past their wrappers. In a forked child,
 * even the first such call may fail, and must use its wrapper. So the kernel wipes this page with the pointers at a
 * fork. In the child it stays wiped, because cuInit fails there. Kernels before 4.14 cannot wipe it: there, the
 * wrappers are always used. */
static void lead_reads_straight(gw_facade_head *head)
{
    for (uint32_t i = 0; i < head->read_count; i++) {
        int fn = gw_api_find_symbol(head->strings + head->names[i]);
        if (fn >= 0 && (gw_api_fns[fn].flags & GW_API_READ) != 0)
            __atomic_store_n(&head->reads[i], gwi_real[fn], __ATOMIC_RELEASE);
    }
}

static bool kernel_wipes_reads(const gw_facade_head *head)
{
    return sysconf(_SC_PAGESIZE) <= GWI_PAGE_BYTES_MAX &&
           madvise(head->reads, GWI_PAGE_BYTES_MAX, MADV_WIPEONFORK) == 0;
}

void gwi_initialised(void)
{
    atomic_store(&gwi.head->initialised, 1);
    if (!gwi_lock())
        return;
    for (uint32_t i = 0; i < facade_count; i++)
        if (wipes_reads[i])
            lead_reads_straight(facades[i]);
    gwi_unlock();
}

void gwi_facade_attached(gw_facade_head *head)
{
    if (facade_count < FACADES_MAX) {
        bool is_initialised = atomic_load(&gwi_wipe.mark) != 0 && atomic_load(&gwi.head->initialised) != 0;
        wipes_reads[facade_count] = kernel_wipes_reads(head);
        if (is_initialised && wipes_reads[facade_count])
            lead_reads_straight(head);
        facades[facade_count++] = head;
    }
    if (gwi_recording_is_off())
        redirect(head, false);
}

int gpuwhy_record(int on) __attribute__((visibility("default")));

/* Switch recording off (0: calls go straight to the driver) or on again (any other value). Returns 1 on success.
 * Returns 0 and changes nothing if this process records nothing, or if the guard or a gate is on, because the guard
 * must see every allocation, and what a gate does must be recorded.
 *
 * Any thread may call this at any time. While recording is off:
 * - A call is still recorded if its wrapper was entered before.
 * - Resolvers stay wrapped and return the same results, but are not counted.
 * - Facts that are not calls, such as phases, are still written.
 * - Functions that the driver does not export are still recorded. A program gets them from a resolver, not from the
 *   facade's table.
 * - Allocations and frees are missing from the recording. Use this for measurements, not for a verdict. */
int gpuwhy_record(int on)
{
    int saved_errno = errno, done = 0;
    if (gwi_lock()) {
        if (!gwi.inert && !gwi_guard_on && !gwi_gates_are_on() && facade_count > 0) {
            atomic_store_explicit(&is_off, on == 0, memory_order_relaxed);
            for (uint32_t i = 0; i < facade_count; i++)
                redirect(facades[i], on != 0);
            done = 1;
        }
        gwi_unlock();
    }
    errno = saved_errno;
    return done;
}
