/* Part of gw_model_facts.h: devices, what each process holds on them, and snapshots of the ledger. */
#ifndef GW_MEMORY_FACTS_H
#define GW_MEMORY_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Up to GW_MODEL_DEVICES_MAX devices are known one by one. All further ones share the place GW_MODEL_DEVICE_BEYOND,
 * which has the sum of what the process holds on them; nothing else is known about them. */
enum { GW_MODEL_DEVICES_MAX = 16, GW_MODEL_DEVICE_BEYOND = GW_MODEL_DEVICES_MAX, GW_MODEL_DEVICE_PLACES };

/* "GPU 3", or "a GPU beyond the first 16". Writes to `out`, returns it. */
enum { GW_DEVICE_TEXT_MAX = 32 };
char *gw_device_text(char out[GW_DEVICE_TEXT_MAX], int device);

/* The class of an object in the ledger. Classes up to GW_CLASS_DEVICE_LAST hold device memory. */
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
/* True for device memory that programs use by address: not arrays, which have handles. */
bool gw_class_has_addresses(gw_class cls);

/* Allocations of one kind: same process, function, class, size and call site; if the site is not known, same thread.
 * Sites with the same lines in their three innermost user frames are merged when they have names (gw_model_name_sites):
 * `kin` is then the group with the sum, and the other groups are empty. Index 0 has everything that did not fit into
 * the table. */
typedef struct gw_group {
    _Alignas(64) uint64_t bytes; /* of one object. A free touches one cache line, because there may be many groups */
    uint32_t pid, tid;
    uint32_t site; /* of the first of them; 0: not known. All sites are numbers of gw_sites.h */
    uint32_t kin;  /* index of the group that has the sum; its own, unless merged */
    uint16_t fn;
    uint8_t cls, device;
    uint64_t alloc_count, free_count, live_count, live_count_peak;
    uint64_t buried_count; /* part of free_count: destroyed with their context, not freed by a call */
    uint64_t t_first_ns, t_last_ns;
    uint64_t t_kept_ns; /* creation of the youngest object that was never freed; known once the model is finished */
    /* For device and managed memory: the process's number of such allocations and frees. For everything else: its
     * number of created (made_total) and ended objects of any class. */
    uint64_t order_first, order_last;
    uint64_t frees_at_last; /* when this group last grew */
    uint64_t step_count;    /* allocations before which the process had freed something since the group's last one */
    uint64_t grown_at;      /* alloc_count when live_count_peak was first reached */
} gw_group;

/* One process on one device. live_bytes is what was requested and not freed, without the driver's own memory. Managed
 * memory is counted separately, because it need not be on the device. */
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

/* One block that was alive, sorted by allocation. `order` counts the allocations of the process, or the entries of an
 * allocator's history: a gap between neighbours means that blocks were allocated and freed in between. */
typedef struct gw_live {
    uint64_t address, bytes, t_ns, order;
    uint32_t group;
    uint32_t site; /* where it was requested; 0: not known */
    uint8_t cls, device;
    bool has_time; /* false: it is older than the allocator's history, or there is none; then it comes first in the
                      list, with t_ns 0 */
} gw_live;

/* The ledger of one process at one moment. The fields from `live` on are empty until gw_model_snapshot() returns it. */
typedef enum gw_snapshot_reason { GW_SNAPSHOT_FAILURE, GW_SNAPSHOT_TEARDOWN, GW_SNAPSHOT_END } gw_snapshot_reason;
typedef struct gw_snapshot {
    gw_snapshot_reason reason;
    uint64_t t_ns;
    uint32_t pid;
    int device;
    gw_usage usage;                          /* of that device */
    bool has_primary;                        /* one of its contexts is the primary one */
    uint64_t order, frees;                   /* number of allocations and frees of the process so far */
    uint64_t launches, copies, reads, waits; /* totals of the process, as counted at its requests for memory */
    gw_live *live; /* device memory on that device, including managed memory; owned; NULL: not kept */
    size_t live_count;
    uint64_t small_bytes;      /* in blocks of at most 1 MiB, which share pages of 2 MiB */
    uint64_t held_bytes;       /* what these blocks cost the driver: whole pages of 2 MiB */
    uint64_t small_page_count; /* such pages with at least one block */
    uint64_t small_idle_bytes; /* part of these pages that no block uses, without the last page of a run */
} gw_snapshot;

/* A device's memory according to the driver. */
typedef struct gw_memory_info {
    uint64_t t_ns;
    uint64_t bytes_free, bytes_total;
    uint64_t ledger_bytes;                /* requested by all recorded processes at that moment */
    uint64_t stream_count, context_count; /* alive in all recorded processes */
    uint32_t pid;
    int device;
    uint16_t after_result;
} gw_memory_info;

/* All stream-ordered pools of a process on a device, as the driver reported them after a refused request. */
typedef struct gw_pool_state {
    uint32_t count;
    uint64_t bytes_reserved, bytes_used;
    uint64_t idle_bytes_most; /* the pool with the most memory that is reserved but unused: */
    uint64_t pool;            /* its handle */
    bool is_default;          /* it is the default pool of the device */
    bool has_threshold;       /* the program set how much it keeps at synchronisations */
    uint64_t threshold_bytes;
} gw_pool_state;

typedef struct gw_device {
    bool known;
    char *name; /* owned; NULL: unknown */
    bool has_total;
    uint64_t bytes_total, bytes_free_first;
    uint64_t t_first_ns;
    bool has_limit;
    uint64_t bytes_limit; /* of the guard */
    bool has_attribute[128];
    uint64_t attribute[128]; /* index: the driver's number of the attribute */
} gw_device;

#endif
