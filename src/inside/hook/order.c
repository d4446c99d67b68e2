/* Record the order in which work was put on the GPU.
 *
 * A block is freed in the order of one stream, but another stream may still use it. To decide this, the reader needs
 * the calls that order work (steps), of all threads, in the order in which they returned. The rings of hot calls have
 * no addresses, and each has only one thread's calls. Recording every step would be too expensive, and most programs
 * never need the order.
 *
 * So steps are numbered and stored in a ring in private memory, from the first allocation of stream-ordered or
 * page-locked memory. When such memory is freed after a recent copy or fill on another stream, the unwritten steps are
 * written first. The reader treats a gap in the numbers as "not known". A step is missing if:
 * - another thread was still storing it;
 * - the ring had wrapped;
 * - the buffer was full. */
#include "gwi_hook.h"

#include <string.h>

enum { STEPS = 1024, COPY_STREAMS = 2 };

/* A step as it is stored in a ring entry. Its seven words and their checksum fill a cache line. */
typedef struct told_step {
    uint64_t number;
    uint64_t ticks; /* when the call began */
    uint64_t object, source, bytes, stream;
    uint64_t what; /* tid << 32 | fn << 16 | flags << 8 | kind */
} told_step;
enum { STEP_WORDS = sizeof(told_step) / sizeof(uint64_t) };

/* Threads write ring entries without a lock, which would cost as much as the atomic increment for the number. A thread
 * may be descheduled while the others use up the ring. Two threads then write the same entry, which the checksum
 * detects. */
typedef struct step {
    _Atomic uint64_t word[STEP_WORDS];
    _Atomic uint64_t sum;
} step;
_Static_assert(sizeof(step) == 64, "one cache line");

/* One of the last two streams with copies or fills, and the number of the last such step. The number is 0 in an unused
 * entry. order.copies[0] is the stream of the newest step. */
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

/* Rotate a word before it enters the checksum. Without this, equal changes in two words of a step would not change the
 * checksum. */
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

/* Start to record steps. A forked child starts again, because gwi_wipe.orders is false there. The child's step numbers
 * continue the parent's. The thread that set `telling` does not exist in the child, so clear it. */
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

/* True if this call waits for or queries the object of the last such call, with no other step between. Programs poll in
 * a loop, and the caller does not record the repeated calls. */
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

/* True if the order of the steps matters for a block that is freed now. It does if one of the last STEPS steps is a
 * copy or fill on a stream other than `stream`. With `of_any`, the stream does not matter. */
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

/* Write the unwritten steps up to `last`. Steps already overwritten in the ring are skipped. Returns false if another
 * step could not be read or written. */
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
 * step, for the event's `extra`. Returns 0 if the steps do not matter or were not all written. */
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
