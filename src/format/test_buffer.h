/* Test helper: writes into a buffer as the hook does. */
#ifndef GWI_TEST_BUFFER_H
#define GWI_TEST_BUFFER_H

#include "gw_buffer.h"
#include "gw_clock.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct test_buffer {
    uint8_t *map;
    gw_buffer_head *head;
    gw_slot *slot;
    gw_ring *ring;
    gw_chunk *chunk;
    char path[160];
} test_buffer;

typedef struct test_thread {
    test_buffer *buffer;
    uint32_t slot;
    gw_chunk *chunk;
} test_thread;

enum { TEST_FN_COUNT = 4, TEST_FN_HASH = 0x1234 };

static inline void test_buffer_make(test_buffer *b, const char *folder, uint32_t pid, uint32_t parent_pid)
{
    static unsigned count;
    snprintf(b->path, sizeof b->path, "%s/%u-%x.buf", folder, pid, ++count);
    int fd = open(b->path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, GW_BUFFER_BYTES) != 0)
        abort();
    b->map = mmap(NULL, GW_BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (b->map == MAP_FAILED)
        abort();
    b->head = (gw_buffer_head *)b->map;
    b->slot = (gw_slot *)(b->map + GW_SLOTS_OFFSET);
    b->ring = (gw_ring *)(b->map + GW_RINGS_OFFSET);
    b->chunk = (gw_chunk *)(b->map + GW_CHUNKS_OFFSET);
    memcpy(b->head->magic, GW_BUFFER_MAGIC, 8);
    b->head->version = GW_BUFFER_VERSION;
    b->head->bytes = GW_BUFFER_BYTES;
    b->head->clock = GW_CLOCK_MONOTONIC;
    b->head->pid = pid;
    b->head->parent_pid = parent_pid;
    b->head->start_ticks = b->head->start_monotonic_ns = gw_monotonic_ns();
    b->head->start_realtime_ns = gw_realtime_ns();
    b->head->slot_offset = GW_SLOTS_OFFSET;
    b->head->slot_count = GW_SLOT_COUNT;
    b->head->ring_offset = GW_RINGS_OFFSET;
    b->head->ring_count = GW_RING_COUNT;
    b->head->chunk_offset = GW_CHUNKS_OFFSET;
    b->head->chunk_count = GW_CHUNK_COUNT;
    b->head->fn_count = TEST_FN_COUNT;
    b->head->fn_table_hash = TEST_FN_HASH;
    strcpy(b->head->exe, "/bin/test");
    strcpy(b->head->driver_path, "/lib/libcuda.so.1");
    atomic_store(&b->head->ready, 1);
}

static inline void test_buffer_drop(test_buffer *b)
{
    munmap(b->map, GW_BUFFER_BYTES);
    unlink(b->path);
}

static inline test_thread test_thread_start(test_buffer *b, uint32_t slot, uint32_t tid)
{
    gw_slot *s = &b->slot[slot];
    s->tid = tid;
    atomic_store(&s->ring_index, (int32_t)slot < GW_RING_COUNT ? (int32_t)slot : -1);
    atomic_fetch_add(&s->generation, 1);
    snprintf(s->name, sizeof s->name, "thread %u", slot);
    atomic_store(&s->state, GW_SLOT_LIVE);
    return (test_thread){b, slot, NULL};
}

static inline void test_thread_end(test_thread *t)
{
    if (t->chunk != NULL)
        atomic_store(&t->chunk->head.state, GW_CHUNK_FULL);
    atomic_store(&t->buffer->slot[t->slot].state, GW_SLOT_ENDED);
}

static inline bool test_chunk_take(test_thread *t)
{
    test_buffer *b = t->buffer;
    if (t->chunk != NULL)
        atomic_store_explicit(&t->chunk->head.state, GW_CHUNK_FULL, memory_order_release);
    t->chunk = NULL;
    for (uint32_t i = 0; i < GW_CHUNK_COUNT; i++) {
        uint32_t expected = GW_CHUNK_FREE;
        gw_chunk_head *head = &b->chunk[i].head;
        if (!atomic_compare_exchange_strong(&head->state, &expected, GW_CHUNK_OWNED))
            continue;
        head->slot_index = t->slot;
        head->tid = b->slot[t->slot].tid;
        head->generation = b->slot[t->slot].generation;
        head->sequence = atomic_fetch_add(&b->head->chunk_sequence, 1);
        t->chunk = &b->chunk[i];
        return true;
    }
    return false;
}

/* Write the records of one event, into a new chunk if necessary. Returns false if the buffer is full. */
static inline bool test_write(test_thread *t, const gw_raw_event *record, uint32_t count)
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

static inline bool test_write_event(test_thread *t, uint8_t kind, uint64_t arg0)
{
    gw_raw_event event = {.ticks = gw_monotonic_ns(), .fn = 1, .kind = kind, .arg = {arg0}};
    return test_write(t, &event, 1);
}

static inline void test_ring_add(test_thread *t, uint64_t what, uint16_t fn)
{
    gw_slot *slot = &t->buffer->slot[t->slot];
    uint64_t head = atomic_load_explicit(&slot->ring_head, memory_order_relaxed);
    volatile gw_ring_entry *entry = &t->buffer->ring[slot->ring_index].entry[head % GW_RING_ENTRIES];
    entry->ticks = gw_monotonic_ns();
    entry->what = what;
    entry->stream_fn = (what & 0xffffffff) << 16 | fn;
    atomic_store_explicit(&slot->ring_head, head + 1, memory_order_release);
}

#endif
