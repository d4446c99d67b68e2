/* Internal header of the virtual driver: its state, its objects, and the functions shared in this folder.
 *
 * One lock (gwi_lock) protects everything. An entry point is written as
 *
 *     GWI_API(cuMemFree_v2)(CUdeviceptr address)
 *     {
 *         ...
 *         return result;
 *     }
 *
 * The generated export calls gwi_virt_enter() first. It handles a missing initialisation, a missing context and a
 * sticky error, and takes the lock, except for calls that work at any time or use only thread-local state (enter.c).
 * Then gwi_virt_leave() releases the lock and writes the driver's log. The caller of any other function must hold the
 * lock, unless its comment says otherwise. */
#ifndef GWI_VIRT_H
#define GWI_VIRT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gw_cuda_abi.h"
#include "gw_pages.h"
#include "gw_pool.h"
#include "gw_ranges.h"
#include "gw_virt_calls.h"
#include "gw_virt_spec.h"
#include "gwi_image.h"
#include "gwi_shared.h"

/* Define an entry point. The compiler checks its type against the generated declaration. */
#define GWI_API(symbol) int gwi_virt_##symbol
/* Make `symbol` an alias of `target`, which must be defined above in the same file. */
#define GWI_ALIAS(symbol, target) gw_fn_t_##symbol gwi_virt_##symbol __attribute__((alias("gwi_virt_" #target)))

/* Define an entry point that only returns a value. */
#define GWI_RETURN(symbol, parameters, value)                                                                          \
    GWI_API(symbol) parameters                                                                                         \
    {                                                                                                                  \
        return value;                                                                                                  \
    }

/* Define an entry point that stores one value in `*ret`. */
#define GWI_ANSWER(symbol, parameters, ret, value)                                                                     \
    GWI_API(symbol) parameters                                                                                         \
    {                                                                                                                  \
        if (ret == NULL)                                                                                               \
            return CUDA_ERROR_INVALID_VALUE;                                                                           \
        *ret = value;                                                                                                  \
        return 0;                                                                                                      \
    }

/* The same for a value of an object. `value` calls the object `found`; `missing` is the error if there is none. */
#define GWI_ANSWER_OF(symbol, parameters, ret, type, object, missing, value)                                           \
    GWI_API(symbol) parameters                                                                                         \
    {                                                                                                                  \
        const type *found = object;                                                                                    \
        if (ret == NULL || found == NULL)                                                                              \
            return ret == NULL ? CUDA_ERROR_INVALID_VALUE : missing;                                                   \
        *ret = value;                                                                                                  \
        return 0;                                                                                                      \
    }

/* --- objects ------------------------------------------------------------------------------------------- */

typedef enum gwi_kind {
    GWI_CONTEXT,
    GWI_STREAM,
    GWI_EVENT,
    GWI_MODULE,
    GWI_FUNCTION,
    GWI_LIBRARY,
    GWI_KERNEL,
    GWI_POOL,
    GWI_PHYSICAL,
    GWI_ARRAY,
    GWI_GRAPH,
    GWI_NODE,
    GWI_EXEC,
    GWI_LOG_CALLBACK
} gwi_kind;

/* First member of every object that has a handle. The handle is the object's address. */
typedef struct gwi_object {
    gw_range range; /* in gwi.objects while the handle is valid */
    gwi_kind kind;
} gwi_object;

typedef struct gwi_context gwi_context;
typedef struct gwi_stream gwi_stream;
typedef struct gwi_command gwi_command;
typedef struct gwi_graph gwi_graph;
typedef struct gwi_function gwi_function;
typedef struct gwi_pool gwi_pool;
typedef struct gwi_physical gwi_physical;

/* Addresses that the virtual card reserved in the process. They have no access rights, so the host faults there as it
 * does with a real GPU. */
typedef struct {
    uint64_t base; /* 0: not reserved yet */
    uint64_t bytes;
    char *shadow; /* mapping with the content of the memory; byte i is at address base + i */
} gwi_reserved;

typedef struct gwi_device {
    unsigned index;
    gw_pages pages;
    gwi_reserved arena;
    gwi_context *primary; /* owned; its handle is the same for the life of the process */
    unsigned primary_flags;
    unsigned context_count;
    uint64_t strikes_seen;  /* gwi_shared_card.strike_count when its faults were last handled */
    gwi_pool *pool_default; /* owned */
    gwi_pool *pool_current; /* borrowed */
} gwi_device;

struct gwi_context {
    gwi_object object;
    gwi_device *device;
    bool alive;
    bool is_primary;
    unsigned retain_count; /* only for a primary context */
    unsigned generation;   /* incremented when the context is destroyed; objects with an older value are dead */
    unsigned flags;
    uint64_t id;
    uint64_t own_bytes; /* device memory used by the context itself */
    int fault;          /* error of a faulty kernel; 0: none */
    bool fault_seen;    /* a call has reported the fault, so all later calls return it */
    gwi_stream *legacy; /* owned: the legacy default stream */
    uint64_t stream_used_bytes, stream_held_bytes;
    unsigned stream_count;
    uint64_t limits[16];
    int cache_config, shared_config;
    uint32_t peers; /* bit i: this context can access the memory of device i */
};

struct gwi_stream {
    gwi_object object;
    gwi_context *context;
    unsigned generation;
    unsigned flags;
    int priority;
    uint64_t id;
    bool is_legacy;
    bool is_default; /* legacy or per-thread default stream; cannot be destroyed by its handle */
    bool destroyed;  /* the program destroyed the stream; it is freed when its work is done */
    gwi_command *head, *tail;
    unsigned pending_count;
    gwi_command *last;                         /* a reference to the newest command; NULL: none was submitted */
    gwi_stream *active_previous, *active_next; /* in the list gwi.active, while pending_count > 0 */
    bool is_active;
    gwi_graph *capture; /* owned while a capture is open */
    bool capture_broken;
    bool capture_origin;
    gwi_stream *capture_owner; /* stream where the capture began */
    unsigned capture_mode;
    pthread_t capture_thread;
    struct gwi_node **capture_tail; /* owned: the nodes that the next node depends on */
    size_t capture_tail_count;
};

typedef struct gwi_event {
    gwi_object object;
    gwi_context *context;
    unsigned generation;
    unsigned flags;
    gwi_command *record;       /* a reference; NULL: never recorded */
    gwi_stream *capture_owner; /* the stream where the capture began; NULL: not recorded in a capture */
    struct gwi_node *capture_node;
} gwi_event;

typedef enum gwi_block_kind {
    GWI_BLOCK_DEVICE,
    GWI_BLOCK_MANAGED,
    GWI_BLOCK_POOL,
    GWI_BLOCK_MAPPED,
    GWI_BLOCK_IPC,
    GWI_BLOCK_GLOBAL,
    GWI_BLOCK_HOST,
    GWI_BLOCK_REGISTERED
} gwi_block_kind;

typedef struct gwi_block {
    gw_range range;
    gwi_block_kind kind;
    gwi_device *device;
    gwi_context *context; /* NULL: the block belongs to no single context */
    unsigned generation;
    gw_small_page *page; /* NULL: not a small block */
    char *storage;       /* where the content is stored */
    gwi_pool *pool;
    gwi_physical *physical;
    uint64_t physical_offset;
    bool accessible; /* for a mapping: cuMemSetAccess allows access */
    bool freed;      /* the program freed it in stream order, but the stream has not executed the free yet */
    unsigned flags;
    uint64_t id;
} gwi_block;

/* Memory created without an address (cuMemCreate). */
struct gwi_physical {
    gwi_object object;
    gwi_device *device;
    uint64_t bytes;
    unsigned handle_count; /* number of creates, imports and retains, minus releases */
    unsigned map_count;
    char *storage; /* owned, from mmap */
    CUmemAllocationProp properties;
    bool charged;
};

struct gwi_pool {
    gwi_object object;
    gwi_device *device;
    bool is_default;
    gw_pool books;
    gwi_reserved range;
    int reuse[3];
};

typedef struct gwi_array {
    gwi_object object;
    gwi_device *device;
    gwi_context *context;
    unsigned generation;
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    unsigned element_bytes;
    uint64_t bytes;
    uint64_t address;
    gw_small_page *page;
    char *storage;
} gwi_array;

typedef struct gwi_module {
    gwi_object object;
    gwi_context *context; /* NULL for a library's image */
    unsigned generation;
    gwi_image image;
    gwi_function **functions; /* owned, one per kernel, created on first use */
    gwi_block **globals;      /* owned, one per variable, created on first use */
    struct gwi_library *library;
    struct gwi_module *next; /* next in the list of all modules of the process */
} gwi_module;

struct gwi_function {
    gwi_object object; /* GWI_FUNCTION, or GWI_KERNEL for a library's kernel */
    gwi_module *module;
    gwi_kernel_info *info; /* borrowed from the module's image */
    int shared_dynamic_max;
    int carveout;
    int cache_config;
    gwi_function *kernel; /* the library's kernel that this function was created from; NULL: none */
};

typedef struct gwi_library {
    gwi_object object;
    gwi_module *module; /* owned; it stores the image and has no context */
    struct {
        gwi_context *context;
        unsigned generation;
        gwi_module *module; /* owned */
    } * instances;          /* owned: one for each context that the library was loaded into */
    size_t instance_count;
    void *source; /* owned: the image, kept to load it again */
    size_t source_bytes;
} gwi_library;

/* --- work: commands of a stream and nodes of a graph ----------------------------------------------------- */

typedef enum gwi_work_kind {
    GWI_WORK_EMPTY,
    GWI_WORK_KERNEL,
    GWI_WORK_COPY,
    GWI_WORK_FILL,
    GWI_WORK_HOST,
    GWI_WORK_FREE, /* a stream-ordered free */
    GWI_WORK_ALLOC,
    GWI_WORK_WRITE_VALUE,
    GWI_WORK_WAIT_VALUE,
    GWI_WORK_EVENT_RECORD,
    GWI_WORK_EVENT_WAIT,
    GWI_WORK_CHILD
} gwi_work_kind;

/* One side of a copy. Row `y` of plane `z` begins at base + (z * height + y) * pitch. */
typedef struct gwi_side {
    char *base;
    size_t pitch;
    size_t height;
} gwi_side;

typedef struct gwi_work {
    gwi_work_kind kind;
    union {
        struct {
            gwi_function *function;
            unsigned grid[3], block[3];
            unsigned shared_bytes;
            unsigned char *params; /* owned */
            uint64_t launch_number;
        } kernel;
        struct {
            gwi_side to, from;
            size_t width, height, depth;
            void *staged; /* owned: a copy of data that the host may change after the call */
            bool crosses_link;
            CUDA_MEMCPY3D asked;
        } copy;
        struct {
            char *to;
            size_t pitch, width, height; /* pitch in bytes, width in elements, height in rows */
            unsigned value, element_bytes;
            CUdeviceptr asked;
        } fill;
        struct {
            CUhostFn function;
            CUstreamCallback callback; /* exactly one of function and callback is set */
            void *argument;
            CUstream stream;
        } host;
        struct {
            CUdeviceptr address;
            size_t bytes;
            gwi_pool *pool;
        } memory;
        struct {
            char *at;
            uint64_t value;
            unsigned flags;
            int bytes;
        } value;
        struct {
            gwi_event *event;
        } event;
        struct {
            gwi_graph *graph;
        } child;
    };
} gwi_work;

/* A submitted piece of work. Its stream, events, and the commands that wait for it hold references. */
struct gwi_command {
    unsigned references;
    bool started, done, running; /* running: its host function runs, without the lock */
    uint64_t submitted_ns, start_ns, due_ns, end_ns;
    gwi_stream *stream;
    gwi_command *next;
    gwi_command **waits_for; /* owned references */
    size_t wait_count;
    uint64_t fault;                    /* fault of the kernel (enum gw_kernel_fault), raised when the command ends */
    struct gw_kernel_meeting *meeting; /* borrowed from the program: what the started kernel waits for; NULL: nothing */
    gwi_work work;
};

typedef struct gwi_node {
    gwi_object object;
    gwi_graph *graph;
    gwi_work work;
    struct gwi_node **after; /* owned: the nodes that this one depends on */
    size_t after_count;
    struct gwi_node *next;
    struct gwi_node *copy; /* only valid while the graph is copied */
    bool visited;
} gwi_node;

struct gwi_graph {
    gwi_object object;
    gwi_node *first, *last; /* owned */
    size_t node_count;
};

/* --- the process's state -------------------------------------------------------------------------------- */

typedef struct gwi_state {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* timed waits use CLOCK_MONOTONIC */
    bool initialised;
    bool sources_read;
    bool shares_memory; /* part of the shadow is a file that other processes map */
    int init_result;
    char init_reason[600];
    const volatile unsigned char *fork_mark; /* 1 in this process, 0 in a forked child */
    int process_fault;                       /* error that ruined a context; creating a context returns it; 0: none */
    gw_virt_spec spec;
    const char *folder; /* static: the run's folder; NULL: none */
    gwi_shared *shared;
    unsigned shared_slot;
    gwi_device devices[GW_VIRT_DEVICES_MAX];
    gw_ranges objects;
    gw_ranges blocks;
    gw_ranges reserved; /* address ranges from cuMemAddressReserve */
    gwi_stream *active;
    gwi_module *modules;
    unsigned capture_count;
    bool engine_started;
    uint64_t engine_wake_ns;
    uint64_t next_id;
    uint64_t host_bytes;
    uint64_t allocation_count;
    uint64_t launch_count;
    uint64_t fault_calls[GW_VIRT_FAULTS_MAX];
    bool cards_fail; /* the specification has GPU faults */
} gwi_state;

extern gwi_state gwi;

enum { GWI_CONTEXT_STACK_MAX = 64 };

typedef struct gwi_thread {
    gwi_context *contexts[GWI_CONTEXT_STACK_MAX]; /* borrowed; the last one is current */
    unsigned context_count;
    unsigned fn; /* entry point that this thread is executing */
    bool per_thread_stream;
    unsigned capture_mode;
    struct {
        gwi_context *context;
        unsigned generation;
        gwi_stream *stream;
    } own_streams[8];
} gwi_thread;

extern _Thread_local gwi_thread gwi_self;

/* core.c */
void gwi_lock(void);
void gwi_unlock(void);
/* Release the lock, write a failure to the driver's log, and return `result`. */
int gwi_leave(int result);
/* Add a line to the driver's log that explains the failure that the call is about to return. gwi_leave() writes it. */
/* host.c: call before writing to `bytes` bytes at `at`, or before allocating them (NULL). Ends the process if the host
 * has no memory for those that were never written. Call with the lock held. */
void gwi_host_need(const char *at, uint64_t bytes);

__attribute__((format(printf, 1, 2))) void gwi_say(const char *format, ...);
/* Add a line to the file `notes` in the run's folder; do nothing if there is no folder. Needs no lock. */
__attribute__((format(printf, 1, 2))) void gwi_note(const char *format, ...);
uint64_t gwi_now_ns(void);
/* Crash as a real driver does on an invalid or destroyed handle. Does not return. */
_Noreturn void gwi_crash(const void *handle);
void gwi_object_add(gwi_object *object, gwi_kind kind);
void gwi_object_remove(gwi_object *object);
/* Return the object if the handle is valid and of this kind, else NULL. */
void *gwi_object_find(const void *handle, gwi_kind kind);
/* Return the current context; NULL if there is none. */
gwi_context *gwi_current(void);
gwi_device *gwi_device_find(CUdevice device);
/* Return the sticky error of the context and mark it as reported; 0 if it has none, or if the context is NULL. */
int gwi_see_fault(gwi_context *context);
/* logs.c */
void gwi_log_line(const char *line, CUlogLevel level);
void gwi_log_result(const char *symbol, int result);

/* core.c: faults of the GPUs themselves. Call with the lock held. */
/* Apply the GPU faults that are due. If a GPU fault occurred since the last call, ruin the contexts of this process
 * that it affects. */
void gwi_cards_look(void);
/* Apply the GPU faults that the specification requests for this call of function `fn`. */
void gwi_cards_call(unsigned fn);
/* True if the GPU is lost, so that every call fails. */
bool gwi_card_is_lost(unsigned device);
/* Return the time that a kernel of this duration takes on a GPU with throttled clocks. */
uint64_t gwi_card_slowed_ns(const gwi_device *device, uint64_t duration_ns);
/* Return the time that a copy takes on a GPU with a degraded link. On other GPUs, return 0: a copy takes as long as
 * this machine needs. */
uint64_t gwi_card_copy_ns(const gwi_device *device, const gwi_work *work);

/* context.c, except gwi_context_is(), which is in core.c */
bool gwi_context_is(const gwi_context *context, unsigned generation);

/* blocks.c */
/* Map memory that takes no room until it is used, also in a program that has called mlockall(MCL_FUTURE). NULL: there
 * is none. Free it with munmap(). */
char *gwi_storage_map(size_t bytes);
/* Reserve addresses for `times` the GPU's memory, or for less where the host has less (ThreadSanitizer, limits). */
bool gwi_reserve(unsigned times, gwi_reserved *reserved);
bool gwi_device_ready(gwi_device *device);
bool gwi_device_take(gwi_device *device, uint64_t bytes);
void gwi_device_give(gwi_device *device, uint64_t bytes);
/* Count an allocation of device memory. True if the fault `oom-at` of the specification makes it fail. */
bool gwi_allocation_refused(void);
gwi_block *gwi_block_alloc(gwi_context *context, uint64_t bytes, gwi_block_kind kind);
void gwi_block_free(gwi_block *block);
gwi_block *gwi_block_at(uint64_t address);
/* Return where the `bytes` at `address` are stored. Returns NULL if they are not completely inside a live block. */
char *gwi_storage(uint64_t address, uint64_t bytes);
/* True if a kernel could access the address. Accesses are checked per page, not per block. */
bool gwi_mapped(uint64_t address);
bool gwi_is_host_block(const gwi_block *block);

/* timeline.c */
gwi_stream *gwi_stream_make(gwi_context *context, unsigned flags, int priority);
/* Return the stream of a handle, including default streams, or NULL without a context. Crashes on a destroyed handle,
 * as the real driver does. */
gwi_stream *gwi_stream_find(CUstream handle);
/* Submit work to a stream, or to the graph being captured. On success, takes ownership of what `work` owns. Outside a
 * capture, the work also waits for `wait_for` (may be NULL). */
int gwi_submit(gwi_stream *stream, const gwi_work *work, gwi_command *wait_for, gwi_command **ret_command);
/* If CUDA_LAUNCH_BLOCKING=1, wait for the launch that was just submitted. Returns 0 or the kernel's error. */
int gwi_block_after_launch(gwi_stream *stream);
void gwi_advance(void);
void gwi_wait_command(gwi_command *command);
void gwi_wait_stream(gwi_stream *stream);
void gwi_wait_context(gwi_context *context);
void gwi_wait_device(gwi_device *device);

/* commands.c */
gwi_command *gwi_command_keep(gwi_command *command);
void gwi_command_drop(gwi_command *command);
/* Make `command` wait for `other`, unless `other` is done or NULL. Returns false if out of memory. */
bool gwi_command_wait_for(gwi_command *command, gwi_command *other);
/* Remove a command that ended at `end_ns`. It must be the first one of its stream. */
void gwi_command_finish(gwi_command *command, uint64_t end_ns);
void gwi_stream_activate(gwi_stream *stream); /* call when the stream has work */
void gwi_stream_free(gwi_stream *stream);
/* Discard the pending work of the context's streams. */
void gwi_abandon(gwi_context *context);

/* commands.c */
void gwi_work_free(gwi_work *work);
bool gwi_work_copy(gwi_work *to, const gwi_work *from);
void gwi_graph_free(gwi_graph *graph);
/* Add a node. On success, the graph owns everything that `work` owned. Returns NULL if out of memory. */
gwi_node *gwi_node_add(gwi_graph *graph, const gwi_work *work, gwi_node *const *after, size_t after_count);
bool gwi_node_after(gwi_node *node, gwi_node *other); /* false: out of memory */

/* chunks.c */
gwi_pool *gwi_pool_make(gwi_device *device); /* NULL: out of memory */
gwi_pool *gwi_pool_default(gwi_device *device);
void gwi_pool_freed(gwi_block *block);
void gwi_pools_trim(gwi_device *device);
int gwi_pool_alloc(gwi_pool *pool, size_t bytes, gwi_block **ret_block);
void gwi_pools_end(gwi_device *device);
void gwi_pool_empty(gwi_pool *pool);
/* Return unused chunks to the GPU until `keep` bytes are left. */
void gwi_pool_trim(gwi_pool *pool, uint64_t keep);
/* Keep the address range of an empty pool that is about to be freed, so that a new pool can reuse it. */
void gwi_pool_leave_spare(gwi_pool *pool);

/* module.c */
gwi_function *gwi_function_find(CUfunction handle);
void gwi_modules_end(gwi_context *context);

/* kernel.c: the behaviour of a kernel, which is decided when the kernel starts */
/* The fault of a kernel (enum gw_kernel_fault): gwi_fault_code() returns the driver's error for it, and
 * gwi_fault_tell() reports its Xids. */
uint64_t gwi_kernel_fault(const gwi_work *work);
int gwi_fault_code(uint64_t fault);
void gwi_fault_tell(uint64_t fault, const gwi_context *context);
uint64_t gwi_kernel_duration_ns(const gwi_work *work);
/* Return the kernels that this kernel waits for; NULL: none (struct gw_kernel_meeting). */
struct gw_kernel_meeting *gwi_kernel_meeting(const gwi_work *work);
bool gwi_kernel_met(const struct gw_kernel_meeting *meeting);
void gwi_kernel_print_assert(const gwi_work *work);
void gwi_kernel_dump(const gwi_work *work, const gwi_context *context, int code);

/* launch.c */
/* Check the arguments of a launch or of a kernel node. On failure, returns the driver's error, and the caller has
 * nothing to free. */
int gwi_kernel_work(CUfunction handle, const unsigned grid[3], const unsigned block[3], unsigned shared, void **params,
                    void **extra, gwi_work *ret_work);

/* copy.c */
int gwi_copy_work(const CUDA_MEMCPY3D *copy, gwi_work *ret_work);
int gwi_fill_work(CUdeviceptr to, size_t pitch, unsigned value, unsigned element_bytes, size_t width, size_t height,
                  gwi_work *ret_work);

/* commands.c: captures */
/* Return the stream where this stream's capture began. Returns NULL if the stream is not being captured. */
gwi_stream *gwi_capture_owner(gwi_stream *stream);
void gwi_capture_forget(gwi_stream *stream);
int gwi_capture_add(gwi_stream *stream, const gwi_work *work, gwi_node *wait_for, gwi_node **ret_node);
void gwi_capture_end(gwi_stream *stream);
/* Call this in functions that a capture may forbid. If an open capture forbids them to this thread, break the capture
 * and return 900. Otherwise return 0. */
int gwi_capture_forbids(void);

#endif
