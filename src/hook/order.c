/* Record the order in which work was put on the GPU.
 *
 * A block that is freed in the order of one stream may still be in use on another stream, unless an event or a wait
 * orders the two streams, or the host has found out that the work is complete. To decide whether it was still in use,
 * the reader needs the calls that order work, from all threads and in the order in which they returned. The threads'
 * rings of hot calls are not enough: they have no addresses, and each ring has only the calls of its own thread.
 * Recording every ordering call would be too expensive, and in most programs the order does not matter
 * for any free.
 *
 * So these calls (steps) are numbered and stored in a ring in private memory, starting at the first allocation of
 * stream-ordered or page-locked memory. When such memory is freed, and a recent copy or fill was on another stream,
 * the steps that are not in the recording yet are written just before the free. Each step is written at most once.
 * The hook itself decides nothing. If a step cannot be read or written (another thread is still storing it, the ring
 * has wrapped, the buffer is full), it is left out, and the reader treats the gap in the numbers as "not known". */
#include "gwi_hook.h"

#include <string.h>

enum { STEPS = 1024, COPY_STREAMS = 2 };

/* A step as it is stored in a ring entry: seven words, which fill a cache line together with their checksum. */
typedef struct told_step {
    uint64_t number;
    uint64_t ticks; /* when the call began */
    uint64_t object, source, bytes, stream;
    uint64_t what; /* tid << 32 | fn << 16 | flags << 8 | kind */
} told_step;
enum { STEP_WORDS = sizeof(told_step) / sizeof(uint64_t) };

/* Threads write ring entries without a lock. If a thread is descheduled while it writes an entry, and other threads
 * meanwhile use all other entries of the ring, one of them writes the same entry, too. The checksum detects the
 * resulting mix of two steps. A lock would cost as much as the atomic increment that assigns the number. */
typedef struct step {
    _Atomic uint64_t word[STEP_WORDS];
    _Atomic uint64_t sum;
} step;
_Static_assert(sizeof(step) == 64, "one cache line");

/* One of the two streams on which copies or fills were last made, and the number of the last such step on it (0:
 * unused entry). order.copies[0] is the stream of the newest one. */
typedef struct copy_stream {
    _Atomic uint64_t stream, number;
} copy_stream;

static struct {
    _Alignas(64) _Atomic uint64_t last; /* the last step number assigned */
    _Atomic uint64_t asked_object, asked_number;
    copy_stream copies[COPY_STREAMS];
    _Alignas(64) _Atomic uint64_t told; /* all steps up to this number are written, or never will be */
    _Atomic uint32_t telling;           /* a thread is writing steps */
    uint32_t told_times;
    bool is_tight; /* there was little room in the buffer at the last check */
    _Alignas(64) step ring[STEPS];
} order;

/* Rotate a word before it enters the checksum, so that equal bits of two words of a step do not cancel each other. */
static inline uint64_t rotated(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static inline uint64_t sum_of(const told_step *it)
{
    uint64_t what = it->object ^ rotated(it->source, 21) ^ rotated(it->bytes, 43);
    uint64_t when = it->ticks ^ rotated(it->stream, 21) ^ rotated(it->what, 43);
    return (it->number ^ what * UINT64_C(0x9E3779B97F4A7C15)) + when * UINT64_C(0xD6E8FEB86659FD93);
}

/* Start to record steps. A forked child also starts here, because gwi_wipe.orders is false in a child; its step
 * numbers continue those of the parent. `telling` is cleared because a thread of the parent that was writing steps
 * during the fork does not exist in the child. */
static void begin(void)
{
    atomic_store(&order.telling, 0);
    atomic_store(&order.told, atomic_load(&order.last));
    for (int i = 0; i < COPY_STREAMS; i++)
        atomic_store(&order.copies[i].number, 0);
    atomic_store_explicit(&gwi_wipe.orders, true, memory_order_relaxed);
}

static uint64_t stream_of(uint64_t stream, unsigned flags, uint32_t tid)
{
    if (stream == 2 || (stream == 0 && (flags & GW_EVF_PER_THREAD) != 0))
        return (uint64_t)tid << 8 | 2;
    return stream;
}

static void note_copy(uint64_t stream, uint64_t number)
{
    copy_stream *newest = &order.copies[0];
    if (atomic_load_explicit(&newest->number, memory_order_relaxed) != 0 &&
        atomic_load_explicit(&newest->stream, memory_order_relaxed) != stream) {
        atomic_store(&order.copies[1].stream, atomic_load_explicit(&newest->stream, memory_order_relaxed));
        atomic_store(&order.copies[1].number, atomic_load_explicit(&newest->number, memory_order_relaxed));
    }
    atomic_store_explicit(&newest->stream, stream, memory_order_relaxed);
    atomic_store_explicit(&newest->number, number, memory_order_relaxed);
}

/* True if this call waits for or queries the same object as the last such call, and no other step came in between.
 * Programs poll in a loop, so the repeated call is not recorded. */
static bool is_asked_again(unsigned kind, uint64_t object)
{
    return kind >= GW_ORDER_STREAM_DONE &&
           atomic_load_explicit(&order.asked_number, memory_order_relaxed) ==
               atomic_load_explicit(&order.last, memory_order_relaxed) &&
           atomic_load_explicit(&order.asked_object, memory_order_relaxed) == object;
}

__attribute__((hot)) void gwi_order(gwi_slot_ref *th, unsigned fn, unsigned kind, unsigned flags, uint64_t object,
                                    uint64_t source, uint64_t bytes, uint64_t stream)
{
    uint32_t tid = th->slot->tid;
    stream = stream_of(stream, flags, tid);
    if (kind == GW_ORDER_STREAM_DONE)
        object = stream_of(object, flags, tid);
    if (atomic_load_explicit(&gwi.head->captures_open, memory_order_relaxed) != 0)
        kind = GW_ORDER_UNKNOWN; /* work that is being captured runs later or never */
    if (is_asked_again(kind, object))
        return;
    uint64_t number = atomic_fetch_add(&order.last, 1) + 1;
    step *at = &order.ring[number % STEPS];
    const told_step it = {.number = number,
                          .ticks = th->entered_ticks,
                          .object = object,
                          .source = source,
                          .bytes = bytes,
                          .stream = stream,
                          .what = (uint64_t)tid << 32 | fn << 16 | flags << 8 | kind};
    uint64_t sum = sum_of(&it);
    atomic_store_explicit(&at->word[0], it.number, memory_order_relaxed); /* in the order of told_step's fields */
    atomic_store_explicit(&at->word[1], it.ticks, memory_order_relaxed);
    atomic_store_explicit(&at->word[2], it.object, memory_order_relaxed);
    atomic_store_explicit(&at->word[3], it.source, memory_order_relaxed);
    atomic_store_explicit(&at->word[4], it.bytes, memory_order_relaxed);
    atomic_store_explicit(&at->word[5], it.stream, memory_order_relaxed);
    atomic_store_explicit(&at->word[6], it.what, memory_order_relaxed);
    atomic_store_explicit(&at->sum, sum, memory_order_release);
    if (kind == GW_ORDER_COPY || kind == GW_ORDER_FILL)
        note_copy(stream, number);
    if (kind >= GW_ORDER_STREAM_DONE) {
        atomic_store_explicit(&order.asked_object, object, memory_order_relaxed);
        atomic_store_explicit(&order.asked_number, number, memory_order_relaxed);
    }
}

/* True if one of the last STEPS steps is known to be a copy or fill on a stream other than `stream` or, if `of_any`
 * is set, on any stream. Then the steps matter for the free of a block. */
static bool is_question(uint64_t stream, bool of_any, uint64_t last)
{
    for (int i = 0; i < COPY_STREAMS; i++) {
        uint64_t number = atomic_load_explicit(&order.copies[i].number, memory_order_relaxed);
        if (number != 0 && last - number < STEPS &&
            (of_any || atomic_load_explicit(&order.copies[i].stream, memory_order_relaxed) != stream))
            return true;
    }
    return false;
}

static bool read_step(const step *at, uint64_t number, told_step *ret_step)
{
    uint64_t word[STEP_WORDS], sum = atomic_load_explicit(&at->sum, memory_order_acquire);
    for (unsigned i = 0; i < STEP_WORDS; i++)
        word[i] = atomic_load_explicit(&at->word[i], memory_order_relaxed);
    memcpy(ret_step, word, sizeof word);
    return ret_step->number == number && sum_of(ret_step) == sum;
}

static bool write_step(gwi_slot_ref *th, const told_step *it)
{
    uint8_t kind = (uint8_t)it->what;
    uint32_t tid = (uint32_t)(it->what >> 32);
    gw_raw_event event = {.ticks = th->entered_ticks,
                          .fn = (uint16_t)(it->what >> 16),
                          .kind = GW_EV_ORDER,
                          .flags = (uint8_t)(it->what >> 8),
                          .extra = (uint32_t)it->number,
                          .arg = {kind | (uint64_t)tid << 8, it->object, it->stream,
                                  th->entered_ticks > it->ticks ? gwi_ticks_ns(th->entered_ticks - it->ticks) : 0}};
    if (!gwi_write(th->slot, &event, NULL))
        return false;
    if (kind != GW_ORDER_COPY && kind != GW_ORDER_COPY_WAITED && kind != GW_ORDER_FILL)
        return true;
    event.kind = GW_EV_ORDER_RANGE;
    memcpy(event.arg, (uint64_t[4]){it->object, it->source, it->bytes, 0}, sizeof event.arg);
    return gwi_write(th->slot, &event, NULL);
}

/* Write the steps up to `last` that are not written yet. Returns false if one of them could not be read or written.
 * Overwritten steps are skipped: the reader sees the gap in the numbers. */
static bool tell(gwi_slot_ref *th, uint64_t last)
{
    uint64_t next = atomic_load(&order.told) + 1;
    bool whole = true;
    if (last >= STEPS && next <= last - STEPS)
        next = last - STEPS + 1; /* older steps are overwritten */
    for (; next <= last && whole; next++) {
        told_step it;
        if (!read_step(&order.ring[next % STEPS], next, &it))
            /* this step is not stored completely, and may never be. A later call skips it once it is overwritten */
            return false;
        whole = write_step(th, &it);
        atomic_store(&order.told, next);
    }
    return whole;
}

/* Write the steps before an event that frees memory, if they matter for that memory. Returns the number of the last
 * step, for the event's `extra`; 0: the steps do not matter, or not all of them were written. */
static uint32_t steps_before(gwi_slot_ref *th, uint64_t stream, bool of_any)
{
    enum { LOOK_EVERY = 64 };
    uint64_t last = atomic_load(&order.last);
    uint32_t nobody = 0;
    bool whole = true;
    if (!is_question(stream, of_any, last))
        return 0;
    if (atomic_load_explicit(&order.told, memory_order_acquire) < last) {
        if (!atomic_compare_exchange_strong(&order.telling, &nobody, 1))
            return 0;
        if (order.told_times++ % LOOK_EVERY == 0)
            order.is_tight = !gwi_buffer_is_roomy();
        whole = !order.is_tight && tell(th, last);
        /* keep the remaining room for the memory events, and never write these steps */
        if (order.is_tight)
            atomic_store(&order.told, last);
        atomic_store_explicit(&order.telling, 0, memory_order_release);
    }
    return whole ? (uint32_t)last : 0;
}

void gwi_order_event_of(gwi_slot_ref *th, gw_raw_event *event)
{
    switch ((gw_event_kind)event->kind) {
    case GW_EV_ALLOC_ASYNC:
        if (gwi_unlikely(!gwi_orders()))
            begin();
        if (gwi_unlikely(!gwi_orders_fills()))
            atomic_store_explicit(&gwi_wipe.pools, true, memory_order_relaxed);
        break;
    case GW_EV_HOST_ALLOC:
    case GW_EV_HOST_REGISTER:
        if (!gwi_orders())
            begin();
        break;
    case GW_EV_FREE_ASYNC:
        event->extra = steps_before(th, stream_of(event->arg[3], event->flags, th->slot->tid), false);
        break;
    case GW_EV_FREE:
        if (gwi_orders_fills())
            event->extra = steps_before(th, 0, true);
        break;
    case GW_EV_HOST_FREE:
    case GW_EV_HOST_UNREGISTER:
        event->extra = steps_before(th, 0, true);
        break;
    default:
        break;
    }
}
