/* Write records into the shared buffer. gw_buffer.h describes the buffer's layout and rules. */
#include "gw_cuda_results.h"
#include "gwi_hook.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The hook's private data in the reserved part of a slot. Chunk numbers start at 1; 0 means no chunk. */
typedef struct slot_private {
    uint32_t chunk;         /* current chunk for all records */
    uint32_t reserve_chunk; /* current chunk from the reserve, for failures when no other chunk is free */
    uint32_t chunk_hint;    /* index at which to start looking for the next chunk */
    uint32_t ring_asked;
    uint32_t refused; /* 1: the guard refused the call in progress */
    gwi_pending pending;
    gwi_stack_known stack;
    uint64_t facts_ticks;
    bool facts_are_precious;
    uint8_t forced_flags;
    uint64_t launches, copies, reads, waits, queries; /* the thread's counters at its last memory request */
} slot_private;
_Static_assert(sizeof(slot_private) <= sizeof((gw_slot *)0)->reserved, "fits");

static slot_private *private_of(gw_slot *slot)
{
    return (slot_private *)(void *)slot->reserved;
}

/* Threads without a slot share this one. It is always marked as inside a call, so nothing is recorded. */
static gw_slot no_slot = {.inside_fn = 1};
static gw_buffer_head no_head;

static pthread_key_t thread_end_key;
static bool thread_end_key_made;

static _Atomic uint64_t full_since; /* time of the last search for a free chunk, in ticks, if it failed: the next search
                                       then waits a little; 0: it succeeded */

/* ---- clock ---- */

/* Return whether to use the TSC as the clock. It must be constant, never stop, and be the kernel's clock: the TSCs of
 * several sockets may differ. */
static bool counter_is_clock(void)
{
#if defined(__x86_64__)
    char name[16];
    uint32_t a = 0x80000007, b = 0, c = 0, d = 0;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return (d & 1u << 8) != 0 &&
           gwi_read_small_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", name, sizeof name) &&
           strcmp(name, "tsc\n") == 0;
#else
    return false;
#endif
}

/* ---- set-up ---- */

/* Return the number in "pid:[4026531836]", or 0 if it is not available. */
static uint64_t pid_namespace(void)
{
    char text[40];
    uint64_t number = 0;
    ssize_t n = readlink("/proc/self/ns/pid", text, sizeof text);
    for (ssize_t i = 0; i < n; i++)
        if (text[i] >= '0' && text[i] <= '9')
            number = number * 10 + (uint64_t)(text[i] - '0');
    return number;
}

static void fill_head(gw_buffer_head *head)
{
    memcpy(head->magic, GW_BUFFER_MAGIC, sizeof head->magic);
    head->version = GW_BUFFER_VERSION;
    head->bytes = GW_BUFFER_BYTES;
    head->clock = gwi.clock_is_tsc ? GW_CLOCK_TSC : GW_CLOCK_MONOTONIC;
    head->pid = (uint32_t)getpid();
    head->parent_pid = (uint32_t)getppid();
    head->start_monotonic_ns = gw_monotonic_ns();
    head->start_ticks = gwi_ticks();
    head->start_realtime_ns = gw_realtime_ns();
    head->pid_namespace = pid_namespace();
    head->slot_offset = GW_SLOTS_OFFSET;
    head->slot_count = GW_SLOT_COUNT;
    head->ring_offset = GW_RINGS_OFFSET;
    head->ring_count = GW_RING_COUNT;
    head->communicator_offset = GW_COMMUNICATORS_OFFSET;
    head->communicator_count = GW_NCCL_COMMUNICATORS;
    head->chunk_offset = GW_CHUNKS_OFFSET;
    head->chunk_count = GW_CHUNK_COUNT;
    head->fn_count = GW_FN_COUNT;
    head->fn_table_hash = gw_api_hash;
    memcpy(head->driver_path, gwi.driver_path, sizeof head->driver_path);
    memcpy(head->driver_build_id, gwi.driver_build_id, sizeof head->driver_build_id);
    ssize_t n = readlink("/proc/self/exe", head->exe, sizeof head->exe - 1);
    head->exe[n > 0 ? n : 0] = '\0';
    gwi_launcher_note(head->launcher);
}

static void thread_ends(void *value);

bool gwi_buffer_create(uint32_t mark)
{
    void *map = NULL;
    gwi.clock_is_tsc = counter_is_clock();
    gwi_wipe.clock_is_not_tsc = !gwi.clock_is_tsc;
    if (!thread_end_key_made)
        thread_end_key_made = pthread_key_create(&thread_end_key, thread_ends) == 0;
    if (gwi.run_dir[0] != '\0' && thread_end_key_made)
        map = gwi_buffer_memory();
    no_slot.mark = mark;
    full_since = 0;
    if (map == NULL) {
        gwi.head = &no_head;
        gwi.slots = NULL;
        return false;
    }
    gw_buffer_head *head = map;
    fill_head(head);
    gwi.slots = (gw_slot *)((char *)map + GW_SLOTS_OFFSET);
    gwi_wipe.rings = (gw_ring *)((char *)map + GW_RINGS_OFFSET);
    gwi.communicators = (gw_buffer_communicator *)((char *)map + GW_COMMUNICATORS_OFFSET);
    gwi.chunks = (gw_chunk *)((char *)map + GW_CHUNKS_OFFSET);
    gwi.head = head;
    atomic_store_explicit(&head->ready, 1, memory_order_release);
    return true;
}

/* ---- slots ---- */

void gwi_slot_note_pending(gw_slot *slot, const gwi_pending *pending)
{
    private_of(slot)->pending = *pending;
}

gwi_pending gwi_slot_take_pending(gw_slot *slot)
{
    gwi_pending pending = private_of(slot)->pending;
    private_of(slot)->pending = (gwi_pending){0};
    return pending;
}

void gwi_slot_note_refused(gw_slot *slot)
{
    private_of(slot)->refused = 1;
}

bool gwi_slot_take_refused(gw_slot *slot)
{
    bool refused = private_of(slot)->refused != 0;
    private_of(slot)->refused = 0;
    return refused;
}

void gwi_slot_note_forced(gw_slot *slot, unsigned flags)
{
    private_of(slot)->forced_flags = (uint8_t)flags;
}

unsigned gwi_slot_take_forced(gw_slot *slot)
{
    unsigned flags = private_of(slot)->forced_flags;
    private_of(slot)->forced_flags = 0;
    return flags;
}

gwi_stack_known *gwi_slot_stack(gw_slot *slot)
{
    return &private_of(slot)->stack;
}

void gwi_slot_facts_begin(gw_slot *slot, uint64_t ticks, bool is_precious)
{
    private_of(slot)->facts_ticks = ticks;
    private_of(slot)->facts_are_precious = is_precious;
}

void gwi_slot_facts_end(gw_slot *slot)
{
    gwi_slot_facts_begin(slot, 0, false);
}

uint64_t gwi_slot_facts_ticks(gw_slot *slot)
{
    return private_of(slot)->facts_ticks;
}

/* Return a slot in private memory, which the supervisor does not read. The guard needs a slot for each thread, even if
 * nothing can be recorded. */
static gw_slot *unshared_slot(uint32_t mark)
{
    if (!thread_end_key_made) /* without the key nothing would free the slot at thread exit */
        return &no_slot;
    void *page = mmap(NULL, sizeof(gw_slot), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return &no_slot;
    gw_slot *slot = page;
    slot->mark = mark;
    slot->ring_index = -1;
    private_of(slot)->ring_asked = 1;
    pthread_setspecific(thread_end_key, slot);
    return slot;
}

bool gwi_slot_is_shared(const gw_slot *slot)
{
    return gwi.slots != NULL && slot >= gwi.slots && slot < gwi.slots + GW_SLOT_COUNT;
}

uint32_t gwi_slot_index(const gw_slot *slot)
{
    return (uint32_t)(slot - gwi.slots);
}

/* Read the thread's name from a file, because a system call filter may forbid prctl() (see buffer_file.c). */
static void read_thread_name(gw_slot *slot)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/self/task/%u/comm", slot->tid);
    if (gwi_read_small_file(path, slot->name, sizeof slot->name))
        slot->name[strcspn(slot->name, "\n")] = '\0';
}

gw_slot *gwi_slot_take(uint32_t mark)
{
    for (uint32_t i = 0; gwi.slots != NULL && i < GW_SLOT_COUNT; i++) {
        gw_slot *slot = &gwi.slots[i];
        uint32_t expected = GW_SLOT_FREE;
        if (atomic_load_explicit(&slot->state, memory_order_relaxed) != GW_SLOT_FREE)
            continue;
        /* Set all fields before the slot becomes LIVE. The caller holds the set-up lock, so no other thread takes
         * this slot. */
        slot->tid = (uint32_t)syscall(SYS_gettid);
        slot->calls = slot->inside_since = slot->ring_head = slot->synced_at = slot->synced_ring_head = 0;
        slot->inside_fn = 0;
        /* There are few rings, so a reused slot keeps the ring of its previous thread. The ring is empty now, because
         * ring_head is 0. */
        if (slot->generation == 0)
            slot->ring_index = -1;
        for (int c = 0; c < GW_COUNT_COUNT; c++)
            slot->counter[c] = 0;
        slot->generation++;
        slot->mark = mark;
        memset(slot->reserved, 0, sizeof slot->reserved);
        private_of(slot)->chunk_hint = i * 7; /* let each thread start its search at another chunk */
        memset(slot->name, 0, sizeof slot->name);
        read_thread_name(slot);
        if (!atomic_compare_exchange_strong(&slot->state, &expected, GW_SLOT_LIVE))
            continue;
        pthread_setspecific(thread_end_key, slot);
        return slot;
    }
    atomic_fetch_add(&gwi.head->threads_without_slot, 1);
    return gwi_guard_on ? unshared_slot(mark) : &no_slot;
}

static uint64_t count_since(const gw_slot *slot, unsigned counter, uint64_t *last)
{
    uint64_t now = atomic_load_explicit(&slot->counter[counter], memory_order_relaxed);
    uint64_t since = now - *last;
    *last = now;
    return since;
}

uint32_t gwi_slot_work(gw_slot *slot)
{
    slot_private *own = private_of(slot);
    uint64_t graphs = atomic_load_explicit(&slot->counter[GW_COUNT_GRAPH_LAUNCH], memory_order_relaxed);
    uint64_t launches = atomic_load_explicit(&slot->counter[GW_COUNT_LAUNCH], memory_order_relaxed) + graphs;
    uint64_t launched = launches - own->launches;
    own->launches = launches;
    uint64_t copies = count_since(slot, GW_COUNT_COPY, &own->copies);
    uint64_t reads = count_since(slot, GW_COUNT_READ, &own->reads);
    uint64_t waits = count_since(slot, GW_COUNT_SYNC, &own->waits) + count_since(slot, GW_COUNT_QUERY, &own->queries);
    return gw_work_pack(launched, copies, reads, waits);
}

static void chunk_close(uint32_t *chunk)
{
    if (*chunk != 0)
        atomic_store_explicit(&gwi.chunks[*chunk - 1].head.state, GW_CHUNK_FULL, memory_order_release);
    *chunk = 0;
}

/* Release the slot at thread exit. A forked child inherits the pointer, but must not release the slot, which
 * belongs to the parent. */
static void thread_ends(void *value)
{
    gw_slot *slot = value;
    if (!gwi_slot_is_ours(slot) || slot == &no_slot)
        return;
    if (gwi_slot == slot)
        gwi_slot = NULL;
    if (!gwi_slot_is_shared(slot)) {
        munmap(slot, sizeof *slot);
        return;
    }
    chunk_close(&private_of(slot)->chunk);
    chunk_close(&private_of(slot)->reserve_chunk);
    atomic_store_explicit(&slot->state, GW_SLOT_ENDED, memory_order_release);
}

int32_t gwi_ring_take(gw_slot *slot)
{
    if (private_of(slot)->ring_asked)
        return -1;
    private_of(slot)->ring_asked = 1;
    uint32_t ring = atomic_load(&gwi.head->rings_taken);
    do {
        if (ring >= GW_RING_COUNT)
            return -1;
    } while (!atomic_compare_exchange_weak(&gwi.head->rings_taken, &ring, ring + 1));
    atomic_store(&slot->ring_index, (int32_t)ring);
    return (int32_t)ring;
}

/* ---- records ---- */

static uint32_t chunk_take(gw_slot *slot, uint32_t first, uint32_t end)
{
    uint32_t slot_index = (uint32_t)(slot - gwi.slots);
    uint32_t start = private_of(slot)->chunk_hint % (end - first);
    for (uint32_t n = 0; n < end - first; n++) {
        uint32_t i = first + (start + n) % (end - first);
        gw_chunk_head *head = &gwi.chunks[i].head;
        uint32_t expected = GW_CHUNK_FREE;
        if (atomic_load_explicit(&head->state, memory_order_relaxed) != GW_CHUNK_FREE ||
            !atomic_compare_exchange_strong(&head->state, &expected, GW_CHUNK_OWNED))
            continue;
        /* used_bytes is 0 here: it is 0 in a new buffer, and is reset when a chunk is freed. */
        head->slot_index = slot_index;
        head->tid = slot->tid;
        head->generation = atomic_load_explicit(&slot->generation, memory_order_relaxed);
        head->sequence = atomic_fetch_add(&gwi.head->chunk_sequence, 1);
        private_of(slot)->chunk_hint = (start + n + 1) % (end - first);
        return i + 1;
    }
    return 0;
}

bool gwi_buffer_is_roomy(void)
{
    uint32_t free_count = 0;
    for (uint32_t i = 0; i < GW_CHUNK_COUNT - GW_CHUNKS_FOR_FAILURES; i++)
        free_count += atomic_load_explicit(&gwi.chunks[i].head.state, memory_order_relaxed) == GW_CHUNK_FREE;
    return free_count >= GW_CHUNK_COUNT / 2;
}

static uint32_t used_of(uint32_t chunk)
{
    return atomic_load_explicit(&gwi.chunks[chunk - 1].head.used_bytes, memory_order_relaxed);
}

static bool has_room(uint32_t chunk, uint32_t records)
{
    return chunk != 0 && used_of(chunk) + records * sizeof(gw_raw_event) <= GW_CHUNK_RECORDS * sizeof(gw_raw_event);
}

/* FULL_TICKS: when no chunk is free, wait this many ticks (about 0.1 ms or more) before the next search. */
enum { FULL_TICKS = 300000, CHUNKS_PLAIN = GW_CHUNK_COUNT - GW_CHUNKS_FOR_FAILURES };

/* Return the number of a chunk of this thread that has room for `records` records. Returns 0 if there is none, and the
 * records are then lost. */
static uint32_t chunk_with_room(gw_slot *slot, uint32_t records, bool may_use_reserve)
{
    slot_private *own = private_of(slot);
    if (gwi_likely(has_room(own->chunk, records)))
        return own->chunk;
    chunk_close(&own->chunk);
    uint64_t since = atomic_load_explicit(&full_since, memory_order_relaxed);
    uint64_t now = gwi_ticks();
    if (since == 0 || now - since > FULL_TICKS) {
        own->chunk = chunk_take(slot, 0, CHUNKS_PLAIN);
        full_since = own->chunk != 0 ? 0 : now;
    }
    if (own->chunk != 0) {
        chunk_close(&own->reserve_chunk);
        return own->chunk;
    }
    if (!may_use_reserve)
        return 0;
    if (!has_room(own->reserve_chunk, records)) {
        chunk_close(&own->reserve_chunk);
        own->reserve_chunk = chunk_take(slot, CHUNKS_PLAIN, GW_CHUNK_COUNT);
    }
    return own->reserve_chunk;
}

/* Write a text of `bytes` bytes to `out`, split into records. The caller has made room for them. */
static void put_text(gw_raw_event *out, const gw_raw_event *event, const char *text, uint32_t bytes)
{
    for (uint32_t done = 0; done < bytes; out++) {
        gw_raw_text part = {.ticks = event->ticks, .fn = event->fn, .kind = GW_EV_TEXT};
        uint32_t left = bytes - done;
        part.bytes = (uint16_t)(left < GW_RAW_TEXT_BYTES ? left : GW_RAW_TEXT_BYTES);
        part.flags = left > GW_RAW_TEXT_BYTES ? GW_EVF_TEXT_FOLLOWS : 0;
        memcpy(part.text, text + done, part.bytes);
        done += part.bytes;
        memcpy(out, &part, sizeof part);
    }
}

/* Prefetch the chunk that chunk_take() will try first. Its cache lines are on another core, where the supervisor wrote
 * them last. */
static void prefetch_next_chunk(gw_slot *slot)
{
    gw_chunk *next = &gwi.chunks[private_of(slot)->chunk_hint % CHUNKS_PLAIN];
    __builtin_prefetch(&next->head, 1);
    __builtin_prefetch(&next->record[0], 1);
    __builtin_prefetch(&next->record[1], 1);
}

bool gwi_is_precious(const gw_raw_event *event)
{
    bool is_common =
        event->kind == GW_EV_CALL || event->result == 500; /* 500 ("not found") is usually a normal answer */
    return event->result != 0 && (!is_common || gw_cuda_is_sticky(event->result));
}

bool gwi_write(gw_slot *slot, const gw_raw_event *event, const char *text)
{
    bool is_failure = event->result != 0;
    bool is_precious = private_of(slot)->facts_are_precious || gwi_is_precious(event);
    uint32_t bytes = text != NULL ? (uint32_t)strnlen(text, GW_TEXT_BYTES_MAX) : 0;
    uint32_t records = 1 + (bytes + GW_RAW_TEXT_BYTES - 1) / GW_RAW_TEXT_BYTES;
    if (!gwi_slot_is_shared(slot))
        return false;
    uint32_t chunk = chunk_with_room(slot, records, is_precious);
    if (chunk == 0) {
        gwi_bump(&slot->counter[GW_COUNT_LOST], 1);
        if (event->ticks > atomic_load_explicit(&gwi.head->lost_ticks, memory_order_relaxed))
            atomic_store_explicit(&gwi.head->lost_ticks, event->ticks, memory_order_relaxed);
        atomic_fetch_add_explicit(&gwi.head->lost_events, 1, memory_order_relaxed);
        if (is_failure)
            atomic_fetch_add_explicit(&gwi.head->lost_failures, 1, memory_order_relaxed);
        return false;
    }
    gw_chunk *to = &gwi.chunks[chunk - 1];
    uint32_t used = used_of(chunk);
    gw_raw_event *out = &to->record[used / sizeof *out];
    *out = *event;
    if (bytes != 0) {
        out->flags |= GW_EVF_TEXT_FOLLOWS;
        put_text(out + 1, event, text, bytes);
    }
    __builtin_prefetch(out + records,
                       1); /* prefetch the next record, because the supervisor has read this chunk on another core */
    if (gwi_unlikely(used / sizeof *out % (GW_CHUNK_RECORDS / 2) == GW_CHUNK_RECORDS / 4))
        prefetch_next_chunk(slot);
    atomic_store_explicit(&to->head.used_bytes, used + records * (uint32_t)sizeof *out, memory_order_release);
    gwi_bump(&slot->counter[GW_COUNT_RARE], 1);
    return true;
}
