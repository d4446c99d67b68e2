/* What the generated wrappers and the hook's files share.
 *
 * A wrapper enters, calls the real function, writes what happened and leaves. Nothing here allocates, locks or
 * makes a system call on the common path, and nothing touches results, arguments or errno.
 *
 * Per-thread state is the thread's slot in the shared buffer; thread-local storage holds one pointer to it. A slot
 * is good while its mark equals the word on a page that the kernel wipes at fork: NULL, a child's inherited slot
 * and a process that has not begun all lead to gwi_enter_slow(). A thread inside a call (inside_fn != 0) is not
 * recorded again: that is the guard against our own calls, the driver's calls to itself and signal handlers. */
#ifndef GWI_HOOK_H
#define GWI_HOOK_H

#include "gw_api.h"
#include "gw_api_proto.h"
#include "gw_buffer.h"
#include "gw_clock.h"
#include "gw_facade.h"
#include "gwi_launch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define gwi_likely(x)   __builtin_expect(!!(x), 1)
#define gwi_unlikely(x) __builtin_expect(!!(x), 0)
#define GWI_COLD        __attribute__((noinline, cold))

/* The attribute stands here, because users that see only this declaration would otherwise load the address first. */
#define GWI_HIDDEN __attribute__((visibility("hidden")))

/* One call in progress. */
typedef struct gwi_slot_ref {
    gw_slot *slot;
    uint64_t entered_ticks; /* hot and plain calls: the last look at the clock, up to GWI_CALLS_A_LOOK calls ago */
    bool is_timed;          /* it was looked up for this very call */
} gwi_slot_ref;

/* Reading the clock costs as much as all the rest of a hot call together (12 of 25 ns on an H200's
 * host), so calls that are over at once share one look. Whatever is written as an event, and every
 * synchronisation, looks anew. A power of two. */
enum { GWI_CALLS_A_LOOK = 8 };

/* The largest page of a machine; tables of old loaders know no larger alignment than the usual page. */
#if defined(__x86_64__)
enum { GWI_PAGE_BYTES_MAX = 4096 };
#else
enum { GWI_PAGE_BYTES_MAX = 65536 };
#endif

enum { GWI_COURSE_DEVICES = 16 }; /* of so many devices PyTorch's allocations are followed */

/* The page the kernel wipes in a child. `mark` 0: this process has no buffer yet; else the rest is set. A launch finds
 * all of the hook cold more often than not, after two kernels' worth of somebody else's work: what frequent calls need
 * of the process lies in one page, most of it in one line. A signal's handler may fork between any two of our
 * instructions: in the child's rest of that call all of this is 0, and must do no harm. */
typedef union gwi_wipe_page {
    struct {
        _Atomic uint32_t mark;
        bool clock_is_not_tsc;         /* the contrary of gwi.clock_is_tsc */
        _Atomic bool orders;           /* calls that put work in order are noted: order.c */
        _Atomic bool pools;            /* the program has stream-ordered memory */
        gw_ring *_Atomic rings;        /* NULL: none */
        _Atomic uint64_t launches_due; /* the tick from which on all kernels' launches are watched again; 0: not set */
        struct gwi_course_of_device *_Atomic course[GWI_COURSE_DEVICES];  /* by device; NULL: none yet (course.c) */
        _Alignas(64) _Atomic uint64_t launches_settled[GWI_LAUNCH_WORDS]; /* launch.c */
    };
    _Alignas(GWI_PAGE_BYTES_MAX) char whole[GWI_PAGE_BYTES_MAX];
} gwi_wipe_page;

_Static_assert(offsetof(gwi_wipe_page, course[1]) <= 64, "the usual device's course is in the first line");
_Static_assert(sizeof(gwi_wipe_page) == GWI_PAGE_BYTES_MAX, "one page");

/* All other mutable state of the hook, except the resolver's and the guard's own tables. */
typedef struct gwi_state {
    bool clock_is_tsc;
    bool inert;           /* nobody asked for a recording: everything passes through */
    bool attach_observer; /* GPUWHY_ATTACH is not 0 */
    bool records_sites;   /* GPUWHY_SITES is not 0 */
    gw_buffer_head *head; /* this process's buffer; NULL: none could be made */
    gw_slot *slots;
    gw_chunk *chunks;
    void *driver;        /* handle of the next driver; NULL: not open */
    uint32_t name_count; /* of the driver's exports */
    char driver_path[1024];
    char driver_build_id[GW_FACADE_BUILD_ID_TEXT];
    char run_dir[1024];          /* "": none */
    _Atomic uint64_t card_bytes; /* visible total of the smallest device; 0: not known yet */
} gwi_state;

extern GWI_HIDDEN gwi_state gwi;
extern GWI_HIDDEN gwi_wipe_page gwi_wipe;
extern __thread gw_slot *gwi_slot __attribute__((tls_model("initial-exec")));

/* The next driver's functions by fn; NULL: it lacks them. */
extern GWI_HIDDEN void *gwi_real[GW_FN_COUNT];
/* What the program finds under the function's name: the facade's stub, which leads to the wrapper. NULL: none. */
extern GWI_HIDDEN void *gwi_stub[GW_FN_COUNT];
#define GWI_REAL(symbol) ((gw_fn_t_##symbol *)gwi_real[GW_FN_##symbol])

extern GWI_HIDDEN bool gwi_guard_on; /* guard.c: a memory limit is in force */

static inline uint64_t gwi_ticks_of(bool clock_is_tsc)
{
#if defined(__x86_64__)
    if (gwi_likely(clock_is_tsc))
        return __rdtsc();
#else
    (void)clock_is_tsc;
#endif
    return gw_monotonic_ns();
}

static inline uint64_t gwi_ticks(void)
{
    return gwi_ticks_of(gwi.clock_is_tsc);
}

static inline void gwi_bump(_Atomic uint64_t *counter, uint64_t by)
{
    /* One writer: a plain add is enough, readers see whole words. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

/* The thread's slot, made where necessary; NULL: pass through. */
gw_slot *gwi_enter_slow(void) GWI_COLD;

/* False in a child of fork, for its parent's slots. */
static inline bool gwi_slot_is_ours(const gw_slot *slot)
{
    return gwi_likely(slot->mark == atomic_load_explicit(&gwi_wipe.mark, memory_order_relaxed));
}

static inline gw_slot *gwi_slot_usable(void)
{
    gw_slot *slot = gwi_slot;
    if (gwi_unlikely(slot == NULL || !gwi_slot_is_ours(slot)))
        slot = gwi_enter_slow();
    return slot;
}

static inline __attribute__((always_inline)) bool gwi_enter_as(gwi_slot_ref *th, unsigned fn, bool is_timed)
{
    gw_slot *slot = gwi_slot_usable();
    if (gwi_unlikely(slot == NULL || atomic_load_explicit(&slot->inside_fn, memory_order_relaxed) != 0))
        return false;
    th->slot = slot;
    th->is_timed = is_timed;
    uint64_t calls = atomic_load_explicit(&slot->calls, memory_order_relaxed);
    atomic_store_explicit(&slot->calls, calls + 1, memory_order_relaxed);
    if (is_timed || calls % GWI_CALLS_A_LOOK == 0) {
        th->entered_ticks = gwi_ticks_of(!gwi_wipe.clock_is_not_tsc);
        atomic_store_explicit(&slot->inside_since, th->entered_ticks, memory_order_relaxed);
    } else {
        th->entered_ticks = atomic_load_explicit(&slot->inside_since, memory_order_relaxed);
    }
    atomic_store_explicit(&slot->inside_fn, fn + 1, memory_order_release);
    return true;
}

/* For calls that are written, and those that wait. */
static inline __attribute__((always_inline)) bool gwi_enter(gwi_slot_ref *th, unsigned fn)
{
    return gwi_enter_as(th, fn, true);
}

/* For calls that are over at once and of which only failures are written. */
static inline __attribute__((always_inline)) bool gwi_enter_quick(gwi_slot_ref *th, unsigned fn)
{
    return gwi_enter_as(th, fn, false);
}

static inline void gwi_leave(gwi_slot_ref *th)
{
    atomic_store_explicit(&th->slot->inside_fn, 0, memory_order_release);
}

/* Take a ring for a thread's first hot call. Its index, or -1. */
int32_t gwi_ring_take(gw_slot *slot) GWI_COLD;

/* A hot call succeeded: a count and a ring entry. */
static inline __attribute__((always_inline)) void gwi_hot(gwi_slot_ref *th, unsigned fn, unsigned counter,
                                                          uint64_t what, uint64_t stream, uint64_t bytes)
{
    gw_slot *slot = th->slot;
    gwi_bump(&slot->counter[counter], 1);
    if (counter == GW_COUNT_COPY)
        gwi_bump(&slot->counter[GW_COUNT_COPY_BYTES], bytes);
    int32_t ring = atomic_load_explicit(&slot->ring_index, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&slot->ring_head, memory_order_relaxed);
    if (gwi_unlikely(ring < 0))
        ring = gwi_ring_take(slot);
    gw_ring *rings = atomic_load_explicit(&gwi_wipe.rings, memory_order_relaxed);
    if (gwi_likely(ring >= 0 && rings != NULL)) {
        gw_ring_entry *entry = &rings[ring].entry[head % GW_RING_ENTRIES];
        entry->ticks = th->entered_ticks;
        entry->what = what;
        entry->stream_fn = stream << 16 | fn;
        atomic_store_explicit(&slot->ring_head, head + 1, memory_order_release);
    }
    if (counter == GW_COUNT_LAUNCH && /* a constant wherever this is used */
        gwi_unlikely(!gwi_launch_is_settled(gwi_wipe.launches_settled, what)))
        gwi_launch_look(th, fn, what, stream);
    if (counter == GW_COUNT_SYNC) {
        uint64_t now = gwi_ticks_of(!gwi_wipe.clock_is_not_tsc);
        atomic_store_explicit(&slot->inside_since, now, memory_order_relaxed); /* quick calls that follow are later */
        atomic_store_explicit(&slot->synced_at, now, memory_order_relaxed);
        atomic_store_explicit(&slot->synced_ring_head, head, memory_order_relaxed);
        if (gwi_unlikely(now >= atomic_load_explicit(&gwi_wipe.launches_due, memory_order_relaxed)))
            gwi_launch_watch_again(now);
    }
}

/* That COPY, just counted, was one to the host. */
static inline void gwi_hot_read(gwi_slot_ref *th)
{
    gwi_bump(&th->slot->counter[GW_COUNT_READ], 1);
}

/* order.c: calls that put work on the GPU in order, a launch excepted, so that it can be told whether work on another
 * stream was ordered with a block's end. False until the program has memory of which that is a question. */
static inline bool gwi_orders(void)
{
    return gwi_unlikely(atomic_load_explicit(&gwi_wipe.orders, memory_order_relaxed));
}

/* Fills as well: of page-locked memory, which a program may also have, it is copies that are asked about. */
static inline bool gwi_orders_fills(void)
{
    return gwi_unlikely(atomic_load_explicit(&gwi_wipe.pools, memory_order_relaxed));
}

/* Such a call has succeeded: gw_order_step. `source` and `bytes` of copies and fills alone. */
void gwi_order(gwi_slot_ref *th, unsigned fn, unsigned step, unsigned flags, uint64_t object, uint64_t source,
               uint64_t bytes, uint64_t stream);

/* A rare call is over, well or not; `text` may be NULL. The arguments mean what gw_event.h says for `kind`. */
void gwi_event(gwi_slot_ref *th, unsigned fn, unsigned kind, int result, unsigned flags, uint32_t extra, uint64_t a0,
               uint64_t a1, uint64_t a2, uint64_t a3, const char *text);

/* A call failed. Results that say "not yet" are counted only; so is "no such function", but for some of them, which
 * say by `text` what was looked for. `text` may be NULL, and is read only where the driver has read it before us. */
void gwi_failed(gwi_slot_ref *th, unsigned fn, unsigned kind, int result, unsigned flags, uint32_t extra, uint64_t a0,
                uint64_t a1, uint64_t a2, uint64_t a3, const char *text) GWI_COLD;

/* A GET has failed: the same, of a call that was not entered. */
void gwi_get_failed(unsigned fn, int result, unsigned flags, uint64_t a0, uint64_t a1, uint64_t a2,
                    uint64_t a3) GWI_COLD;

/* ---- inside the hook ---- */

/* A module, library or context was made: its kernels may have handles that meant something else before (special.c). */
void gwi_handles_made(void);

/* A fact found by the hook, from any thread, inside a wrapper or outside, also while calls
 * are not recorded (gpuwhy_record()). False: not recorded (lost, no buffer). `text` may be NULL; what is beyond
 * GW_TEXT_BYTES_MAX is cut off. */
bool gwi_fact(unsigned kind, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, const char *text);
bool gwi_fact_at(unsigned kind, uint32_t site, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3);
bool gwi_note(gw_note reason, uint64_t a, uint64_t b, uint64_t c, const char *text);

/* Write one record and its text. Failures may use the reserve, except those of plain calls, of which some programs make
 * many in good health (asking a driver about host pointers, say), unless they are sticky. */
bool gwi_write(gw_slot *slot, const gw_raw_event *event, const char *text);
bool gwi_is_precious(const gw_raw_event *event);

/* Make this process's buffer (buffer.c); false: it has none, and everything passes through. */
bool gwi_buffer_create(uint32_t mark);
gw_slot *gwi_slot_take(uint32_t mark);
bool gwi_slot_is_shared(const gw_slot *slot); /* it lies in this process's buffer */
uint32_t gwi_slot_index(const gw_slot *slot); /* of a shared one */

/* Set-up runs under a lock that a fork cannot leave held and that a signal handler cannot dead-lock on: false when
 * this very thread holds it. */
bool gwi_lock(void);
void gwi_unlock(void);

/* forks.c. At the first call into the hook, holding none of our locks. */
void gwi_forks_watch(void);
/* The site, in the parent's numbers, at which the process was made that this one is; once. 0: not known. Its first slot
 * gets to know its thread's stack, where that is the one that forked. Under the lock. */
uint32_t gwi_fork_take(gw_slot *slot);

/* crash.c. With GPUWHY_CATCH_CRASH=1: from now on a signal of a fault is written down before it takes its course. */
void gwi_crash_watch(void);

/* record.c. Under the lock: a facade's table leads to the wrappers now. */
void gwi_facade_attached(gw_facade_head *head);
/* cuInit has succeeded here: READ rows lead straight to the driver from now on. */
void gwi_initialised(void);
bool gwi_recording_is_off(void); /* switched off from within the process */

/* order.c. A rare call has succeeded and is about to be written: the steps before it that matter to it are written now,
 * and its `extra` is filled in. Memory that comes begins the noting, what goes is asked about once there is any. */
#define GWI_ORDER_BEGINS(name, price, effect, thing, fold, order, ...)                                                 \
    GW_KIND_BIT(name, GW_ORDERING_##order == GW_ORDERING_QUEUES || GW_ORDERING_##order == GW_ORDERING_PINS)
#define GWI_ORDER_ENDS(name, price, effect, thing, fold, order, ...)                                                   \
    GW_KIND_BIT(name, GW_ORDERING_##order == GW_ORDERING_FREES)
void gwi_order_event_of(gwi_slot_ref *th, gw_raw_event *event);
static inline void gwi_order_event(gwi_slot_ref *th, gw_raw_event *event)
{
    uint64_t kinds = GW_KINDS(GWI_ORDER_BEGINS) | (gwi_orders() ? GW_KINDS(GWI_ORDER_ENDS) : 0);
    if (gw_kind_is_in(kinds, event->kind))
        gwi_order_event_of(th, event);
}
/* ns of so many ticks; 0: not known yet. */
uint64_t gwi_ticks_ns(uint64_t ticks);

/* What follows from a rare event or a failure (facts.c): devices, memory, the driver's log. */
void gwi_facts_after(unsigned kind, int result, const uint64_t arg[4]);
uint64_t gwi_current_context(void);
/* Free and total bytes of a device as the driver says; `context` (0: unknown) is made current for the question where
 * none of that device is. False: not known. */
bool gwi_device_memory(int device, uint64_t context, size_t *ret_free, size_t *ret_total);
/* False: after this result the driver is asked nothing. It was not begun (or not in this child of a fork, where its
 * locks may be held for ever), is going down with the program, or runs a host function on this thread. */
bool gwi_may_ask(int result);
/* At most ten a second, over all threads: true for the one whose turn it is. */
bool gwi_turn(_Atomic uint64_t *last_ns);

/* Read the limit from the environment (guard.c). */
void gwi_guard_begin(void);
/* What the program shall see of a device whose real free and total bytes are given; unchanged while the guard is off.
 */
void gwi_guard_show(int device, size_t *free_bytes, size_t *total_bytes);

/* What the thread had the GPU do since the last time this was asked, packed as in gw_event.h (buffer.c). */
uint32_t gwi_slot_work(gw_slot *slot);

/* What site.c keeps with a thread (buffer.c): its stack; and how facts are written that belong to an event to come, at
 * its time and, where it is precious, with the room kept for failures. */
struct gwi_stack_known *gwi_slot_stack(gw_slot *slot);
void gwi_slot_facts_begin(gw_slot *slot, uint64_t ticks, bool is_precious);
void gwi_slot_facts_end(gw_slot *slot);
uint64_t gwi_slot_facts_ticks(gw_slot *slot); /* 0: now */
/* Half of the buffer is free: what can be done without may be written. */
bool gwi_buffer_is_roomy(void);

/* A wrapper's news for the guard: what it asked for is settled now. */
void gwi_guard_after(gw_slot *slot, unsigned kind, int result, const uint64_t arg[4], uint64_t context);

/* What the guard keeps with a thread between its question and the answer (buffer.c). */
void gwi_slot_note_pending(gw_slot *slot, int device, uint64_t bytes);
uint64_t gwi_slot_take_pending(gw_slot *slot, int *ret_device);
void gwi_slot_note_refused(gw_slot *slot);
bool gwi_slot_take_refused(gw_slot *slot);

/* A rare call is over and written: the frameworks' own evidence (observer.c; absent: does nothing). The arguments mean
 * what gw_event.h says for `kind`. */
void gwi_observer_poke(gwi_slot_ref *th, unsigned kind, int result, const uint64_t arg[4]) __attribute__((weak));

/* The generated wrappers by fn; NULL for rows that are passed through. */
extern GWI_HIDDEN void *const gwi_wrappers[GW_FN_COUNT];

/* errno belongs to the program: hold it across our own work. */
#define GWI_KEEP_ERRNO(statement)                                                                                      \
    do {                                                                                                               \
        int gwi_saved_errno = errno;                                                                                   \
        statement;                                                                                                     \
        errno = gwi_saved_errno;                                                                                       \
    } while (0)

#endif
