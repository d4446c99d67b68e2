/* The inside of the virtual driver: its state, its objects, and what the files of this folder ask of each other.
 *
 * One lock (gwi_lock) guards everything. An entry point is written as
 *
 *     GWI_API(cuMemFree_v2)(CUdeviceptr address)
 *     {
 *         GWI_ENTER;
 *         ...
 *         return gwi_leave(result);
 *     }
 *
 * where gwi_virt_enter() (called before it by the generated export) has already answered for a missing
 * initialisation, a missing context and a sticky error, and gwi_leave() unlocks and writes the driver's log.
 * Functions without "lock" in their comment want the lock held. */
#ifndef GWI_VIRT_H
#define GWI_VIRT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gw_cuda_abi.h"
#include "gw_virt_calls.h"
#include "gw_virt_spec.h"
#include "gwi_health.h"
#include "gwi_image.h"
#include "gwi_pages.h"
#include "gwi_ranges.h"
#include "gwi_shared.h"

/* Its type is checked against the generated declaration. */
#define GWI_API(symbol) int gwi_virt_##symbol
/* `symbol` does what `target`, defined above in the same file, does. */
#define GWI_ALIAS(symbol, target) gw_fn_t_##symbol gwi_virt_##symbol __attribute__((alias("gwi_virt_" #target)))
#define GWI_ENTER                 gwi_lock()

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

/* First member of everything a program holds a handle of; the handle is its address. */
typedef struct gwi_object {
    gwi_range range; /* member of gwi.objects while the handle is good */
    gwi_kind kind;
} gwi_object;

typedef struct gwi_context gwi_context;
typedef struct gwi_stream gwi_stream;
typedef struct gwi_command gwi_command;
typedef struct gwi_graph gwi_graph;
typedef struct gwi_function gwi_function;
typedef struct gwi_pool gwi_pool;
typedef struct gwi_physical gwi_physical;

typedef struct gwi_device {
    unsigned index;
    gwi_pages pages;
    uint64_t arena_base; /* 0: not reserved yet */
    uint64_t arena_bytes;
    char *shadow;         /* what the device's memory holds; arena address + constant */
    gwi_context *primary; /* owned; the same handle for the life of the process */
    unsigned primary_flags;
    unsigned context_count;
    uint64_t strikes_seen;  /* of the card's strike_count */
    gwi_pool *pool_default; /* owned */
    gwi_pool *pool_current; /* borrowed */
} gwi_device;

struct gwi_context {
    gwi_object object;
    gwi_device *device;
    bool alive;
    bool is_primary;
    unsigned retain_count; /* of a primary context */
    unsigned generation;   /* counts its lives; things of an earlier life are dead */
    unsigned flags;
    uint64_t id;
    uint64_t own_bytes; /* taken from the card for the context itself */
    int fault;          /* what a kernel did, 0: nothing */
    bool fault_seen;    /* a call has reported it: from then on all do */
    gwi_stream *legacy; /* owned */
    uint64_t stream_used_bytes, stream_held_bytes;
    unsigned stream_count;
    uint64_t limits[16];
    int cache_config, shared_config;
    uint32_t peers; /* devices whose memory this context may touch */
};

struct gwi_stream {
    gwi_object object;
    gwi_context *context;
    unsigned generation;
    unsigned flags;
    int priority;
    uint64_t id;
    bool is_legacy;
    bool is_default; /* legacy or a thread's own: not to be destroyed by its handle */
    bool destroyed;  /* freed when its work is done */
    gwi_command *head, *tail;
    unsigned pending_count;
    gwi_command *last;                         /* a reference; NULL: nothing was ever submitted */
    gwi_stream *active_previous, *active_next; /* while pending_count > 0 */
    bool is_active;
    gwi_graph *capture; /* owned while a capture is open */
    bool capture_broken;
    bool capture_origin;
    gwi_stream *capture_owner; /* the stream where the capture began */
    unsigned capture_mode;
    pthread_t capture_thread;
    struct gwi_node **capture_tail; /* owned: the nodes the next one depends on */
    size_t capture_tail_count;
};

typedef struct gwi_event {
    gwi_object object;
    gwi_context *context;
    unsigned generation;
    unsigned flags;
    gwi_command *record;       /* a reference; NULL: never recorded */
    gwi_stream *capture_owner; /* recorded inside a capture that began there */
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
    gwi_range range;
    gwi_block_kind kind;
    gwi_device *device;
    gwi_context *context; /* NULL: not one context's */
    unsigned generation;
    gwi_small_page *page; /* of a small block */
    char *storage;        /* where its bytes really are */
    gwi_pool *pool;
    gwi_physical *physical;
    uint64_t physical_offset;
    bool accessible; /* of a mapping */
    bool freed;      /* by a stream-ordered free that has not run yet */
    unsigned flags;
    uint64_t id;
} gwi_block;

/* Memory that was created without an address (cuMemCreate). */
struct gwi_physical {
    gwi_object object;
    gwi_device *device;
    uint64_t bytes;
    unsigned handle_count; /* creates, imports, retains not yet released */
    unsigned map_count;
    char *storage; /* owned, from mmap */
    CUmemAllocationProp properties;
    bool charged;
};

struct gwi_pool {
    gwi_object object;
    gwi_device *device;
    bool is_default;
    uint64_t base; /* 0: no addresses yet */
    uint64_t bytes;
    char *shadow;
    gwi_runs addresses;
    unsigned *chunk_uses; /* owned: blocks in each chunk of 32 MiB */
    bool *chunk_held;     /* owned */
    uint64_t bytes_max;
    uint64_t threshold;
    uint64_t used, used_high, reserved, reserved_high;
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
    gwi_small_page *page;
    char *storage;
} gwi_array;

typedef struct gwi_module {
    gwi_object object;
    gwi_context *context; /* NULL for a library's image */
    unsigned generation;
    gwi_image image;
    gwi_function **functions; /* owned, one for each kernel, made when asked for */
    gwi_block **globals;      /* owned, likewise */
    struct gwi_library *library;
    struct gwi_module *next; /* of all modules of the process */
} gwi_module;

struct gwi_function {
    gwi_object object; /* GWI_FUNCTION or, of a library, GWI_KERNEL */
    gwi_module *module;
    gwi_kernel_info *info; /* borrowed from the module's image */
    int shared_dynamic_max;
    int carveout;
    int cache_config;
    gwi_function *kernel; /* of a function that was made from a library's kernel */
};

typedef struct gwi_library {
    gwi_object object;
    gwi_module *module; /* owned: holds the image; no context */
    struct {
        gwi_context *context;
        unsigned generation;
        gwi_module *module; /* owned */
    } * instances;          /* owned: the library loaded into contexts */
    size_t instance_count;
    void *source; /* owned: the image, to load it again */
    size_t source_bytes;
} gwi_library;

/* --- work: what a stream does, also the content of a graph's node --------------------------------------- */

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

/* A side of a copy: where row `y` of plane `z` begins is base + (z * height + y) * pitch. */
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
            void *staged; /* owned: a copy of what the host may change after the call */
            bool crosses_link;
            CUDA_MEMCPY3D asked;
        } copy;
        struct {
            char *to;
            size_t pitch, width, height; /* width in elements */
            unsigned value, element_bytes;
            CUdeviceptr asked;
        } fill;
        struct {
            CUhostFn function;
            CUstreamCallback callback; /* one of the two */
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

/* One piece of work on its way. Counted references: the stream, events, and those that wait for it. */
struct gwi_command {
    unsigned references;
    bool started, done, running; /* running: a host function, outside the lock */
    uint64_t submitted_ns, start_ns, due_ns, end_ns;
    gwi_stream *stream;
    gwi_command *next;
    gwi_command **waits_for; /* owned, references */
    size_t wait_count;
    uint64_t fault; /* of a kernel: what it does when it ends (enum gw_kernel_fault) */
    gwi_work work;
};

typedef struct gwi_node {
    gwi_object object;
    gwi_graph *graph;
    gwi_work work;
    struct gwi_node **after; /* owned: the nodes that this one depends on */
    size_t after_count;
    struct gwi_node *next;
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
    pthread_cond_t changed; /* CLOCK_MONOTONIC */
    bool initialised;
    bool sources_read;
    bool shares_memory; /* with other processes: some of the shadow is a file */
    int init_result;
    char init_reason[600];
    const volatile unsigned char *fork_mark; /* 1 here, 0 in a child */
    int process_fault;                       /* what made all contexts of the process useless */
    gw_virt_spec spec;
    const char *folder; /* of the run; NULL: none. static */
    gwi_shared *shared;
    unsigned shared_slot;
    gwi_device devices[GW_VIRT_DEVICES_MAX];
    gwi_ranges objects;
    gwi_ranges blocks;
    gwi_ranges reserved; /* address ranges of cuMemAddressReserve */
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
    bool cards_fail; /* the specification has faults of the cards' own */
} gwi_state;

extern gwi_state gwi;

enum { GWI_CONTEXT_STACK_MAX = 64 };

typedef struct gwi_thread {
    gwi_context *contexts[GWI_CONTEXT_STACK_MAX]; /* borrowed; the last is current */
    unsigned context_count;
    unsigned fn; /* the entry point this thread is inside */
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
/* Unlocks, writes a failure to the driver's log, and gives `result` back. */
int gwi_leave(int result);
/* A line of the driver's log that explains the failure about to be returned. Takes effect at gwi_leave(). */
__attribute__((format(printf, 1, 2))) void gwi_say(const char *format, ...);
/* A line into the run's notes: once for each text. Needs no lock. */
__attribute__((format(printf, 1, 2))) void gwi_note(const char *format, ...);
uint64_t gwi_now_ns(void);
/* What a real driver does with a handle that never was or is no more. Does not return. */
_Noreturn void gwi_crash(const void *handle);
void gwi_object_add(gwi_object *object, gwi_kind kind);
void gwi_object_remove(gwi_object *object);
/* The object, if the handle is good and of this kind; else NULL. */
void *gwi_object_find(const void *handle, gwi_kind kind);
/* The current context; NULL: none. */
gwi_context *gwi_current(void);
gwi_device *gwi_device_find(CUdevice device);
/* The sticky error of the current context, now that a call is allowed to see it. */
int gwi_see_fault(void);
/* logs.c */
void gwi_log_line(const char *line, CUlogLevel level);
void gwi_log_result(const char *symbol, int result);

/* cards.c: faults of the cards' own. The lock is held. */
/* Notice what happened to the cards since the last look, and ruin the contexts that it met. */
void gwi_cards_look(void);
/* Whether a call brings about a fault of a card: then it happens now. */
void gwi_cards_call(unsigned fn);
/* The card answers nobody any more. */
bool gwi_card_is_lost(unsigned device);
/* What a kernel of this length takes on a card whose clocks are held down. */
uint64_t gwi_card_slowed_ns(const gwi_device *device, uint64_t duration_ns);
/* What the copy takes on a card with a poor link; 0 on others: as long as it takes to move the bytes here. */
uint64_t gwi_card_copy_ns(const gwi_device *device, const gwi_work *work);

/* context.c; gwi_context_is: core.c */
bool gwi_context_is(const gwi_context *context, unsigned generation);

/* blocks.c */
bool gwi_device_ready(gwi_device *device);
bool gwi_device_take(gwi_device *device, uint64_t bytes);
void gwi_device_give(gwi_device *device, uint64_t bytes);
/* Whether an option wants this allocation to fail. */
bool gwi_allocation_refused(void);
gwi_block *gwi_block_alloc(gwi_context *context, uint64_t bytes, gwi_block_kind kind);
void gwi_block_free(gwi_block *block);
gwi_block *gwi_block_at(uint64_t address);
/* Where `bytes` at `address` really are; NULL where they are in no live block, or not wholly. */
char *gwi_storage(uint64_t address, uint64_t bytes);
/* Whether a kernel could touch the address: pages count, not blocks. */
bool gwi_mapped(uint64_t address);
bool gwi_is_host_block(const gwi_block *block);

/* timeline.c */
gwi_stream *gwi_stream_make(gwi_context *context, unsigned flags, int priority);
/* The stream of a handle, default streams included; crashes as the real driver does where it is dead. NULL:
 * no context. */
gwi_stream *gwi_stream_find(CUstream handle);
/* Give work to a stream (or to the graph that is being captured). Takes over what `work` owns. `events` may
 * name further commands to wait for. */
int gwi_submit(gwi_stream *stream, const gwi_work *work, gwi_command *wait_for, gwi_command **ret_command);
/* After a launch: waits for it where the environment wants that; 0, or what the kernel did. */
int gwi_block_after_launch(gwi_stream *stream);
void gwi_advance(void);
void gwi_wait_command(gwi_command *command);
void gwi_wait_stream(gwi_stream *stream);
void gwi_wait_context(gwi_context *context);
void gwi_wait_device(gwi_device *device);

/* commands.c */
gwi_command *gwi_command_keep(gwi_command *command);
void gwi_command_drop(gwi_command *command);
/* `command` waits for `other`, unless that is done or NULL. False: no memory. */
bool gwi_command_wait_for(gwi_command *command, gwi_command *other);
/* The head of its stream has ended at `end_ns`. */
void gwi_command_finish(gwi_command *command, uint64_t end_ns);
void gwi_stream_activate(gwi_stream *stream); /* it has work */
void gwi_stream_free(gwi_stream *stream);
/* Throw away what the context's streams have not begun. */
void gwi_abandon(gwi_context *context);

/* work.c */
void gwi_work_free(gwi_work *work);
bool gwi_work_copy(gwi_work *to, const gwi_work *from);
void gwi_graph_free(gwi_graph *graph);
void gwi_node_free(gwi_node *node);
/* Takes over what `work` owns when it succeeds. NULL: no memory. */
gwi_node *gwi_node_add(gwi_graph *graph, const gwi_work *work, gwi_node *const *after, size_t after_count);
bool gwi_node_after(gwi_node *node, gwi_node *other); /* false: no memory */

/* chunks.c */
gwi_pool *gwi_pool_make(gwi_device *device); /* NULL: no memory */
gwi_pool *gwi_pool_default(gwi_device *device);
void gwi_pool_freed(gwi_block *block);
void gwi_pools_trim(gwi_device *device);
int gwi_pool_alloc(gwi_pool *pool, size_t bytes, gwi_block **ret_block);
void gwi_pools_end(gwi_device *device);
void gwi_pool_empty(gwi_pool *pool);
/* Give back chunks that nobody uses, until `keep` bytes are held. */
void gwi_pool_trim(gwi_pool *pool, uint64_t keep);
/* Keep the addresses of an empty pool, which is about to be freed, for the next one. */
void gwi_pool_leave_spare(gwi_pool *pool);

/* module.c */
gwi_function *gwi_function_find(CUfunction handle);
void gwi_modules_end(gwi_context *context);

/* kernel.c: what a kernel does, decided when it starts */
/* Which fault the kernel has (enum gw_kernel_fault), what the driver answers for it, and what it tells its listeners.
 */
uint64_t gwi_kernel_fault(const gwi_work *work);
int gwi_fault_code(uint64_t fault);
void gwi_fault_tell(uint64_t fault, const gwi_context *context);
uint64_t gwi_kernel_duration_ns(const gwi_work *work);
void gwi_kernel_print_assert(const gwi_work *work);
void gwi_kernel_dump(const gwi_work *work, const gwi_context *context, int code);

/* launch.c */
/* Checked work, as launches and graphs' nodes ask for it. 0, or the driver's error and nothing to free. */
int gwi_kernel_work(CUfunction handle, const unsigned grid[3], const unsigned block[3], unsigned shared, void **params,
                    void **extra, gwi_work *ret_work);

/* copy.c */
int gwi_copy_work(const CUDA_MEMCPY3D *copy, gwi_work *ret_work);
int gwi_fill_work(CUdeviceptr to, size_t pitch, unsigned value, unsigned element_bytes, size_t width, size_t height,
                  gwi_work *ret_work);

/* capture.c */
/* The stream where the capture began that this one is part of; NULL: none. */
gwi_stream *gwi_capture_owner(gwi_stream *stream);
void gwi_capture_forget(gwi_stream *stream);
int gwi_capture_add(gwi_stream *stream, const gwi_work *work, gwi_node *wait_for, gwi_node **ret_node);
void gwi_capture_end(gwi_stream *stream);
/* 900 and a broken capture where the calling thread may not make an unsafe call now; else 0. */
int gwi_capture_forbids(void);

#endif
