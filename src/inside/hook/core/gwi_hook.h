/* Declarations shared by the generated wrappers and the hook's own files.
 *
 * A wrapper enters, calls the real function, records the call and leaves. The common path does not allocate, lock or
 * make a system call. It does not change results, arguments or errno.
 *
 * The thread's slot in the shared buffer has all per-thread state; thread-local storage only points to it. A slot is
 * valid while its mark equals gwi_wipe.mark, which the kernel sets to 0 in a forked child. A thread without a valid
 * slot calls gwi_enter_slow().
 *
 * A call inside another call (inside_fn != 0) is not recorded. These are our own calls, the driver's calls to itself,
 * and calls from a signal handler that interrupts a call. */
#ifndef GWI_HOOK_H
#define GWI_HOOK_H

#include "gw_api.h"
#include "gw_api_proto.h"
#include "gw_buffer.h"
#include "gw_clock.h"
#include "gw_facade.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* Records the call sites that launch kernels (launch_sites.c). The inline functions run at every launch and skip
 * ignored functions. */

struct gwi_slot_ref;

/* Size in words of the filter for functions whose launches are ignored for now (gwi_wipe.launches_settled). Each
 * function sets three bits of one word, so a launch touches only one cache line. A new function is ignored, too, if its
 * three bits are already set: 1 function in 10,000 if 100 are settled, 1 in 1,000 if 400 are, and 1 in 30 if 2,000
 * are. */
enum { GWI_LAUNCH_WORDS = 256 };

static inline uint64_t gwi_launch_hash(uint64_t function)
{
    return function * UINT64_C(0x9e3779b97f4a7c15);
}

static inline uint64_t gwi_launch_bits(uint64_t hash)
{
    return UINT64_C(1) << (hash >> 58) | UINT64_C(1) << (hash >> 52 & 63) | UINT64_C(1) << (hash >> 46 & 63);
}

static inline unsigned gwi_launch_word(uint64_t hash)
{
    return hash >> 38 & (GWI_LAUNCH_WORDS - 1);
}

static inline bool gwi_launch_is_settled(const _Atomic uint64_t *settled, uint64_t function)
{
    uint64_t hash = gwi_launch_hash(function), bits = gwi_launch_bits(hash);
    return (atomic_load_explicit(&settled[gwi_launch_word(hash)], memory_order_relaxed) & bits) == bits;
}

/* Handle a successful launch of a function whose launches are not ignored (gwi_launch_is_settled() is false). Call
 * inside the wrapper of `fn`. */
void gwi_launch_look(struct gwi_slot_ref *th, unsigned fn, uint64_t function, uint64_t stream)
    __attribute__((noinline, cold));
/* Forget all functions. Called when handles of functions may be reused for other functions, and in a new process. */
void gwi_launch_forget(void);
/* Stop ignoring launches of any function. Called at the first synchronisation at or after gwi_wipe.launches_due, which
 * is at `now` (ticks). */
void gwi_launch_watch_again(uint64_t now) __attribute__((noinline, cold));

#define gwi_likely(x)   __builtin_expect(!!(x), 1)
#define gwi_unlikely(x) __builtin_expect(!!(x), 0)
#define GWI_COLD        __attribute__((noinline, cold))

/* Put this attribute on a variable's declaration. If only the definition has it, other files load the address from a
 * table (the GOT), which costs time. */
#define GWI_HIDDEN __attribute__((visibility("hidden")))

/* One call in progress. */
typedef struct gwi_slot_ref {
    gw_slot *slot;
    uint64_t entered_ticks; /* start of the call; if !is_timed, the time of the last clock reading of the thread */
    bool is_timed;          /* the clock was read for this call */
} gwi_slot_ref;

/* A thread reads the clock only at about every GWI_CALLS_A_LOOK-th short call (a power of two). The calls between use
 * the same time. Reading it costs 12 of the 25 ns of a hot call (host of an H200). Every synchronisation and every
 * recorded event reads the clock again. */
enum { GWI_CALLS_A_LOOK = 8 };

/* The largest page size of the architecture. gwi_wipe is aligned to it, to have pages of its own. Older dynamic loaders
 * align it only to the usual page size. With larger pages, the kernel then refuses to clear gwi_wipe in children. */
#if defined(__x86_64__)
enum { GWI_PAGE_BYTES_MAX = 4096 };
#else
enum { GWI_PAGE_BYTES_MAX = 65536 };
#endif

enum { GWI_COURSE_DEVICES = 16 }; /* PyTorch's allocations are followed on at most this many devices */

/* The page that the kernel fills with zeros in a forked child. If `mark` is 0, this process has no buffer yet, and the
 * other fields are not valid.
 *
 * It has everything that frequent calls need, most of it in one cache line, because the program's own work usually
 * evicts the hook's data from the caches.
 *
 * A signal handler may fork between any two of our instructions. In the child, the rest of the interrupted call then
 * runs with all fields 0, and must do no harm. */
typedef union gwi_wipe_page {
    struct {
        _Atomic uint32_t mark;
        bool clock_is_not_tsc;         /* the opposite of gwi.clock_is_tsc */
        _Atomic bool orders;           /* record the calls that order work (order.c) */
        _Atomic bool pools;            /* the program uses stream-ordered memory */
        _Atomic bool looks_for_nccl;   /* in the files that the program loads (nccl_slots.c) */
        gw_ring *_Atomic rings;        /* the rings of the buffer; NULL: no buffer */
        _Atomic uint64_t launches_due; /* from this tick on, watch the launches of all kernels again; 0: not set */
        struct gwi_course_of_device *_Atomic course[GWI_COURSE_DEVICES];  /* PyTorch's blocks by device; NULL: none */
        _Alignas(64) _Atomic uint64_t launches_settled[GWI_LAUNCH_WORDS]; /* filter; see GWI_LAUNCH_WORDS */
    };
    _Alignas(GWI_PAGE_BYTES_MAX) char whole[GWI_PAGE_BYTES_MAX];
} gwi_wipe_page;

_Static_assert(offsetof(gwi_wipe_page, course[1]) <= 64, "the usual device's course is in the first line");
_Static_assert(sizeof(gwi_wipe_page) == GWI_PAGE_BYTES_MAX, "one page");

/* State that several files of the hook use. Unlike gwi_wipe, a forked child inherits it. */
typedef struct gwi_state {
    bool clock_is_tsc;
    /* the program forbids what recording needs, so all calls of this process and its children pass through (enter.c) */
    _Atomic bool is_quiet;
    bool inert; /* all calls pass through: GPUWHY_OFF=1, or neither a recording nor a memory limit was requested */
    bool attach_observer; /* GPUWHY_ATTACH is not 0 */
    bool records_sites;   /* GPUWHY_SITES is not 0 */
    /* head of this process's buffer; NULL before the first call; &no_head: the process has no buffer */
    gw_buffer_head *head;
    gw_slot *slots;
    gw_buffer_communicator *communicators;
    gw_chunk *chunks;
    void *driver;        /* dlopen() handle of the next driver; NULL: not open */
    uint32_t name_count; /* number of functions that the driver exports */
    char driver_path[1024];
    char driver_build_id[GW_FACADE_BUILD_ID_TEXT];
    char run_dir[1024]; /* "": no recording was requested */
    /* Number of modules, libraries and contexts created so far. If it has changed, a handle may refer to another
     * kernel than before. */
    _Atomic uint32_t handles_made;
    _Atomic uint64_t card_bytes; /* total memory of the smallest device, as the program sees it; 0: not known yet */
} gwi_state;

extern GWI_HIDDEN gwi_state gwi;
extern GWI_HIDDEN gwi_wipe_page gwi_wipe;
extern __thread gw_slot *gwi_slot __attribute__((tls_model("initial-exec")));

/* What the wrappers call, indexed by fn: the next driver's function, or a layer in front of it. NULL:
 * the driver does not have the function. */
extern GWI_HIDDEN void *gwi_real[GW_FN_COUNT];
/* The address that the program gets when it looks up a function by name: the facade's stub, which jumps to the wrapper.
 * NULL: no stub. */
extern GWI_HIDDEN void *gwi_stub[GW_FN_COUNT];
#define GWI_REAL(symbol) ((gw_fn_t_##symbol *)gwi_real[GW_FN_##symbol])

extern GWI_HIDDEN bool gwi_guard_on; /* a memory limit is set (guard.c) */

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
    /* Only one thread writes a counter, so a plain add is enough. Readers never see a half-written word. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

/* Return the thread's slot. Takes one for a new thread, and creates the buffer first for a new process. NULL: pass the
 * call through. */
gw_slot *gwi_enter_slow(void) GWI_COLD;

/* False for a slot that a forked child has inherited from its parent. */
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

/* Enter the wrapper of a call that waits or is recorded as an event. False: do not record the call. */
static inline __attribute__((always_inline)) bool gwi_enter(gwi_slot_ref *th, unsigned fn)
{
    return gwi_enter_as(th, fn, true);
}

/* Enter the wrapper of a short call, which is recorded as an event only if it fails. False: do not record the call. */
static inline __attribute__((always_inline)) bool gwi_enter_quick(gwi_slot_ref *th, unsigned fn)
{
    return gwi_enter_as(th, fn, false);
}

static inline void gwi_leave(gwi_slot_ref *th)
{
    atomic_store_explicit(&th->slot->inside_fn, 0, memory_order_release);
}

/* Assign a ring to a thread at its first hot call. Returns the ring's index; -1: no ring is left. */
int32_t gwi_ring_take(gw_slot *slot) GWI_COLD;

/* Record a successful hot call: increment its counter and add a ring entry. */
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
    if (counter == GW_COUNT_LAUNCH && /* a compile-time constant in every caller */
        gwi_unlikely(!gwi_launch_is_settled(gwi_wipe.launches_settled, what)))
        gwi_launch_look(th, fn, what, stream);
    if (counter == GW_COUNT_SYNC) {
        uint64_t now = gwi_ticks_of(!gwi_wipe.clock_is_not_tsc);
        atomic_store_explicit(&slot->inside_since, now, memory_order_relaxed); /* reused by the next quick calls */
        atomic_store_explicit(&slot->synced_at, now, memory_order_relaxed);
        atomic_store_explicit(&slot->synced_ring_head, head, memory_order_relaxed);
        if (gwi_unlikely(now >= atomic_load_explicit(&gwi_wipe.launches_due, memory_order_relaxed)))
            gwi_launch_watch_again(now);
    }
}

/* The copy that was just recorded went to the host: count it as GW_COUNT_READ, too. */
static inline void gwi_hot_read(gwi_slot_ref *th)
{
    gwi_bump(&th->slot->counter[GW_COUNT_READ], 1);
}

/* True if the calls that order work on the GPU, other than launches, are recorded. They show whether a block was freed
 * while another stream could still use it. Recording starts at the first allocation of memory for which this matters
 * (order.c). */
static inline bool gwi_orders(void)
{
    return gwi_unlikely(atomic_load_explicit(&gwi_wipe.orders, memory_order_relaxed));
}

/* True if fills are recorded, too, from the first stream-ordered allocation. Until then, the order matters only for
 * page-locked host memory, for which copies are enough. */
static inline bool gwi_orders_fills(void)
{
    return gwi_unlikely(atomic_load_explicit(&gwi_wipe.pools, memory_order_relaxed));
}

/* Record a successful ordering call; `step` is a gw_order_step. `source` and `bytes` are used by copies and fills
 * only. */
void gwi_order(gwi_slot_ref *th, unsigned fn, unsigned step, unsigned flags, uint64_t object, uint64_t source,
               uint64_t bytes, uint64_t stream);

/* Record a rare call that has returned, successful or not. `text` may be NULL. gw_event.h gives the meaning of the
 * arguments for each `kind`. */
void gwi_event(gwi_slot_ref *th, unsigned fn, unsigned kind, int result, unsigned flags, uint32_t extra, uint64_t a0,
               uint64_t a1, uint64_t a2, uint64_t a3, const char *text);

/* Record a failed call. Results that mean "not yet" are only counted. A failed lookup of a function is counted, but its
 * event is recorded only sometimes, with the function's name as `text`. `text` may be NULL. It is read only if the
 * result shows that the driver has read it, too. */
void gwi_failed(gwi_slot_ref *th, unsigned fn, unsigned kind, int result, unsigned flags, uint32_t extra, uint64_t a0,
                uint64_t a1, uint64_t a2, uint64_t a3, const char *text) GWI_COLD;

/* Record a failed call of a GET function as an event of kind CALL. Such a function only reads something (driver.api),
 * and its wrapper does not call gwi_enter(). */
void gwi_get_failed(unsigned fn, int result, unsigned flags, uint64_t a0, uint64_t a1, uint64_t a2,
                    uint64_t a3) GWI_COLD;

/* ---- inside the hook ---- */

/* Record a fact found by the hook. Any thread may call this, inside a wrapper or outside, even while recording is
 * switched off. Returns false without room or buffer. `text` may be NULL and is cut to GW_TEXT_BYTES_MAX. */
bool gwi_fact(unsigned kind, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, const char *text);
/* The same, about a call of `fn`. */
bool gwi_fact_of(unsigned fn, unsigned kind, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, const char *text);
bool gwi_fact_at(unsigned kind, uint32_t site, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3);
bool gwi_note(gw_note reason, uint64_t a, uint64_t b, uint64_t c, const char *text);

/* Write one record and its text. A failure may use the reserved chunks, except for a frequent one: a plain call whose
 * error is not sticky, or the result 500 (not found). */
bool gwi_write(gw_slot *slot, const gw_raw_event *event, const char *text);
bool gwi_is_precious(const gw_raw_event *event);

/* Create this process's buffer (buffer.c). Returns false if that failed; all calls then pass through. */
bool gwi_buffer_create(uint32_t mark);
/* Store the launcher's variables of this process in `out`, which is all zero (environment.c). */
void gwi_launcher_note(char out[GW_LAUNCHER_BYTES]);
/* Map the file of a new buffer and return its memory, all zero (buffer_file.c). Returns NULL on failure. */
void *gwi_buffer_memory(void);
/* Open a file of the run folder for reading and writing (buffer_file.c). Returns -1 on failure, and if the folder is
 * not ours: a program may outlive its run, and another user may then create a folder or a link of this name. While a
 * seccomp filter is active, the owner is not checked. */
int gwi_run_file_open(const char *name, int flags);
/* Read up to out_bytes - 1 bytes of a file and add a terminating zero. Returns false if the file is empty or cannot be
 * read. */
bool gwi_read_small_file(const char *path, char *out, size_t out_bytes);
/* Read from the environment how many seccomp filters the supervisor itself has (environment.c). */
void gwi_filters_begin(void);
/* True if this thread has a seccomp filter that may kill the process for an unusual system call. Reads a file of
 * /proc. */
bool gwi_calls_are_filtered(void);
gw_slot *gwi_slot_take(uint32_t mark);
bool gwi_slot_is_shared(const gw_slot *slot); /* true if the slot is in this process's buffer */
uint32_t gwi_slot_index(const gw_slot *slot); /* index in the buffer; only for a shared slot */

/* The lock for set-up. If a thread holds it during a fork, the child takes it over. gwi_lock() returns false if this
 * thread already holds it, so a signal handler cannot deadlock. */
bool gwi_lock(void);
void gwi_unlock(void);

/* enter.c. Make sure that the kernel, or else an atfork handler, clears gwi_wipe in forked children. Returns false if
 * neither works; then nothing is recorded. Call with the lock held. */
bool gwi_tell_children(void);
/* enter.c. Record nothing from now on if the program forbids to read the clock, or nearly all system calls; else get
 * told when it does (gw_quiet_door.h). Call this once, with the lock held, before anything is recorded. */
void gwi_quiet_watch(void);
/* Functions to call, with the lock held, when a process starts to record. attach.c sets them before it calls
 * gwi_tell_children(). */
typedef struct gwi_start {
    void (*begin)(bool has_buffer);
    uint32_t (*take_fork)(gw_slot *slot); /* gwi_fork_take() */
} gwi_start;
extern GWI_HIDDEN gwi_start gwi_at_start;

/* attach.c. From now on, record the call site of each fork() of this process. Call this at the first call into the
 * hook, without any of our locks. */
void gwi_forks_watch(void);
/* Return the call site at which this process was forked, as a site number of the parent. 0: not known, or already
 * returned. If `slot` belongs to the thread that forked, it gets the limits of its stack. Call with the lock held. */
uint32_t gwi_fork_take(gw_slot *slot);

/* crash.c. If GPUWHY_CATCH_CRASH=1, record fault signals from now on, before they take effect. */
void gwi_crash_watch(void);

/* event.c. Remember the facade, whose table gpuwhy_record() switches. Call this with the lock held, once the table
 * points to the wrappers. */
void gwi_facade_attached(gw_facade_head *head);
/* Call this when cuInit has succeeded. From now on, functions whose row in driver.api says READ go straight to the
 * driver. */
void gwi_initialised(void);
bool gwi_recording_is_off(void); /* true while gpuwhy_record() has switched recording off */

/* order.c. Call this when a rare call has succeeded and is about to be recorded. The first allocation of stream-ordered
 * or page-locked memory starts the recording of ordering steps. Before a later free, this writes the earlier steps that
 * matter to it, and sets the event's `extra`. */
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
/* Convert ticks to ns or, in gwi_took_us(), to microseconds, at most UINT16_MAX. Returns 0 if the tick rate is not
 * known yet (state.c). */
uint64_t gwi_ticks_ns(uint64_t ticks);
uint16_t gwi_took_us(uint64_t ticks);

/* Record facts that follow from a rare event or a failure (facts.c): devices, memory, the driver's log. */
void gwi_facts_after(unsigned kind, int result, const uint64_t arg[4]);

/* ask.c. Return the current context; 0: none, or not known. */
uint64_t gwi_current_context(void);
/* Find the device of the current context. False: not known. */
bool gwi_current_device(int *ret_device);
bool gwi_capture_is_open(void);
/* Read free and total bytes of the current context's device. False: not known. */
bool gwi_memory_info(size_t *ret_free, size_t *ret_total);
/* Read a device's free and total bytes from the driver. `context` is a context on that device, or 0. If the current
 * context is on another device, `context` is made current for the query. Returns false if the sizes cannot be read. */
bool gwi_device_memory(int device, uint64_t context, size_t *ret_free, size_t *ret_total);
/* Return false if a call's result shows that the driver must not be queried, for one of these reasons:
 * - the driver is not initialised in this process; in a forked child, its locks may be held forever;
 * - the driver is shutting down with the program;
 * - this thread is running a host function. */
bool gwi_may_ask(int result);
/* Limit work to ten times a second, for all threads together. *last_ns is the time of the last call that returned true;
 * 0: none. */
bool gwi_turn(_Atomic uint64_t *last_ns);

/* Read the memory limit from the environment (guard.c). */
void gwi_guard_begin(void);
/* Replace a device's real free and total bytes by the values that the program should see. Does nothing while the
 * guard is off. */
void gwi_guard_show(int device, size_t *free_bytes, size_t *total_bytes);

/* Return the thread's launches, copies, reads and waits since its last call of this function, packed by gw_work_pack()
 * (buffer.c). */
uint32_t gwi_slot_work(gw_slot *slot);

/* The readable range of a stack. The limits of a thread's own stack are stored with the thread. On another stack (of a
 * coroutine or signal handler), each page is checked before it is read. */
typedef struct gwi_stack_known {
    uint64_t low, high; /* limits of the thread's own stack; 0: not looked up yet, or not known */
    uint32_t looks;     /* how many times the limits were looked up */
} gwi_stack_known;

/* Per-thread data of site.c, stored by buffer.c: the thread's stack, and settings for facts that are written just
 * before their event. Such facts get the event's time. If the event is precious (gwi_is_precious()), they may use the
 * chunks reserved for failures. */
gwi_stack_known *gwi_slot_stack(gw_slot *slot);
void gwi_slot_facts_begin(gw_slot *slot, uint64_t ticks, bool is_precious);
void gwi_slot_facts_end(gw_slot *slot);
uint64_t gwi_slot_facts_ticks(gw_slot *slot); /* 0: use the current time */
/* True if at least half of the buffer is free, so that there is room for optional records. */
bool gwi_buffer_is_roomy(void);

/* Give the guard the result of a driver call, and the context that was current (0: not known). The guard cancels the
 * reservation that it made for the call, and updates its ledger if the call succeeded. */
void gwi_guard_after(gw_slot *slot, unsigned kind, int result, uint64_t context, const uint64_t arg[4]);

/* Cancel the guard's reservation for a failed call that is only counted, so that gwi_guard_after() is not called. */
void gwi_guard_forget(gw_slot *slot);

/* Per-thread data that the guard stores when it checks a call, and takes back when the call has returned (buffer.c). */
typedef struct gwi_pending {
    uint64_t bytes; /* counted on `device` during the call */
    int device;
} gwi_pending;
void gwi_slot_note_pending(gw_slot *slot, const gwi_pending *pending);
gwi_pending gwi_slot_take_pending(gw_slot *slot); /* all 0: none */
void gwi_slot_note_refused(gw_slot *slot);
bool gwi_slot_take_refused(gw_slot *slot);
/* The flags (GW_EVF_) of the call in progress that a gate stores if it answers instead of the driver (gate.c). */
void gwi_slot_note_forced(gw_slot *slot, unsigned flags);
unsigned gwi_slot_take_forced(gw_slot *slot);

/* Notify the frameworks' observer that a rare call was recorded. gw_event.h gives the meaning of `arg` for each `kind`.
 * The function is in observer_port.c, and NULL if that file is not linked. */
void gwi_observer_poke(gwi_slot_ref *th, unsigned kind, int result, const uint64_t arg[4]) __attribute__((weak));

/* The generated wrappers, indexed by fn. NULL: calls of the function pass through. */
extern GWI_HIDDEN void *const gwi_wrappers[GW_FN_COUNT];

/* errno belongs to the program: save and restore it around our own work. */
#define GWI_KEEP_ERRNO(statement)                                                                                      \
    do {                                                                                                               \
        int gwi_saved_errno = errno;                                                                                   \
        statement;                                                                                                     \
        errno = gwi_saved_errno;                                                                                       \
    } while (0)

/* Layers between the wrappers and the driver.
 *
 * A wrapper calls gwi_real[fn]. Normally that is the driver's own function, so a layer that is not in use costs
 * nothing. A layer replaces some of these functions by its own, which decide whether to call the next one. So the
 * wrappers record what the program sees, whichever layer returned it.
 *
 * Layers are added once, before the driver's functions are stored, and are never removed. The first one added is
 * nearest to the driver. */

enum { GWI_LAYERS_MAX = 4 };

/* The driver's own functions, indexed by fn, whichever layers are in use. NULL: the driver does not have the
 * function. */
extern GWI_HIDDEN void *gwi_driver[GW_FN_COUNT];
#define GWI_DRIVER(symbol) ((gw_fn_t_##symbol *)gwi_driver[GW_FN_##symbol])

/* Return the function that stands in front of `next` for `fn`, or NULL for none. The layer keeps `next`. Called with
 * the hook's lock held, once per function of the driver. */
typedef void *(*gwi_layer)(unsigned fn, void *next);

/* Add a layer on top of the others. Call with the lock held, before the first gwi_driver_found(). */
void gwi_layer_add(gwi_layer layer);
/* Store a function of the driver: gwi_driver[fn], and gwi_real[fn] with all layers in front of it. NULL: the driver
 * does not have it. */
void gwi_driver_found(unsigned fn, void *function);

/* What this process holds of a card's memory, by NVML: everything, also what the driver holds for it (contexts, code,
 * streams). NVML is opened at the first call, so only the guard and a rehearsal call it. A call takes 25 us (H100). */

/* Return the bytes that NVML counts for this process on a device, or UINT64_MAX if it does not tell. *ret_extra is what
 * the card holds beyond all its processes; UINT64_MAX: not known. Call without locks. */
uint64_t gwi_own_memory_read(int device, uint64_t *ret_extra);

#endif
