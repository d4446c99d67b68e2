/* Follow each event of PyTorch's allocator (gwi_course.h).
 *
 *   c10_door -> usage() -> the device's log -> PyTorch's own function
 *                             |  256 at a time, and before each read
 *                        table, ring, sizes, spans
 *
 * An event is only appended to a short log. Many events are later settled at once, that is, entered into the table and
 * the ring. Settling one event alone would be slow. One thread allocates and another one frees, so nearly every cache
 * line must come from another core or from memory. Settling fetches the cache lines of many events first, so that the
 * latencies overlap.
 *
 * PyTorch holds a lock for each device around every event, so only one thread appends at a time. This thread does not
 * wait for readers, because settling uses another lock. If two threads ever append at once, the second event is counted
 * as missed.
 *
 * A course rests if the process uses little of the card's memory and does not grow. An event then costs one comparison.
 * The course resumes when the process uses an eighth more memory than its highest value before the rest. Of the blocks
 * that exist then, only the total is known (the base), at most 1/64 of the card's memory.
 *
 * Live blocks are in a hash table by address with linear probing. The table doubles by moving to a new mapping. The
 * ring has the last requests and the lifetimes of freed blocks. The lifetime distinguishes an iteration's working
 * memory from memory that is kept.
 *
 * Most events do not read the clock. A request gets the time at which its thread last read the clock, usually at the
 * last driver call. A free gets the time of the request before it. Times never decrease.
 *
 * Call sites are recorded for large blocks and for a random part of the others. Unwinding a stack costs as much as
 * fifty events. */
#include "gwi_course.h"

#include "gwi_hook.h"
#include "gwi_site.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    TABLE_BITS_FIRST = 9,
    TABLE_BITS_MAX = 21, /* at most half full: GWI_COURSE_BLOCKS_MAX */
    SPAN_SHIFT_FIRST = 18,
    LOOK_EVERY = 16, /* read the clock after this many events with the same time */
    LOG_ROOM = 512,
    PUBLISH_MIB = 64, /* the allocated bytes that the supervisor reads are wrong by at most this much */
    /* settle after this many events; the other half of the log is for events that arrive during a read */
    SETTLE_EVERY = 256,
    /* prefetch the lines of this many events at once, so that they stay in the cache until they are used */
    FETCHED_MAX = 64,
    SITES_IN_HAND = 1 << 24,
    SITES_TIME_PARTS = 1024,
    PAUSE_TICKS = 1 << 26, /* 20 to 70 ms, depending on the tick rate */
    /* a stretch is this many requests; it is calm if its lowest number of live bytes is at most 1/64 higher than that
     * of the previous stretch */
    CALM_REQUESTS = 2048,
    CALM_STRETCHES = 4, /* after this many calm stretches in a row, the course may rest */
    SPINS_MAX = 200,
    YIELDS_MAX = 50000
};
_Static_assert((1 << (TABLE_BITS_MAX - 1)) == GWI_COURSE_BLOCKS_MAX, "half of the table");
_Static_assert(sizeof(gwi_course_block) == 32 && sizeof(gwi_course_request) == 32, "two a cache line");

/* The counters of the thread that uses a slot, as they were at the thread's last request for memory. */
typedef struct seen_counts {
    uint32_t generation, launches, waits;
} seen_counts;

/* An event that is not settled yet. `who` is the block and the thread:
 *
 *   address << 16 | index of the thread's slot << 8 | low 8 bits of the slot's generation */
typedef struct logged {
    uint64_t who;
    /* positive: allocated, negative: freed; 0: this entry holds the call site of the request before it */
    int64_t bytes;
    uint64_t ticks;
    union {
        struct {
            uint32_t launches, waits; /* the thread's launches and waits so far */
        };
        uint32_t site;
    };
} logged;
_Static_assert(sizeof(logged) == 32, "two a cache line");
enum { NO_SLOT = 0xff };
#define SITE_CHANCE (UINT32_MAX / 8)
_Static_assert((int)GW_SLOT_COUNT <= (int)NO_SLOT, "a slot fits");

/* The lowest number of live bytes in this stretch (CALM_REQUESTS) and in the previous one. `highest` is the maximum
 * since the course last began to follow events. */
typedef struct calm {
    uint64_t until; /* number of the request that ends this stretch */
    uint64_t lowest, lowest_before, highest;
    uint32_t stretches;
} calm;

typedef struct gwi_course_of_device {
    /* Fields for appending. Other threads only read them, with one exception: a reader that settles sets large_bytes
     * and site_chance. The allocated_bytes and reserved_bytes that a reader sees may be newer than its other values. */
    _Alignas(64) _Atomic uint64_t logged_count;
    uint64_t settled_seen; /* settled_count, as last read by the appending thread */
    uint64_t last_ticks;
    _Atomic uint64_t allocated_bytes, reserved_bytes;
    _Atomic uint64_t large_bytes; /* requests of at least this many bytes get a call site */
    /* chance, out of 2^32, that a smaller request gets a call site; 0: the time limit for these is reached */
    _Atomic uint32_t site_chance;
    uint16_t stale;       /* events since last_ticks last changed */
    _Atomic bool is_busy; /* a thread is appending */
    /* reserved_bytes and allocated_bytes, in MiB, as the appending thread last stored them for the supervisor */
    uint32_t reserved_published, allocated_published;
    /* Fields that are rarely written. */
    /* the course rests while PyTorch has allocated less than this; 0: it does not rest */
    _Alignas(64) _Atomic uint64_t rest_below;
    gw_c10_usage_fn *next; /* PyTorch's own function */
    /* Protected by the lock, except for atomic fields. */
    _Alignas(64) _Atomic uint32_t lock;
    uint32_t table_bits;
    _Atomic uint64_t missed;
    _Atomic uint64_t settled_count;
    _Atomic uint64_t site_ticks;     /* ticks spent on call sites */
    _Atomic uint64_t site_may_ticks; /* limit for site_ticks */
    uint64_t site_earned_until;      /* ticks up to which site_may_ticks has been raised */
    uint32_t span_shift, span_index;
    uint32_t device;
    gwi_course_block *table; /* after this struct in the same mapping or, if larger, in its own mapping */
    uint64_t span_end_ticks; /* end of the current span */
    uint32_t launches, waits;
    gwi_course_totals now; /* totals of the settled events */
    uint64_t first_order;  /* number of the first request since the course last began to follow events */
    uint64_t base_bytes;   /* live bytes of blocks that were allocated before request first_order */
    calm calm;
    gwi_course_size size[GWI_COURSE_SIZES];
    gwi_course_span span[GWI_COURSE_SPANS];
    seen_counts seen[GW_SLOT_COUNT];
    _Alignas(64) logged log[LOG_ROOM];
    _Alignas(64) gwi_course_request ring[GWI_COURSE_REQUESTS];
} course;
_Static_assert((int)GWI_COURSE_DEVICES == (int)GW_BUFFER_DEVICES, "publish()");
_Static_assert(offsetof(course, rest_below) == 64 && offsetof(course, lock) == 128, "a line each");

static struct {
    /* gwi_wipe.mark of the process whose allocations are followed; its forked children are not followed */
    _Atomic uint32_t mark;
    gw_c10_door *door;
    gwi_course_refusal *refused;
    bool never_rests;                /* GPUWHY_ALLOCATIONS=1: every allocation is wanted, even of a small process */
    _Atomic uint64_t missed_outside; /* events without a course, because creating it failed */
} courses;

extern gw_c10_door gw_the_c10_door __attribute__((weak, visibility("default")));

/* ---- the lock ---- */

static __attribute__((noinline)) bool lock_slowly(course *c)
{
    for (int round = 0; round < SPINS_MAX + YIELDS_MAX; round++) {
        if (round >= SPINS_MAX)
            sched_yield(); /* let the lock's holder run, which may be descheduled */
        uint32_t expected = 0;
        if (atomic_load_explicit(&c->lock, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&c->lock, &expected, 1, memory_order_acquire, memory_order_relaxed))
            return true;
    }
    return false;
}

static inline bool try_lock(course *c)
{
    uint32_t expected = 0;
    return atomic_compare_exchange_strong_explicit(&c->lock, &expected, 1, memory_order_acquire, memory_order_relaxed);
}

static inline bool lock(course *c)
{
    return gwi_likely(try_lock(c)) || lock_slowly(c);
}

static void unlock(course *c)
{
    atomic_store_explicit(&c->lock, 0, memory_order_release);
}

/* ---- the table ---- */

static void *map_memory(size_t bytes)
{
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

static inline size_t place_of(uint64_t address, uint32_t bits)
{
    return (size_t)((address >> 9 ^ address << 55) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits));
}

/* Search from index `at` for a block. Returns its entry or, if there is none, the empty entry for it. The table is
 * never full. */
static inline gwi_course_block *find_from(const course *c, uint64_t address, size_t at)
{
    size_t mask = ((size_t)1 << c->table_bits) - 1;
    while (c->table[at].address != 0 && c->table[at].address != address)
        at = (at + 1) & mask;
    return &c->table[at];
}

static inline gwi_course_block *find(const course *c, uint64_t address)
{
    return find_from(c, address, place_of(address, c->table_bits));
}

/* Remove a block from the table. A later block of the same search moves into the gap, so that no search ends too
 * early. */
static void take_out(course *c, gwi_course_block *gone)
{
    size_t mask = ((size_t)1 << c->table_bits) - 1, gap = (size_t)(gone - c->table);
    for (size_t at = (gap + 1) & mask; c->table[at].address != 0; at = (at + 1) & mask) {
        size_t home = place_of(c->table[at].address, c->table_bits);
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            c->table[gap] = c->table[at];
            gap = at;
        }
    }
    c->table[gap].address = 0;
}

/* Double the table. Returns false, without a change, if there is no memory or the table has its largest size. */
static GWI_COLD bool grow(course *c)
{
    int saved_errno = errno;
    uint32_t old_bits = c->table_bits;
    gwi_course_block *old = c->table;
    gwi_course_block *wider = old_bits == TABLE_BITS_MAX ? NULL : map_memory(sizeof *wider << (old_bits + 1));
    if (wider != NULL) {
        c->table = wider;
        c->table_bits = old_bits + 1;
        for (size_t i = 0; i < (size_t)1 << old_bits; i++)
            if (old[i].address != 0)
                *find(c, old[i].address) = old[i];
        if (old_bits != TABLE_BITS_FIRST) /* the first table is in the mapping of the course */
            munmap(old, sizeof *old << old_bits);
    }
    errno = saved_errno;
    return wider != NULL;
}

/* ---- spans ---- */

static void span_clear(gwi_course_span *span)
{
    *span = (gwi_course_span){0, UINT64_MAX};
}

static inline void span_see(gwi_course_span *span, uint64_t live_bytes)
{
    span->highest = live_bytes > span->highest ? live_bytes : span->highest;
    span->lowest = live_bytes < span->lowest ? live_bytes : span->lowest;
}

/* Call this when all spans are used. Merges them in pairs, so from now on each span is twice as long. */
static void spans_halve(course *c)
{
    for (size_t i = 0; i < GWI_COURSE_SPANS / 2; i++) {
        gwi_course_span *a = &c->span[2 * i], *b = &c->span[2 * i + 1];
        c->span[i] = (gwi_course_span){a->highest > b->highest ? a->highest : b->highest,
                                       a->lowest < b->lowest ? a->lowest : b->lowest};
    }
    for (size_t i = GWI_COURSE_SPANS / 2; i < GWI_COURSE_SPANS; i++)
        span_clear(&c->span[i]);
    c->span_shift++;
}

/* Start the span of the current time. Its first value is the current live bytes. */
static GWI_COLD void span_next(course *c)
{
    uint64_t passed = c->now.last_ticks - c->now.first_ticks;
    while (passed >> c->span_shift >= GWI_COURSE_SPANS)
        spans_halve(c);
    c->span_index = (uint32_t)(passed >> c->span_shift);
    c->span_end_ticks = c->now.first_ticks + ((uint64_t)(c->span_index + 1) << c->span_shift);
    span_see(&c->span[c->span_index], c->now.live_bytes);
}

/* ---- the first event of a device ---- */

/* Return the size from which a block is large: 1/1024 of the smallest card's memory, or 64 MiB if that is not known. */
static uint64_t large_bytes(void)
{
    enum { CARD_PARTS = 1024, UNKNOWN_CARD = 64 << 20 };
    uint64_t card = atomic_load_explicit(&gwi.card_bytes, memory_order_relaxed);
    return card == 0 ? UNKNOWN_CARD : card / CARD_PARTS;
}

/* Map a course and its first table, in two large pages if possible. The program's work between two events would evict
 * the TLB entries of many small pages. */
enum { LARGE_PAGE_BYTES = 2 << 20, COURSE_BYTES = 2 * LARGE_PAGE_BYTES };
_Static_assert(sizeof(course) + (sizeof(gwi_course_block) << TABLE_BITS_FIRST) <= COURSE_BYTES, "both fit");

static course *map_course(void)
{
    char *map = map_memory(COURSE_BYTES + LARGE_PAGE_BYTES);
    if (map == NULL)
        return NULL;
    size_t before = -(uintptr_t)map % LARGE_PAGE_BYTES;
    if (before != 0)
        munmap(map, before);
    munmap(map + before + COURSE_BYTES, LARGE_PAGE_BYTES - before);
#ifdef MADV_HUGEPAGE
    madvise(map + before, COURSE_BYTES, MADV_HUGEPAGE); /* kernels without huge pages return an error */
#endif
    return (course *)(void *)(map + before);
}

static void miss(course *c)
{
    atomic_fetch_add_explicit(&c->missed, 1, memory_order_relaxed);
}

/* Return whether this is the first process that called this. Only its allocations are followed. A forked child inherits
 * the mark in `courses`, but its own mark differs. */
static bool is_our_process(void)
{
    uint32_t mark = atomic_load_explicit(&gwi_wipe.mark, memory_order_relaxed), none = 0;
    return mark != 0 && (atomic_compare_exchange_strong(&courses.mark, &none, mark) || none == mark);
}

static course *make_course(uint64_t device)
{
    course *c = map_course();
    if (c == NULL)
        return NULL;
    gw_c10_usage_fn *next = __atomic_load_n(&courses.door->next_usage, __ATOMIC_ACQUIRE);
    c->next = next != NULL ? next : courses.door->usage_alone;
    c->table = (gwi_course_block *)(void *)(c + 1);
    c->table_bits = TABLE_BITS_FIRST;
    c->first_order = 1;
    c->device = (uint32_t)device;
    c->calm.until = CALM_REQUESTS;
    c->now.first_ticks = c->now.last_ticks = c->last_ticks = c->site_earned_until = gwi_ticks();
    c->site_may_ticks = SITES_IN_HAND;
    c->large_bytes = large_bytes();
    c->site_chance = SITE_CHANCE;
    c->span_shift = SPAN_SHIFT_FIRST;
    for (size_t i = 0; i < GWI_COURSE_SPANS; i++)
        span_clear(&c->span[i]);
    span_next(c);
    return c;
}

/* Create the course of a device. Returns NULL if this process is not followed, or if there is no memory. */
static GWI_COLD course *begin(uint64_t device)
{
    int saved_errno = errno;
    course *c = NULL, *before = NULL;
    if (is_our_process()) {
        c = make_course(device);
        if (c == NULL)
            atomic_fetch_add_explicit(&courses.missed_outside, 1, memory_order_relaxed);
        else if (!atomic_compare_exchange_strong(&gwi_wipe.course[device], &before, c)) {
            munmap(c, COURSE_BYTES);
            c = before; /* another thread has created the course meanwhile */
        }
    }
    errno = saved_errno;
    return c;
}

/* ---- an event ---- */

/* Return the index of a slot, or NO_SLOT if it is not in this process's buffer. Uses `rings`, not gwi.slots, because
 * the cache line of `rings` is needed anyway. */
static inline uint64_t index_of(const gw_slot *slot)
{
    uintptr_t rings = (uintptr_t)atomic_load_explicit(&gwi_wipe.rings, memory_order_relaxed);
    uintptr_t slots = rings - (GW_RINGS_OFFSET - GW_SLOTS_OFFSET);
    uint64_t index = rings == 0 ? NO_SLOT : ((uintptr_t)slot - slots) / sizeof *slot;
    return index < GW_SLOT_COUNT ? index : NO_SLOT;
}

/* Return the thread's slot, or NULL if the thread has none because it made no driver call. For example, some threads
 * only free memory. */
static inline gw_slot *slot_of_thread(void)
{
    gw_slot *slot = gwi_slot;
    return gwi_likely(slot != NULL && gwi_slot_is_ours(slot)) ? slot : NULL;
}

static inline uint32_t counted(const gw_slot *slot, gw_counter which)
{
    return (uint32_t)atomic_load_explicit(&slot->counter[which], memory_order_relaxed);
}

/* ---- settling: in order, with the same result as following each event immediately ---- */

static inline uint64_t address_of(const logged *event)
{
    return event->who >> 16;
}

static inline void see_live(course *c)
{
    if (gwi_unlikely(c->now.last_ticks >= c->span_end_ticks))
        span_next(c);
    span_see(&c->span[c->span_index], c->now.live_bytes);
    if (c->now.live_bytes < c->calm.lowest)
        c->calm.lowest = c->now.live_bytes;
    if (c->now.live_bytes > c->calm.highest)
        c->calm.highest = c->now.live_bytes;
    if (c->now.live_bytes > c->now.peak_bytes) {
        c->now.peak_bytes = c->now.live_bytes;
        c->now.peak_order = c->now.requests;
    }
}

static inline gwi_course_size *size_of(course *c, uint64_t bytes)
{
    unsigned bit = 63 - (unsigned)__builtin_clzll(bytes | 1);
    return &c->size[bit < GWI_COURSE_SIZES ? bit : GWI_COURSE_SIZES - 1];
}

static void block_ends(course *c, gwi_course_block *block)
{
    uint64_t bytes = gwi_course_bytes(block), lived = c->now.requests - block->order + 1;
    gwi_course_size *size = size_of(c, bytes);
    size->frees++;
    size->live_bytes -= bytes;
    size->lifetime_sum += lived;
    c->now.frees++;
    c->now.live_count--;
    c->now.live_bytes -= bytes;
    if (lived <= GWI_COURSE_REQUESTS)
        c->ring[block->order % GWI_COURSE_REQUESTS].freed_after = (uint32_t)lived;
    take_out(c, block);
}

static inline void handed_out(course *c, const logged *event, gwi_course_block *block)
{
    uint64_t bytes = (uint64_t)event->bytes;
    if (gwi_unlikely(block->address != 0)) { /* the free of an older block at this address was missed */
        miss(c);
        block_ends(c, block);
        block = find(c, address_of(event));
    }
    if (gwi_unlikely((c->now.live_count + 1) * 2 > (uint64_t)1 << c->table_bits)) {
        if (!grow(c)) {
            miss(c);
            return;
        }
        block = find(c, address_of(event));
    }
    uint64_t when = event->ticks >> GWI_COURSE_WHEN_SHIFT, order = ++c->now.requests;
    *block = (gwi_course_block){.address = address_of(event),
                                .bytes_when = bytes << 16 | (when >> 32 & 0xffff),
                                .order = order,
                                .when = (uint32_t)when};
    c->ring[order % GWI_COURSE_REQUESTS] =
        (gwi_course_request){.ticks = event->ticks, .bytes = bytes, .launches = c->launches, .waits = c->waits};
    gwi_course_size *size = size_of(c, bytes);
    size->requests++;
    size->live_bytes += bytes;
    c->now.live_count++;
    c->now.live_bytes += bytes;
}

static inline void taken_back(course *c, const logged *event, gwi_course_block *block)
{
    uint64_t bytes = (uint64_t)-event->bytes;
    if (gwi_likely(block->address != 0)) {
        block_ends(c, block);
    } else if (bytes <= c->base_bytes) {
        c->base_bytes -= bytes;
        c->now.live_bytes -= bytes;
        c->now.frees++;
    } else {
        miss(c); /* the block is from before the course began, or its allocation was missed */
    }
}

/* Set the call site of the previous request, if that request was stored. */
static void site_found(course *c, const logged *event)
{
    gwi_course_block *block = find(c, address_of(event));
    if (block->address == 0 || block->order != c->now.requests)
        return;
    block->site = event->site;
    c->ring[block->order % GWI_COURSE_REQUESTS].site = event->site;
}

/* Add the launches and waits of this thread since its last request for memory. */
static inline void see_work(course *c, const logged *event)
{
    uint32_t slot = event->who >> 8 & 0xff, generation = event->who & 0xff;
    if (gwi_unlikely(slot >= GW_SLOT_COUNT))
        return;
    seen_counts *seen = &c->seen[slot];
    if (gwi_unlikely(seen->generation != generation))
        *seen = (seen_counts){.generation = generation};
    c->launches += event->launches - seen->launches;
    c->waits += event->waits - seen->waits;
    seen->launches = event->launches;
    seen->waits = event->waits;
}

/* Prefetch a cache line for writing with the instruction prefetchw, which older processors ignore. GCC's builtin emits
 * it only for newer targets. */
static inline void fetch_to_write(const volatile void *at)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const volatile char *)at));
#else
    __builtin_prefetch((const void *)at, 1);
#endif
}

/* Prefetch the cache lines that settling will write: the table entries of all events, then the ring entries of new
 * requests and freed blocks. */
static inline void fetch_ahead(const course *c, const logged *event, uint32_t count, uint32_t *ret_place)
{
    uint64_t order = c->now.requests;
    for (uint32_t i = 0; i < count; i++) {
        ret_place[i] = (uint32_t)place_of(address_of(&event[i]), c->table_bits);
        fetch_to_write(&c->table[ret_place[i]]);
    }
    for (uint32_t i = 0; i < count; i++) {
        const gwi_course_block *block = &c->table[ret_place[i]];
        if (event[i].bytes > 0)
            fetch_to_write(&c->ring[++order % GWI_COURSE_REQUESTS]);
        else if (block->address == address_of(&event[i]))
            fetch_to_write(&c->ring[block->order % GWI_COURSE_REQUESTS]);
    }
}

static inline void settle_one(course *c, const logged *event, size_t place)
{
    if (gwi_unlikely(event->bytes == 0)) {
        site_found(c, event);
        return;
    }
    gwi_course_block *block = find_from(c, address_of(event), place);
    c->now.last_ticks = event->ticks;
    if (event->bytes > 0) {
        see_work(c, event);
        handed_out(c, event, block);
    } else {
        taken_back(c, event, block);
    }
    see_live(c);
}

static void settle_some(course *c, const logged *event, uint32_t count)
{
    uint32_t place[FETCHED_MAX], bits = c->table_bits;
    fetch_ahead(c, event, count, place);
    for (uint32_t i = 0; i < count; i++) {
        bool grown = gwi_unlikely(c->table_bits != bits);
        settle_one(c, &event[i], grown ? place_of(address_of(&event[i]), c->table_bits) : place[i]);
    }
}

/* Return whether there is time to look up a call site.
 *
 * The limit is about a thousandth of the time in which the program works, without pauses. A small block gets a call
 * site only while less than a quarter of the limit is used. The limit starts above 0, because the unwinder must first
 * read files and rules. */
static bool may_have_site(const course *c, bool is_large)
{
    uint64_t spent = atomic_load_explicit(&c->site_ticks, memory_order_relaxed);
    uint64_t may_spend = atomic_load_explicit(&c->site_may_ticks, memory_order_relaxed);
    return spent < (is_large ? may_spend : may_spend / 4);
}

/* Raise the time limit for call sites by 1/1024 of the time since the last call. After a pause longer than PAUSE_TICKS,
 * only PAUSE_TICKS count. */
static void earn_sites(course *c)
{
    uint64_t passed = c->now.last_ticks - c->site_earned_until;
    uint64_t worked = passed < PAUSE_TICKS ? passed : (uint64_t)PAUSE_TICKS;
    uint64_t may_spend = atomic_load_explicit(&c->site_may_ticks, memory_order_relaxed);
    atomic_store_explicit(&c->site_may_ticks, may_spend + worked / SITES_TIME_PARTS, memory_order_relaxed);
    c->site_earned_until = c->now.last_ticks;
}

/* Store PyTorch's totals where the supervisor can read them (`gpuwhy run --alarm-at`). */
static void publish(course *c)
{
    if (gwi.head == NULL)
        return;
    uint64_t allocated = atomic_load_explicit(&c->allocated_bytes, memory_order_relaxed);
    uint64_t reserved = atomic_load_explicit(&c->reserved_bytes, memory_order_relaxed);
    atomic_store_explicit(&gwi.head->torch_allocated_bytes[c->device], allocated, memory_order_relaxed);
    atomic_store_explicit(&gwi.head->torch_reserved_bytes[c->device], reserved, memory_order_relaxed);
}

/* Settle all logged events. Call with the lock held. */
static __attribute__((hot)) void settle(course *c)
{
    uint64_t end = atomic_load_explicit(&c->logged_count, memory_order_acquire);
    uint64_t at = atomic_load_explicit(&c->settled_count, memory_order_relaxed);
    while (at < end) {
        uint64_t left = end - at, to_wrap = LOG_ROOM - at % LOG_ROOM;
        uint64_t count = left < to_wrap ? left : to_wrap;
        if (count > FETCHED_MAX)
            count = FETCHED_MAX;
        settle_some(c, &c->log[at % LOG_ROOM], (uint32_t)count);
        at += count;
    }
    atomic_store_explicit(&c->settled_count, end, memory_order_release);
    c->now.allocated_bytes = atomic_load_explicit(&c->allocated_bytes, memory_order_relaxed);
    c->now.reserved_bytes = atomic_load_explicit(&c->reserved_bytes, memory_order_relaxed);
    publish(c);
    atomic_store_explicit(&c->large_bytes, large_bytes(), memory_order_relaxed);
    earn_sites(c);
    atomic_store_explicit(&c->site_chance, may_have_site(c, false) ? SITE_CHANCE : 0, memory_order_relaxed);
}

/* Lock the course for a reader, and settle all events. Returns false if the lock was not obtained. */
static bool lock_settled(course *c)
{
    bool locked = lock(c);
    if (locked)
        settle(c);
    return locked;
}

/* ---- resting ---- */

static void calm_begin(course *c)
{
    c->calm = (calm){.until = c->now.requests + CALM_REQUESTS,
                     .lowest = c->now.live_bytes,
                     .lowest_before = c->calm.lowest,
                     .highest = c->calm.highest,
                     .stretches = c->calm.stretches};
}

/* Let the course rest if memory use is small and did not grow for CALM_STRETCHES stretches, and no event was missed.
 * Call with the lock held, in the thread that appends. */
static void consider_rest(course *c)
{
    enum { CARD_PARTS = 64, GROWTH_PARTS = 64, MORE_PARTS = 8 };
    uint64_t card = atomic_load_explicit(&gwi.card_bytes, memory_order_relaxed), highest = c->calm.highest;
    uint64_t below = highest + highest / MORE_PARTS + 1;
    if (c->now.requests < c->calm.until || courses.never_rests)
        return;
    bool is_calm = c->calm.lowest <= c->calm.lowest_before + c->calm.lowest_before / GROWTH_PARTS;
    c->calm.stretches = is_calm ? c->calm.stretches + 1 : 0;
    calm_begin(c);
    if (c->calm.stretches >= CALM_STRETCHES && below <= card / CARD_PARTS &&
        atomic_load_explicit(&c->missed, memory_order_relaxed) == 0)
        atomic_store_explicit(&c->rest_below, below, memory_order_release);
}

static inline bool is_resting(const course *c)
{
    return atomic_load_explicit(&c->rest_below, memory_order_acquire) != 0;
}

/* Resume following events, in the thread that appends. PyTorch's blocks are known only by their total, `base_bytes`.
 * Returns false and keeps resting if a reader holds the lock for too long. */
static GWI_COLD bool wake(course *c, uint64_t base_bytes)
{
    if (!lock(c))
        return false;
    settle(c); /* settle the events that were logged before the rest */
    memset(c->table, 0, sizeof *c->table << c->table_bits);
    memset(c->size, 0, sizeof c->size);
    c->now.live_count = 0;
    c->now.live_bytes = c->base_bytes = base_bytes;
    c->first_order = c->now.requests + 1;
    c->calm = (calm){0};
    calm_begin(c);
    atomic_store_explicit(&c->rest_below, 0, memory_order_release);
    unlock(c);
    return true;
}

/* ---- appending ---- */

/* Make room for one more event in the log by settling the older ones. If a reader holds the lock, settling is postponed
 * until the log is nearly full. If the log is full and still locked, drop the last event and return false. */
static bool make_room(course *c)
{
    enum { NEARLY_FULL = LOG_ROOM - 2 };
    uint64_t count = atomic_load_explicit(&c->logged_count, memory_order_relaxed), left = count - c->settled_seen;
    if (left < SETTLE_EVERY)
        return true;
    if (left < NEARLY_FULL ? try_lock(c) : lock(c)) {
        settle(c);
        consider_rest(c);
        unlock(c);
    }
    c->settled_seen = atomic_load_explicit(&c->settled_count, memory_order_acquire);
    if (count - c->settled_seen < LOG_ROOM)
        return true;
    miss(c);
    atomic_store_explicit(&c->logged_count, count - 1, memory_order_release);
    return false;
}

static inline void append(course *c, logged event)
{
    uint64_t count = atomic_load_explicit(&c->logged_count, memory_order_relaxed);
    c->log[count % LOG_ROOM] = event;
    atomic_store_explicit(&c->logged_count, ++count, memory_order_release);
}

/* Record the current call site and return its number, or 0 if it is unknown or the thread is in a driver call.
 * inside_fn is set meanwhile, so that our own driver calls are not recorded. */
static GWI_COLD uint32_t site_here(course *c, gw_slot *slot)
{
    if (slot == NULL || !gwi_slot_is_shared(slot) || atomic_load_explicit(&slot->inside_fn, memory_order_relaxed) != 0)
        return 0;
    int saved_errno = errno;
    uint64_t begin_ticks = gwi_ticks();
    atomic_store_explicit(&slot->inside_fn, UINT32_MAX, memory_order_relaxed);
    uint32_t site = gwi_site(slot, GW_FN_COUNT, begin_ticks, false);
    atomic_store_explicit(&slot->inside_fn, 0, memory_order_release);
    atomic_fetch_add_explicit(&c->site_ticks, gwi_ticks() - begin_ticks, memory_order_relaxed);
    errno = saved_errno;
    return site;
}

/* Add a call site to the request that was just appended. This request is still the last event, because PyTorch holds
 * its lock until we return. */
static GWI_COLD void give_site(course *c, bool is_large)
{
    uint64_t count = atomic_load_explicit(&c->logged_count, memory_order_relaxed);
    uint32_t site = may_have_site(c, is_large) ? site_here(c, slot_of_thread()) : 0;
    if (site != 0)
        append(c, (logged){.who = c->log[(count - 1) % LOG_ROOM].who, .site = site});
}

static inline bool is_large(const course *c, int64_t bytes)
{
    return bytes > 0 && (uint64_t)bytes >= atomic_load_explicit(&c->large_bytes, memory_order_relaxed);
}

static inline bool may_want_site(const course *c, int64_t bytes, uint64_t count)
{
    uint32_t dice = (uint32_t)(count * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    return is_large(c, bytes) || dice < atomic_load_explicit(&c->site_chance, memory_order_relaxed);
}

static inline uint32_t mib_of(uint64_t bytes)
{
    return (uint32_t)(bytes >> 20);
}

/* True if what the supervisor reads is near enough, even if no event follows for hours, as in a notebook. */
static inline bool is_published(const course *c, uint64_t allocated_bytes, uint64_t reserved_bytes)
{
    return mib_of(reserved_bytes) == c->reserved_published &&
           mib_of(allocated_bytes) - c->allocated_published + PUBLISH_MIB <= 2u * PUBLISH_MIB;
}

/* Do the rare work after an event: read the clock, settle the log, look up a call site. */
static __attribute__((noinline)) void follow_up(course *c, int64_t bytes)
{
    if (c->stale >= LOOK_EVERY) {
        uint64_t now = gwi_ticks_of(!gwi_wipe.clock_is_not_tsc);
        c->last_ticks = now > c->last_ticks ? now : c->last_ticks;
        c->stale = 0;
    }
    uint64_t allocated_bytes = atomic_load_explicit(&c->allocated_bytes, memory_order_relaxed);
    uint64_t reserved_bytes = atomic_load_explicit(&c->reserved_bytes, memory_order_relaxed);
    if (!is_published(c, allocated_bytes, reserved_bytes)) {
        publish(c);
        c->allocated_published = mib_of(allocated_bytes);
        c->reserved_published = mib_of(reserved_bytes);
    }
    bool is_there = make_room(c);
    if (is_there && bytes > 0 &&
        may_want_site(c, bytes, atomic_load_explicit(&c->logged_count, memory_order_relaxed))) {
        give_site(c, is_large(c, bytes));
        (void)make_room(c);
    }
}

/* ---- callbacks from c10_door.c ---- */

static inline course *course_of(gw_c10_device device)
{
    if (gwi_unlikely(device.type != GW_C10_CUDA || (uint8_t)device.index >= GWI_COURSE_DEVICES))
        return NULL;
    return atomic_load_explicit(&gwi_wipe.course[device.index], memory_order_acquire);
}

static course *course_made(gw_c10_device device)
{
    course *c = course_of(device);
    bool can_be = device.type == GW_C10_CUDA && (uint8_t)device.index < GWI_COURSE_DEVICES;
    return c == NULL && can_be ? begin((uint64_t)device.index) : c;
}

/* Fill in the event's fields about the thread that requests memory. If the thread's last clock reading is newer than
 * c->last_ticks, advance c->last_ticks to it. follow() uses c->last_ticks as the time of the event. */
static inline void note_thread(course *c, logged *event, const gw_slot *slot)
{
    uint64_t looked = atomic_load_explicit(&slot->inside_since, memory_order_relaxed);
    uint32_t generation = atomic_load_explicit(&slot->generation, memory_order_relaxed);
    if (gwi_likely(looked > c->last_ticks)) {
        c->last_ticks = looked;
        c->stale = 0;
    }
    event->who ^= (index_of(slot) ^ NO_SLOT) << 8 | (generation & 0xff);
    event->launches = counted(slot, GW_COUNT_LAUNCH) + counted(slot, GW_COUNT_GRAPH_LAUNCH);
    event->waits = counted(slot, GW_COUNT_SYNC);
}

/* Begin to append. Returns false if another thread is appending. */
static inline bool enter(course *c)
{
    return !atomic_exchange_explicit(&c->is_busy, true, memory_order_acquire);
}

static inline void leave(course *c)
{
    atomic_store_explicit(&c->is_busy, false, memory_order_release);
}

/* Append an event. Returns true if the caller must call follow_up(). */
static inline bool follow(course *c, uint64_t address, int64_t bytes, size_t allocated_bytes, size_t reserved_bytes)
{
    uint64_t count = atomic_load_explicit(&c->logged_count, memory_order_relaxed);
    logged *event = &c->log[count % LOG_ROOM];
    const gw_slot *slot;
    c->stale++;
    event->who = address << 16 | NO_SLOT << 8;
    event->bytes = bytes;
    event->launches = event->waits = 0;
    if (bytes > 0 && gwi_likely((slot = slot_of_thread()) != NULL))
        note_thread(c, event, slot);
    event->ticks = c->last_ticks;
    atomic_store_explicit(&c->allocated_bytes, allocated_bytes, memory_order_relaxed);
    atomic_store_explicit(&c->reserved_bytes, reserved_bytes, memory_order_relaxed);
    atomic_store_explicit(&c->logged_count, ++count, memory_order_release);
    return count - c->settled_seen >= SETTLE_EVERY || c->stale >= LOOK_EVERY ||
           gwi_unlikely(!is_published(c, allocated_bytes, reserved_bytes)) ||
           (bytes > 0 && may_want_site(c, bytes, count));
}

/* Handle special cases: the first event of a device, an empty event, the end of a rest, or another thread that
 * appends. */
static GWI_COLD void usage_apart(void *block, int64_t bytes, size_t allocated_bytes, size_t reserved_bytes,
                                 gw_c10_device device)
{
    course *c = course_made(device);
    bool is_event = c != NULL && block != NULL && bytes != 0;
    if (is_event && enter(c)) {
        bool follows = !is_resting(c) || wake(c, allocated_bytes - (uint64_t)bytes);
        if (follows && follow(c, (uintptr_t)block, bytes, allocated_bytes, reserved_bytes))
            follow_up(c, bytes);
        leave(c);
    } else if (is_event) {
        miss(c);
    }
    courses.door->usage_alone(block, bytes, allocated_bytes, reserved_bytes, device);
}

static __attribute__((noinline)) void usage_to_follow(void *block, int64_t bytes, size_t allocated_bytes,
                                                      size_t reserved_bytes, gw_c10_device device)
{
    course *c = course_of(device);
    if (gwi_unlikely(c == NULL)) { /* a signal handler has forked meanwhile, and this is the child */
        courses.door->usage_alone(block, bytes, allocated_bytes, reserved_bytes, device);
        return;
    }
    follow_up(c, bytes);
    leave(c);
    c->next(block, bytes, allocated_bytes, reserved_bytes, device);
}

/* Called at each event. Makes only tail calls, so that this function needs no stack frame. */
static __attribute__((hot, aligned(64))) void usage(void *block, int64_t bytes, size_t allocated_bytes,
                                                    size_t reserved_bytes, gw_c10_device device)
{
    course *c = course_of(device);
    uint64_t rest_below = c == NULL ? 0 : atomic_load_explicit(&c->rest_below, memory_order_relaxed);
    if (allocated_bytes < rest_below) {
        c->next(block, bytes, allocated_bytes, reserved_bytes, device);
        return;
    }
    if (gwi_unlikely(c == NULL || rest_below != 0 || block == NULL || bytes == 0 || !enter(c))) {
        usage_apart(block, bytes, allocated_bytes, reserved_bytes, device);
        return;
    }
    if (gwi_unlikely(follow(c, (uintptr_t)block, bytes, allocated_bytes, reserved_bytes))) {
        usage_to_follow(block, bytes, allocated_bytes, reserved_bytes, device);
        return;
    }
    leave(c);
    c->next(block, bytes, allocated_bytes, reserved_bytes, device);
}

static void refused(int64_t bytes, size_t allocated_bytes, size_t reserved_bytes, gw_c10_device device)
{
    if (device.type == GW_C10_CUDA && (uint8_t)device.index < GWI_COURSE_DEVICES && is_our_process()) {
        course *c = course_made(device);
        if (c != NULL && is_resting(c) && enter(c)) {
            (void)wake(c, allocated_bytes);
            leave(c);
        }
        uint32_t site = c == NULL ? 0 : site_here(c, slot_of_thread());
        GWI_KEEP_ERRNO(courses.refused((uint64_t)device.index, (uint64_t)bytes, site));
    }
    gw_the_c10_door.oom_alone(bytes, allocated_bytes, reserved_bytes, device);
}

void gwi_course_attach(gwi_course_refusal *refusal)
{
    const char *wanted = getenv("GPUWHY_COURSE"), *all = getenv("GPUWHY_ALLOCATIONS");
    if (&gw_the_c10_door == NULL || gw_the_c10_door.version != GW_C10_DOOR_VERSION || gwi.inert ||
        !gwi.attach_observer || gwi.run_dir[0] == '\0' || (wanted != NULL && strcmp(wanted, "0") == 0))
        return;
    gw_the_c10_door.resolve();
    courses.door = &gw_the_c10_door;
    courses.refused = refusal;
    courses.never_rests = all != NULL && strcmp(all, "1") == 0;
    __atomic_store_n(&gw_the_c10_door.oom, refused, __ATOMIC_RELEASE);
    __atomic_store_n(&gw_the_c10_door.usage, usage, __ATOMIC_RELEASE);
}

/* ---- queries ---- */

/* Return the course of a device, or NULL if there is none, or if it rests, because then its data is old. */
static course *known(uint64_t device)
{
    course *c = device < GWI_COURSE_DEVICES ? atomic_load(&gwi_wipe.course[device]) : NULL;
    return c == NULL || is_resting(c) ? NULL : c;
}

static uint64_t missed_by(course *c)
{
    return atomic_load_explicit(&c->missed, memory_order_relaxed) +
           atomic_load_explicit(&courses.missed_outside, memory_order_relaxed);
}

bool gwi_course_totals_read(uint64_t device, gwi_course_totals *ret_totals)
{
    course *c = known(device);
    if (c == NULL || !lock_settled(c))
        return false;
    *ret_totals = c->now;
    unlock(c);
    ret_totals->missed = missed_by(c);
    return true;
}

bool gwi_course_is_whole(void)
{
    bool any = false;
    for (uint64_t device = 0; device < GWI_COURSE_DEVICES; device++) {
        course *c = atomic_load(&gwi_wipe.course[device]);
        if (c == NULL || !lock_settled(c))
            continue;
        uint64_t requests = c->now.requests;
        unlock(c);
        if (requests == 0)
            continue;
        if (missed_by(c) != 0)
            return false;
        any = true;
    }
    return any;
}

bool gwi_course_is_any(void)
{
    bool any = false;
    for (uint64_t device = 0; device < GWI_COURSE_DEVICES && !any; device++)
        any = atomic_load_explicit(&gwi_wipe.course[device], memory_order_relaxed) != NULL;
    return any;
}

bool gwi_course_find(uint64_t device, uint64_t address, gwi_course_block *ret_block)
{
    course *c = known(device);
    if (c == NULL || address == 0 || !lock_settled(c))
        return false;
    *ret_block = *find(c, address);
    unlock(c);
    return ret_block->address != 0;
}

static void copy_blocks(const course *c, gwi_course_copy *copy)
{
    for (size_t i = 0; i < (size_t)1 << c->table_bits; i++)
        if (c->table[i].address != 0)
            copy->block[copy->block_count++] = c->table[i];
}

static void copy_requests(const course *c, gwi_course_copy *copy)
{
    uint64_t first = c->now.requests - copy->request_count + 1;
    for (size_t i = 0; i < copy->request_count; i++)
        copy->request[i] = c->ring[(first + i) % GWI_COURSE_REQUESTS];
}

/* Allocate memory for a copy, then lock the course. Returns false without the lock on failure. Blocks may be added
 * before the lock is taken, so there is room for SLACK more. If these do not suffice, try again. */
static bool copy_locked(course *c, uint64_t device, gwi_course_copy *copy)
{
    enum { TRIES_MAX = 4, SLACK = 4096 };
    for (int i = 0; i < TRIES_MAX; i++) {
        gwi_course_totals now;
        if (!gwi_course_totals_read(device, &now))
            return false;
        size_t block_room = now.live_count + SLACK;
        copy->memory_bytes = block_room * sizeof *copy->block + GWI_COURSE_REQUESTS * sizeof *copy->request;
        copy->memory = map_memory(copy->memory_bytes);
        if (copy->memory == NULL)
            return false;
        copy->request = copy->memory;
        copy->block = (gwi_course_block *)(copy->request + GWI_COURSE_REQUESTS);
        if (!lock_settled(c)) {
            gwi_course_copy_free(copy);
            return false;
        }
        if (c->now.live_count <= block_room)
            return true;
        unlock(c);
        gwi_course_copy_free(copy);
    }
    return false;
}

double gwi_course_ns_per_tick(void)
{
    const uint64_t many = UINT64_C(1) << 40;
    return (double)gwi_ticks_ns(many) / (double)many;
}

bool gwi_course_copy_make(uint64_t device, gwi_course_copy *ret_copy)
{
    course *c = known(device);
    *ret_copy = (gwi_course_copy){0};
    if (c == NULL || !copy_locked(c, device, ret_copy))
        return false;
    ret_copy->totals = c->now;
    uint64_t followed = c->now.requests - c->first_order + 1;
    ret_copy->request_count = followed < GWI_COURSE_REQUESTS ? (size_t)followed : (size_t)GWI_COURSE_REQUESTS;
    copy_blocks(c, ret_copy);
    copy_requests(c, ret_copy);
    memcpy(ret_copy->size, c->size, sizeof c->size);
    memcpy(ret_copy->span, c->span, sizeof c->span);
    ret_copy->span_ticks = (uint64_t)1 << c->span_shift;
    ret_copy->span_count = c->span_index + 1;
    unlock(c);
    ret_copy->totals.missed = missed_by(c);
    ret_copy->now_ticks = gwi_ticks();
    ret_copy->ns_per_tick = gwi_course_ns_per_tick();
    return true;
}

void gwi_course_copy_free(gwi_course_copy *copy)
{
    if (copy->memory != NULL)
        munmap(copy->memory, copy->memory_bytes);
    copy->memory = NULL;
}
