/* What the model knows, for the verdicts and for render/. Everything here is read only; all pointers belong to the
 * model. Times are ns since the run began. A "has_" or "_known" flag that is false means unknown, never zero. */
#ifndef GW_MODEL_FACTS_H
#define GW_MODEL_FACTS_H

#include "gw_event.h"
#include "gw_fact.h"
#include "gw_fault_facts.h"
#include "gw_iterations.h"
#include "gw_libs.h"
#include "gw_machine_facts.h"
#include "gw_model.h"
#include "gw_sites.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Devices are known one by one up to GW_MODEL_DEVICES_MAX. All further ones share the place GW_MODEL_DEVICE_BEYOND:
 * what the process holds on them is counted there together, and nothing else is known of them. */
enum { GW_MODEL_DEVICES_MAX = 16, GW_MODEL_DEVICE_BEYOND = GW_MODEL_DEVICES_MAX, GW_MODEL_DEVICE_PLACES };

/* "GPU 3", or "a GPU beyond the first 16". Writes to `out`, returns it. */
enum { GW_DEVICE_TEXT_MAX = 32 };
char *gw_device_text(char out[GW_DEVICE_TEXT_MAX], int device);

/* What an object of the ledger is. Up to GW_CLASS_DEVICE_LAST it holds device memory. */
#define GW_CLASSES(X)                                                                                                  \
    X(PLAIN, "plain")                                                                                                  \
    X(PITCHED, "pitched")                                                                                              \
    X(ARRAY, "array")                                                                                                  \
    X(MIPMAP, "mipmapped array")                                                                                       \
    X(POOL, "stream-ordered")                                                                                          \
    X(VMM, "virtual memory management")                                                                                \
    X(MANAGED, "managed")                                                                                              \
    X(HOST, "pinned host")                                                                                             \
    X(REGISTERED, "registered host")                                                                                   \
    X(IMPORT, "imported")                                                                                              \
    X(MAPPING, "mapping")                                                                                              \
    X(CONTEXT, "context")                                                                                              \
    X(STREAM, "stream")                                                                                                \
    X(EVENT, "event")                                                                                                  \
    X(MODULE, "module")                                                                                                \
    X(FUNCTION, "function")                                                                                            \
    X(GRAPH, "graph")                                                                                                  \
    X(GRAPH_EXEC, "executable graph")                                                                                  \
    X(MEMORY_POOL, "memory pool")                                                                                      \
    X(LIBRARY, "library")                                                                                              \
    X(EXTERNAL, "external memory")                                                                                     \
    X(RESERVATION, "address reservation")

typedef enum gw_class {
#define GW_X(name, text) GW_CLASS_##name,
    GW_CLASSES(GW_X)
#undef GW_X
        GW_CLASS_COUNT
} gw_class;
enum { GW_CLASS_DEVICE_LAST = GW_CLASS_VMM };
_Static_assert(GW_CLASS_COUNT <= 32, "bits of classes");

const char *gw_class_text(gw_class cls); /* "plain", ...; static */
/* Device memory of which programs pass addresses: not arrays, which have handles. */
bool gw_class_has_addresses(gw_class cls);

/* Allocations of one kind: same process, function, class, size and call site; where that is not known: same thread.
 * Sites of which the innermost three of the user's frames are the same lines are one, once they have names
 * (gw_model_name_sites): `kin` is then the group that has all their numbers, and the others have none. Index 0 takes
 * what no longer fitted the table. */
typedef struct gw_group {
    _Alignas(64) uint64_t bytes; /* of one. What a free touches is one cache line, and there may be many groups */
    uint32_t pid, tid;
    uint32_t site; /* of the first of them; 0: not known. All sites are numbers of gw_sites.h */
    uint32_t kin;  /* index; its own, unless another one stands for it */
    uint16_t fn;
    uint8_t cls, device;
    uint64_t alloc_count, free_count, live_count, live_count_peak;
    uint64_t buried_count; /* of free_count: nobody gave them back, they went with their context */
    uint64_t t_first_ns, t_last_ns;
    /* Of device and managed memory: counted in such allocations and frees of the process. Of all else: in things made
     * (made_total) and ended, whatever they are. */
    uint64_t order_first, order_last;
    uint64_t frees_at_last; /* when this group last grew */
    uint64_t step_count;    /* allocations before which the process had freed something since the group's last one */
    uint64_t grown_at;      /* alloc_count when live_count_peak was reached for the first time */
} gw_group;

/* One process on one device. live_bytes is what was asked for and not given back; the driver's own memory is not in
 * it. Managed memory is counted apart: it need not lie on the device. */
typedef struct gw_usage {
    bool used; /* a context or memory was seen */
    uint64_t live_bytes, live_count;
    uint64_t peak_bytes, t_peak_ns;
    uint64_t alloc_bytes_total, alloc_count_total; /* ever */
    uint64_t class_bytes[GW_CLASS_COUNT];
    uint64_t managed_bytes_peak;               /* of class_bytes[GW_CLASS_MANAGED] */
    uint64_t class_count[GW_CLASS_COUNT];      /* alive */
    uint64_t class_count_peak[GW_CLASS_COUNT]; /* most alive at once */
    uint64_t class_made[GW_CLASS_COUNT];       /* ever */
} gw_usage;

/* One block that was alive, in order of allocation. `order` counts the allocations of the process (or the entries
 * of an allocator's history): a gap between neighbours is what came and went between them. */
typedef struct gw_live {
    uint64_t address, bytes, t_ns, order;
    uint32_t group;
    uint32_t site; /* where it was asked for; 0: not known */
    uint8_t cls, device;
    bool has_time; /* false: older than the allocator's history, or there is none; then the first of the list, at t_ns 0
                    */
} gw_live;

/* The ledger of one process at an instant. From `live` on it is empty until gw_model_snapshot() gave it out. */
typedef enum gw_snapshot_reason { GW_SNAPSHOT_FAILURE, GW_SNAPSHOT_TEARDOWN, GW_SNAPSHOT_END } gw_snapshot_reason;
typedef struct gw_snapshot {
    gw_snapshot_reason reason;
    uint64_t t_ns;
    uint32_t pid;
    int device;
    gw_usage usage;                          /* of that device */
    bool has_primary;                        /* one of its contexts is the primary one */
    uint64_t order, frees;                   /* allocations and frees of the process so far */
    uint64_t launches, copies, reads, waits; /* of the process so far, as its requests for memory count them */
    gw_live *live;                           /* device memory on that device, managed too; owned; NULL: not kept */
    size_t live_count;
    uint64_t small_bytes;      /* blocks of at most 1 MiB, which share pages of 2 MiB */
    uint64_t held_bytes;       /* what the driver takes for these blocks: whole pages of 2 MiB */
    uint64_t small_page_count; /* such pages that hold at least one block */
    uint64_t small_idle_bytes; /* of these pages, not used by any block, the last page of a run excepted */
} gw_snapshot;

/* Memory of a device as the driver stated it. */
typedef struct gw_memory_info {
    uint64_t t_ns;
    uint64_t bytes_free, bytes_total;
    uint64_t ledger_bytes;                /* asked for by all recorded processes at that instant */
    uint64_t stream_count, context_count; /* alive in all recorded processes */
    uint32_t pid;
    int device;
    uint16_t after_result;
} gw_memory_info;

/* Stream-ordered pools of a process on a device, together, as the driver stated it after a refused request. */
typedef struct gw_pool_state {
    uint32_t count;
    uint64_t bytes_reserved, bytes_used;
    uint64_t idle_bytes_most; /* of the one that has most reserved and unused: */
    uint64_t pool;            /* its handle */
    bool is_default;          /* of the device */
    bool has_threshold;       /* the program set what it keeps over synchronisations */
    uint64_t threshold_bytes;
} gw_pool_state;

typedef enum gw_recovery {
    GW_RECOVERED_NOT,
    GW_RECOVERED_BY_SIZE,    /* a request of at least that size succeeded later */
    GW_RECOVERED_BY_SMALLER, /* memory was given back, or the same line asked again; a smaller request followed, work
                              * went on and was waited for */
    GW_RECOVERED_BY_WORK,    /* many launches, copies and fills succeeded later and were waited for */
    GW_RECOVERED_BY_REQUESTS /* very many requests for memory succeeded later */
} gw_recovery;

/* A call names something of another device than the one that it works on. */
typedef struct gw_elsewhere {
    bool found;
    uint8_t cls;     /* FUNCTION, EVENT, or a class of memory: what lies elsewhere */
    uint64_t key;    /* handle or address */
    uint64_t bytes;  /* memory */
    int device;      /* it was made on this one */
    int call_device; /* the call works on this one: its stream's, else the current context's */
    uint64_t stream; /* of the call; 0: the default stream, that of the current context */
    uint32_t site;   /* where it was made; 0: not known */
    uint64_t t_made_ns;
} gw_elsewhere;

/* A driver call that did not succeed. Equal failures of one thread in a row are one entry. */
typedef struct gw_failure {
    uint64_t t_ns, t_last_ns;
    uint32_t pid, tid;
    uint16_t fn, result;
    uint8_t kind, flags;
    uint16_t took_us;
    uint32_t extra;
    uint64_t context;
    uint64_t arg[4];
    uint64_t repeat_count; /* 1: once */
    const char *fn_name;   /* "?" unknown */
    char *text;            /* owned by the model; NULL: none */
    int device;            /* -1: unknown; perhaps GW_MODEL_DEVICE_BEYOND, as all devices of the model */

    bool is_probe;         /* an answer programs ask for on purpose: never a root */
    bool is_allocation;    /* device memory (or an object that costs some) was refused for lack of it */
    bool is_sticky;        /* the context, or the whole process, is lost from here on */
    bool is_echo;          /* a result that a sticky error or a fork before it explains */
    bool is_earlier;       /* before the phase that is judged alone, and not sticky */
    uint64_t bytes_wanted; /* is_allocation; 0: an object without a size */
    uint32_t site;         /* of the first one; 0: not known */
    gw_recovery recovery;
    uint64_t t_recovered_ns;
    uint64_t launches_after; /* successful ones that followed in the process, at least */
    uint64_t work_after;     /* the same with copies and fills */
    uint64_t allocs_after;   /* of device memory */
    uint64_t frees_after;
    /* Of the thread that was refused, at least: requests granted to it; launches, fills and copies that are more than
     * fetching results; waits and results that it fetched. */
    uint64_t own_allocs_after, own_work_after, own_waits_after;
    uint32_t turns_after;  /* of the process: memory was given back, then asked for and granted; counted up to 16 */
    bool synced_after;     /* a synchronisation succeeded later */
    bool worked_after;     /* new work was done later, and the host waited for some of it and found it good */
    bool null_freed_after; /* the program freed, filled or copied through NULL later */
    gw_elsewhere elsewhere;
    uint64_t null_used_at; /* index + 1 of the first later failure that names a NULL address */

    bool has_info; /* the driver's totals, asked right after the failure */
    gw_memory_info info;
    bool info_is_derived; /* it was asked after an earlier refusal, and the ledger says what changed since */
    gw_pool_state pools;  /* asked right after the failure; count 0: none, or not known */
    bool guard;           /* our guard refused, not the driver */
    bool has_limit;
    uint64_t bytes_limit, bytes_used; /* the guard's */
    bool retried;                     /* the thread's next allocation that succeeded was this request again */
    bool retry_seen;                  /* the thread allocated something later; then, of the first of these: */
    uint64_t next_bytes, t_next_ns;
    uint32_t next_site; /* 0: not known */
    uint32_t other_pid; /* the recorded process that holds most on the device besides this one; 0: none */
    uint64_t other_bytes, other_bytes_total;
    uint32_t processes_on_device; /* recorded ones with a context on it, this one included */
    uint32_t devices_idle;        /* bits: known devices on which no recorded process has a context */
    uint64_t ledger_bytes_all;    /* asked for by all recorded processes on that device at that instant */
    int snapshot;                 /* for gw_model_snapshot(); -1: none */
    int allocator;                /* index into the model's allocator reports that belongs to it; -1: none */

    /* A context had gone before: bits of the classes of living things that arg[k] may name by handle, or point into. Of
     * the first failures after the context's end alone (named_known). */
    bool named_known;
    bool context_lives; /* the current one, made anew perhaps */
    uint32_t named_classes[4];

    const char *kernel; /* is_sticky and a launch: its kernel; NULL: unknown */
    bool by_dump;       /* no call reported it: a GPU core dump tells, and the driver ended the process. fn_name is the
                         * call that a thread was inside then, "?" when none was */
} gw_failure;

/* A context (or all of a device) went away and took with it what was still alive. */
typedef enum gw_teardown_kind { GW_TEARDOWN_DESTROY, GW_TEARDOWN_RELEASE, GW_TEARDOWN_RESET } gw_teardown_kind;
typedef struct gw_buried {
    uint64_t key, bytes, t_made_ns;
    uint32_t site; /* where it was made; 0: not known */
    uint8_t cls;
} gw_buried;
typedef struct gw_teardown {
    gw_teardown_kind kind;
    uint64_t t_ns;
    uint32_t pid, tid;
    uint32_t site; /* of the call that did it; 0: not known */
    int device;
    uint64_t context;
    uint64_t t_made_ns;             /* the context; a primary one: first retained. 0: not seen */
    uint32_t made_site;             /* of that; 0: not known */
    uint64_t count[GW_CLASS_COUNT]; /* destroyed with it */
    uint64_t bytes;                 /* of device memory */
    gw_buried *buried;              /* what was destroyed, the first GW_BURIED_MAX; owned */
    size_t buried_count;
} gw_teardown;
enum { GW_BURIED_MAX = 1 << 16 };

typedef struct gw_ring_call {
    uint64_t t_ns, what, stream;
    const char *fn_name;
    const char *kernel; /* launches: the kernel's name, NULL: unknown. Graph launches: names of its kernel nodes */
    bool is_launch, is_graph_launch, is_copy, is_sync, is_query;
    bool captured; /* went into a graph: it has not run */
    /* By the waits that followed, stream by stream (waits.c): it is surely over; it may be. */
    bool waited, maybe_waited;
} gw_ring_call;

typedef struct gw_thread {
    uint32_t pid, tid;
    char name[16];
    uint64_t counter[GW_COUNT_COUNT];
    uint64_t calls, synced_at_ns;
    const char *inside_fn; /* the call it was inside at the last look; NULL: none */
    uint64_t inside_since_ns;
    gw_ring_call *ring; /* oldest first; owned */
    size_t ring_count;
    uint64_t ring_total, ring_synced_total;
} gw_thread;

/* A signal of a fault in host code, as a handler of ours (--catch-crash), a core dump or the kernel's log told it. The
 * process need not have died of it: handlers of its own may cope. */
typedef struct gw_crash {
    bool seen;
    bool by_handler;  /* else `site` is 0 */
    bool by_core;     /* neither: by the kernel's log, then tid and instruction are 0, too */
    bool was_sent;    /* no instruction of that thread brought it: somebody sent the signal */
    bool has_address; /* the one that the code touched; of some faults nobody tells it */
    bool in_block;    /* it lies in device memory that was alive: in `block` */
    bool has_code;
    int code; /* si_code */
    int signal;
    uint64_t address, instruction, t_ns;
    uint32_t tid, site;
    bool has_file;  /* the core dump lists the mapped files */
    char file[256]; /* has_file: the one in which the address lies, cut off; "": in none */
    gw_live block;
} gw_crash;

typedef struct gw_process {
    uint32_t pid, parent_pid;
    bool is_command;
    char *exe, *driver_path, *driver_build_id; /* owned; may be NULL */
    uint64_t t_seen_ns, t_first_call_ns, t_last_event_ns;
    bool init_ok;
    uint64_t t_init_ns;
    bool forked;            /* the hook saw that this is a child that did not exec */
    bool forked_after_init; /* and the parent had initialised the driver */
    uint64_t t_fork_ns;
    uint32_t fork_parent_pid;
    uint32_t init_site; /* of its first cuInit that succeeded; 0: not known */
    uint32_t fork_site; /* where its parent called fork; 0: not known */
    bool exit_known;    /* it ended */
    gw_exit_fact exit;
    uint64_t t_exit_ns;
    uint64_t lost_events, lost_failures, lost_threads;
    uint64_t counter[GW_COUNT_COUNT]; /* sum over its threads */
    uint64_t synced_at_ns;            /* last good synchronisation of any thread */
    gw_usage usage[GW_MODEL_DEVICE_PLACES];
    uint64_t alloc_order, free_order;
    uint64_t allocation_us; /* inside ALLOC and FREE calls that succeeded, whole microseconds of each: a lower bound */
    uint64_t made_total;    /* things of any class, but functions and mappings */
    uint64_t pinned_bytes, pinned_bytes_peak;
    uint64_t unknown_frees; /* of addresses that the ledger does not know */
    uint64_t primary_retains[GW_MODEL_DEVICE_PLACES];
    bool has_rank, has_world; /* as its launcher named it */
    uint32_t rank, world;     /* world: how many there are */
    uint32_t driver_api;      /* the driver's word on the CUDA version that it is for: 12040; 0: not known */
    gw_libraries libraries;   /* CUDA libraries that it had mapped, as far as the supervisor saw */
    /* The exception that nobody caught, as its Python interpreter had it when it ended; as Python prints it, without
     * the source lines. Owned; NULL: none, or it could not be read. */
    char *raised;
    size_t raised_bytes;
    uint64_t t_raised_ns;
    gw_crash crash;
    bool alive_at_end; /* when the command ended, and a moment later */
    int end_snapshot;  /* the ledger at its end, or before the teardown that took most memory along; for
                        * gw_model_snapshot(); -1: none */
} gw_process;

typedef struct gw_device {
    bool known;
    char *name; /* owned; NULL: unknown */
    bool has_total;
    uint64_t bytes_total, bytes_free_first;
    uint64_t t_first_ns;
    bool has_limit;
    uint64_t bytes_limit; /* the guard's */
    bool has_attribute[128];
    uint64_t attribute[128]; /* by the driver's attribute number */
} gw_device;

/* The most, and where known the least, live bytes in a span of time that ends at t_ns. */
typedef struct gw_peak {
    uint64_t t_ns, bytes;
    bool has_low;
    uint64_t low_bytes;
} gw_peak;
enum { GW_PEAKS_MAX = 1024 };

/* What one call site held at a moment. */
typedef struct gw_held {
    uint64_t bytes, count;
    uint32_t site; /* 0: not known */
} gw_held;
enum { GW_HELD_MAX = 64 };

/* One request of an allocator that followed all of them: the order in which an iteration asks for memory, and what it
 * keeps. */
typedef struct gw_allocator_request {
    uint64_t order; /* counted from 1 on, on that device */
    uint64_t bytes; /* as the allocator rounded them */
    uint64_t t_ns;  /* coarse: the thread's last look at the clock before it */
    /* Kernel launches (a graph is one) and waits for the GPU (of streams, events and contexts) of the process so far,
     * as counted when a thread asks for memory: those of a thread that asks for none are missing, and what a thread did
     * after its last request comes with its next one. Only differences mean something. */
    uint64_t launches, waits;
    uint32_t site; /* 0: not known; known of large blocks, and of a part of the others */
    bool freed;
    uint64_t freed_order; /* of the last request before it was given back; UINT64_MAX: more than 2^32 after its own */
} gw_allocator_request;

/* Requests of at least `bytes_least` and less than twice that, ever. */
typedef struct gw_allocator_size {
    uint64_t bytes_least, requests, frees;
    uint64_t lifetime_sum; /* of those that were freed: requests from a block's own to its end, added up */
} gw_allocator_size;
enum { GW_ALLOCATOR_SIZES_MAX = 64 };

/* A framework's own allocator, as its observer, or a snapshot that the program saved, reported it. `t_ns` is the
 * report's. */
typedef struct gw_allocator_report {
    uint64_t t_ns;
    uint32_t pid;
    int device;
    bool is_oom;
    uint64_t bytes_wanted, bytes_total, bytes_free; /* total 0: not known */
    bool has_free;                                  /* bytes_free is known */
    uint32_t wanted_site;                           /* of the refused request; 0: not known */
    bool has_field[GW_ALLOCATOR_FIELD_COUNT];
    uint64_t field[GW_ALLOCATOR_FIELD_COUNT];
    gw_live *live; /* blocks in use with their time; owned */
    size_t live_count;
    uint64_t rest_count, rest_bytes; /* live ones that the list leaves out */
    uint64_t order;                  /* of the list when it was taken */
    /* Each block was followed from the first one on: then `order` counts all requests, that of a live block is its own
     * (0: not known), `peak` tells of the whole time, and `request` holds the last ones. */
    bool has_course;
    uint64_t course_missed;        /* events that were not followed: not 0, and the course is not whole */
    gw_allocator_request *request; /* oldest first, without a gap; owned */
    size_t request_count;
    gw_allocator_size size[GW_ALLOCATOR_SIZES_MAX]; /* smallest first */
    size_t size_count;
    uint64_t history_count;     /* allocations that the history holds one by one */
    gw_peak peak[GW_PEAKS_MAX]; /* most live bytes in each of equal spans of time, oldest first */
    size_t peak_count;
    gw_held held[GW_HELD_MAX]; /* when live bytes were highest: those who held most */
    size_t held_count;
    gw_held held_rest; /* all others together */
    uint64_t t_held_ns;
    bool settled;
    gw_recovery recovery; /* of an out-of-memory */
} gw_allocator_report;

/* JAX's live arrays when its out-of-memory ended the program. */
typedef struct gw_array_kind {
    uint64_t bytes, count; /* of one; how many */
    char name[96];         /* "float32[1024,1024]" */
} gw_array_kind;
enum { GW_ARRAY_KINDS_MAX = 32 };
typedef struct gw_arrays {
    bool seen;
    uint64_t t_ns; /* when it was asked: at the end, not at the failure */
    uint32_t pid;
    uint64_t bytes_wanted, bytes_in_use, bytes_limit, bytes_peak; /* the allocator's own; 0: not known */
    gw_array_kind kind[GW_ARRAY_KINDS_MAX];                       /* those that hold most first */
    size_t kind_count;
    uint64_t rest_bytes, rest_count; /* of all other arrays together */
} gw_arrays;

/* Equal arrays of which there are many and which hold at least half of what JAX had in use: a loop that keeps them, or
 * a program that wants them. Capacity is not established then. NULL: there are none. */
const gw_array_kind *gw_arrays_pile(const gw_arrays *arrays);

/* A part of a process's life as the program named it (gpuwhy_phase(), a cell of a notebook). It lasts until the next
 * one of the process. */
typedef struct gw_phase {
    uint64_t t_ns;
    uint32_t pid;
    uint32_t alike; /* index of the process's first phase of that name */
    char *name;     /* owned; NULL: from here on the process is in none */
} gw_phase;

typedef struct gw_pair {
    gw_fact_key what; /* of a fact: which one of facts.def */
    char *key, *value;
    uint64_t t_ns;
    uint32_t pid, tid;
} gw_pair;

/* A thread of a process in which nothing went on. Strings belong to the model. */
typedef struct gw_hang_thread {
    uint32_t tid;
    char name[16];
    char wait[16];        /* a word of gw_stacks.h; "": not known */
    uint32_t owner_tid;   /* whose lock, or whose end, it waits for; 0: not known */
    uint32_t owner_ended; /* 1: that thread is no more */
    char inside_fn[48];   /* the driver call it was inside all the time; "": none */
    uint64_t inside_ns;   /* for so long, as far as watched */
    uint64_t questions;   /* it asked the GPU so often whether it is done, and nothing else */
    uint64_t not_ready;   /* so often the GPU answered that it is not; 0 also in recordings of older versions */
    char where[40];       /* inside the Linux kernel; "": not known */
    uint32_t site;        /* where it stands, as seen from outside; 0: not known */
    const char **frame;   /* the same in recordings of older versions: innermost first; owned list */
    size_t frame_count;
} gw_hang_thread;

/* No driver call but questions, begun or ended, in a process for a while. */
typedef struct gw_hang {
    uint64_t t_ns, for_ns; /* told at t_ns, when it had lasted for_ns */
    uint32_t pid;
    bool cpu_known;
    uint64_t cpu_ms; /* used by all threads of the process in that while */
    bool over;       /* it went on later */
    uint64_t t_over_ns;
    gw_hang_thread *thread; /* owned */
    size_t thread_count;
} gw_hang;

/* Memory that was given back while a copy (or a fill) that uses it was not known to be over: no event, wait or
 * synchronisation lies between, as far as calls tell, and all of those in between are known. Whether it is a fault is
 * for the verdict to say. */
typedef enum gw_unordered_kind {
    GW_UNORDERED_FREE,     /* stream-ordered memory, freed in the order of another stream, or at once */
    GW_UNORDERED_HOST_FREE /* page-locked memory that the copy writes to */
} gw_unordered_kind;
enum { GW_ORDER_STREAMS_MAX = 8 };
typedef struct gw_unordered {
    gw_unordered_kind kind;
    uint32_t pid, copy_tid, free_tid;
    uint32_t free_site, block_site; /* of the free, of the block's allocation; 0: not known */
    uint16_t copy_fn_id, free_fn_id;
    const char *copy_fn, *free_fn; /* "?" unknown */
    uint64_t t_copy_ns, t_free_ns; /* when these calls began; a fill's may be a little early */
    uint64_t t_block_ns, address, block_bytes;
    uint64_t copy_bytes;
    bool is_fill;
    bool to_host;   /* the copy writes to page-locked memory: the host may see there that it is over */
    bool from_host; /* it reads from the host's memory */
    uint64_t copy_stream, free_stream;     /* as in ORDER; free_stream: FREE_ASYNC alone */
    bool by_free;                          /* freed by a call that names no stream */
    uint64_t stream[GW_ORDER_STREAMS_MAX]; /* work on these comes after the copy */
    uint32_t stream_count;
    bool on_blocking;     /* one of them is a blocking stream: a launch into the default stream may put it in order */
    bool recorded;        /* an event was recorded after it */
    uint64_t later_count; /* copies, fills and the like on these streams after it */
    /* From the rings of all threads, for the time between. */
    bool launches_known;    /* false: some may be forgotten */
    uint64_t launch_count;  /* on these streams */
    uint64_t default_count; /* into the legacy default stream */
    uint64_t graph_count;   /* of graphs, on any stream */
} gw_unordered;
enum { GW_UNORDERED_MAX = 64 };

/* A copy to the host that nothing waited for until the process ended. */
typedef struct gw_unwaited {
    uint32_t pid, tid;
    const char *copy_fn;
    uint64_t t_ns, bytes, stream;
    uint64_t count; /* of such copies, this last one included */
} gw_unwaited;

/* What stderr said. Lines are kept in part. */
enum { GW_STDERR_LINE_MAX = 400 };
typedef struct gw_stderr_line {
    bool seen;
    uint64_t t_ns;
    uint64_t count;
    char text[GW_STDERR_LINE_MAX];
} gw_stderr_line;
typedef struct gw_stderr_facts {
    uint64_t bytes;
    /* As it was written; of much, its beginning and its end. `text_gap`: what follows from there is the end, and lines
     * are missing before it; 0: nothing is missing. */
    char *text; /* owned */
    size_t text_bytes, text_gap;
    /* The text from here on is no stderr: it is the exception that a Python interpreter had when it ended, and that
     * stderr does not hold. 0 and no `inside_pid`: all of it is stderr. */
    size_t inside_at;
    uint32_t inside_pid;
    bool inside_from_top; /* its traceback begins where a program begins: nobody caught it, as far as a file can tell */
    bool traceback;       /* a Python traceback came */
    gw_stderr_line exception; /* the last line of the last traceback: "ValueError: ..." */
    char exception_type[96];
    bool exception_about_child;         /* it only says that another process failed */
    gw_stderr_line child_exception;     /* the last such line, whether it is `exception` or not */
    char frame[GW_STDERR_LINE_MAX];     /* its innermost frame: File "x.py", line 12, in f */
    char own_frame[GW_STDERR_LINE_MAX]; /* the innermost one outside of installed packages; "": there is none */
    bool exception_chain_oom;           /* an out-of-memory stands earlier in the same chain of exceptions */
    bool exception_is_chained;          /* another one stands earlier in its chain */
    bool exception_after_oom;           /* its traceback came right after an out-of-memory line, nothing in between */
    bool exception_is_fork_refused;     /* it is a framework's refusal to use CUDA in a forked child */
    bool exception_lacks_value;         /* it is about a value that was never written: None, or an unknown name */
    uint64_t oom_last_t_ns;
    gw_stderr_line oom;        /* the first out-of-memory line of a framework; count: how many */
    gw_stderr_line cuda_error; /* "CUDA error: ...", "CUDA_ERROR_..." */
    gw_stderr_line device_assert;
    gw_stderr_line wrong_device;   /* a framework says that something is on another GPU than the current one */
    gw_stderr_line library_status; /* CUDNN_STATUS_..., CUBLAS_STATUS_... */
    gw_stderr_line terminate;      /* C++: terminate called, what(): */
    gw_stderr_line host_memory;    /* MemoryError, std::bad_alloc, Cannot allocate memory */
    gw_stderr_line result;         /* the last one that names a result of CUDA, or has the runtime's words for one */
    gw_stderr_line disk_full;      /* the last one; a disk or quota is full: "No space left on device" */
    gw_stderr_line limit;          /* the last one; no more files, threads or processes: "Too many open files" */
    gw_stderr_line xla_dump;       /* the summary of TensorFlow's or XLA's allocator */
    gw_stderr_line fatal;          /* Fatal Python error, Segmentation fault */
    gw_stderr_line fork_refused;   /* a framework would not use CUDA in a forked child: no driver call is made then */
    char fork_frame[GW_STDERR_LINE_MAX]; /* the innermost frame of that traceback outside of installed packages */
    gw_stderr_line driver_log;           /* not stderr: lines of the driver's own log */
} gw_stderr_facts;

/* Entries of cuDNN's own log that differ in nothing but their time. */
typedef struct gw_cudnn_line {
    uint64_t t_ns,
        t_last_ns; /* when the supervisor read the first and the last of them: 0.1 s after they were written */
    uint64_t count;
    uint32_t pid;                     /* as the log names it; 0: it does not */
    uint32_t version;                 /* 90300, 8204; 0: not told */
    uint32_t more;                    /* further messages of the entry */
    bool is_error;                    /* else a warning */
    char *function, *status, *reason; /* owned; NULL: not told */
} gw_cudnn_line;

/* Is this exception line about the GPU? */
typedef enum gw_exception_kind {
    GW_EXCEPTION_NONE,
    GW_EXCEPTION_SCRIPT,
    GW_EXCEPTION_OOM,
    GW_EXCEPTION_GPU
} gw_exception_kind;
gw_exception_kind gw_exception_kind_of(const gw_stderr_facts *facts);
/* Is it about memory in any words, about a value that was never written, or raised while another one was handled? Then
 * a refused request may be the reason of it, whatever its type. */
bool gw_exception_may_follow_refusal(const gw_stderr_facts *facts);

typedef enum gw_framework {
    GW_FRAMEWORK_RAW,
    GW_FRAMEWORK_TORCH,
    GW_FRAMEWORK_TENSORFLOW,
    GW_FRAMEWORK_JAX,
    GW_FRAMEWORK_COUNT
} gw_framework;

/* META: the model was made from a memory snapshot that PyTorch saved, at this path; nothing else is known of its run.
 */
#define GW_META_SNAPSHOT "torch.snapshot"

struct gwi_model;
/* A place from which a function was launched: the first, and a few of later ones. */
typedef struct gw_launch_site {
    uint64_t t_ns; /* of the first launch seen there */
    uint64_t function;
    const char *kernel; /* its name, of the model; NULL: not known */
    uint64_t stream;
    uint32_t pid, tid;
    uint32_t site; /* number in gw_model.sites */
} gw_launch_site;

/* Work on a stream that nothing is known to have waited for, while the program waited for other work (alone.c). */
typedef struct gw_alone {
    uint32_t pid, tid;
    uint64_t stream;
    uint64_t t_ns;        /* on_record: of the oldest launch of these; else of the last one that was noted */
    const char *kernel;   /* of that launch; NULL: unknown */
    uint64_t launches;    /* on_record: outstanding on that stream, as far as the rings reach back */
    uint64_t waits_after; /* waits for other work that came back since, as far as the rings reach back */
    bool is_graph_launch;
    uint32_t site;  /* from where that kernel was launched on that stream; 0: not known, or from several places */
    bool on_record; /* the rings hold the launch: surely nothing waited for it. Else a ring begins later, and they
                     * hold nothing more about that stream: whether something waited for it is not known */
} gw_alone;

struct gw_model {
    gw_process *process;
    size_t process_count;
    gw_thread *thread;
    size_t thread_count;
    gw_device device[GW_MODEL_DEVICE_PLACES];
    gw_failure *failure; /* in order of time */
    size_t failure_count;
    uint64_t failures_dropped; /* of thousands: recovered ones first, then those in the middle */
    gw_snapshot *snapshot;
    size_t snapshot_count;
    gw_teardown *teardown;
    size_t teardown_count;
    gw_group *group;
    size_t group_count;
    gw_memory_info *info;
    size_t info_count;
    gw_allocator_report *allocator;
    size_t allocator_count;
    gw_arrays arrays; /* of the last process that had some */
    gw_phase *phase;  /* by process, then by time */
    size_t phase_count;
    const gw_phase *asked_phase; /* gw_model_build_phase(): judge this one alone; NULL: the whole run */
    gw_pair *meta;
    size_t meta_count;
    gw_pair *fact; /* the supervisor's */
    size_t fact_count;
    gw_hang *hang; /* in order of time */
    size_t hang_count;
    gw_unordered *unordered; /* the first and the last of them, in order of time; owned */
    size_t unordered_count;
    uint64_t unordered_total; /* how many there were */
    gw_unwaited *unwaited;    /* at most one a process; owned */
    size_t unwaited_count;
    uint64_t note_count[GW_NOTE_COUNT];
    gw_stderr_facts stderr_facts;
    gw_fault_facts faults;
    gw_launch_site *launch_site; /* as they came; owned */
    size_t launch_site_count;
    gw_alone *alone; /* by process; those on record first; owned */
    size_t alone_count;
    gw_machine machine;
    gw_cudnn_line *cudnn_line; /* --deep; owned */
    size_t cudnn_line_count;
    bool framework_mapped[GW_FRAMEWORK_COUNT];
    bool cudnn_mapped;
    bool observer_attached;
    bool truncated;         /* the recording has no end */
    uint64_t damaged_count; /* blocks skipped */
    char damaged_first[256];
    uint64_t t_end_ns; /* the command's end, or the last thing seen */
    uint64_t event_count;
    gw_sites *sites;           /* stacks, put together when asked for; owned */
    const gw_process *command; /* NULL: the command made no driver call and its end was not seen */
    bool is_virtual;           /* the card was a virtual one */
    struct gwi_model *inner;   /* the ledgers at work */
};

/* Launches of kernels, one by one or as graphs, of a process or a thread. */
static inline uint64_t gw_launches(const uint64_t counter[GW_COUNT_COUNT])
{
    return counter[GW_COUNT_LAUNCH] + counter[GW_COUNT_GRAPH_LAUNCH];
}

/* It is known to have ended, otherwise than with 0; with 0. */
static inline bool gw_died_badly(const gw_process *process)
{
    return process->exit_known && process->exit.status_known &&
           (process->exit.exit_code != 0 || process->exit.signal != 0);
}
static inline bool gw_ended_well(const gw_process *process)
{
    return process->exit_known && process->exit.status_known && !gw_died_badly(process);
}
/* The program that the user started is known to have ended with 0. */
static inline bool gw_run_ended_well(const gw_model *model)
{
    return model->command != NULL && gw_ended_well(model->command);
}

/* Launched: a kernel, alone or in a graph. */
static inline bool gw_is_any_launch(const gw_ring_call *call)
{
    return call->is_launch || call->is_graph_launch;
}

/* Launched, and nothing that followed shows that it is over. A wait for one stream says nothing about another. */
static inline bool gw_is_outstanding(const gw_ring_call *call)
{
    return gw_is_any_launch(call) && !call->captured && !call->waited && !call->maybe_waited;
}

/* Looks things up. NULL or -1: unknown. */
const gw_process *gw_model_process(const gw_model *model, uint32_t pid);
const char *gw_model_meta(const gw_model *model, const char *key);
const gw_pair *gw_model_fact(const gw_model *model, gw_fact_key what); /* the first of that key */
/* The snapshot with its list. A snapshot is cheap, its list is not: it is made when it is first asked for here, after
 * gw_model_finish(), by one thread at a time. NULL: there is no such snapshot. `live` is NULL when nothing was alive,
 * when the failure was recovered, when too many failures came before it, or without memory. */
const gw_snapshot *gw_model_snapshot(const gw_model *model, int index);
const char *gw_model_fn_name(const gw_model *model, uint16_t fn);
/* The phase that the process was in, and its name; NULL: in none, or it never said. */
const gw_phase *gw_model_phase_at(const gw_model *model, uint32_t pid, uint64_t t_ns);
const char *gw_model_phase(const gw_model *model, uint32_t pid, uint64_t t_ns);
gw_framework gw_model_framework(const gw_model *model);
/* What the process could have: the guard's limit, else the device's total. False: unknown. */
bool gw_model_device_limit(const gw_model *model, int device, uint64_t *ret_bytes);
/* The name of a call as people know it, without version and variant: "cuMemAlloc". Writes to `out`, returns it. */
enum { GW_CALL_TEXT_MAX = 80 };
char *gw_call_text(char out[GW_CALL_TEXT_MAX], const char *fn_name);
const char *gw_result_name(uint16_t result); /* "CUDA_ERROR_OUT_OF_MEMORY"; "CUDA_ERROR_?" */
/* Results that leave the context whole, and whose text is recognised wherever a program prints it. X(name), of
 * gw_cuda_results.h. */
#define GW_RESULTS_KNOWN_BY_TEXT(X)                                                                                    \
    X(CUDA_ERROR_INVALID_VALUE)                                                                                        \
    X(CUDA_ERROR_INVALID_DEVICE)                                                                                       \
    X(CUDA_ERROR_INVALID_CONTEXT)                                                                                      \
    X(CUDA_ERROR_INVALID_HANDLE)                                                                                       \
    X(CUDA_ERROR_NOT_FOUND)                                                                                            \
    X(CUDA_ERROR_NOT_SUPPORTED)

/* Blocks of a list that were allocated in phases of one name. */
typedef struct gw_kept {
    const gw_phase *phase; /* the first of that name; NULL: in none */
    bool time_known;       /* false: blocks of which nobody knows when they were allocated; `phase` is NULL */
    uint64_t bytes, count;
    uint64_t t_first_ns, t_last_ns;
} gw_kept;

/* Group a list of live blocks by phase, most bytes first. At most `room` groups are written, the rest is left out; the
 * answer is their number, 0 when the process named no phase. */
size_t gw_model_kept(const gw_model *model, uint32_t pid, const gw_live *live, size_t count, gw_kept *ret_kept,
                     size_t room);

/* ---- how memory grew ---- */

/* How a list of live blocks came about. All bytes are of blocks in the list. */
typedef struct gw_growth {
    /* The list falls into spans of growth with work in between that kept nothing. */
    size_t span_count;
    bool repeat_by_place;      /* the places are the same and in the same order, the sizes are others */
    bool repeats;              /* a later span begins with the same sizes in the same order as the first */
    size_t repeat_count;       /* how many spans do so, the first included */
    size_t repeat_match_count; /* equal sizes in a row at the start of the last of them */
    bool repeat_goes_on;       /* a run, and not the copy of a model: see growth.c */
    bool repeat_by_requests;   /* told by requests, those given back included, not by what is alive */
    uint64_t first_bytes, first_count;
    bool first_has_begin;                  /* false: it began before what is known of time */
    uint64_t first_begin_ns, first_end_ns; /* of the first span; the end is the beginning of the next */
    uint64_t last_bytes, last_count;
    uint64_t last_partner_bytes; /* repeats: of these, in blocks of a size that the first span holds as well */
    uint64_t last_begin_ns;
    /* One size that was kept again and again while other memory came and went, or work was done. */
    bool steps;
    bool steps_unsure;        /* it looks so, but too little was seen to tell it from a late phase or a first pass */
    uint64_t step_count;      /* how many of them are alive, of those whose time is known; so below */
    uint64_t step_bytes;      /* of one */
    uint64_t step_live_bytes; /* of all of them */
    uint64_t step_begin_ns, step_end_ns;
    uint64_t step_turnover;  /* allocations that came and went between them */
    uint64_t step_freed;     /* siblings of the same size and place that were freed */
    uint64_t step_waited;    /* neighbours between which work was launched and waited for, as far as rings show */
    uint64_t step_fallen;    /* neighbours between which at least as much was given back, as spans of time show */
    uint64_t step_all_bytes; /* of all sizes, allocated since the first of them */
    uint32_t step_group;
    uint32_t step_site; /* of most of them; 0: not known */
    /* the largest block */
    uint64_t largest_bytes, largest_t_ns;
    bool largest_has_time;
    uint32_t largest_group;
    uint32_t largest_site;               /* 0: not known */
    uint64_t total_bytes, undated_bytes; /* undated: of blocks whose time is not known */
    /* Earlier work came to an end and gave back most of what it had: what it needed at most. 0: not seen. */
    uint64_t earlier_peak_bytes, earlier_t_ns;
    /* Iterations and what each left behind; not searched where requests are not known one by one. */
    gw_iterations loop;
    uint64_t loop_bytes; /* loop.leak_bytes, and what the same places kept before the requests that are known */
    bool requests_whole; /* all requests of the process are known, from the first on */
} gw_growth;

/* What is asked about growth. */
typedef struct gw_growth_question {
    uint32_t pid;
    const gw_live *live; /* in order of `order` */
    size_t live_count;
    uint64_t wanted_bytes; /* the request that failed after them; 0: none */
    uint32_t wanted_site;  /* where it was asked for; 0: not known */
    uint64_t wanted_t_ns;
    uint64_t order_now;                /* the order when the list was taken */
    const gw_snapshot *snapshot;       /* `live` is its list; NULL: it is not the ledger's */
    const gw_allocator_report *report; /* says how the live bytes went and how far its history reaches; NULL: none */
} gw_growth_question;

/* Allocates nothing but short-lived memory; without it nothing is claimed. */
void gw_growth_find(const gw_model *model, const gw_growth_question *question, gw_growth *ret_growth);

/* When the blocks of the report whose time is not known were made at the latest. False: that is not known either. */
bool gw_report_undated_before(const gw_allocator_report *report, uint64_t *ret_t_ns);

#endif
