/* The shared mapping between the hook (writer) and the supervisor (reader).
 *
 * Each process has one file, `<run folder>/<pid>-<start ticks in hex>.buf`, of at most 4 MiB on a tmpfs. Its space is
 * reserved before it is mapped. There are no locks: a release store of the chunk's `used_bytes` publishes events. So a
 * reader finds consistent data at any instant, even after the process was killed.
 *
 *  header | slots | rings | communicators | chunks
 *
 *  slot   one per thread that called the driver: counters, ring position, current call.
 *  ring   the last GW_RING_ENTRIES hot calls (launches, copies, ...) of a thread; new entries overwrite the oldest.
 *  communicator
 *         an NCCL communicator of the process: counts, and its last GW_NCCL_LAST calls.
 *  chunk  a sequence of 64-byte records, owned by one slot from the moment it is taken until it is drained.
 *
 * Chunk states:
 * - FREE: a thread may take it by compare-and-swap.
 * - OWNED: a thread writes to it.
 * - FULL: the supervisor drains it and sets it to FREE.
 *
 * The last GW_CHUNKS_FOR_FAILURES chunks are reserved for failures. A thread that ends marks its slot ENDED and its
 * chunk FULL. The supervisor frees the slot after it has drained this chunk. */
#ifndef GW_BUFFER_H
#define GW_BUFFER_H

#include "gw_collective.h"
#include "gw_event.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GW_BUFFER_VERSION = 6,
    GW_BUFFER_BYTES = 4 << 20,
    GW_RING_ENTRIES = 2048,
    GW_SLOT_COUNT = 128,
    GW_RING_COUNT = 24, /* for threads that make hot calls; if all are taken, other threads only have counters */
    GW_CHUNK_BYTES = 16 << 10,
    GW_CHUNKS_FOR_FAILURES = 8,
    GW_BUFFER_DEVICES = 16,
    GW_NCCL_COMMUNICATORS = 64,
    GW_NCCL_LAST = 16 /* calls of a communicator that are kept in full */
};

#define GW_BUFFER_MAGIC "GWBUF\r\n\032"

/* The counters of a slot: calls of each hot kind, bytes of COPY calls, results that are only counted, and others. */
#define GW_COUNTERS(X)                                                                                                 \
    X(LAUNCH)                                                                                                          \
    X(GRAPH_LAUNCH)                                                                                                    \
    X(HOST_FUNC)                                                                                                       \
    X(COPY)                                                                                                            \
    X(FILL)                                                                                                            \
    X(PREFETCH)                                                                                                        \
    X(EVENT_RECORD)                                                                                                    \
    X(STREAM_WAIT)                                                                                                     \
    X(QUERY)                                                                                                           \
    X(SYNC)                                                                                                            \
    X(COPY_BYTES)                                                                                                      \
    X(NOT_READY)    /* result 600 */                                                                                   \
    X(PEER_ALREADY) /* results 704 and 705 */                                                                          \
    X(NOT_FOUND)    /* result 500 of a call that looks up a function or variable */                                    \
    X(RARE)         /* events written to the buffer */                                                                 \
    X(LOST)         /* events lost because the buffer was full */                                                      \
    X(READ)         /* COPY calls that copy to the host, according to the function's name */

typedef enum gw_counter {
#define GW_X(name) GW_COUNT_##name,
    GW_COUNTERS(GW_X)
#undef GW_X
        GW_COUNT_COUNT
} gw_counter;

/* One hot call.
 * - `ticks`: the thread's latest clock reading. Up to 8 hot calls share one, but each event and each synchronisation
 *   causes a new one.
 * - `what`: the kind's first argument (function, event, exec, handle). For COPY, FILL and PREFETCH, the number of
 *   bytes.
 * - `stream_fn`: stream << 16 | fn, because user-space addresses fit into 48 bits. */
typedef struct gw_ring_entry {
    uint64_t ticks;
    uint64_t what;
    uint64_t stream_fn;
} gw_ring_entry;

typedef struct gw_ring {
    gw_ring_entry entry[GW_RING_ENTRIES];
} gw_ring;

enum { GW_SLOT_FREE = 0, GW_SLOT_LIVE = 1, GW_SLOT_ENDED = 2 };
enum { GW_CHUNK_FREE = 0, GW_CHUNK_OWNED = 1, GW_CHUNK_FULL = 2 };

/* The state of one thread, 512 bytes. Only this thread writes to it, but the supervisor sets `state` to FREE. A launch
 * touches only the first 64 bytes. */
typedef struct gw_slot {
    _Atomic uint32_t state;
    uint32_t tid;
    _Atomic uint64_t calls;        /* driver calls; successful calls that only read a value are not counted */
    _Atomic uint64_t inside_since; /* ticks at the start of the call in progress */
    _Atomic uint32_t inside_fn;    /* 1 + fn of the call in progress; 0: none */
    _Atomic int32_t ring_index;    /* -1: no ring */
    _Atomic uint64_t ring_head;    /* number of entries written so far; the newest is at (head - 1) % GW_RING_ENTRIES */
    _Atomic uint32_t generation;   /* number of threads that have used this slot */
    uint32_t mark;                 /* used by the hook: identifies the process that set up this slot */
    _Atomic uint64_t counter[GW_COUNT_COUNT];
    _Atomic uint64_t synced_at; /* ticks of the last successful synchronisation */
    _Atomic uint64_t synced_ring_head;
    char name[16]; /* the thread's name when it took the slot */
    uint8_t reserved[296];
} gw_slot;
_Static_assert(offsetof(gw_slot, counter[GW_COUNT_GRAPH_LAUNCH]) + 8 <= 64, "a launch's line");
_Static_assert(sizeof(gw_slot) == 512, "slots are 512 bytes");

typedef struct gw_chunk_head {
    _Atomic uint32_t state;
    _Atomic uint32_t used_bytes; /* length of the records after this head; stored with release order */
    uint32_t slot_index;
    uint32_t tid;
    uint64_t sequence;   /* number of the chunk within the process; gives the order of a thread's chunks */
    uint32_t generation; /* the slot's generation when the chunk was taken */
    uint32_t reserved32;
    _Atomic uint32_t drained_bytes; /* length of the records that are in the recording; set by the supervisor */
    uint8_t reserved[28];
} gw_chunk_head;
_Static_assert(sizeof(gw_chunk_head) == 64, "a chunk head is as large as a record");

enum { GW_CHUNK_RECORDS = (GW_CHUNK_BYTES - 64) / 64 };
typedef struct gw_chunk {
    gw_chunk_head head;
    gw_raw_event record[GW_CHUNK_RECORDS];
} gw_chunk;
_Static_assert(sizeof(gw_chunk) == GW_CHUNK_BYTES, "chunks have no slack");

/* One NCCL call. A reader uses it only if `stamp` is the same, and not 0, before and after it has copied the call. */
typedef struct gw_buffer_collective {
    _Atomic uint64_t stamp; /* 1 + number of the communicator's earlier calls; 0: being written */
    uint64_t ticks;
    _Atomic uint64_t end_ticks; /* when it, or its group, returned; 0: not yet */
    uint64_t number;            /* as in gw_collective */
    uint64_t elements, stream;
    uint32_t tid, site, group;
    int32_t type, op, root_or_peer;
    _Atomic int32_t result;
    uint16_t call; /* gw_nccl_call */
    uint16_t is_captured;
    _Atomic uint32_t state; /* gw_collective_state; never COMPLETED, which is found out later */
    uint32_t reserved;
} gw_buffer_collective;
_Static_assert(sizeof(gw_buffer_collective) == 88, "the two sides agree");

/* States of a communicator's place. An ENDED place is used again if no other is free. */
enum { GW_NCCL_FREE = 0, GW_NCCL_MAKING = 1, GW_NCCL_READY = 2, GW_NCCL_ENDED = 3 };

/* One NCCL communicator. */
typedef struct gw_buffer_communicator {
    _Atomic uint32_t state;
    _Atomic uint32_t generation; /* number of communicators that have used this place */
    _Atomic uint64_t handle;     /* 0: not known yet */
    uint64_t id;                 /* as in gw_communicator */
    uint64_t init_ticks;         /* 0: its creation was not seen */
    _Atomic uint64_t end_ticks;  /* 0: not ended */
    uint32_t size, rank;         /* size 0: unknown */
    int32_t device;              /* -1: unknown */
    uint32_t init_site, init_tid;
    uint32_t splits;                   /* used by the hook: calls of ncclCommSplit */
    uint16_t is_aborted, has_captured; /* has_captured: a call was captured into a graph */
    _Atomic uint32_t is_ready;         /* a call that made it, or used it, has returned success */
    _Atomic uint64_t total;            /* calls so far; the next one is stored in last[total % GW_NCCL_LAST] */
    _Atomic uint64_t collectives, p2p;
    _Atomic uint64_t calls[GW_NCCL_CALL_COUNT];
    gw_buffer_collective last[GW_NCCL_LAST];
    /* The last collective of each function among those that have left `last`. So a rare call stays known. */
    gw_buffer_collective of_kind[GW_NCCL_CALL_COUNT];
} gw_buffer_communicator;

enum { GW_CLOCK_MONOTONIC = 0, GW_CLOCK_TSC = 1, GW_CLOCK_CNTVCT = 2 };

enum { GW_LAUNCHER_BYTES = 256 };

/* The head of the buffer, 4,096 bytes. Members without _Atomic are written once, before `ready` becomes 1. */
typedef struct gw_buffer_head {
    char magic[8];
    uint32_t version;
    uint32_t bytes;
    _Atomic uint32_t ready;
    uint32_t clock; /* the clock that `ticks` counts: GW_CLOCK_TSC, ... */
    uint32_t pid;
    uint32_t parent_pid;
    uint64_t start_ticks; /* the start in `ticks`; this and the next two clocks are read one directly after the other */
    uint64_t start_monotonic_ns;
    uint64_t start_realtime_ns; /* CLOCK_REALTIME */
    uint32_t slot_offset, slot_count;
    uint32_t ring_offset, ring_count;
    uint32_t chunk_offset, chunk_count;
    uint32_t fn_count; /* size of the hook's function table; with the hash, it detects hooks of another build */
    uint32_t fn_table_hash;
    _Atomic uint32_t rings_taken;
    _Atomic uint32_t captures_open;
    _Atomic uint64_t chunk_sequence;
    _Atomic uint64_t lost_events;
    _Atomic uint64_t lost_failures;
    _Atomic uint64_t threads_without_slot;
    _Atomic uint32_t initialised; /* 1: cuInit returned 0 in this process */
    _Atomic uint32_t failures;    /* number of failures written as events, not counting result 500 */
    _Atomic uint32_t sticky;      /* first sticky result in this process; 0: none */
    uint32_t reserved32;
    char driver_path[1024];
    char driver_build_id[64]; /* hex; empty: none */
    char exe[1024];
    uint64_t pid_namespace;     /* pid namespace that `pid` belongs to: inode of /proc/self/ns/pid; 0: unknown */
    _Atomic uint32_t sites_off; /* 1: events get no call sites (set by a benchmark, from outside the process) */
    /* PyTorch's own counts of its allocator's memory on each device: stored when the reserved bytes change, and every
     * few hundred allocations and frees. Reserved 0: PyTorch is not used there, or its allocations are not followed */
    _Atomic uint64_t torch_allocated_bytes[GW_BUFFER_DEVICES], torch_reserved_bytes[GW_BUFFER_DEVICES];
    /* GW_RANK_VARIABLES_INSIDE at the process's first driver call, in the format of /proc/PID/environ; empty: none. Ray
     * and Lightning set them inside the process, where /proc does not show them */
    char launcher[GW_LAUNCHER_BYTES];
    _Atomic uint64_t lost_ticks; /* time of the latest lost event; 0: none, or unknown */
    uint32_t communicator_offset, communicator_count;
    _Atomic uint64_t communicators_lost; /* calls on, or creations of, communicators for which there was no place */
    uint8_t reserved[1288];
} gw_buffer_head;
_Static_assert(sizeof(gw_buffer_head) == 4096, "the header is one page");

enum {
    GW_SLOTS_OFFSET = 4096,
    GW_RINGS_OFFSET = GW_SLOTS_OFFSET + GW_SLOT_COUNT * 512,
    GW_COMMUNICATORS_OFFSET = GW_RINGS_OFFSET + GW_RING_COUNT * GW_RING_ENTRIES * 24,
    GW_CHUNKS_OFFSET = GW_COMMUNICATORS_OFFSET + GW_NCCL_COMMUNICATORS * (int)sizeof(gw_buffer_communicator),
    GW_CHUNK_COUNT = (GW_BUFFER_BYTES - GW_CHUNKS_OFFSET) / GW_CHUNK_BYTES
};
_Static_assert(sizeof(gw_ring) == GW_RING_ENTRIES * 24, "rings have no slack");

#endif
