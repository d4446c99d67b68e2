/* Part of gw_model_facts.h: devices, the memory and the objects of each process on a device, and snapshots of the
 * ledger. */
#ifndef GW_MEMORY_FACTS_H
#define GW_MEMORY_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first GW_MODEL_DEVICES_MAX devices have one element each in the model's arrays. All others share the element
 * GW_MODEL_DEVICE_BEYOND, which has their sums. */
enum { GW_MODEL_DEVICES_MAX = 16, GW_MODEL_DEVICE_BEYOND = GW_MODEL_DEVICES_MAX, GW_MODEL_DEVICE_PLACES };

/* Format a device as "GPU 3", or as "a GPU beyond the first 16". Writes to `out` and returns it. */
enum { GW_DEVICE_TEXT_MAX = 32 };
char *gw_device_text(char out[GW_DEVICE_TEXT_MAX], int device);

/* The class of an object in the ledger. Classes up to GW_CLASS_DEVICE_LAST are device memory. */
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

const char *gw_class_text(gw_class cls); /* "plain", ...; a static string */
/* True for device memory that the program uses by address. False for arrays, which have handles. */
bool gw_class_has_addresses(gw_class cls);

/* Allocations with the same process, function, class, size and call site (or thread, if the site is unknown).
 *
 * gw_model_name_sites() merges groups whose call sites have the same lines in their three innermost user frames.
 * One of the groups then has the sums. The others are empty, and their `kin` is its index. Group 0 has all objects
 * that did not fit into the table. */
typedef struct gw_group {
    _Alignas(64) uint64_t bytes; /* size of each object; aligned, so that a free touches only one cache line */
    uint32_t pid, tid;
    uint32_t site; /* call site of the first object, as numbered by gw_sites.h; 0: unknown */
    uint32_t kin;  /* index of the group that this group was merged into; its own index if it was not merged */
    uint16_t fn;
    uint8_t cls, device;
    uint32_t buried_count; /* how many of free_count were destroyed with their context */
    uint64_t alloc_count, free_count, live_count, live_count_peak;
    uint64_t t_first_ns, t_last_ns;
    uint64_t t_kept_ns; /* creation time of the newest object that was never freed; gw_model_finish() sets it */
    /* Numbers of the group's first and last allocation. Each process numbers its device and managed allocations
     * together. For other classes, the number is the process's made_total. */
    uint64_t order_first, order_last;
    uint64_t frees_at_last; /* number of frees in the process when this group's last object was allocated */
    uint64_t step_count;    /* how often the process freed something between two successive allocations of this group */
    uint64_t grown_at;      /* value of alloc_count when live_count_peak was first reached */
} gw_group;
_Static_assert(sizeof(gw_group) == 128, "a group is two cache lines");

/* The memory and the objects of one process on one device. live_bytes is memory that the process requested and has
 * not freed. It excludes the driver's own memory, and managed memory, which may be elsewhere. */
typedef struct gw_usage {
    bool used; /* the process had a context or memory on the device */
    uint64_t live_bytes, live_count;
    uint64_t peak_bytes, t_peak_ns;
    uint64_t alloc_bytes_total, alloc_count_total; /* since the process started */
    uint64_t class_bytes[GW_CLASS_COUNT];
    uint64_t managed_bytes_peak;               /* peak of class_bytes[GW_CLASS_MANAGED] */
    uint64_t class_count[GW_CLASS_COUNT];      /* number of objects alive now, by class */
    uint64_t class_count_peak[GW_CLASS_COUNT]; /* highest number of objects alive at once, by class */
    uint64_t class_made[GW_CLASS_COUNT];       /* since the process started */
    /* Requests that were captured and not freed in their graph: the memory belongs to graphs, and is not in the ledger.
     * The size of a captured free is not known; assume the mean. */
    uint64_t captured_bytes, captured_count;
    uint64_t graphs_captured; /* captures that began, since the process started */
} gw_usage;

/* A block that was alive at a snapshot. Lists of blocks are sorted by `order`, the number of the allocation in the
 * process or in an allocator's history. Numbers that are missing belong to freed blocks. */
typedef struct gw_live {
    uint64_t address, bytes, t_ns, order;
    uint32_t group;
    uint32_t site; /* call site of the request; 0: unknown */
    uint8_t cls, device;
    /* false: the allocator's history does not contain the block; such blocks are first in the list, with t_ns 0 */
    bool has_time;
} gw_live;

/* The ledger of one process at one moment. `live` and the fields after it are empty until gw_model_snapshot() fills
 * them. */
typedef enum gw_snapshot_reason { GW_SNAPSHOT_FAILURE, GW_SNAPSHOT_TEARDOWN, GW_SNAPSHOT_END } gw_snapshot_reason;
typedef struct gw_snapshot {
    gw_snapshot_reason reason;
    uint64_t t_ns;
    uint32_t pid;
    int device;
    gw_usage usage;                          /* usage of the snapshot's device */
    bool has_primary;                        /* the process uses the device's primary context */
    uint64_t order, frees;                   /* number of allocations and frees of the process up to the snapshot */
    uint64_t launches, copies, reads, waits; /* totals of the process up to its last request for memory */
    gw_live *live; /* blocks of device and managed memory on that device; owned; NULL: the list was not kept */
    size_t live_count;
    uint64_t small_bytes;      /* total size of the plain blocks of at most 1 MiB, which share pages of 2 MiB */
    uint64_t held_bytes;       /* bytes that the driver needs for the device memory in `live`: whole pages of 2 MiB */
    uint64_t small_page_count; /* number of pages of 2 MiB with at least one such small block */
    uint64_t small_idle_bytes; /* bytes in these pages that no block uses */
} gw_snapshot;

/* A device's memory as the driver reported it. */
typedef struct gw_memory_info {
    uint64_t t_ns;
    uint64_t bytes_free, bytes_total;
    /* bytes on the device that all recorded processes had requested and not freed at that time */
    uint64_t ledger_bytes;
    uint64_t stream_count, context_count; /* number of objects alive on the device, of all recorded processes */
    uint32_t pid;
    int device;
    uint16_t after_result;
} gw_memory_info;

/* Sums over all stream-ordered pools of a process on a device, as the driver reported them after a refused request. */
typedef struct gw_pool_state {
    uint32_t count;
    uint64_t bytes_reserved, bytes_used;
    uint64_t idle_bytes_most; /* reserved but unused bytes of `pool` */
    uint64_t pool;            /* handle of the pool with the most unused bytes; the fields below describe this pool */
    bool is_default;          /* `pool` is the device's default pool */
    /* the program set a release threshold: the number of bytes that the pool keeps at synchronisations */
    bool has_threshold;
    uint64_t threshold_bytes;
} gw_pool_state;

typedef struct gw_device {
    bool known;
    char *name; /* owned by the model; NULL: unknown */
    bool has_total;
    uint64_t bytes_total, bytes_free_first;
    uint64_t t_first_ns;
    bool has_limit;
    uint64_t bytes_limit; /* limit set by the guard */
    bool has_attribute[128];
    uint64_t attribute[128]; /* indexed by the driver's attribute number */
} gw_device;

#endif
