/* The events that the hook writes and the model reads. This header is the only interface between the two.
 *
 * An event is one completed driver call, or a fact that the hook recorded by itself:
 * - `kind` is the effect of the call. The meaning of the four arguments depends only on the kind.
 * - `fn` is the id of the entry point. Builds of the hook may use different ids, so the recording has a dictionary.
 *
 * For a failed call (`result` != 0), output arguments are zero. */
#ifndef GW_EVENT_H
#define GW_EVENT_H

#include <stdint.h>

/* X(name, price, effect, thing, fold, order, arg0, arg1, arg2, arg3)
 *
 * price says which calls are written:
 * - RARE: all.
 * - HOT: failures. A success is counted and stored in the ring.
 * - FAILURE: failures.
 * - FACT: none. The hook itself writes the event.
 * effect says what a success does to an object:
 * - MAKES: the object in arg0 now exists.
 * - TAKES: as MAKES; arg1 is the size of the device memory that was requested for it.
 * - ENDS: the object in arg0 no longer exists. The driver may reuse its address or handle.
 * - ENDS_PRIMARY: the primary context of the device in arg2 no longer exists or has one user less.
 * thing is the kind of the object.
 * fold says which successes compaction keeps. Failures of every kind are kept as if their kind were FIRST.
 * - KEEP: all. Mappings of virtual memory are KEEP, because compaction does not follow their lifetime.
 * - PAIR: an event that makes an object is dropped together with the one that ends it.
 * - FIRST: the first events of each process, function and result.
 * - DROP: none.
 * order is the effect on the order of work on the GPU:
 * - QUEUES: memory is allocated in stream order.
 * - PINS: copies may use this host memory while the host continues.
 * - FREES: earlier work may still be using the memory that is freed.
 * - WAITS: the call may wait for the whole device.
 *
 * "stream" arguments are the CUstream as passed (0, 1 and 2 are the default streams).
 *
 * - CALL: the arguments are the first four integer or pointer parameters.
 * - DEVICE: the device's name follows as text. bytes_free is UINT64_MAX if it could not be read.
 * - Kinds with the effect TAKES: `extra` is the GPU work that the thread submitted since its last request of these
 *   kinds.
 * - LAUNCH: grid = x | y << 32 | z << 48. block = x | y << 21 | z << 42. Each part saturates. `extra` is the dynamic
 *   shared memory in bytes.
 * - GRAPH_NODE: for an allocation node, `extra` is the size of the allocation in KiB.
 * - ALLOCATOR_BLOCK, ALLOCATOR_HELD: the event's site is the place of the allocation.
 * - ALLOCATOR_REQUESTS: the latest consecutive requests of an allocator, as text (gw_requests.h). first_order is the
 *   number of the first one. age_ns is its age, counted back from the event.
 * - ALLOCATOR_SIZE: the number of all requests so far of at least bytes_least and less than 2 * bytes_least.
 *   lifetime_sum is the sum of the lifetimes of the freed blocks. A lifetime is the number of requests from the block's
 *   own request to its free.
 * - ARRAYS_OOM: an out-of-memory error of a framework ended the program. The text is the framework's name. An argument
 *   of 0 means unknown. ARRAYS events follow.
 * - ARRAYS: live arrays of one type and shape, which the text names. `bytes` is the size of one array. If is_rest is 1,
 *   the event is about all other arrays, and `bytes` is their total size.
 * - FORK: parent_site is the place where the parent called fork(), as a site id of the parent. 0 means unknown.
 * - SITE to PYTHON_LINES: see gw_site.h.
 * - ORDER, ORDER_RANGE: see gw_order_step. In FREE, FREE_ASYNC, HOST_FREE and HOST_UNREGISTER, `extra` is the number of
 *   the last step before the event. 0 means unknown.
 * - CRASH (--catch-crash): a fault signal, with `code` and address as in siginfo. If its call site can be read, a
 *   second event with equal arguments has the site.
 * - POOL_STATE: a pool of stream-ordered memory that this process uses, recorded after a refused request. Bit 32 of
 *   device_and_default is set for the device's default pool.
 * - PHASE: age_ns before the event, the process entered the phase that the text names. Without text, it left its last
 *   phase.
 * - PYTHON_RAISED: one line of the traceback of the last exception that reached the top level, read when the
 *   interpreter ended.
 * - LAUNCH_SITE: the function was launched at the event's site. Written for the function's first launch, and for a few
 *   later launches from other sites.
 * - INJECTED (--inject): gpuwhy made the call `fn` of this thread return `result` instead of calling the driver, or let
 *   it wait for slow_ns first. The text is the rule of the plan, `order` the number of the rule's injections in the
 *   process. If is_closed is 1, all later calls of the process fail with the same result. The event of the failed call
 *   follows.
 * - FENCED (--fence): the first call that gpuwhy kept from the driver after a sticky error. If `ends` is 1, gpuwhy then
 *   ended the process with GW_FENCE_EXIT_STATUS.
 * - REHEARSAL: see gw_rehearsal_fact. */
#define GW_EVENT_KINDS(X)                                                                                              \
    X(CALL, FAILURE, NONE, NONE, KEEP, NONE, "p0", "p1", "p2", "p3")                                                   \
    X(INIT, RARE, NONE, NONE, KEEP, NONE, "flags", "", "", "")                                                         \
    X(CTX_CREATE, RARE, MAKES, CONTEXT, KEEP, NONE, "context", "flags", "device", "context_kind")                      \
    X(CTX_DESTROY, RARE, ENDS, CONTEXT, KEEP, WAITS, "context", "", "", "context_kind")                                \
    X(CTX_RELEASE, RARE, ENDS_PRIMARY, CONTEXT, KEEP, WAITS, "", "", "device", "")                                     \
    X(CTX_RESET, RARE, ENDS_PRIMARY, CONTEXT, KEEP, WAITS, "", "", "device", "")                                       \
    X(ALLOC, RARE, TAKES, MEMORY, PAIR, NONE, "address", "bytes", "space", "detail")                                   \
    X(FREE, RARE, ENDS, MEMORY, PAIR, FREES, "address", "", "space", "")                                               \
    X(ALLOC_ASYNC, RARE, TAKES, MEMORY, PAIR, QUEUES, "address", "bytes", "pool", "stream")                            \
    X(FREE_ASYNC, RARE, ENDS, MEMORY, PAIR, FREES, "address", "", "", "stream")                                        \
    X(HOST_ALLOC, RARE, MAKES, HOST_MEMORY, PAIR, PINS, "address", "bytes", "flags", "")                               \
    X(HOST_FREE, RARE, ENDS, HOST_MEMORY, PAIR, FREES, "address", "", "", "")                                          \
    X(HOST_REGISTER, RARE, MAKES, HOST_REGISTRATION, PAIR, PINS, "address", "bytes", "flags", "")                      \
    X(HOST_UNREGISTER, RARE, ENDS, HOST_REGISTRATION, PAIR, FREES, "address", "", "", "")                              \
    X(POOL_CREATE, RARE, MAKES, POOL, PAIR, NONE, "pool", "bytes_max", "device", "")                                   \
    X(POOL_DESTROY, RARE, ENDS, POOL, PAIR, WAITS, "pool", "", "", "")                                                 \
    X(POOL_TRIM, RARE, NONE, NONE, DROP, NONE, "pool", "bytes_kept", "", "")                                           \
    X(POOL_SET, RARE, NONE, NONE, KEEP, NONE, "pool", "attribute", "value", "")                                        \
    X(VMM_CREATE, RARE, TAKES, VMM_MEMORY, KEEP, NONE, "handle", "bytes", "device", "location_type")                   \
    X(VMM_RELEASE, RARE, ENDS, VMM_MEMORY, KEEP, NONE, "handle", "", "", "")                                           \
    X(VMM_RETAIN, RARE, NONE, NONE, KEEP, NONE, "handle", "address", "", "")                                           \
    X(VMM_MAP, RARE, MAKES, MAPPING, KEEP, NONE, "address", "bytes", "offset", "handle")                               \
    X(VMM_UNMAP, RARE, ENDS, MAPPING, KEEP, WAITS, "address", "bytes", "", "")                                         \
    X(VMM_RESERVE, RARE, MAKES, RESERVATION, PAIR, NONE, "address", "bytes", "", "")                                   \
    X(VMM_UNRESERVE, RARE, ENDS, RESERVATION, PAIR, NONE, "address", "bytes", "", "")                                  \
    X(VMM_IMPORT, RARE, MAKES, VMM_MEMORY, KEEP, NONE, "handle", "", "", "")                                           \
    X(IPC_EXPORT, RARE, NONE, NONE, KEEP, NONE, "address", "handle", "", "")                                           \
    X(IPC_OPEN, RARE, MAKES, IMPORTED_MEMORY, PAIR, NONE, "address", "", "", "")                                       \
    X(IPC_CLOSE, RARE, ENDS, IMPORTED_MEMORY, PAIR, NONE, "address", "", "", "")                                       \
    X(EXT_IMPORT, RARE, MAKES, EXTERNAL, KEEP, NONE, "external", "bytes", "", "")                                      \
    X(EXT_MAP, RARE, MAKES, IMPORTED_MEMORY, KEEP, NONE, "address", "bytes", "external", "")                           \
    X(EXT_DESTROY, RARE, ENDS, EXTERNAL, KEEP, NONE, "external", "", "", "")                                           \
    X(MODULE_LOAD, RARE, MAKES, MODULE, PAIR, NONE, "module", "", "", "")                                              \
    X(MODULE_UNLOAD, RARE, ENDS, MODULE, PAIR, WAITS, "module", "", "", "")                                            \
    X(LIBRARY_LOAD, RARE, MAKES, LIBRARY, PAIR, NONE, "library", "", "", "")                                           \
    X(LIBRARY_UNLOAD, RARE, ENDS, LIBRARY, PAIR, WAITS, "library", "", "", "")                                         \
    X(FUNCTION, RARE, MAKES, FUNCTION, KEEP, NONE, "function", "owner", "owner_kind", "")                              \
    X(STREAM_CREATE, RARE, MAKES, STREAM, PAIR, NONE, "stream", "flags", "priority", "")                               \
    X(STREAM_DESTROY, RARE, ENDS, STREAM, PAIR, NONE, "stream", "", "", "")                                            \
    X(EVENT_CREATE, RARE, MAKES, EVENT, PAIR, NONE, "event", "flags", "", "")                                          \
    X(EVENT_DESTROY, RARE, ENDS, EVENT, PAIR, NONE, "event", "", "", "")                                               \
    X(GRAPH_CREATE, RARE, MAKES, GRAPH, PAIR, NONE, "graph", "", "", "")                                               \
    X(GRAPH_DESTROY, RARE, ENDS, GRAPH, PAIR, NONE, "graph", "", "", "")                                               \
    X(GRAPH_NODE, RARE, MAKES, GRAPH_NODE, KEEP, NONE, "node", "graph", "node_kind", "object")                         \
    X(GRAPH_EXEC_CREATE, RARE, MAKES, GRAPH_EXEC, PAIR, NONE, "exec", "graph", "flags", "")                            \
    X(GRAPH_EXEC_DESTROY, RARE, ENDS, GRAPH_EXEC, PAIR, NONE, "exec", "", "", "")                                      \
    X(CAPTURE_BEGIN, RARE, NONE, NONE, DROP, NONE, "", "mode", "", "stream")                                           \
    X(CAPTURE_END, RARE, MAKES, GRAPH, PAIR, NONE, "graph", "", "", "stream")                                          \
    X(LIMIT_SET, RARE, NONE, NONE, KEEP, NONE, "limit", "value", "", "")                                               \
    X(LAUNCH, HOT, NONE, NONE, KEEP, NONE, "function", "grid", "block", "stream")                                      \
    X(GRAPH_LAUNCH, HOT, NONE, NONE, KEEP, NONE, "exec", "", "", "stream")                                             \
    X(HOST_FUNC, HOT, NONE, NONE, KEEP, NONE, "function", "", "", "stream")                                            \
    X(COPY, HOT, NONE, NONE, KEEP, NONE, "destination", "source", "bytes", "stream")                                   \
    X(FILL, HOT, NONE, NONE, KEEP, NONE, "destination", "value", "bytes", "stream")                                    \
    X(PREFETCH, HOT, NONE, NONE, KEEP, NONE, "address", "bytes", "", "stream")                                         \
    X(EVENT_RECORD, HOT, NONE, NONE, KEEP, NONE, "event", "", "", "stream")                                            \
    X(STREAM_WAIT, HOT, NONE, NONE, KEEP, NONE, "event", "", "", "stream")                                             \
    X(QUERY, HOT, NONE, NONE, KEEP, NONE, "handle", "", "", "")                                                        \
    X(SYNC, HOT, NONE, NONE, KEEP, NONE, "handle", "", "", "")                                                         \
    X(TEXT, FACT, NONE, NONE, FIRST, NONE, "", "", "", "")                                                             \
    X(NOTE, FACT, NONE, NONE, FIRST, NONE, "reason", "a", "b", "c")                                                    \
    X(DEVICE, FACT, NONE, NONE, KEEP, NONE, "device", "bytes_total", "bytes_free", "")                                 \
    X(DEVICE_ATTRIBUTE, FACT, NONE, NONE, KEEP, NONE, "device", "attribute", "value", "")                              \
    X(DRIVER, FACT, NONE, NONE, KEEP, NONE, "version", "exports", "", "")                                              \
    X(MEMORY_INFO, FACT, NONE, NONE, FIRST, NONE, "bytes_free", "bytes_total", "device", "after_result")               \
    X(GUARD_REFUSED, FACT, NONE, NONE, FIRST, NONE, "bytes_wanted", "bytes_limit", "bytes_used", "device")             \
    X(DRIVER_LOG, FACT, NONE, NONE, FIRST, NONE, "", "", "", "")                                                       \
    X(FORK, FACT, NONE, NONE, KEEP, NONE, "parent_pid", "parent_initialised", "parent_site", "")                       \
    X(ALLOCATOR_OOM, FACT, NONE, NONE, FIRST, NONE, "bytes_wanted", "bytes_total", "bytes_free", "device")             \
    X(ALLOCATOR_STATE, FACT, NONE, NONE, DROP, NONE, "field", "value", "device", "")                                   \
    X(ALLOCATOR_BLOCK, FACT, NONE, NONE, DROP, NONE, "address", "bytes", "age_ns", "state")                            \
    X(ALLOCATOR_HISTORY, FACT, NONE, NONE, DROP, NONE, "action", "address", "bytes", "age_ns")                         \
    X(SITE, FACT, NONE, NONE, KEEP, NONE, "site", "frame_count", "flags", "python_site")                               \
    X(SITE_FRAMES, FACT, NONE, NONE, KEEP, NONE, "site_and_first", "frame_0", "frame_1", "frame_2")                    \
    X(MAPPED, FACT, NONE, NONE, KEEP, NONE, "start", "bytes", "bias", "build_id")                                      \
    X(PYTHON_CODE, FACT, NONE, NONE, KEEP, NONE, "code", "first_line", "version", "table_bytes")                       \
    X(PYTHON_LINES, FACT, NONE, NONE, KEEP, NONE, "code", "offset", "bytes", "")                                       \
    X(PHASE, FACT, NONE, NONE, KEEP, NONE, "age_ns", "", "", "")                                                       \
    X(ALLOCATOR_HELD, FACT, NONE, NONE, DROP, NONE, "moment", "bytes", "count", "age_ns")                              \
    X(ORDER, FACT, NONE, NONE, DROP, NONE, "step_and_tid", "object", "stream", "age_ns")                               \
    X(ORDER_RANGE, FACT, NONE, NONE, DROP, NONE, "destination", "source", "bytes", "")                                 \
    X(CRASH, FACT, NONE, NONE, KEEP, NONE, "signal", "address", "code", "instruction")                                 \
    X(PYTHON_RAISED, FACT, NONE, NONE, KEEP, NONE, "", "", "", "")                                                     \
    X(POOL_STATE, FACT, NONE, NONE, FIRST, NONE, "pool", "bytes_reserved", "bytes_used", "device_and_default")         \
    X(ALLOCATOR_REQUESTS, FACT, NONE, NONE, DROP, NONE, "first_order", "count", "device", "age_ns")                    \
    X(ALLOCATOR_SIZE, FACT, NONE, NONE, DROP, NONE, "bytes_least", "requests", "frees", "lifetime_sum")                \
    X(ARRAYS_OOM, FACT, NONE, NONE, FIRST, NONE, "bytes_wanted", "bytes_in_use", "bytes_limit", "bytes_peak")          \
    X(ARRAYS, FACT, NONE, NONE, FIRST, NONE, "bytes", "count", "is_rest", "")                                          \
    X(LAUNCH_SITE, FACT, NONE, NONE, KEEP, NONE, "function", "", "", "stream")                                         \
    X(REHEARSAL, FACT, NONE, NONE, KEEP, NONE, "what", "a", "b", "device")                                             \
    X(INJECTED, FACT, NONE, NONE, FIRST, NONE, "result", "order", "slow_ns", "is_closed")                              \
    X(FENCED, FACT, NONE, NONE, KEEP, NONE, "result", "ends", "", "")

typedef enum gw_event_kind {
#define GW_X(name, ...) GW_EV_##name,
    GW_EVENT_KINDS(GW_X)
#undef GW_X
        GW_EV_COUNT
} gw_event_kind;

typedef enum gw_price { GW_PRICE_FAILURE, GW_PRICE_RARE, GW_PRICE_HOT, GW_PRICE_FACT } gw_price;
typedef enum gw_effect {
    GW_EFFECT_NONE,
    GW_EFFECT_MAKES,
    GW_EFFECT_TAKES,
    GW_EFFECT_ENDS,
    GW_EFFECT_ENDS_PRIMARY
} gw_effect;
typedef enum gw_fold { GW_FOLD_KEEP, GW_FOLD_PAIR, GW_FOLD_FIRST, GW_FOLD_DROP } gw_fold;
typedef enum gw_ordering {
    GW_ORDERING_NONE,
    GW_ORDERING_QUEUES,
    GW_ORDERING_PINS,
    GW_ORDERING_FREES,
    GW_ORDERING_WAITS
} gw_ordering;

/* Kinds of objects. A handle or an address is unique only among the objects of one kind. */
typedef enum gw_thing {
    GW_THING_NONE,
    GW_THING_CONTEXT,
    GW_THING_MEMORY,
    GW_THING_HOST_MEMORY,
    GW_THING_HOST_REGISTRATION,
    GW_THING_POOL,
    GW_THING_VMM_MEMORY,
    GW_THING_MAPPING,
    GW_THING_RESERVATION,
    GW_THING_IMPORTED_MEMORY, /* memory of another process or another API */
    GW_THING_EXTERNAL,
    GW_THING_MODULE,
    GW_THING_LIBRARY,
    GW_THING_FUNCTION,
    GW_THING_STREAM,
    GW_THING_EVENT,
    GW_THING_GRAPH,
    GW_THING_GRAPH_NODE,
    GW_THING_GRAPH_EXEC,
    GW_THING_COUNT
} gw_thing;

/* A constant with one bit per event kind, set if `is_in` is true for the kind. `is_in` is a macro with the parameters
 * of GW_EVENT_KINDS() that expands to GW_KIND_BIT(). It may only test the kind's effect or order. Kinds 64 and above
 * have no bit. The assertion below ensures that they have no effect and no order. */
#define GW_KINDS(is_in)          ((uint64_t)0 GW_EVENT_KINDS(is_in))
#define GW_KIND_BIT(name, truth) | (uint64_t)(truth) << (GW_EV_##name & 63)
#define GW_X(name, price, effect, thing, fold, order, ...)                                                             \
    || (GW_EV_##name >= 64 && (GW_EFFECT_##effect != GW_EFFECT_NONE || GW_ORDERING_##order != GW_ORDERING_NONE))
_Static_assert(!(0 GW_EVENT_KINDS(GW_X)), "kinds with an effect or an order come first");
#undef GW_X

/* True if the set `kinds`, made by GW_KINDS(), contains the kind. */
static inline int gw_kind_is_in(uint64_t kinds, unsigned kind)
{
    return kind < 64 && (kinds >> kind & 1) != 0;
}

/* True for kinds of events that request device memory. arg1 of such an event is the size in bytes. */
#define GW_TAKES(name, price, effect, ...) GW_KIND_BIT(name, GW_EFFECT_##effect == GW_EFFECT_TAKES)
static inline int gw_is_request(unsigned kind)
{
    return gw_kind_is_in(GW_KINDS(GW_TAKES), kind);
}

/* True for kinds of events that allocate or register page-locked host memory. arg1 of such an event is the size in
 * bytes. */
#define GW_PINS(name, price, effect, thing, fold, order, ...) GW_KIND_BIT(name, GW_ORDERING_##order == GW_ORDERING_PINS)
static inline int gw_is_pinning(unsigned kind)
{
    return gw_kind_is_in(GW_KINDS(GW_PINS), kind);
}

/* arg2 of ALLOC and FREE: the kind of memory. */
typedef enum gw_space {
    GW_SPACE_DEVICE = 0,
    GW_SPACE_PITCHED = 1,
    GW_SPACE_MANAGED = 2,
    GW_SPACE_ARRAY = 3,
    GW_SPACE_MIPMAP = 4,
    GW_SPACE_COUNT
} gw_space;

/* arg3 of CTX_CREATE. Each retain of a primary context is a separate CTX_CREATE event. The model counts them. */
typedef enum gw_context_kind {
    GW_CONTEXT_PLAIN = 0,
    GW_CONTEXT_PRIMARY = 1,
    GW_CONTEXT_GREEN = 2,
    GW_CONTEXT_FROM_GREEN = 3 /* made from a green context, which is arg1 */
} gw_context_kind;

/* arg2 of FUNCTION: the kind of object in arg1, which owns the function. The function's name follows as text if it is a
 * parameter of the call. */
typedef enum gw_owner_kind {
    GW_OWNER_MODULE = 0,
    GW_OWNER_LIBRARY = 1, /* arg0 is a CUkernel */
    GW_OWNER_KERNEL = 2,  /* arg1 is the CUkernel from which arg0 was made */
    GW_OWNER_GLOBAL = 3   /* a variable instead of a function: arg0 is its address, arg3 its size in bytes */
} gw_owner_kind;

/* arg0 of NOTE: the reason why something was not recorded or not done. Text may follow. ADDRESS_LIMIT is written after
 * a refused request. arg1 and arg2 are the process's limits on its address space and its data segment, in bytes. 0
 * means unlimited. */
#define GW_NOTES(X)                                                                                                    \
    X(TEXT_ONLY, "see the text")                                                                                       \
    X(SLOTS_FULL, "too many threads: later ones are counted, not recorded")                                            \
    X(BUFFER_FULL, "the buffer was full: events were lost")                                                            \
    X(UNREACHED, "a wrapped function that cuGetProcAddress never returned")                                            \
    X(SIGNATURE_UNKNOWN, "an entry point with an uncertain signature: its calls are passed through")                   \
    X(NAME_UNKNOWN, "an unknown entry point: its calls are passed through")                                            \
    X(OBSERVER_ATTACHED, "gpuwhy has attached to the framework")                                                       \
    X(OBSERVER_REFUSED, "gpuwhy could not attach to the framework")                                                    \
    X(EXPORT_TABLE, "the program requested a private table from the driver")                                           \
    X(VIRTUAL_LACKS, "the program called an entry point that the virtual card lacks")                                  \
    X(DRIVER_MISSING, "the next driver could not be opened")                                                           \
    X(CHILD_INHERITED, "a child process used the parent's driver state")                                               \
    X(SITES_FULL, "too many call sites: later ones are not recorded")                                                  \
    X(ADDRESS_LIMIT, "the address space or the data of the process is limited")                                        \
    X(QUIET, "the program forbids what recording needs: its later calls are not recorded")

typedef enum gw_note {
#define GW_X(name, text) GW_NOTE_##name,
    GW_NOTES(GW_X)
#undef GW_X
        GW_NOTE_COUNT
} gw_note;

/* arg0 of REHEARSAL: what the event tells about a run in which device memory existed only in the hook's books and
 * nothing was computed. */
#define GW_REHEARSAL_FACTS(X)                                                                                          \
    X(LIMIT, "limit")     /* a: bytes of the card that the program sees; b: bytes of the real card */                  \
    X(PEAK, "peak")       /* the process holds more of the card than ever; a: bytes in the books; b: bytes that the    \
                           * driver holds for the process */                                                           \
    X(SHARE, "share")     /* a: bytes that the driver holds for the process, after they have grown */                  \
    X(REFUSED, "refused") /* a call that a rehearsal does not support; a: its function; text: its name */              \
    X(TIMED, "timed")     /* the program measured times on the card, which are made up */                              \
    X(TORCH, "torch")     /* a: most bytes that were live in PyTorch's allocator; b: bytes that it has reserved */     \
    X(STEADY, "steady")   /* a: iterations in a row that were equal; b: launches in each */                            \
    X(READ, "read")       /* a small read from the card, whose values are zeros; a: bytes; once for each call site */

typedef enum gw_rehearsal_fact {
#define GW_X(name, text) GW_REHEARSAL_##name,
    GW_REHEARSAL_FACTS(GW_X)
#undef GW_X
        GW_REHEARSAL_FACT_COUNT
} gw_rehearsal_fact;

/* arg0 of ALLOCATOR_STATE: which value of a framework's allocator arg1 is. Units are bytes, counts or ns, as the names
 * show. */
#define GW_ALLOCATOR_FIELDS(X)                                                                                         \
    X(ALLOCATED, "allocated_bytes")                                                                                    \
    X(RESERVED, "reserved_bytes")                                                                                      \
    X(ACTIVE, "active_bytes")                                                                                          \
    X(INACTIVE_SPLIT, "inactive_split_bytes")                                                                          \
    X(LARGEST_INACTIVE, "largest_inactive_block_bytes")                                                                \
    X(SEGMENTS, "segment_count")                                                                                       \
    X(ALLOCATED_PEAK, "allocated_peak_bytes")                                                                          \
    X(RESERVED_PEAK, "reserved_peak_bytes")                                                                            \
    X(RETRIES, "retry_count")                                                                                          \
    X(OOMS, "out_of_memory_count")                                                                                     \
    X(EXPANDABLE, "expandable_segments")                                                                               \
    X(LIMIT, "limit_bytes")                                                                                            \
    X(HISTORY_TOTAL, "history_entry_count")                                                                            \
    X(WHEN, "when")                  /* reason for the report: a gw_report_when */                                     \
    X(HISTORY_AGE, "history_age_ns") /* age of the start of the recorded history, counted back from the event */       \
    /* Values about all allocations and frees from the first one on ("course" in docs/GLOSSARY.md) */                  \
    X(COURSE_REQUESTS, "course_request_count") /* from here on, ages in the report count back from the time of         \
                                                * this event */                                                        \
    X(COURSE_FREES, "course_free_count")                                                                               \
    X(COURSE_LIVE, "course_live_bytes")                                                                                \
    X(COURSE_LIVE_COUNT, "course_live_count")                                                                          \
    X(COURSE_PEAK, "course_peak_bytes")                                                                                \
    X(COURSE_MISSED, "course_missed_count") /* missed allocations and frees; if not 0, the course is incomplete */

typedef enum gw_allocator_field {
#define GW_X(name, text) GW_ALLOCATOR_##name,
    GW_ALLOCATOR_FIELDS(GW_X)
#undef GW_X
        GW_ALLOCATOR_FIELD_COUNT
} gw_allocator_field;

typedef enum gw_report_when {
    GW_WHEN_OOM = 0,       /* the allocator refused a request */
    GW_WHEN_END = 1,       /* the end of the program */
    GW_WHEN_REQUESTED = 2, /* the program saved its memory snapshot */
    /* The driver refused a request that did not come from this allocator, such as one of cuBLAS. The report belongs to
     * the failed call just before it. */
    GW_WHEN_OTHER_REFUSED = 3
} gw_report_when;

/* arg3 of ALLOCATOR_BLOCK, a block held by a framework's allocator. The low bits are the block's state. The bits from
 * GW_BLOCK_ORDER_SHIFT up are the 1-based number of its request on the device, or 0 if unknown.
 *
 * arg2 is the allocation's age in ns, counted back from the event. It is GW_AGE_UNKNOWN if the allocation is not in the
 * history. */
#define GW_AGE_UNKNOWN UINT64_MAX
enum { GW_BLOCK_ORDER_SHIFT = 8 };
typedef enum gw_block_state {
    GW_BLOCK_LIVE = 0,     /* in use by the program */
    GW_BLOCK_PENDING = 1,  /* freed by the program, but a stream may still use it */
    GW_BLOCK_INACTIVE = 2, /* cached: free inside the allocator */
    GW_BLOCK_REST = 3      /* live blocks that are not listed individually: arg0 is their number, arg1 their bytes */
} gw_block_state;

/* arg0 of ALLOCATOR_HISTORY, an entry of the allocator's history. arg3 is the entry's age in ns, counted back from the
 * event. Only the latest entries are written, except for LIVE_PEAK and LIVE_LOW.
 *
 * For LIVE_PEAK and LIVE_LOW, the whole history is divided into several hundred equal spans of time. arg2 is the
 * highest or lowest number of live bytes within a span. arg3 is the age of the span's end. */
#define GW_ALLOCATOR_ACTIONS(X)                                                                                        \
    X(ALLOC, "alloc")                                                                                                  \
    X(FREE, "free_completed")                                                                                          \
    X(FREE_REQUESTED, "free_requested")                                                                                \
    X(SEGMENT_ALLOC, "segment_alloc")                                                                                  \
    X(SEGMENT_FREE, "segment_free")                                                                                    \
    X(SEGMENT_MAP, "segment_map")                                                                                      \
    X(SEGMENT_UNMAP, "segment_unmap")                                                                                  \
    X(OOM, "oom") /* a refused request: arg1 is 0, arg2 the requested bytes */                                         \
    X(LIVE_PEAK, "live_peak")                                                                                          \
    X(LIVE_LOW, "live_low")                                                                                            \
    X(OTHER, "other")

typedef enum gw_allocator_action {
#define GW_X(name, text) GW_ACTION_##name,
    GW_ALLOCATOR_ACTIONS(GW_X)
#undef GW_X
        GW_ACTION_COUNT
} gw_allocator_action;

/* arg0 of ALLOCATOR_HELD: the moment that the event describes. arg3 is its age in ns, counted back from the event. The
 * event adds to the last ALLOCATOR_OOM or ALLOCATOR_STATE. */
#define GW_ALLOCATOR_MOMENTS(X)                                                                                        \
    X(PEAK, "peak")       /* arg1 bytes in arg2 blocks from one site were live at the peak of live bytes */            \
    X(REST, "peak rest")  /* like PEAK, summed over all sites without a PEAK event of their own */                     \
    X(REQUEST, "request") /* a refused request: the event's site is its call site, and arg1 is its size in bytes */

typedef enum gw_allocator_moment {
#define GW_X(name, text) GW_MOMENT_##name,
    GW_ALLOCATOR_MOMENTS(GW_X)
#undef GW_X
        GW_MOMENT_COUNT
} gw_allocator_moment;

/* arg0 of ORDER is step | tid << 8: the effect of a call on the order of GPU work, and the calling thread. age_ns is
 * the time from the start of the call to the event.
 *
 * The hook numbers these calls over all threads, in the order in which they returned, and stores the last thousand.
 * When a free depends on the order, it first writes the unwritten ones. `extra` is the 1-based number modulo 2^32. A
 * gap in the numbers means that steps are missing.
 *
 * Streams are as passed, except that the per-thread default stream is tid << 8 | 2. A COPY or FILL is followed by an
 * ORDER_RANGE with the same number. For a FILL, the source of this range is 0. */
#define GW_ORDER_STEPS(X)                                                                                              \
    X(UNKNOWN)     /* work was captured, or ordered in a way that the hook does not follow */                          \
    X(COPY)        /* `object` is the destination; the host does not wait */                                           \
    X(COPY_WAITED) /* a copy like COPY, but the host may have waited for it */                                         \
    X(FILL)                                                                                                            \
    X(RECORD) /* records the event `object` */                                                                         \
    X(WAIT)   /* the stream will wait for the event `object` */                                                        \
    X(HOST_FUNC)                                                                                                       \
    X(STREAM_DONE)  /* the host waited for all work of the stream `object`, or a query found it done */                \
    X(EVENT_DONE)   /* the host waited for the event `object`, or a query found it done */                             \
    X(CONTEXT_DONE) /* the host waited for all work of a context */

typedef enum gw_order_step {
#define GW_X(name) GW_ORDER_##name,
    GW_ORDER_STEPS(GW_X)
#undef GW_X
        GW_ORDER_STEP_COUNT
} gw_order_step;

/* `extra` of a request for device memory: four counts of the GPU work that the thread submitted since its last request.
 * Each count saturates. 0 may mean that this recording has no counts. */
#define GW_META_WORK "requests.work" /* key of a META item; if present, this recording counts the work */
enum { GW_WORK_LAUNCHES_MAX = 0xfff, GW_WORK_COPIES_MAX = 0x7f, GW_WORK_READS_MAX = 0x3f, GW_WORK_WAITS_MAX = 0x7f };

/* Return the number of launches. */
static inline uint32_t gw_work_launches(uint32_t work)
{
    return work & GW_WORK_LAUNCHES_MAX;
}

/* Return the number of copies in every direction, including those to the host. */
static inline uint32_t gw_work_copies(uint32_t work)
{
    return work >> 12 & GW_WORK_COPIES_MAX;
}

/* Return the number of copies to the host by functions whose name shows the direction. cuMemcpy is not one of them. */
static inline uint32_t gw_work_reads(uint32_t work)
{
    return work >> 19 & GW_WORK_READS_MAX;
}

/* Return the number of synchronisations of a context, stream or event, plus the number of queries. */
static inline uint32_t gw_work_waits(uint32_t work)
{
    return work >> 25;
}

/* Pack the counts into one number for `extra`. A count above its maximum is stored as the maximum. */
static inline uint32_t gw_work_pack(uint64_t launches, uint64_t copies, uint64_t reads, uint64_t waits)
{
    uint32_t l = (uint32_t)(launches < GW_WORK_LAUNCHES_MAX ? launches : GW_WORK_LAUNCHES_MAX);
    uint32_t c = (uint32_t)(copies < GW_WORK_COPIES_MAX ? copies : GW_WORK_COPIES_MAX);
    uint32_t r = (uint32_t)(reads < GW_WORK_READS_MAX ? reads : GW_WORK_READS_MAX);
    uint32_t w = (uint32_t)(waits < GW_WORK_WAITS_MAX ? waits : GW_WORK_WAITS_MAX);
    return l | c << 12 | r << 19 | w << 25;
}

/* Flags of an event. */
enum {
    GW_EVF_CAPTURING = 1 << 0,    /* a stream capture was open in the process */
    GW_EVF_GUARD = 1 << 1,        /* the guard produced the result, not the driver */
    GW_EVF_TEXT_FOLLOWS = 1 << 2, /* TEXT records of the same thread follow */
    GW_EVF_PER_THREAD = 1 << 3,   /* the entry point was a _ptsz or _ptds variant */
    GW_EVF_INJECTED = 1 << 4,     /* --inject produced the result, not the driver */
    GW_EVF_FENCED = 1 << 5        /* --fence returned an earlier error without calling the driver */
};

/* Keys of META items: the plan of --inject, and "on" or "exit" with --fence. */
#define GW_META_INJECT "option.inject"
#define GW_META_FENCE  "option.fence"
#define GW_META_LEAKS  "option.leaks" /* "strict" */
/* Exit status of a process that --fence=exit ended. */
enum { GW_FENCE_EXIT_STATUS = 79 };

/* One event as stored in the buffer. `ticks` is the time after the call returned, on the buffer's clock. For a call
 * that successfully ended an object (FREE, ..._DESTROY, ...), `ticks` is the time before the call. So if another thread
 * gets the same address or handle for a new object, the new object's event has a later time. */
typedef struct gw_raw_event {
    uint64_t ticks;
    uint16_t fn;
    uint8_t kind;
    uint8_t flags;
    uint16_t result;  /* CUresult; all values are below 1,000 */
    uint16_t took_us; /* duration of the call, at most 65,535; 0 for kinds that are not timed */
    uint32_t site;    /* call site id; 0: unknown */
    uint32_t extra;   /* its meaning depends on the kind, see GW_EVENT_KINDS() */
    uint64_t context; /* the context that was current at the call; 0: none, or not read */
    uint64_t arg[4];
} gw_raw_event;
_Static_assert(sizeof(gw_raw_event) == 64, "an event is one cache line");

/* A record with text that belongs to the previous event of the same thread. Long texts take several records. */
enum { GW_RAW_TEXT_BYTES = 48, GW_TEXT_BYTES_MAX = 960 };
typedef struct gw_raw_text {
    uint64_t ticks;
    uint16_t fn;
    uint8_t kind;   /* GW_EV_TEXT */
    uint8_t flags;  /* GW_EVF_TEXT_FOLLOWS: another text record follows */
    uint16_t bytes; /* length of `text`, which has no terminator */
    uint16_t reserved;
    char text[GW_RAW_TEXT_BYTES];
} gw_raw_text;
_Static_assert(sizeof(gw_raw_text) == 64, "text records are as large as events");

#endif
