/* When PyTorch runs out of memory on a device, write the device's allocations and frees so far into the buffer. Do the
 * same if the driver refuses a request of another library, because PyTorch may hold the memory. This runs in the thread
 * whose request failed.
 *
 * The other library is a CUDA library that needs memory for a handle or a workspace. If PyTorch has filled the card,
 * such a request is refused, and PyTorch's own functions report nothing. So after a refusal (result 2) the stack is
 * walked: if the innermost file outside the driver and the runtime is not libc10_cuda.so, the report is written with
 * `when` = GW_WHEN_OTHER_REFUSED. It calls no Python function and takes no lock of PyTorch's. Without call sites, or
 * while the course rests, there is no such report. */
#include "gwi_course.h"

#include "gw_requests.h"
#include "gwi_hook.h"
#include "gwi_observer.h"

#include <string.h>
#include <time.h>

enum {
    FULL_REPORTS = 8, /* this many reports of a process are always full */
    REST_FACTOR = 20, /* after those, only if this many times the duration of the last full report has passed */
    ROOM_WAIT_NS = 2000000,
    ROOM_WAITS_MAX = 100, /* a report waits at most 0.2 s for the supervisor */
    ROOM_EVERY = 64       /* check the buffer's free space after this many facts */
};

static struct {
    _Atomic uint64_t ticks; /* time of the last written report; 0: none */
    _Atomic double ns_per_tick;
} written[GWI_COURSE_DEVICES];
static _Atomic uint32_t refused_site[GWI_COURSE_DEVICES];

/* ---- one report at a time ---- */

/* The parts of a report have no number, so two reports of one process must not be mixed. A report about PyTorch's own
 * refusal is always written, after a pause if necessary. One about another library's request is left out meanwhile. */
static struct {
    _Atomic uint32_t own;   /* number of threads that write a report about PyTorch's own refusal, or are about to */
    _Atomic uint32_t other; /* 1: a thread writes a report about another library's request */
} writing;

void gwi_course_report_begin(void)
{
    /* The other report takes some milliseconds, and at most 0.2 s if the buffer is full. The limit is only for a thread
     * that was killed meanwhile. */
    enum { WAIT_NS = 1000000, WAITS_MAX = 2000 };
    atomic_fetch_add(&writing.own, 1);
    for (int i = 0; i < WAITS_MAX && atomic_load(&writing.other) != 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
}

void gwi_course_report_end(void)
{
    atomic_fetch_sub(&writing.own, 1);
}

static bool other_begins(void)
{
    uint32_t none = 0;
    if (!atomic_compare_exchange_strong(&writing.other, &none, 1))
        return false;
    if (atomic_load(&writing.own) == 0)
        return true;
    atomic_store(&writing.other, 0);
    return false;
}

static void other_ends(void)
{
    atomic_store(&writing.other, 0);
}

/* ---- room ---- */

typedef struct out {
    uint64_t device;
    uint32_t facts, waits;
} out;

/* Wait for the supervisor to drain the buffer if it has little room. A report may have more requests and blocks than
 * fit into the buffer. */
static void make_room(out *to)
{
    if (to->facts++ % ROOM_EVERY != 0)
        return;
    while (!gwi_buffer_is_roomy() && to->waits++ < ROOM_WAITS_MAX)
        nanosleep(&(struct timespec){.tv_nsec = ROOM_WAIT_NS}, NULL);
}

static void state(out *to, gw_allocator_field field, uint64_t value)
{
    (void)gwi_fact(GW_EV_ALLOCATOR_STATE, field, value, to->device, 0, NULL);
}

/* ---- parts of a report ---- */

static uint64_t age_ns(const gwi_course_copy *copy, uint64_t ticks)
{
    return ticks < copy->now_ticks ? (uint64_t)((double)(copy->now_ticks - ticks) * copy->ns_per_tick) : 0;
}

/* Ages written after this count back from `now_ticks`. */
static void write_totals(out *to, const gwi_course_totals *totals, uint64_t now_ticks, double ns_per_tick)
{
    atomic_store(&written[to->device].ns_per_tick, ns_per_tick);
    atomic_store(&written[to->device].ticks, now_ticks);
    state(to, GW_ALLOCATOR_COURSE_REQUESTS, totals->requests);
    state(to, GW_ALLOCATOR_COURSE_FREES, totals->frees);
    state(to, GW_ALLOCATOR_COURSE_LIVE, totals->live_bytes);
    state(to, GW_ALLOCATOR_COURSE_LIVE_COUNT, totals->live_count);
    state(to, GW_ALLOCATOR_COURSE_PEAK, totals->peak_bytes);
    state(to, GW_ALLOCATOR_COURSE_MISSED, totals->missed);
}

static void write_spans(out *to, const gwi_course_copy *copy)
{
    for (size_t i = 0; i < copy->span_count; i++) {
        const gwi_course_span *span = &copy->span[i];
        if (span->highest < span->lowest)
            continue;
        uint64_t age = age_ns(copy, copy->totals.first_ticks + (i + 1) * copy->span_ticks);
        make_room(to);
        (void)gwi_fact(GW_EV_ALLOCATOR_HISTORY, GW_ACTION_LIVE_PEAK, 0, span->highest, age, NULL);
        (void)gwi_fact(GW_EV_ALLOCATOR_HISTORY, GW_ACTION_LIVE_LOW, 0, span->lowest, age, NULL);
    }
}

static void write_sizes(const gwi_course_copy *copy)
{
    for (unsigned i = 0; i < GWI_COURSE_SIZES; i++) {
        const gwi_course_size *size = &copy->size[i];
        if (size->requests != 0)
            (void)gwi_fact(GW_EV_ALLOCATOR_SIZE, UINT64_C(1) << i, size->requests, size->frees, size->lifetime_sum,
                           NULL);
    }
}

static void write_requests(out *to, const gwi_course_copy *copy)
{
    char text[GW_TEXT_BYTES_MAX];
    uint64_t first_order = copy->totals.requests - copy->request_count + 1;
    for (size_t i = 0; i < copy->request_count;) {
        const gwi_course_request *first = &copy->request[i];
        gw_packed_request before = {0};
        size_t bytes = 0, count = 0;
        while (i + count < copy->request_count && bytes + GW_REQUEST_TEXT_MAX < sizeof text) {
            const gwi_course_request *it = first + count++;
            gw_packed_request request = {.bytes = it->bytes,
                                         .freed_after = it->freed_after,
                                         .t_us =
                                             (uint64_t)((double)(it->ticks - first->ticks) * copy->ns_per_tick / 1000),
                                         .launches = it->launches,
                                         .waits = it->waits,
                                         .site = it->site};
            bytes += gw_request_write(text + bytes, &request, &before);
            before = request;
        }
        text[bytes] = '\0';
        make_room(to);
        (void)gwi_fact(GW_EV_ALLOCATOR_REQUESTS, first_order + i, count, to->device, age_ns(copy, first->ticks), text);
        i += count;
    }
}

static void write_course(out *to, const gwi_course_copy *copy)
{
    write_totals(to, &copy->totals, copy->now_ticks, copy->ns_per_tick);
    write_spans(to, copy);
    write_sizes(copy);
    write_requests(to, copy);
}

/* Write only the totals. A reader of the recording compares them with those of the last full report: if nothing was
 * requested or freed since, its lists are still right. */
static bool write_totals_only(out *to)
{
    gwi_course_totals totals;
    bool known = gwi_course_totals_read(to->device, &totals) && totals.requests != 0;
    if (known)
        write_totals(to, &totals, gwi_ticks(), gwi_course_ns_per_tick());
    return known;
}

bool gwi_course_write(uint64_t device, bool full)
{
    gwi_course_copy copy;
    out to = {.device = device};
    if (!full)
        return write_totals_only(&to);
    if (!gwi_course_copy_make(device, &copy))
        return false;
    if (copy.totals.requests != 0)
        write_course(&to, &copy);
    gwi_course_copy_free(&copy);
    return copy.totals.requests != 0;
}

bool gwi_course_age(uint64_t device, uint64_t ticks, uint64_t *ret_age_ns)
{
    uint64_t now = device < GWI_COURSE_DEVICES ? atomic_load(&written[device].ticks) : 0;
    if (now != 0)
        *ret_age_ns = ticks < now ? (uint64_t)((double)(now - ticks) * atomic_load(&written[device].ns_per_tick)) : 0;
    return now != 0;
}

/* ---- reports without the observer: in a C++ program, or before the observer is attached ---- */

/* True if `a` must be written before `b`. Larger blocks come first. Of two blocks of equal size, the older one comes
 * first. */
static bool is_larger(const gwi_course_block *a, const gwi_course_block *b)
{
    return gwi_course_bytes(a) != gwi_course_bytes(b) ? gwi_course_bytes(a) > gwi_course_bytes(b) : a->order < b->order;
}

static void sift(gwi_course_block *heap, size_t at, size_t count)
{
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_larger(&heap[child], &heap[child + 1]))
            child++;
        if (!is_larger(&heap[at], &heap[child]))
            break;
        gwi_course_block moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
    }
}

/* Sort in descending order. A heap sort needs no spare memory, and there may be many blocks. The top of the heap is the
 * smallest block. */
static void sort_falling(gwi_course_block *block, size_t count)
{
    for (size_t i = count / 2; i-- > 0;)
        sift(block, i, count);
    for (size_t left = count; left-- > 1;) {
        gwi_course_block moved = block[0];
        block[0] = block[left];
        block[left] = moved;
        sift(block, 0, left);
    }
}

static void write_blocks(out *to, gwi_course_copy *copy)
{
    size_t listed = copy->block_count < GWI_OBSERVER_BLOCKS_MAX ? copy->block_count : (size_t)GWI_OBSERVER_BLOCKS_MAX;
    uint64_t rest_bytes = 0;
    sort_falling(copy->block, copy->block_count);
    for (size_t i = 0; i < listed; i++) {
        const gwi_course_block *block = &copy->block[i];
        make_room(to);
        (void)gwi_fact_at(GW_EV_ALLOCATOR_BLOCK, block->site, block->address, gwi_course_bytes(block),
                          age_ns(copy, gwi_course_ticks(block)), block->order << GW_BLOCK_ORDER_SHIFT | GW_BLOCK_LIVE);
    }
    for (size_t i = listed; i < copy->block_count; i++)
        rest_bytes += gwi_course_bytes(&copy->block[i]);
    if (copy->block_count > listed)
        (void)gwi_fact(GW_EV_ALLOCATOR_BLOCK, copy->block_count - listed, rest_bytes, GW_AGE_UNKNOWN, GW_BLOCK_REST,
                       NULL);
}

/* Limits full reports, because a program may probe for memory: the first FULL_REPORTS of a process, then by
 * REST_FACTOR. */
typedef struct turns {
    _Atomic uint32_t reports;
    _Atomic uint64_t last_ns, took_ns;
} turns;

static bool is_turn(const turns *of, uint64_t now_ns)
{
    return atomic_load(&of->reports) < FULL_REPORTS ||
           now_ns - atomic_load(&of->last_ns) >= REST_FACTOR * atomic_load(&of->took_ns);
}

static void turn_ends(turns *of, uint64_t begin_ns)
{
    uint64_t end_ns = gw_monotonic_ns();
    atomic_fetch_add(&of->reports, 1);
    atomic_store(&of->took_ns, end_ns - begin_ns);
    atomic_store(&of->last_ns, end_ns);
}

/* Write the part that follows the beginning of a report. If not `full`, write only the totals. */
static void write_rest(out *to, gwi_course_copy *copy, bool full)
{
    state(to, GW_ALLOCATOR_ALLOCATED, copy->totals.allocated_bytes);
    state(to, GW_ALLOCATOR_RESERVED, copy->totals.reserved_bytes);
    if (full && copy->totals.requests != 0) {
        write_course(to, copy);
        write_blocks(to, copy);
    } else if (copy->totals.requests != 0) {
        write_totals(to, &copy->totals, copy->now_ticks, copy->ns_per_tick);
    }
}

static void write_report(uint64_t device, uint64_t bytes, uint32_t site, bool full)
{
    gwi_course_copy copy;
    out to = {.device = device};
    if (!gwi_fact_at(GW_EV_ALLOCATOR_OOM, site, bytes, 0, 0, device))
        return;
    state(&to, GW_ALLOCATOR_WHEN, GW_WHEN_OOM);
    if (!gwi_course_copy_make(device, &copy))
        return;
    write_rest(&to, &copy, full);
    gwi_course_copy_free(&copy);
}

/* Report a request that PyTorch refused. If the observer is attached, it writes the report, so store only the call
 * site. */
void gwi_course_refused(uint64_t device, uint64_t bytes, uint32_t site)
{
    static turns refusals;
    if (gwi_observer_is_attached()) {
        atomic_store(&refused_site[device], site);
        return;
    }
    uint64_t begin_ns = gw_monotonic_ns();
    bool full = is_turn(&refusals, begin_ns);
    gwi_course_report_begin();
    write_report(device, bytes, site, full);
    gwi_course_report_end();
    if (full)
        turn_ends(&refusals, begin_ns);
}

/* ---- reports about a request that did not come from PyTorch ---- */

/* Make a copy without lists if only the totals are wanted, because copying the lists takes longer. */
static bool copy_of(uint64_t device, bool full, gwi_course_copy *copy)
{
    if (full)
        return gwi_course_copy_make(device, copy);
    *copy = (gwi_course_copy){.now_ticks = gwi_ticks(), .ns_per_tick = gwi_course_ns_per_tick()};
    return gwi_course_totals_read(device, &copy->totals);
}

static bool write_other_report(uint64_t device, bool full)
{
    gwi_course_copy copy;
    out to = {.device = device};
    if (!copy_of(device, full, &copy))
        return false;
    bool known = copy.totals.requests != 0;
    if (known) {
        state(&to, GW_ALLOCATOR_WHEN, GW_WHEN_OTHER_REFUSED);
        write_rest(&to, &copy, full);
    }
    gwi_course_copy_free(&copy);
    return known;
}

void gwi_course_other_refused(uint64_t device)
{
    static turns refusals;
    uint64_t begin_ns = gw_monotonic_ns();
    bool full = is_turn(&refusals, begin_ns);
    if (!other_begins())
        return;
    if (write_other_report(device, full) && full)
        turn_ends(&refusals, begin_ns);
    other_ends();
}

uint32_t gwi_course_refused_site(uint64_t device)
{
    return device < GWI_COURSE_DEVICES ? atomic_exchange(&refused_site[device], 0) : 0;
}
