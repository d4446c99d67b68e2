/* What put work on the GPU in order.
 *
 * A block that is given back in the order of one stream may still be in use on another one, unless an event, a wait or
 * the host's own knowledge lies between. To tell, one must know the calls that order work, over all threads and in the
 * order in which they came back; a thread's ring knows neither addresses nor other threads. But there are too many
 * to write each of them, and most programs give back nothing of which it is a question.
 *
 * So such calls are numbered and kept in a ring of the process's own memory, from the first call on that makes memory
 * of this sort (stream-ordered, or page-locked). When memory is given back, and a copy went to another stream
 * not long ago, what was not written yet is written, just before the event. Each step is written at most once. Nothing
 * is judged here, and whatever is in doubt - a step that another thread is still noting, a ring that went round, a full
 * buffer - leaves a gap in the numbers, which the reader takes for "not known". */
#include "gwi_hook.h"

#include <string.h>

enum { STEPS = 1024, COPY_STREAMS = 2 };

/* What stands there while `number` did; as many words as fit a cache line. */
typedef struct told_step {
    uint64_t number;
    uint64_t ticks; /* at which the call began */
    uint64_t object, source, bytes, stream;
    uint64_t what; /* tid << 32 | fn << 16 | flags << 8 | kind */
} told_step;
enum { STEP_WORDS = sizeof(told_step) / sizeof(uint64_t) };

/* Nobody waits for a place: a thread that lost the processor may write where another one does a whole round later. The
 * sum tells whether all words are of one step; a lock would cost as much again as the number. */
typedef struct step {
    _Atomic uint64_t word[STEP_WORDS];
    _Atomic uint64_t sum;
} step;
_Static_assert(sizeof(step) == 64, "one cache line");

/* The streams that copies went to last, the newest first, and the number of the last copy of each. */
typedef struct copy_stream {
    _Atomic uint64_t stream, number;
} copy_stream;

static struct {
    _Alignas(64) _Atomic uint64_t last; /* number given last */
    _Atomic uint64_t asked_object, asked_number;
    copy_stream copies[COPY_STREAMS];
    _Alignas(64) _Atomic uint64_t told; /* all up to here were written, or never will be */
    _Atomic uint32_t telling;           /* a thread writes them */
    uint32_t told_times;
    bool is_tight; /* the buffer had little room when it was last looked at */
    _Alignas(64) step ring[STEPS];
} order;

/* Words of two steps that are mixed give a sum that neither has. */
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

/* In a child of fork everything begins anew: gwi_wipe.orders is false there, and the numbers go on from where they
 * were. A thread that wrote while the process forked does not exist in the child. */
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

/* The same question, answered again with nothing in between, says nothing new: programs ask for ever. */
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
        kind = GW_ORDER_UNKNOWN; /* what is captured happens later, if at all */
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
    atomic_store_explicit(&at->word[0], it.number, memory_order_relaxed); /* as told_step has them */
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

/* A copy of which it may be a question went to another stream than `stream`, or to any. */
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

/* True: all up to `last` are known to the reader, or were given up before. */
static bool tell(gwi_slot_ref *th, uint64_t last)
{
    uint64_t next = atomic_load(&order.told) + 1;
    bool whole = true;
    if (last >= STEPS && next <= last - STEPS)
        next = last - STEPS + 1; /* what was there before is overwritten */
    for (; next <= last && whole; next++) {
        told_step it;
        if (!read_step(&order.ring[next % STEPS], next, &it))
            return false; /* not yet, or never: at another time it has been overrun */
        whole = write_step(th, &it);
        atomic_store(&order.told, next);
    }
    return whole;
}

/* The number that the event has; 0: it is not known which of the steps come before it, or nothing depends on it. */
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
        if (order.is_tight) /* memory's own events need the room: what is not told is given up */
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
