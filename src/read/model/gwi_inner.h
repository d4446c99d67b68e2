/* State and functions that the files of the model share while a recording is read. */
#ifndef GWI_MODEL_INNER_H
#define GWI_MODEL_INNER_H

#include "gw_iterations.h"
#include "gw_model_facts.h"
#include "gwi_table.h"

/* The kinds of key for finding objects. An address and a handle can be the same number, so each kind has its own
 * table. */
typedef enum gwi_space {
    GWI_SPACE_NONE,
    GWI_SPACE_MEMORY, /* device addresses */
    GWI_SPACE_HOST,
    GWI_SPACE_HANDLE, /* VMM allocations */
    GWI_SPACE_MAPPING,
    GWI_SPACE_CONTEXT,
    GWI_SPACE_STREAM,
    GWI_SPACE_EVENT,
    GWI_SPACE_MODULE,
    GWI_SPACE_FUNCTION,
    GWI_SPACE_GRAPH,
    GWI_SPACE_EXEC,
    GWI_SPACE_POOL,
    GWI_SPACE_EXTERNAL,
    GWI_SPACE_RESERVATION,
    GWI_SPACE_COUNT
} gwi_space;

/* An object that a call created, such as a block, a stream or a context. One cache line, so a ledger of 100,000 blocks
 * causes few cache misses. */
typedef struct gwi_object {
    uint64_t key, bytes, t_ns, order;
    uint64_t context; /* the context that was current when the object was created */
    /* What this object belongs to or was made from:
     * - mapping: index of its VMM block in gwi_process.object
     * - function: handle of its module, library or CUkernel
     * - executable graph: handle of its graph
     * - context made from a green context: handle of the green context */
    uint64_t owner;
    /* index of its group in gw_model.group; if the object is dead: index + 1 of the next dead object, 0: none */
    uint32_t group;
    union {
        /* VMM block: references that are still to be released; memory of another process: how often it is open */
        uint32_t refs;
        uint32_t name; /* function: index + 1 of its name in gwi_model.texts; 0: unknown */
    };
    union {
        uint32_t maps; /* VMM block: number of mappings */
        uint32_t site; /* function: call site that requested it, because functions have no group; 0: unknown */
    };
    uint8_t cls, device;
    uint8_t space; /* gwi_space; GWI_SPACE_COUNT: the object is dead */
    /* Context: gw_context_kind. Function: gw_owner_kind. Stream: 1 if it is non-blocking, that is, if the default
     * stream does not wait for it. */
    uint8_t kind;
} gwi_object;
_Static_assert(sizeof(gwi_object) == 64, "an object is one cache line");

static inline bool gwi_is_alive(const gwi_object *object)
{
    return object->space != GWI_SPACE_COUNT;
}

/* True if the class is device memory. Managed memory is not included. */
static inline bool gwi_is_memory(uint8_t cls)
{
    return cls <= GW_CLASS_DEVICE_LAST;
}

/* True if the class is device or managed memory. Only these are in snapshots and in a process's numbers of allocations
 * and frees. */
static inline bool gwi_is_counted(uint8_t cls)
{
    return gwi_is_memory(cls) || cls == GW_CLASS_MANAGED;
}

typedef struct gwi_capture {
    uint32_t tid;
    bool open;
    uint64_t stream, t_begin_ns, t_end_ns;
} gwi_capture;

typedef struct gwi_node { /* a kernel node of a graph */
    uint64_t graph, function;
} gwi_node;

/* A copy of a block that was freed after a snapshot was taken. The snapshot's list of live blocks must still contain
 * the block. */
typedef struct gwi_grave {
    gw_live live;
    uint64_t died; /* number of frees in the process before this block was freed */
} gwi_grave;

/* A granted request for memory. Only the newest requests of each process are stored. */
typedef struct gwi_request {
    uint64_t t_ns, bytes, live_bytes; /* live_bytes: live bytes on the request's device just before the request */
    uint64_t launches; /* launches, frees, copies, reads and waits are totals of the process up to this request */
    uint64_t frees;
    uint32_t copies, reads, waits;
    uint32_t group;
    uint16_t thread; /* mark of the requesting thread, from gwi_thread_mark() */
    uint8_t device;
} gwi_request;
_Static_assert(sizeof(gwi_request) == 64, "a request is one cache line");

/* Return a 16-bit mark for a thread id, never 0. Different threads may have the same mark. */
static inline uint16_t gwi_thread_mark(uint32_t tid)
{
    return (uint16_t)(tid % UINT16_MAX + 1);
}

/* The free of a request's block. Frees come in any order, so these are in an array of their own, which stays in the
 * processor's cache. */
typedef struct gwi_request_end {
    uint32_t frees;           /* number of frees in the process, including this one: the lower 32 bits */
    uint32_t lifetime_plus_1; /* number of requests between the request and the free, + 1; 0: still live */
} gwi_request_end;

/* The newest requests of a process; the request `order` is at `order` modulo `room`. */
typedef struct gwi_requests {
    gwi_request *item;    /* owned */
    gwi_request_end *end; /* owned */
    uint64_t room;        /* number of elements of `item` and `end`: a power of two, or 0 */
    uint64_t newest, oldest;
} gwi_requests;

/* A call that requests device memory from the driver or returns it, or that reserves or unmaps addresses. */
typedef struct gwi_memory_call_made {
    uint64_t t_ns; /* start of the call */
    uint64_t address, bytes;
    uint32_t site;
    uint8_t kind; /* gw_event_kind */
    uint8_t device;
    bool is_refused;
} gwi_memory_call_made;

typedef struct gwi_memory_calls {
    gwi_memory_call_made *call; /* owned; in the order of the recording */
    size_t count, capacity;
    bool is_cut; /* there were too many: later ones are missing */
} gwi_memory_calls;

/* The number of granted requests of one thread for device and managed memory; 0: this element is unused. */
typedef struct gwi_asker {
    uint64_t count;
    uint32_t tid;
} gwi_asker;
/* Per process; the requests of further threads are not counted. A thread's element is at its tid modulo this number, or
 * after it if that one is taken. */
enum { GWI_ASKERS_MAX = 16 };

enum { GWI_GRAVES_MAX = 8 << 20, GWI_PICTURES_MAX = 64, GWI_FAILURES_MAX = 4096, GWI_GROUPS_MAX = 1 << 17 };

/* The value of gwi_process.t_replaced_ns if no exec() waits. */
#define GWI_NOT_REPLACED UINT64_MAX

typedef struct gwi_process {
    uint32_t pid;
    uint32_t index;         /* index of this process in gw_model.process */
    uint64_t t_replaced_ns; /* events from then on are those of another program; see replaced.c */
    gwi_object *object;     /* owned */
    uint32_t object_count, object_capacity;
    size_t communicator_capacity;
    uint64_t t_nccl_ns;       /* time of the last fact nccl.comm or nccl.call; 0: none */
    int64_t communicator_now; /* index of the communicator of the next fact nccl.call; -1: none */
    /* index + 1 of the first dead object, 0: none; the `group` of each dead object leads to the next one */
    uint32_t object_free;
    gwi_table table[GWI_SPACE_COUNT];
    /* handle of each device's primary context; 0: none, or the device is beyond the table */
    uint64_t primary[GW_MODEL_DEVICE_PLACES];
    /* the context that was looked up last, and its device: 0 if there is no context or its device is unknown */
    uint64_t context_last;
    uint8_t context_last_device;
    gwi_asker asker[GWI_ASKERS_MAX];
    uint32_t open_failure[64]; /* indexes in gw_model.failure of failed allocations without a known recovery */
    uint32_t open_count;
    /* size in bytes of the smallest later allocation that can show a recovery from a failure in open_failure */
    uint64_t open_bytes_min;
    uint64_t ends_total;    /* number of ended objects of all classes that have groups */
    uint64_t t_teardown_ns; /* time at which a context of the process last ended */
    /* how many more failures look_up_named() examines; set to 32 when a context is destroyed or reset */
    uint32_t named_left;
    /* the last memory pool whose release threshold was set above 0, and its threshold now */
    uint64_t threshold_pool, threshold_bytes;
    int last_failure;          /* index of the last failure; -1: none, or none since a phase began */
    uint32_t injection_plus_1; /* index + 1 of the last injected failure in gw_model.injection; 0: none */
    bool has_refusal;          /* the guard refused a request, and the failure of this request has not been read yet */
    uint64_t refusal[4];
    int allocator_now;        /* index of the allocator report that is being read; -1: none */
    int allocator_full;       /* index of the last report with a list of requests; -1: none */
    uint64_t history_read_ns; /* when the hook read the history for this report; 0: not known yet */
    gwi_capture *capture;     /* owned */
    size_t capture_count, capture_capacity;
    uint32_t captures_open;
    gwi_node *node; /* owned */
    size_t node_count, node_capacity;
    bool sticky;
    uint64_t *history; /* times in ns of the allocations in the history of the report `allocator_now`; owned */
    size_t history_count, history_capacity;
    /* indexes of the snapshots whose lists of blocks can still be built, oldest first */
    int pictured[GWI_PICTURES_MAX + 1];
    uint32_t pictured_count;
    uint64_t pictured_order; /* `order` of the newest snapshot in `pictured`; 0: none */
    gwi_grave *grave;        /* owned */
    size_t grave_count, grave_capacity;
    struct gwi_order *order; /* owned; NULL: the recording has no ORDER records of this process */
    /* t_ns of the last call that waited for all work on the device as a side effect, such as cuMemFree; 0: none */
    uint64_t t_waited_ns;
    gwi_requests requests;
    gwi_memory_calls memory_calls;
    /* a request's event had a count of the work before it, so the recording contains these counts */
    bool work_known;
    uint64_t launches, copies, reads, waits; /* totals of the process up to its newest request */
    uint64_t t_default_ns; /* time of the last stream-ordered allocation or free in the default stream */
} gwi_process;

/* The processes, threads and failures with one pid. A search by pid visits only these. */
typedef struct gwi_pid {
    uint32_t pid;
    uint32_t process_plus_1; /* index + 1 of the newest process with the pid; 0: none */
    /* index + 1 of the first and the last thread of the pid, linked by gw_thread.next_plus_1; 0: none */
    uint32_t thread_plus_1, thread_last_plus_1;
    /* index + 1 of the first and the last failure, set by gwi_failures_link(); 0: none */
    uint32_t failure_plus_1, failure_last_plus_1;
} gwi_pid;

typedef struct gwi_texts {
    char **item; /* owned */
    size_t count, capacity;
} gwi_texts;

/* Data about a snapshot that only the files of the model need. */
typedef struct gwi_picture {
    uint32_t process;    /* index of the snapshot's process in gwi_model.process */
    uint32_t use_count;  /* number of failures and process ends that use the snapshot; 0: this element is unused */
    uint32_t need_count; /* number of these users that may still need the list of blocks */
    uint32_t next_free;  /* index + 1 of the next unused element; 0: none */
    bool listed;         /* `pictured` of the snapshot's process contains the snapshot */
} gwi_picture;

typedef struct gwi_hot_ring { /* a thread's ring as recorded; decoded after the last event */
    gw_hot_call *call;        /* owned */
    uint32_t count;
    uint64_t total, synced_total;
} gwi_hot_ring;

typedef struct gwi_model {
    gwi_process **process; /* same indexes as in gw_model.process; owned */
    gwi_process *last;     /* process of the last event; NULL: none */
    gwi_pid *pid;          /* owned */
    size_t pid_count, pid_capacity;
    gwi_table pid_table;    /* finds an element of `pid` by the hash of the pid */
    gwi_table thread_table; /* finds a thread's index in gw_model.thread by the hash of pid and tid */
    /* Indexes of the processes that own objects and have not ended, in the order of their first objects; owned. */
    uint32_t *holder;
    size_t holding_count, holding_capacity;
    gwi_hot_ring *ring; /* same indexes as in gw_model.thread; owned */
    /* for each thread, index + 1 of the driver function that it was in when its events were last drained; 0: none; same
     * indexes as in `ring`; owned */
    uint16_t *inside_fn_plus_1;
    size_t launch_site_capacity;
    size_t process_capacity, thread_capacity, failure_capacity, snapshot_capacity, teardown_capacity, group_capacity;
    size_t unwaited_capacity, injection_capacity, fence_capacity;
    size_t info_capacity, allocator_capacity, phase_capacity, meta_capacity, fact_capacity, hang_capacity,
        holder_capacity;
    gwi_table group_table; /* finds a group by the hash of its key */
    gwi_picture *picture;  /* same indexes as in gw_model.snapshot; owned */
    size_t picture_capacity;
    uint32_t picture_free;       /* index + 1 of the first unused element of `picture`; 0: none */
    uint32_t failures_recovered; /* number of failures that recovered since failures were last dropped to make room */
    /* the last attempt to drop failures made too little room; do not try again */
    bool failures_stay;
    gwi_texts texts;    /* every text that the model copied, each owned */
    gwi_texts fn_names; /* borrowed from `texts`, by number of the function */
    uint64_t t_last_ns;
    uint64_t own_stop_ns; /* when gpuwhy began to end the program; 0: it did not */
    uint32_t event_site;  /* call site, as numbered by the model, of the event that is being added; 0: unknown */
    size_t cudnn_line_capacity;
    uint64_t t_event_ns;               /* time of the event that is being added */
    const gw_model_follower *follower; /* borrowed while the model is built; NULL: none */
    bool nomem;
} gwi_model;

/* room.c. Make room for one more element in an array of `count` elements. If there is no memory, set nomem and return
 * false. */
bool gwi_room(gw_model *model, void *array_pointer, size_t count, size_t *capacity, size_t element_bytes);
/* Copy a text, up to its terminating zero or `bytes` bytes. The model owns the copy until it is freed itself. NULL: the
 * text is NULL or, except for gwi_copy_text(), empty; or, with nomem set, there is no memory. */
char *gwi_copy_bytes(gw_model *model, const char *text, size_t bytes);
char *gwi_copy_text(gw_model *model, const char *text);
char *gwi_copy_fact_text(gw_model *model, gw_fact_text text);

/* feed.c. Add an event of any kind to the model. */
void gwi_model_event(gw_model *model, const gw_event *event);

/* usage of every process that has created no object yet; all zero, never written */
extern gw_usage gwi_no_usage[GW_MODEL_DEVICE_PLACES];
/* processes.c. gwi_process_add() always adds a process, because pids are reused. gwi_process_find() returns the pid's
 * newest process, or adds one. Without memory, both set nomem and return NULL. */
gwi_process *gwi_process_add(gw_model *model, uint32_t pid, uint64_t t_ns);
/* Return the newest process with the pid, NULL if there is none. */
gwi_process *gwi_process_known(const gw_model *model, uint32_t pid);
/* Return the entry of a pid, NULL if there is none. Valid until another pid is added. */
gwi_pid *gwi_pid_find(const gw_model *model, uint32_t pid);
gwi_process *gwi_process_find(gw_model *model, uint32_t pid, uint64_t t_ns);
static inline gwi_process *gwi_process_of(gw_model *model, uint32_t pid, uint64_t t_ns)
{
    gwi_process *last = model->inner->last;
    return last != NULL && last->pid == pid ? last : gwi_process_find(model, pid, t_ns);
}
/* Return the index of a thread in the model. Adds the thread if it is new. If there is no memory, sets nomem and
 * returns SIZE_MAX. */
size_t gwi_thread_of(gw_model *model, uint32_t pid, uint32_t tid);
/* Call this before a process's first object is added. Allocates its gw_usage and adds it to gwi_model.holder, until
 * gwi_process_ended(). No machine has room for contexts of more than GWI_HOLDING_MAX processes. */
enum { GWI_HOLDING_MAX = 4096 };
bool gwi_process_holds(gw_model *model, gwi_process *process); /* false: no memory */
void gwi_process_ended(gw_model *model, gwi_process *process);

/* objects.c */
bool gwi_groups_start(gw_model *model); /* false: no memory */
void gwi_groups_finish(gw_model *model);
/* set t_kept_ns of the object's group; the program never freed the object */
void gwi_group_kept(gw_model *model, const gwi_object *object);
/* Add the object that an event created. An object with the same key is ended first: the event that ended it was lost. A
 * `device` of -1 (unknown) becomes 0.
 * The result is valid until the next object is added. Without memory, sets nomem and returns NULL. */
gwi_object *gwi_object_add(gw_model *model, gwi_process *process, const gw_event *event, gwi_space space, gw_class cls,
                           uint64_t key, uint64_t bytes, int device);
/* Remove an object from its table. It stays live until gwi_object_drop() is called with *ret_index. Returns false if
 * there is no such object. */
bool gwi_object_take(gwi_process *process, gwi_space space, uint64_t key, uint32_t *ret_index);
void gwi_object_drop(gw_model *model, gwi_process *process, uint32_t index);
/* Call gwi_object_take() and gwi_object_drop(). Returns false if there is no such object. */
bool gwi_object_end(gw_model *model, gwi_process *process, gwi_space space, uint64_t key);
/* Add or end a block of device or managed memory, with the address arg[0] and the size arg[1]. */
void gwi_memory_add(gw_model *model, gwi_process *process, const gw_event *event, gw_class cls);
void gwi_memory_free(gw_model *model, gwi_process *process, const gw_event *event);
/* Update the ledger after a successful call. Most events of a recording are cuMemAlloc and cuMemFree. These are handled
 * here. Returns false for all others: gwi_ledger_apply() applies them. */
bool gwi_objects_apply(gw_model *model, gwi_process *process, const gw_event *event);

/* Return the hash of the group of an object that `event` created. The class is not included: a function nearly always
 * creates objects of one class. */
static inline uint32_t gwi_group_hash(const gw_event *event, uint64_t bytes)
{
    uint64_t caller = event->site != 0 ? ~(uint64_t)event->site : event->tid;
    uint64_t who = caller << 16 ^ (uint64_t)event->pid << 40 ^ event->fn;
    return gwi_hash(bytes ^ who * 0xc2b2ae3d27d4eb4fu);
}

/* ledger.c. Update the ledger after a successful call other than cuMemAlloc and cuMemFree. */
void gwi_ledger_apply(gw_model *model, gwi_process *process, const gw_event *event);
/* Return the index of a device in the model's arrays: its number, or GW_MODEL_DEVICE_BEYOND if the number is too
 * large. */
static inline int gwi_device_place(uint64_t number)
{
    return number < GW_MODEL_DEVICES_MAX ? (int)number : GW_MODEL_DEVICE_BEYOND;
}

/* replaced.c. The process called exec() at t_ns. */
void gwi_replaced_seen(gw_model *model, gwi_process *process, uint64_t t_ns);
/* replaced.c. End what the old program created, if the process called exec(). */
void gwi_replaced_apply(gw_model *model, gwi_process *process);

/* launches.c. gwi_launch_site() handles a LAUNCH_SITE event. gwi_launches_finish() adds kernel names that were recorded
 * after the launch; call it after the last event. */
void gwi_launch_site(gw_model *model, const gwi_process *process, const gw_event *event);
void gwi_launches_finish(gw_model *model);
/* Return the name of a kernel, NULL if unknown. */
const char *gwi_function_name(const gw_model *model, const gwi_process *process, uint64_t function);
/* Return the names of the kernels in an executable graph as "a, b", NULL if none is known. The model owns the text. */
const char *gwi_exec_names(gw_model *model, gwi_process *process, uint64_t exec);
/* True if the thread was capturing a graph at the time `t_ns`. */
bool gwi_was_captured(const gwi_process *process, uint32_t tid, uint64_t t_ns);

/* snapshot.c. A snapshot is the state of the ledger at one time. It is fast, because the list of blocks is built only
 * on request. `index` is an index of gw_model.snapshot, -1 for none. */
/* Take a snapshot, or reuse an equal one. The list of blocks is kept for the caller until gwi_snapshot_unneed() or
 * gwi_snapshot_release(). Returns -1 if there is no memory. */
int gwi_snapshot_take(gw_model *model, gwi_process *process, int device, uint64_t t_ns, gw_snapshot_reason reason);
/* True if nothing was allocated or freed since the snapshot was taken. */
bool gwi_snapshot_is_now(const gw_model *model, const gwi_process *process, int index);
void gwi_snapshot_unneed(gw_model *model, int index); /* one user no longer needs the list of blocks */
/* Remove one user. Pass true as `needed` if gwi_snapshot_unneed() was not called for this user. */
void gwi_snapshot_release(gw_model *model, int index, bool needed);
/* Return the device on which the process has the most memory, -1 if it has none. */
int gwi_fullest_device(const gw_process *facts);
/* Take the snapshot at the end of a process. It replaces an earlier end snapshot of the process. */
void gwi_snapshot_end(gw_model *model, gwi_process *process, int device, uint64_t t_ns);
/* Call this before a block of device or managed memory is freed. If a snapshot may contain the block, a copy is
 * stored. */
void gwi_snapshot_bury(gw_model *model, gwi_process *process, const gwi_object *object);

/* requests.c. Make room for one more request. Without memory, sets nomem and returns false. */
bool gwi_requests_grow(gw_model *model, gwi_requests *list, uint64_t order);
enum { GWI_REQUESTS_MAX = 1 << 15, GWI_REQUESTS_AHEAD = 16 }; /* MAX is a power of two */
/* Return the entry of the request with the number `order`, which is added if new. Without memory, sets nomem and
 * returns NULL. */
static inline gwi_request *gwi_request_place(gw_model *model, gwi_process *process, uint64_t order)
{
    gwi_requests *list = &process->requests;
    if (order - list->oldest >= list->room) {
        if (list->room == GWI_REQUESTS_MAX)
            list->oldest = order - list->room + 1;
        else if (!gwi_requests_grow(model, list, order))
            return NULL;
    }
    list->newest = order;
    gwi_prefetch(&list->item[(order + GWI_REQUESTS_AHEAD) & (list->room - 1)]); /* the ring is larger than the caches */
    list->end[order & (list->room - 1)] = (gwi_request_end){0};
    return &list->item[order & (list->room - 1)];
}
/* Record that the block of request `order` was freed. `frees` is the process's number of frees, including this one. */
static inline void gwi_request_freed(gwi_process *process, uint64_t order, uint64_t frees)
{
    const gwi_requests *list = &process->requests;
    if (list->room != 0 && order >= list->oldest && order <= list->newest)
        list->end[order & (list->room - 1)] = (gwi_request_end){(uint32_t)frees, (uint32_t)(list->newest - order) + 1};
}
/* add the work before a request to the totals of the process; `work` is `extra` of the request's event */
static inline void gwi_work_add(gwi_process *process, uint32_t work)
{
    process->work_known = process->work_known || work != 0;
    process->launches += gw_work_launches(work);
    process->copies += gw_work_copies(work);
    process->reads += gw_work_reads(work);
    process->waits += gw_work_waits(work);
}
/* Count the pairs of successive requests, from `order`, between which memory was freed. Stops after 1,024 requests or
 * 16 pairs. */
uint32_t gwi_requests_turns(const gwi_process *process, uint64_t order);
void gwi_requests_free(gwi_requests *list);
/* List the stored requests on the snapshot's device, up to the snapshot. The caller frees the list, which has room for
 * the refused request. NULL: no request is known, or no memory. */
gw_request *gwi_requests_list(const gw_model *model, uint32_t pid, const gw_snapshot *snapshot, size_t *ret_count,
                              bool *ret_work_known);

/* List the requests in the report of a framework's allocator. The caller frees the list, which has room for the refused
 * request. NULL: the report has none, or no memory. */
gw_request *gwi_requests_of_report(const gw_allocator_report *report, size_t *ret_count);
/* If no event of the process contained a number of launches, count the work before each request in the rings of all
 * threads instead. */
void gwi_requests_work(const gw_model *model, uint32_t pid, gw_request *request, size_t count);

/* calls.c. Kinds of calls of a framework: the outermost such call on a stack. */
typedef enum gwi_call_kind {
    GWI_CALL_NONE,
    GWI_CALL_MODEL,      /* the call of a model: a forward pass */
    GWI_CALL_CONVERSION, /* weights are moved or converted */
    GWI_CALL_BACKWARD,
    GWI_CALL_OPTIMIZER /* its creation, or a step */
} gwi_call_kind;
typedef struct gwi_call {
    uint64_t number; /* calls from the same line have the same number; 0: none, or unknown */
    gwi_call_kind kind;
} gwi_call;
/* Find the calls in which `count` successive requests were made, by their call sites. The caller frees the list. NULL:
 * no memory. */
gwi_call *gwi_calls_at(const gw_model *model, const uint32_t *site, size_t count);
/* Find `call` of each request by the Python frames of its call site. */
void gwi_requests_calls(const gw_model *model, gw_request *request, size_t count);

/* memory_calls.c. Store the call if it requests or returns device memory. Not needed once the list is cut. */
void gwi_memory_call(gw_model *model, gwi_process *process, const gw_event *event);

/* failures.c */
void gwi_failure_add(gw_model *model, gwi_process *process, const gw_event *event);
/* Return the thread's counter of granted requests, or an unused one for it. Returns NULL if there is none. */
gwi_asker *gwi_asker_find(gwi_process *process, uint32_t tid);
static inline void gwi_asker_count(gwi_process *process, uint32_t tid)
{
    gwi_asker *asker = &process->asker[tid % GWI_ASKERS_MAX];
    if (asker->tid != tid)
        asker = gwi_asker_find(process, tid);
    if (asker != NULL)
        asker->count++;
}
/* Check whether a successful allocation of `bytes` shows a recovery from earlier failures. Only call this if `bytes` is
 * at least the process's open_bytes_min. */
void gwi_failure_allocated(gw_model *model, gwi_process *process, const gw_event *event, uint64_t bytes);
void gwi_failure_info(gw_model *model, gwi_process *process, const gw_memory_info *info);
void gwi_failure_pool(gw_model *model, gwi_process *process, const gw_event *event); /* handles a POOL_STATE event */
void gwi_failure_refused(gw_model *model, gwi_process *process, const gw_event *event);
uint64_t gwi_work_count(const gw_process *process); /* number of launches, copies and fills of the process */
void gwi_failures_finish(gw_model *model);
/* link the failures of each pid; call this when no more failures are added or dropped */
void gwi_failures_link(gw_model *model);

/* observer.c */
void gwi_observer_event(gw_model *model, gwi_process *process, const gw_event *event);
void gwi_observer_finish(gw_model *model);

/* injected.c. gwi_injected_event() and gwi_fence_event() add a fact. Pass each later call of a process with
 * injection_plus_1 to gwi_injected_call(), and each call with GW_EVF_FENCED to gwi_fenced_call(). */
void gwi_injected_event(gw_model *model, gwi_process *process, const gw_event *event);
void gwi_fence_event(gw_model *model, const gw_event *event);
void gwi_injected_call(gw_model *model, gwi_process *process, const gw_event *event);
void gwi_fenced_call(gw_model *model, const gw_event *event);

/* phases.c */
void gwi_phase_event(gw_model *model, gwi_process *process, const gw_event *event);
/* call this before gw_model_phase_at(); may be called again after more phases were added */
void gwi_phases_sort(gw_model *model);

/* faults.c */
void gwi_fault_fact(gw_model *model, gw_fact_key what, const gw_item *item);
void gwi_fault_log(gw_model *model, const gw_event *event); /* handles a DRIVER_LOG event */
void gwi_faults_finish(gw_model *model);

/* machine.c */
void gwi_machine_sample(gw_model *model, const gw_item *item);
void gwi_machine_event(gw_model *model, const gw_item *item);
void gwi_card_fact(gw_model *model, const gw_item *item);
/* These two functions do nothing if `fact` is NULL (there was no memory for it). The model keeps pointers into the
 * fact's text. */
void gwi_holder_fact(gw_model *model, const gw_pair *fact);
void gwi_peers_fact(gw_model *model, const gw_pair *fact);
void gwi_machine_finish(gw_model *model);

/* cudnn.c */
void gwi_cudnn_fact(gw_model *model, const gw_item *item);

/* crash.c. gwi_crash_event() handles a CRASH event. gwi_crash_finish() adds crashes from the supervisor or the kernel
 * log, and finds the memory block of each address. */
void gwi_crash_event(gw_model *model, gwi_process *process, const gw_event *event);
void gwi_crash_finish(gw_model *model); /* call this after gwi_machine_finish() */

void gwi_machine_free(gw_model *model);

/* elsewhere.c. Call this when a failure is added. It finds out whether an argument of the failed call is an object of
 * another device. */
void gwi_elsewhere_find(const gw_model *model, gwi_process *process, gw_failure *failure);
/* Find the memory that the call's addresses refer to, if the driver refused an argument. Call it when a failure is
 * added. */
void gwi_target_find(const gw_model *model, const gwi_process *process, gw_failure *failure);

/* order.c. gwi_order_step() handles ORDER and ORDER_RANGE. gwi_order_call() handles a successful call for which
 * gwi_order_matters(); call it before the ledger is updated. A FREE matters only once the process has ORDER records. */
void gwi_order_step(gw_model *model, gwi_process *process, const gw_event *event);
void gwi_order_call(gw_model *model, gwi_process *process, const gw_event *event);
#define GWI_ORDER_MATTERS(name, price, effect, thing, fold, order, ...)                                                \
    GW_KIND_BIT(name, GW_ORDERING_##order != GW_ORDERING_NONE && GW_ORDERING_##order != GW_ORDERING_PINS)
/* Has no branch on FREE, the only frequent kind that matters, because the processor cannot predict it. */
static inline bool gwi_order_matters(const gwi_process *process, uint8_t kind)
{
    uint64_t without_order = GW_KINDS(GWI_ORDER_MATTERS) & ~(UINT64_C(1) << GW_EV_FREE);
    return gw_kind_is_in(process->order == NULL ? without_order : GW_KINDS(GWI_ORDER_MATTERS), kind);
}
void gwi_order_finish(gw_model *model);

/* waits.c. Find out which calls in the rings submitted work that has certainly ended. Call this after the rings were
 * decoded. */
void gwi_waits_finish(gw_model *model);
/* Return the stream that a thread's call uses, waits for or queries. 1: the legacy default stream. tid << 8 | 2: the
 * per-thread default stream of `tid`. */
uint64_t gwi_ring_stream(const gw_ring_call *call, uint32_t tid);
/* alone.c. Find streams with work that the program never waited for. Call this after gwi_waits_finish() and
 * gwi_launches_finish(). */
void gwi_alone_finish(gw_model *model);

/* collectives.c. Read a fact nccl.comm or nccl.call. Find the calls that have completed, after gwi_launches_finish().
 */
void gwi_collective_fact(gw_model *model, gw_fact_key what, const gw_item *item);
void gwi_collectives_finish(gw_model *model);
void gwi_collectives_free(gw_process *process);

/* hang.c */
void gwi_hangs_finish(gw_model *model);
void gwi_hangs_free(gw_model *model);

/* stderr_lines.c: the output as text, which only this file and raised.c read */
typedef struct gwi_stderr_time { /* when the output was read from this byte on, counted from its beginning */
    uint64_t byte, t_ns;
} gwi_stderr_time;
struct gwi_stderr_output {
    /* Beyond 1 MiB, lines in the middle are omitted. `gap` is the index of the first byte after the gap, 0 if there is
     * none. */
    char *text; /* owned */
    size_t bytes, gap, capacity;
    gwi_stderr_time *time; /* owned; in rising order, at most every 100 ms */
    size_t time_count, time_room;
    size_t inside_at; /* index of the exception that was appended (gw_stderr_facts.inside_pid) */
};
void gwi_stderr_free(gw_stderr_facts *facts);
void gwi_stderr_part(gw_model *model, uint64_t t_ns, const char *bytes, size_t count);
void gwi_stderr_finish(gw_model *model);
/* True if the first line of the text is a message in which a parent process reports a failed child. */
bool gwi_stderr_is_about_child(const char *text);

/* rehearsal.c. gwi_rehearsal_request() takes each successful request for memory in a rehearsal. */
void gwi_rehearsal_event(gw_model *model, const gw_event *event);
void gwi_rehearsal_request(gw_model *model, const gw_event *event);

/* raised.c. gwi_raised_event() stores a line of the exception that ended a Python interpreter. gwi_raised_finish()
 * appends it to the text of stderr if missing there; call it after gwi_stderr_finish(). */
void gwi_raised_event(gw_model *model, gw_process *process, const gw_event *event);
void gwi_raised_finish(gw_model *model);

#endif
