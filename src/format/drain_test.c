/* Tests the path of events from buffers through the drain into a recording, and to a reader. Processes stay alive, end,
 * or write damaged buffers. */
#define _GNU_SOURCE
#include "gw_buffer.h"
#include "gw_clock.h"
#include "gw_recording.h"
#include "gw_test_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* ---- writing into a buffer as the hook does ---- */

typedef struct test_buffer {
    uint8_t *map;
    gw_buffer_head *head;
    gw_slot *slot;
    gw_ring *ring;
    gw_chunk *chunk;
    char path[160];
} test_buffer;

static test_buffer b; /* all zero without a process */

typedef struct test_thread {
    uint32_t slot;
    gw_chunk *chunk;
} test_thread;

enum { TEST_FN_COUNT = 4, TEST_FN_HASH = 0x1234 };

static void test_buffer_make(uint32_t pid)
{
    static unsigned count;
    snprintf(b.path, sizeof b.path, "%s/%u-%x.buf", gw_test_folder, pid, ++count);
    int fd = open(b.path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, GW_BUFFER_BYTES) != 0)
        abort();
    b.map = mmap(NULL, GW_BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (b.map == MAP_FAILED)
        abort();
    b.head = (gw_buffer_head *)b.map;
    b.slot = (gw_slot *)(b.map + GW_SLOTS_OFFSET);
    b.ring = (gw_ring *)(b.map + GW_RINGS_OFFSET);
    b.chunk = (gw_chunk *)(b.map + GW_CHUNKS_OFFSET);
    memcpy(b.head->magic, GW_BUFFER_MAGIC, 8);
    b.head->version = GW_BUFFER_VERSION;
    b.head->bytes = GW_BUFFER_BYTES;
    b.head->clock = GW_CLOCK_MONOTONIC;
    b.head->pid = pid;
    b.head->parent_pid = 1;
    b.head->start_ticks = b.head->start_monotonic_ns = gw_monotonic_ns();
    b.head->start_realtime_ns = gw_realtime_ns();
    b.head->slot_offset = GW_SLOTS_OFFSET;
    b.head->slot_count = GW_SLOT_COUNT;
    b.head->ring_offset = GW_RINGS_OFFSET;
    b.head->ring_count = GW_RING_COUNT;
    b.head->communicator_offset = GW_COMMUNICATORS_OFFSET;
    b.head->communicator_count = GW_NCCL_COMMUNICATORS;
    b.head->chunk_offset = GW_CHUNKS_OFFSET;
    b.head->chunk_count = GW_CHUNK_COUNT;
    b.head->fn_count = TEST_FN_COUNT;
    b.head->fn_table_hash = TEST_FN_HASH;
    strcpy(b.head->exe, "/bin/test");
    strcpy(b.head->driver_path, "/lib/libcuda.so.1");
    atomic_store(&b.head->ready, 1);
}

static void test_buffer_drop(void)
{
    if (b.map != NULL) {
        munmap(b.map, GW_BUFFER_BYTES);
        unlink(b.path);
    }
    b = (test_buffer){0};
}

static test_thread test_thread_start(uint32_t slot, uint32_t tid)
{
    gw_slot *it = &b.slot[slot];
    it->tid = tid;
    atomic_store(&it->ring_index, (int32_t)slot < GW_RING_COUNT ? (int32_t)slot : -1);
    atomic_fetch_add(&it->generation, 1);
    snprintf(it->name, sizeof it->name, "thread %u", slot);
    atomic_store(&it->state, GW_SLOT_LIVE);
    return (test_thread){slot, NULL};
}

static void test_thread_end(test_thread *t)
{
    if (t->chunk != NULL)
        atomic_store(&t->chunk->head.state, GW_CHUNK_FULL);
    atomic_store(&b.slot[t->slot].state, GW_SLOT_ENDED);
}

static bool test_chunk_take(test_thread *t)
{
    if (t->chunk != NULL)
        atomic_store_explicit(&t->chunk->head.state, GW_CHUNK_FULL, memory_order_release);
    t->chunk = NULL;
    for (uint32_t i = 0; i < GW_CHUNK_COUNT; i++) {
        uint32_t expected = GW_CHUNK_FREE;
        gw_chunk_head *head = &b.chunk[i].head;
        if (!atomic_compare_exchange_strong(&head->state, &expected, GW_CHUNK_OWNED))
            continue;
        head->slot_index = t->slot;
        head->tid = b.slot[t->slot].tid;
        head->generation = b.slot[t->slot].generation;
        head->sequence = atomic_fetch_add(&b.head->chunk_sequence, 1);
        t->chunk = &b.chunk[i];
        return true;
    }
    return false;
}

/* Write the records of one event, into a new chunk if necessary. Returns false if the buffer is full. */
static bool test_write(test_thread *t, const gw_raw_event *record, uint32_t count)
{
    uint32_t bytes = count * (uint32_t)sizeof *record;
    if (t->chunk == NULL || t->chunk->head.used_bytes + bytes > GW_CHUNK_RECORDS * sizeof *record)
        if (!test_chunk_take(t))
            return false;
    uint32_t used = t->chunk->head.used_bytes;
    memcpy((uint8_t *)t->chunk->record + used, record, bytes);
    atomic_store_explicit(&t->chunk->head.used_bytes, used + bytes, memory_order_release);
    return true;
}

static bool test_write_event(test_thread *t, uint8_t kind, uint64_t arg0)
{
    gw_raw_event event = {.ticks = gw_monotonic_ns(), .fn = 1, .kind = kind, .arg = {arg0}};
    return test_write(t, &event, 1);
}

static void test_ring_add(test_thread *t, uint64_t what, uint16_t fn)
{
    gw_slot *slot = &b.slot[t->slot];
    uint64_t head = atomic_load_explicit(&slot->ring_head, memory_order_relaxed);
    volatile gw_ring_entry *entry = &b.ring[slot->ring_index].entry[head % GW_RING_ENTRIES];
    entry->ticks = gw_monotonic_ns();
    entry->what = what;
    entry->stream_fn = (what & 0xffffffff) << 16 | fn;
    atomic_store_explicit(&slot->ring_head, head + 1, memory_order_release);
}

/* ---- fixtures ---- */

static const char *const fn_names[] = {"cuInit", "cuMemAlloc_v2", "cuMemFree_v2", "cuLaunchKernel"};
static uint64_t t0_ns;

/* Data about the items that the drain passed to see(), for the checks of a test. */
typedef struct seen {
    unsigned count[GW_ITEM_COUNT];
    uint64_t event_arg_sum;
    uint64_t t_ns_last;
    uint64_t arg_next[GW_SLOT_COUNT]; /* per tid: arg0 expected in the next event; each thread writes 0, 1, 2, ... */
    bool in_order, args_in_order;
    char text[1024];
    char key[64];
    gw_exit_fact exit;
    uint64_t ring_total;
    uint32_t ring_count, ring_torn;
    uint64_t calls;
    char thread_name[20];
    gw_writer *writer;
    unsigned communicators, nccl_calls;
    char nccl_text[400]; /* of the last call of NCCL */
    unsigned fail_after; /* see() fails at this item, counted from 1; 0: never */
} seen;

static void see_event(seen *s, const gw_event *event)
{
    s->in_order &= event->t_ns >= s->t_ns_last;
    s->t_ns_last = event->t_ns;
    s->event_arg_sum += event->arg[0];
    if (event->tid < GW_SLOT_COUNT)
        s->args_in_order &= s->arg_next[event->tid]++ == event->arg[0];
    if (event->text != NULL)
        snprintf(s->text, sizeof s->text, "%s", event->text);
}

static void see_ring(seen *s, const gw_item *item)
{
    s->ring_total = item->ring.total;
    s->ring_count = item->ring.count;
    for (uint32_t i = 0; i < item->ring.count; i++) {
        const gw_hot_call *call = &item->ring.call[i];
        bool follows = i == 0 || call->what == call[-1].what + 1;
        s->ring_torn += !follows || call->stream != (call->what & 0xffffffff) || call->fn != 3;
    }
}

static gw_status see(void *user, const gw_item *item, gw_error *err)
{
    seen *s = user;
    s->count[item->kind]++;
    if (item->kind == GW_ITEM_EVENT)
        see_event(s, &item->event);
    if (item->kind == GW_ITEM_SUPERVISOR) {
        snprintf(s->key, sizeof s->key, "%s", item->pair.key);
        s->communicators += strcmp(item->pair.key, "nccl.comm") == 0;
        s->nccl_calls += strcmp(item->pair.key, "nccl.call") == 0;
        if (strcmp(item->pair.key, "nccl.call") == 0)
            snprintf(s->nccl_text, sizeof s->nccl_text, "%s", item->pair.value);
    }
    if (item->kind == GW_ITEM_EXIT)
        s->exit = item->exit;
    if (item->kind == GW_ITEM_RING)
        see_ring(s, item);
    if (item->kind == GW_ITEM_COUNTERS) {
        s->calls = item->counters.calls;
        snprintf(s->thread_name, sizeof s->thread_name, "%s", item->counters.thread_name);
    }
    if (s->fail_after != 0 && --s->fail_after == 0)
        return gw_fail(err, GW_IO, "the sink is full");
    return s->writer == NULL ? GW_OK : gw_writer_put(s->writer, item, err);
}

static const seen seen_start = {.in_order = true, .args_in_order = true};

/* What each test has: a drain of its own folder, what it has passed on, and usually one process with one thread. */
static gw_drain *drain;
static seen s;
static test_thread thread;
static gw_error err; /* of the last failure */

static void open_drain(void)
{
    if (gw_drain_open(gw_test_folder, t0_ns, &drain, &err) != GW_OK)
        fail_msg("%s", err.text);
    gw_drain_expect(drain, TEST_FN_COUNT, TEST_FN_HASH);
    s = seen_start;
}

static void make_buffer(void)
{
    test_buffer_make((uint32_t)getpid());
    thread = test_thread_start(0, 0);
}

static void close_drain(void)
{
    gw_drain_close(drain);
    test_buffer_drop();
}

static void begin_again(void)
{
    close_drain();
    open_drain();
}

static int make_folder(void **state)
{
    if (gw_test_folder_make(state) != 0)
        return -1;
    t0_ns = gw_monotonic_ns();
    open_drain();
    return 0;
}

static int remove_folder(void **state)
{
    close_drain();
    return gw_test_folder_remove(state);
}

static void pause_ms(unsigned ms)
{
    usleep(ms * 1000);
}

static void run(bool last)
{
    if (gw_drain_run(drain, last, see, &s, &err) != GW_OK)
        fail_msg("%s", err.text);
}

/* Drain when the events written so far are old enough. */
static void run_later(void)
{
    pause_ms(4);
    run(false);
}

static void write_events(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        assert_true(test_write_event(&thread, GW_EV_ALLOC, i));
}

/* Number of rounds of 4 ms to wait for a condition that is soon met on an idle machine. */
enum { ROUNDS_MAX = 50000 };

/* ---- the whole path ---- */

GW_TEST_WITH(events_of_threads_come_in_order, make_folder, remove_folder)
{
    enum { EVENTS = 3000, THREADS = 3 };
    make_buffer();
    test_thread threads[THREADS];
    uint64_t next[THREADS] = {0};
    for (uint32_t i = 0; i < THREADS; i++)
        threads[i] = test_thread_start(i, i);
    for (uint32_t i = 0; i < EVENTS; i++) {
        uint32_t k = (i * 7 + i / 5) % THREADS;
        assert_true(test_write_event(&threads[k], GW_EV_ALLOC, next[k]++));
    }
    run_later();
    assert_int_equal(s.count[GW_ITEM_PROCESS], 1);
    assert_int_equal(s.count[GW_ITEM_EVENT], EVENTS);
    assert_true(s.in_order && s.args_in_order);
    run(false);
    assert_int_equal(s.count[GW_ITEM_EVENT], EVENTS);
    assert_int_equal(s.count[GW_ITEM_PROCESS], 1);
}

GW_TEST_WITH(young_events_wait, make_folder, remove_folder)
{
    make_buffer();
    gw_raw_event event = {.ticks = gw_monotonic_ns(), .fn = 1, .kind = GW_EV_ALLOC};
    assert_true(test_write(&thread, &event, 1));
    event.ticks += 3600 * 1000000000ull; /* an hour in the future: never old enough before the last drain */
    event.arg[0] = 1;
    assert_true(test_write(&thread, &event, 1));
    run_later();
    assert_int_equal(s.count[GW_ITEM_EVENT], 1);
    run(true);
    assert_int_equal(s.count[GW_ITEM_EVENT], 2);
    assert_true(s.args_in_order && s.in_order);
}

#if defined(__x86_64__)
/* Write an event with TSC ticks as its time. Return true if the drain's time for it is between two clock readings
 * around the event. */
static bool is_told_in_time(void)
{
    begin_again();
    make_buffer();
    b.head->clock = GW_CLOCK_TSC;
    b.head->start_monotonic_ns = gw_monotonic_ns();
    b.head->start_ticks = __rdtsc();
    uint64_t pair_ns = gw_monotonic_ns() - b.head->start_monotonic_ns;
    pause_ms(20);
    uint64_t before_ns = gw_monotonic_ns() - t0_ns;
    gw_raw_event event = {.ticks = __rdtsc(), .fn = 1, .kind = GW_EV_ALLOC};
    uint64_t after_ns = gw_monotonic_ns() - t0_ns;
    assert_true(test_write(&thread, &event, 1));
    pause_ms(20);
    run(false);
    assert_int_equal(s.count[GW_ITEM_EVENT], 1);
    uint64_t slack_ns = pair_ns + 1000000; /* start_monotonic_ns and start_ticks were not read at the same instant */
    return s.t_ns_last + slack_ns >= before_ns && s.t_ns_last <= after_ns + slack_ns;
}

/* The clock and the TSC are read one after the other. On a busy machine, another process may run in between, so try
 * several times. */
GW_TEST_WITH(ticks_become_times, make_folder, remove_folder)
{
    enum { TRIES = 5 };
    unsigned tries = 1;
    while (!is_told_in_time())
        assert_true(tries++ < TRIES);
}
#endif

static void ignore_thread(void *user, const gw_thread_look *look)
{
    (void)user;
    (void)look;
}

static gw_buffer_communicator *communicator(uint32_t place, uint64_t total)
{
    gw_buffer_communicator *c = (gw_buffer_communicator *)(b.map + GW_COMMUNICATORS_OFFSET) + place;
    c->state = GW_NCCL_READY;
    c->total = total;
    for (uint64_t i = total > GW_NCCL_LAST ? total - GW_NCCL_LAST : 0; i < total; i++)
        c->last[i % GW_NCCL_LAST] = (gw_buffer_collective){.stamp = i + 1, .ticks = gw_monotonic_ns(), .number = i + 1};
    return c;
}

/* A call that was half written, or replaced by a later one, is left out. So is an empty place. */
GW_TEST_WITH(nccl_is_told_when_asked_and_at_the_end, make_folder, remove_folder)
{
    make_buffer();
    gw_buffer_communicator *c = communicator(0, 21);
    c->last[3].stamp = 0;  /* call 20: the process was killed while it wrote it */
    c->last[7].stamp = 24; /* call 8, which was replaced by call 24 after its number was read */
    (void)communicator(1, 2);
    /* The last call of each function is in the facts, too: once, and only if all of it was written. */
    c->of_kind[GW_NCCL_BROADCAST] = (gw_buffer_collective){.stamp = 5, .number = 5, .call = GW_NCCL_BROADCAST};
    c->of_kind[GW_NCCL_ALL_GATHER] = (gw_buffer_collective){.stamp = 3, .number = 3, .call = GW_NCCL_ALL_GATHER};
    c->of_kind[GW_NCCL_ALL_REDUCE] = (gw_buffer_collective){.stamp = 21, .number = 21};
    c->of_kind[GW_NCCL_REDUCE] = (gw_buffer_collective){.stamp = 0, .number = 4, .call = GW_NCCL_REDUCE};
    run(false);
    assert_int_equal(s.communicators + s.nccl_calls, 0);
    assert_int_equal(gw_drain_tell_nccl(drain, see, &s, &err), GW_OK);
    assert_int_equal(s.communicators, 2);
    assert_int_equal(s.nccl_calls, 2 + 14 + 2);
    assert_non_null(strstr(s.nccl_text, "call=ncclAllReduce number=2 "));
    assert_non_null(strstr(s.nccl_text, "state=entered"));
    run(true);
    assert_int_equal(s.communicators, 4);
}

GW_TEST_WITH(a_hostile_table_of_communicators_is_harmless, make_folder, remove_folder)
{
    make_buffer();
    for (uint32_t i = 0; i < GW_NCCL_COMMUNICATORS; i++) {
        gw_buffer_communicator *c = communicator(i, 0);
        memset(c, 0xff, sizeof *c);
        c->state = i % 5;
        c->total = i % 2 == 0 ? UINT64_MAX : i;
        for (uint64_t k = 0; k < GW_NCCL_LAST; k++)
            c->last[(c->total - 1 - k) % GW_NCCL_LAST].stamp = c->total - k;
    }
    gw_drain_look(drain, ignore_thread, NULL);
    run(true);
    assert_in_range(s.communicators, 1, GW_NCCL_COMMUNICATORS);
    assert_non_null(strstr(s.nccl_text, "state="));
}

GW_TEST_WITH(texts_are_joined, make_folder, remove_folder)
{
    make_buffer();
    gw_raw_event record[3] = {{.ticks = gw_monotonic_ns(), .kind = GW_EV_FUNCTION, .flags = GW_EVF_TEXT_FOLLOWS}};
    gw_raw_text part = {.kind = GW_EV_TEXT, .flags = GW_EVF_TEXT_FOLLOWS, .bytes = 48};
    memset(part.text, 'a', 48);
    memcpy(&record[1], &part, sizeof part);
    part.flags = 0;
    part.bytes = 3;
    memset(part.text, 'b', 48);
    memcpy(&record[2], &part, sizeof part);
    assert_true(test_write(&thread, record, 3));
    part.bytes = 60000; /* more bytes than a record can hold */
    memcpy(&record[1], &part, sizeof part);
    run_later();
    assert_int_equal(s.count[GW_ITEM_EVENT], 1);
    assert_int_equal(strlen(s.text), 51);
    assert_int_equal(s.text[47], 'a');
    assert_int_equal(s.text[48], 'b');
    assert_true(test_write(&thread, record, 2));
    /* the last drain does not wait for an event whose text never arrives */
    record[0].ticks = gw_monotonic_ns();
    assert_true(test_write(&thread, record, 1));
    run(true);
    assert_int_equal(s.count[GW_ITEM_EVENT], 3);
    assert_int_equal(strlen(s.text), 48);
}

/* A thread that writes more events than the buffer can hold. The buffer is drained meanwhile, so that chunks are
 * reused. */
typedef struct pusher {
    test_thread thread;
    uint64_t events;
} pusher;

static void *push(void *user)
{
    pusher *p = user;
    for (uint64_t i = 0; i < p->events; i++)
        while (!test_write_event(&p->thread, GW_EV_ALLOC, i))
            usleep(100);
    test_thread_end(&p->thread);
    return NULL;
}

GW_TEST_WITH(nothing_is_lost_or_doubled_while_chunks_go_round, make_folder, remove_folder)
{
    enum { EVENTS = 100000, THREADS = 2 };
    make_buffer();
    pusher p[THREADS];
    pthread_t id[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        p[i] = (pusher){test_thread_start(i, i), EVENTS};
        assert_int_equal(pthread_create(&id[i], NULL, push, &p[i]), 0);
    }
    while (s.count[GW_ITEM_EVENT] < THREADS * EVENTS) {
        run(false);
        assert_true(s.args_in_order && s.in_order);
        pause_ms(2);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(id[i], NULL);
    run(false);
    gw_drain_commit(drain);
    run(false);
    gw_drain_commit(drain);
    assert_int_equal(s.count[GW_ITEM_EVENT], THREADS * EVENTS);
    assert_int_equal(s.count[GW_ITEM_LOST], 0);
    for (uint32_t i = 0; i < GW_CHUNK_COUNT; i++)
        assert_int_equal(b.chunk[i].head.state, GW_CHUNK_FREE);
    assert_int_equal(b.slot[0].state, GW_SLOT_FREE);
    assert_int_equal(b.slot[1].state, GW_SLOT_FREE);
}

GW_TEST_WITH(a_busy_program_is_foreseen, make_folder, remove_folder)
{
    make_buffer();
    uint64_t i = 0, begun_ns = gw_monotonic_ns();
    run(false);
    assert_true(gw_drain_fill_ratio(drain) < 0.01);
    while (i < GW_CHUNK_COUNT * GW_CHUNK_RECORDS / 2)
        assert_true(test_write_event(&thread, GW_EV_ALLOC, i++));
    assert_true(gw_drain_fill_ratio(drain) > 0.45); /* the buffer is half full */
    run(true);
    gw_drain_commit(drain);
    if (gw_monotonic_ns() - begun_ns < 100000000)       /* only if the machine was fast enough */
        assert_true(gw_drain_fill_ratio(drain) > 0.45); /* new events at this rate would fill half of the buffer */
    for (unsigned k = 0; k < 30; k++)
        run(true);
    gw_drain_commit(drain);
    assert_true(gw_drain_fill_ratio(drain) < 0.01);
}

GW_TEST_WITH(a_full_sink_loses_nothing, make_folder, remove_folder)
{
    enum { EVENTS = 100 };
    make_buffer();
    write_events(EVENTS);
    s.fail_after = 30;
    pause_ms(4);
    assert_int_equal(gw_drain_run(drain, false, see, &s, &err), GW_IO);
    assert_string_equal(err.text, "the sink is full");
    run(false);
    assert_int_equal(s.count[GW_ITEM_EVENT], EVENTS);
    assert_true(s.args_in_order);
}

/* ---- slots and rings ---- */

GW_TEST_WITH(failures_bring_rings_and_counters, make_folder, remove_folder)
{
    make_buffer();
    thread = test_thread_start(3, 3);
    for (uint64_t i = 0; i < 5000; i++)
        test_ring_add(&thread, i, 3);
    b.slot[3].calls = 5001;
    run(false);
    assert_int_equal(s.count[GW_ITEM_COUNTERS], 1);
    assert_int_equal(s.calls, 5001);
    assert_string_equal(s.thread_name, "thread 3");
    assert_int_equal(s.count[GW_ITEM_RING], 0);
    gw_raw_event failure = {.ticks = gw_monotonic_ns(), .kind = GW_EV_ALLOC, .result = 2};
    assert_true(test_write(&thread, &failure, 1));
    run_later();
    assert_int_equal(s.count[GW_ITEM_RING], 0); /* no ring is passed on after an out-of-memory error */
    failure.ticks = gw_monotonic_ns();
    failure.result = 700;
    failure.kind = GW_EV_SYNC;
    assert_true(test_write(&thread, &failure, 1));
    atomic_store(&b.head->lost_events, 5);
    run_later();
    assert_int_equal(s.count[GW_ITEM_RING], 1);
    assert_int_equal(s.ring_total, 5000);
    assert_int_equal(s.ring_count, GW_RING_ENTRIES - 1); /* without the entry that may be overwritten right now */
    assert_int_equal(s.ring_torn, 0);
    assert_int_equal(s.count[GW_ITEM_LOST], 1);
    run(false);
    assert_int_equal(s.count[GW_ITEM_RING], 1);
    test_ring_add(&thread, 5000, 3);
    run(true);
    assert_int_equal(s.count[GW_ITEM_RING], 2);
    assert_int_equal(s.ring_total, 5001);
    assert_int_equal(s.count[GW_ITEM_LOST], 1);
}

static atomic_bool stop;

static void *spin_ring(void *user)
{
    for (uint64_t i = 0; !atomic_load(&stop); i++)
        test_ring_add(&thread, i, 3);
    return NULL;
}

GW_TEST_WITH(torn_ring_entries_are_left_out, make_folder, remove_folder)
{
    make_buffer();
    pthread_t id;
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&id, NULL, spin_ring, NULL), 0);
    while (s.count[GW_ITEM_RING] < 100) { /* a ring is passed on only after its owner has added entries */
        run(true);
        assert_int_equal(s.ring_torn, 0);
    }
    atomic_store(&stop, true);
    pthread_join(id, NULL);
    run(true);
    assert_int_equal(s.ring_torn, 0);
    assert_true(s.ring_count > 0);
}

/* ---- processes that end ---- */

/* Run a process that is not our child, writes `events` events into a buffer and is killed. Returns its pid after it has
 * ended. */
static uint32_t make_dead_stranger(uint64_t events)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t middle = fork();
    if (middle == 0) {
        if (fork() == 0) {
            make_buffer();
            write_events(events);
            test_ring_add(&thread, 0, 3);
            uint32_t pid = (uint32_t)getpid();
            if (write(fds[1], &pid, sizeof pid) != sizeof pid)
                _exit(1);
            kill(getpid(), SIGKILL);
        }
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(middle, &status, 0), middle);
    close(fds[1]);
    uint32_t pid = 0;
    assert_int_equal(read(fds[0], &pid, sizeof pid), sizeof pid);
    assert_int_equal(read(fds[0], &status, 1), 0); /* 0 bytes: the process has ended, which closes the pipe */
    close(fds[0]);
    return pid;
}

static unsigned buffers_left(void)
{
    unsigned count = 0;
    DIR *dir = opendir(gw_test_folder);
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL)
        count += strstr(entry->d_name, ".buf") != NULL;
    closedir(dir);
    return count;
}

static void run_until_exit(void)
{
    for (unsigned i = 0; i < ROUNDS_MAX && s.count[GW_ITEM_EXIT] == 0; i++) {
        run_later();
    }
    assert_int_equal(s.count[GW_ITEM_EXIT], 1);
}

GW_TEST_WITH(a_dead_process_is_finished, make_folder, remove_folder)
{
    uint32_t pid = make_dead_stranger(600);
    run_until_exit();
    assert_int_equal(s.count[GW_ITEM_EVENT], 600);
    assert_int_equal(s.count[GW_ITEM_RING], 1);
    assert_int_equal(s.exit.pid, pid);
    /* The status is known only if init has not waited for the process yet. */
    assert_true(!s.exit.status_known || s.exit.signal == SIGKILL);
    assert_int_equal(buffers_left(), 1);
    gw_drain_commit(drain);
    assert_int_equal(buffers_left(), 0);
    run(true);
    assert_int_equal(s.count[GW_ITEM_EXIT], 1);
    assert_int_equal(s.count[GW_ITEM_EVENT], 600);
}

/* A process that is our grandchild. When we close end_fd, it ends with status 7. When we close wait_fd, its parent
 * waits for it. */
typedef struct stranger {
    pid_t parent;
    int end_fd, wait_fd, waited_fd;
} stranger;

static stranger start_stranger(void)
{
    int end[2], wait_[2], waited[2];
    assert_int_equal(pipe(end) | pipe(wait_) | pipe(waited), 0);
    stranger child = {.end_fd = end[1], .wait_fd = wait_[1], .waited_fd = waited[0]};
    child.parent = fork();
    if (child.parent == 0) {
        char byte;
        close(end[1]);
        close(wait_[1]);
        close(waited[0]);
        if (fork() == 0) {
            make_buffer();
            _exit(write(waited[1], "r", 1) == 1 && read(end[0], &byte, 1) == 0 ? 7 : 1);
        }
        _exit(read(wait_[0], &byte, 1) == 0 && wait(NULL) > 0 && write(waited[1], "w", 1) == 1 ? 0 : 1);
    }
    close(end[0]);
    close(wait_[0]);
    close(waited[1]);
    char byte;
    assert_int_equal(read(child.waited_fd, &byte, 1), 1);
    return child;
}

static void end_stranger(stranger *child)
{
    close(child->wait_fd);
    char byte;
    assert_int_equal(read(child->waited_fd, &byte, 1), 1);
    assert_int_equal(waitpid(child->parent, NULL, 0), child->parent);
    close(child->waited_fd);
}

GW_TEST_WITH(how_an_unwaited_stranger_ended_is_known, make_folder, remove_folder)
{
    stranger child = start_stranger();
    run(false);
    struct pollfd ends = {.fd = gw_drain_end_fd(drain), .events = POLLIN};
    assert_int_equal(poll(&ends, 1, 0), 0);
    close(child.end_fd);
    assert_int_equal(poll(&ends, 1, 200000), 1);
    run_until_exit();
    assert_true(s.exit.status_known);
    assert_int_equal(s.exit.exit_code, 7);
    assert_int_equal(s.exit.signal, 0);
    /* The end is reported only once. Otherwise, a supervisor would loop without waiting. */
    assert_int_equal(poll(&ends, 1, 0), 0);
    end_stranger(&child);
}

GW_TEST_WITH(how_a_waited_for_stranger_ended_is_known_or_unknown, make_folder, remove_folder)
{
    stranger child = start_stranger();
    run(false);
    close(child.end_fd);
    end_stranger(&child); /* its parent has waited for it before the next drain */
    run_until_exit();
    if (!s.exit.status_known)
        print_message("skipped: this kernel does not tell how a process ended that was waited for (Linux 6.15 does)\n");
    else
        assert_int_equal(s.exit.exit_code, 7);
}

/* ---- damage ---- */

GW_TEST_WITH(what_is_no_buffer_is_said_once, make_folder, remove_folder)
{
    char path[160];
    snprintf(path, sizeof path, "%s/1-1.buf", gw_test_folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(path, sizeof path, "%s/1-2.buf", gw_test_folder);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    make_buffer();
    b.head->magic[0] = 'X';
    run(false);
    run(true);
    assert_int_equal(s.count[GW_ITEM_SUPERVISOR], 1);
    assert_string_equal(s.key, "buffer.damaged");
    assert_int_equal(s.count[GW_ITEM_PROCESS], 0);
    test_buffer_drop();
    make_buffer();
    b.head->fn_table_hash++;
    run(false);
    run(true);
    assert_int_equal(s.count[GW_ITEM_SUPERVISOR], 2);
    assert_string_equal(s.key, "buffer.refused");
}

GW_TEST_WITH(an_unready_buffer_is_awaited, make_folder, remove_folder)
{
    make_buffer();
    atomic_store(&b.head->ready, 0);
    b.head->magic[0] = 0;
    run(false);
    assert_int_equal(s.count[GW_ITEM_PROCESS] + s.count[GW_ITEM_SUPERVISOR], 0);
    b.head->magic[0] = 'G';
    b.head->start_ticks = b.head->start_monotonic_ns = gw_monotonic_ns();
    atomic_store(&b.head->ready, 1);
    run(false);
    assert_int_equal(s.count[GW_ITEM_PROCESS], 1);
}

static uint32_t random_next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Write random bytes at random offsets of a buffer, and shrink its file while it is drained. */
GW_TEST_WITH(damaged_buffers_do_no_harm, make_folder, remove_folder)
{
    uint32_t seed = 1;
    for (unsigned round = 0; round < 300; round++) {
        begin_again();
        make_buffer();
        thread = test_thread_start(round % 100, 0);
        for (uint64_t i = 0; i < 600; i++)
            assert_true(test_write_event(&thread, (uint8_t)(i % GW_EV_COUNT), i));
        if (round % 2)
            run(false);
        for (unsigned i = 0; i < 40; i++) {
            static const uint32_t area[] = {128, 4096, GW_RINGS_OFFSET, GW_BUFFER_BYTES, GW_CHUNKS_OFFSET + 64};
            uint32_t end = area[random_next(&seed) % 5];
            uint32_t at =
                end == GW_CHUNKS_OFFSET + 64 ? GW_CHUNKS_OFFSET + random_next(&seed) % 64 : random_next(&seed) % end;
            b.map[at] = (uint8_t)random_next(&seed);
        }
        run(false);
        if (round % 3 == 0)
            assert_int_equal(truncate(b.path, random_next(&seed) % GW_BUFFER_BYTES), 0);
        run(false);
        run(true);
        (void)gw_drain_fill_ratio(drain);
    }
}

/* ---- run folders without their supervisor ---- */

static void write_meta(uint32_t supervisor_pid)
{
    const char *argv[] = {"prog", NULL};
    gw_run_meta meta = {gw_test_file, t0_ns, supervisor_pid, argv};
    if (gw_run_meta_write(gw_test_folder, &meta, fn_names, TEST_FN_COUNT, &err) != GW_OK)
        fail_msg("%s", err.text);
}

static const char *meta_path(void)
{
    static char path[96];
    snprintf(path, sizeof path, "%s/run.meta", gw_test_folder);
    return path;
}

/* Let the drain write into a new recording. */
static void create_recording(void)
{
    unlink(gw_test_file);
    assert_int_equal(gw_writer_create(gw_test_file, 0, fn_names, TEST_FN_COUNT, &s.writer, &err), GW_OK);
}

/* Return the pid of a process that has ended. */
static uint32_t dead_pid(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    int status;
    waitpid(pid, &status, 0);
    return (uint32_t)pid;
}

static seen read_folder_items(gw_status expected_open)
{
    seen r = seen_start;
    gw_reader *reader;
    const gw_item *item;
    gw_status st = gw_reader_open(gw_test_folder, &reader, &err);
    if (st != expected_open)
        fail_msg("%s", err.text);
    if (st != GW_OK)
        return r;
    while ((st = gw_reader_next(reader, &item, &err)) == GW_OK) {
        if (item->kind == GW_ITEM_EVENT)
            assert_string_equal(gw_reader_fn_name(reader, item->event.fn), "cuMemAlloc_v2");
        assert_int_equal(see(&r, item, &err), GW_OK);
    }
    if (st != GW_END)
        fail_msg("%s", err.text);
    gw_reader_close(reader);
    return r;
}

static uint32_t checksum_of(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint32_t sum = 1;
    int c;
    while ((c = getc(file)) != EOF)
        sum = (sum * 31) ^ (uint32_t)c;
    fclose(file);
    return sum;
}

/* In each pass, the supervisor seems to die after a different step of a drain round (pass 0: never). No event may be
 * lost or duplicated. */
GW_TEST_WITH(a_dead_supervisor_loses_nothing, make_folder, remove_folder)
{
    enum { PART = 700 };
    for (unsigned died_at = 0; died_at < 5; died_at++) {
        uint64_t next = 0;
        begin_again();
        write_meta(died_at == 0 ? (uint32_t)getpid() : dead_pid());
        make_buffer();
        create_recording();
        for (unsigned round = 0; round < 3; round++) {
            for (unsigned i = 0; i < PART; i++)
                assert_true(test_write_event(&thread, GW_EV_ALLOC, next++));
            pause_ms(3);
            bool dies = round == 2;
            if (dies && died_at == 1)
                break;
            run(false);
            if (dies && died_at == 2)
                break;
            assert_int_equal(gw_writer_flush(s.writer, false, &err), GW_OK);
            if (dies && died_at == 3)
                break;
            gw_drain_commit(drain);
        }
        for (unsigned i = 0; i < PART; i++) /* the program continues for a while */
            assert_true(test_write_event(&thread, GW_EV_ALLOC, next++));
        uint32_t sum = checksum_of(b.path);
        seen r = read_folder_items(GW_OK);
        assert_int_equal(checksum_of(b.path), sum);
        assert_int_equal(r.count[GW_ITEM_EVENT], next);
        assert_true(r.args_in_order && r.in_order);
        assert_int_equal(r.count[GW_ITEM_PROCESS], 1);
        assert_int_equal(r.count[GW_ITEM_TRUNCATED], died_at == 0 ? 0 : 1);
        assert_string_equal(r.key, "run.state");
        gw_writer_close(s.writer, NULL);
        unlink(meta_path());
    }
}

GW_TEST_WITH(a_folder_without_its_recording_still_speaks, make_folder, remove_folder)
{
    write_meta(dead_pid());
    make_buffer();
    write_events(10);
    unlink(gw_test_file);
    seen r = read_folder_items(GW_OK);
    assert_int_equal(r.count[GW_ITEM_EVENT], 10);
    assert_int_equal(r.count[GW_ITEM_TRUNCATED], 1);
    unlink(meta_path());
    read_folder_items(GW_IO);
}

/* Read all pairs of a file, each as "key=value ". Return the status of the end. */
static gw_status pairs_of(gw_status (*open)(const char *, gw_reader **, gw_error *), const char *path, char *out,
                          size_t out_bytes)
{
    gw_reader *reader = NULL;
    const gw_item *item;
    out[0] = '\0';
    gw_status st = open(path, &reader, &err);
    if (st != GW_OK)
        return st;
    bool truncated = false;
    while ((st = gw_reader_next(reader, &item, &err)) == GW_OK) {
        truncated = truncated || item->kind == GW_ITEM_TRUNCATED;
        if (item->kind == GW_ITEM_META)
            snprintf(out + strlen(out), out_bytes - strlen(out), "%s=%s ", item->pair.key, item->pair.value);
    }
    gw_reader_close(reader);
    return truncated ? GW_CORRUPT : st;
}

GW_TEST_WITH(pairs_are_the_same_without_the_dictionary, make_folder, remove_folder)
{
    const char *path = meta_path();
    char with[500], without[500], wanted[600];
    write_meta(4711);
    assert_int_equal(pairs_of(gw_reader_open, path, with, sizeof with), GW_END);
    assert_int_equal(pairs_of(gw_reader_open_pairs, path, without, sizeof without), GW_END);
    assert_string_equal(with, without);
    snprintf(wanted, sizeof wanted, "run.recording=%s ", gw_test_file);
    assert_non_null(strstr(without, wanted));
    assert_non_null(strstr(without, "run.supervisor_pid=4711 "));
    assert_int_equal(truncate(path, 10), 0);
    assert_int_equal(pairs_of(gw_reader_open_pairs, path, without, sizeof without), GW_CORRUPT);
    unlink(path);
    assert_int_equal(pairs_of(gw_reader_open_pairs, path, without, sizeof without), GW_IO);
}

/* A reader reads the run folder while the program runs and the supervisor drains. It must find each event exactly
 * once. */
GW_TEST_WITH(a_reader_disturbs_nobody, make_folder, remove_folder)
{
    enum { EVENTS = 60000 };
    write_meta((uint32_t)getpid());
    make_buffer();
    pusher p = {thread, EVENTS};
    pthread_t id;
    create_recording();
    assert_int_equal(pthread_create(&id, NULL, push, &p), 0);
    for (unsigned i = 0; s.count[GW_ITEM_EVENT] < EVENTS; i++) {
        run(false);
        assert_true(i % 3 != 0 || read_folder_items(GW_OK).args_in_order);
        assert_int_equal(gw_writer_flush(s.writer, false, &err), GW_OK);
        assert_true(i % 3 != 1 || read_folder_items(GW_OK).args_in_order);
        pause_ms(1);
    }
    pthread_join(id, NULL);
    assert_int_equal(gw_writer_close(s.writer, &err), GW_OK);
    char pairs[500];
    assert_int_equal(pairs_of(gw_reader_open, gw_test_file, pairs, sizeof pairs), GW_END);
    assert_true(s.args_in_order);
}

/* The drain must not use the pid of a process in a container to find out whether it has ended. Outside, this pid may be
 * unused or another process. */
GW_TEST_WITH(a_process_of_another_namespace_is_not_called_gone, make_folder, remove_folder)
{
    test_buffer_make(dead_pid());
    b.head->pid_namespace = 12345;
    for (uint64_t i = 0; i < 4; i++) {
        thread = test_thread_start((uint32_t)i, 7);
        assert_true(test_write_event(&thread, GW_EV_ALLOC, i));
        run_later();
        gw_drain_commit(drain);
    }
    assert_int_equal(s.count[GW_ITEM_EVENT], 4);
    assert_int_equal(s.count[GW_ITEM_EXIT], 0);
    assert_int_equal(access(b.path, F_OK), 0);
}

static void *become_ready(void *argument)
{
    usleep(200); /* meanwhile the drain looks at the buffer */
    b.head->start_ticks = b.head->start_monotonic_ns = gw_monotonic_ns();
    atomic_store_explicit(&b.head->ready, 1, memory_order_release);
    return NULL;
}

/* A process that becomes ready during a drain has a later start time than the drain. The drain must not report its
 * buffer as damaged. */
GW_TEST_WITH(a_process_may_start_during_a_drain, make_folder, remove_folder)
{
    for (unsigned round = 0; round < 300; round++) {
        pthread_t id;
        begin_again();
        make_buffer();
        atomic_store(&b.head->ready, 0);
        assert_int_equal(pthread_create(&id, NULL, become_ready, NULL), 0);
        while (s.count[GW_ITEM_PROCESS] == 0 && s.count[GW_ITEM_SUPERVISOR] == 0)
            run(false);
        pthread_join(id, NULL);
        if (s.count[GW_ITEM_PROCESS] != 1)
            fail_msg("round %u: %s", round, s.key);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

GW_TEST_MAIN(NULL, NULL)
