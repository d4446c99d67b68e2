/* What the parts of the model share while it is fed: the ledgers at work. Nobody outside this folder reads it. */
#ifndef GWI_MODEL_INNER_H
#define GWI_MODEL_INNER_H

#include "gw_iterations.h"
#include "gw_model_facts.h"
#include "gwi_table.h"

/* Addresses and handles of different sorts may be the same number: each sort has its own table. */
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

/* One cache line: a ledger of 100,000 blocks lives of few misses. */
typedef struct gwi_object {
    uint64_t key, bytes, t_ns, order;
    uint64_t context; /* current when it was made */
    uint64_t owner;   /* mapping: object index of the VMM block; function: module; exec: graph */
    uint32_t group;   /* dead: index + 1 of the next dead one */
    union {
        uint32_t refs; /* VMM: handles out; memory of another process: how often it is open */
        uint32_t name; /* function: index + 1 into the names */
    };
    union {
        uint32_t maps; /* VMM: mappings alive */
        uint32_t site; /* function: where its handle was asked for; functions are in no group */
    };
    uint8_t cls, device;
    uint8_t space; /* GWI_SPACE_COUNT: dead */
    /* Context: gw_context_kind; function: gw_owner_kind; stream: 1 where the default stream does not wait for it. */
    uint8_t kind;
} gwi_object;
_Static_assert(sizeof(gwi_object) == 64, "an object is one cache line");

static inline bool gwi_is_alive(const gwi_object *object)
{
    return object->space != GWI_SPACE_COUNT;
}

/* Device memory. */
static inline bool gwi_is_memory(uint8_t cls)
{
    return cls <= GW_CLASS_DEVICE_LAST;
}

/* What snapshots show, and what allocations and frees of a process are counted by. */
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

/* A block that died after a picture of the ledger was taken. */
typedef struct gwi_grave {
    gw_live live;
    uint64_t died; /* frees of the process before its own */
} gwi_grave;

/* One of the newest requests for memory that were granted. */
typedef struct gwi_request {
    uint64_t t_ns, bytes, live_bytes; /* live: before it, on its device */
    uint64_t launches;                /* of the process so far; so the others */
    uint64_t frees;
    uint64_t ended; /* frees of the process up to its own; 0: alive */
    uint32_t copies, reads, waits;
    uint32_t group;
    uint32_t lifetime; /* requests that came until it ended */
    uint16_t thread;   /* gwi_thread_mark() */
    uint8_t device;
} gwi_request;

/* Tells the threads of a process apart, in two bytes. Never 0. */
static inline uint16_t gwi_thread_mark(uint32_t tid)
{
    return (uint16_t)(tid % UINT16_MAX + 1);
}
typedef struct gwi_requests gwi_requests;

/* How many requests for device memory a thread was granted. */
typedef struct gwi_asker {
    uint64_t count;
    uint32_t tid;
} gwi_asker;
enum { GWI_ASKERS_MAX = 16 }; /* threads of a process that are counted */

enum { GWI_GRAVES_MAX = 8 << 20, GWI_PICTURES_MAX = 64, GWI_FAILURES_MAX = 4096, GWI_GROUPS_MAX = 1 << 17 };

typedef struct gwi_process {
    uint32_t pid;
    uint32_t index;     /* of the gw_process */
    gwi_object *object; /* owned */
    uint32_t object_count, object_capacity;
    uint32_t object_free; /* index + 1 of a dead one; chained through `group` */
    gwi_table table[GWI_SPACE_COUNT];
    uint64_t primary[GW_MODEL_DEVICE_PLACES]; /* context handle; none of devices beyond the table */
    uint64_t context_last;                    /* a one-entry cache of context -> device; 0: of device 0 */
    uint8_t context_last_device;
    gwi_asker asker[GWI_ASKERS_MAX];
    uint32_t asker_count, asker_last;
    uint32_t open_failure[64]; /* failed allocations not yet known to be recovered: indexes */
    uint32_t open_count;
    uint64_t open_bytes_min;  /* a request below it tells nothing about any of them */
    uint32_t report_open[16]; /* out-of-memory reports not yet recovered */
    uint64_t frees_total;     /* of what is counted; ends_total: of all that is in groups */
    uint64_t ends_total;
    uint64_t t_teardown_ns; /* of the last one */
    uint32_t named_left;    /* failures of which is still asked what their arguments name: a context went */
    uint64_t threshold_pool, threshold_bytes; /* the last release threshold that was set above 0, and of which pool */
    int last_failure;                         /* index, -1: none */
    bool has_refusal;                         /* a guard's refusal that waits for its failure */
    uint64_t refusal[4];
    int allocator_now;        /* the report being filled, -1: none */
    uint64_t history_read_ns; /* when its history was read; 0: not yet */
    gwi_capture *capture;     /* owned */
    size_t capture_count, capture_capacity;
    uint32_t captures_open;
    gwi_node *node; /* owned */
    size_t node_count, node_capacity;
    bool sticky;
    uint64_t *history; /* times of the allocations of the report being filled; owned */
    size_t history_count, history_capacity;
    int pictured[GWI_PICTURES_MAX + 1]; /* snapshots whose lists can be made, in order of time; one of them its end's */
    uint32_t pictured_count;
    uint64_t pictured_order; /* of the newest of them; 0: none */
    gwi_grave *grave;        /* owned */
    size_t grave_count, grave_capacity;
    struct gwi_order *order;                 /* owned; NULL: no steps were told */
    uint64_t t_waited_ns;                    /* a call that waits for the whole device by the way began last */
    gwi_requests *requests;                  /* owned; NULL: there were none */
    bool work_known;                         /* the recording counts work between requests */
    uint64_t launches, copies, reads, waits; /* so far, as requests tell */
    uint64_t t_default_ns; /* stream-ordered memory was last asked for or freed in the default stream */
} gwi_process;

typedef struct gwi_string_pool {
    char **item; /* owned, each owned */
    size_t count, capacity;
} gwi_string_pool;

/* What a snapshot is besides what the facts say of it. */
typedef struct gwi_picture {
    uint32_t process;    /* index */
    uint32_t use_count;  /* failures and process ends that refer to it; 0: free */
    uint32_t need_count; /* of these, those that may still want its list */
    uint32_t next_free;  /* index + 1 */
    bool listed;         /* among its process's `pictured` */
} gwi_picture;

typedef struct gwi_hot_ring { /* as it came, decoded at the end */
    gw_hot_call *call;        /* owned */
    uint32_t count;
    uint64_t total, synced_total;
} gwi_hot_ring;

typedef struct gwi_model {
    gwi_process **process;      /* parallel to gw_model.process; owned */
    gwi_process *last;          /* of the last event */
    gwi_hot_ring *ring;         /* parallel to gw_model.thread; owned */
    uint16_t *inside_fn_plus_1; /* likewise */
    size_t launch_site_capacity;
    size_t process_capacity, thread_capacity, failure_capacity, snapshot_capacity, teardown_capacity, group_capacity;
    size_t unwaited_capacity;
    size_t info_capacity, allocator_capacity, phase_capacity, meta_capacity, fact_capacity, hang_capacity,
        holder_capacity;
    gwi_table group_table; /* of the groups */
    gwi_picture *picture;  /* parallel to gw_model.snapshot; owned */
    size_t picture_capacity;
    uint32_t picture_free;       /* index + 1 of a free one */
    uint32_t failures_recovered; /* since old failures were last forgotten */
    bool failures_stay;          /* none left that could be forgotten */
    gwi_string_pool fn_names;
    gwi_string_pool names; /* of kernels, device-wide */
    char *line;            /* stderr: the line being gathered; owned */
    size_t line_bytes;
    struct gwi_stderr_state {
        bool in_traceback, chain, chain_oom, chained, last_frame_next;
        size_t text_capacity;
        uint64_t lines_since_oom, lines_since_exception;
        char own_frame[GW_STDERR_LINE_MAX]; /* of the traceback at work, the innermost one outside of packages */
    } stderr_state;
    uint64_t t_last_ns;
    size_t cudnn_line_capacity;
    bool nomem;
} gwi_model;

/* room.c: make room for one more; false (and nomem is set) without memory. */
bool gwi_room(gw_model *model, void *array_pointer, size_t count, size_t *capacity, size_t element_bytes);
char *gwi_copy_text(gw_model *model, const char *text);
/* The caller's; NULL: it is empty, or no memory. */
char *gwi_copy_fact_text(gw_model *model, gw_fact_text text);

/* feed.c: an event, whatever its kind. */
void gwi_model_event(gw_model *model, const gw_event *event);

/* processes.c: of a pid that was used again the newest process; it is added where there is none. NULL: no memory, and
 * nomem is set. */
gwi_process *gwi_process_add(gw_model *model, uint32_t pid, uint64_t t_ns);
gwi_process *gwi_process_find(gw_model *model, uint32_t pid, uint64_t t_ns);
static inline gwi_process *gwi_process_of(gw_model *model, uint32_t pid, uint64_t t_ns)
{
    gwi_process *last = model->inner->last;
    return last != NULL && last->pid == pid ? last : gwi_process_find(model, pid, t_ns);
}
/* The place of the thread, which is added where there is none. SIZE_MAX: no memory. */
size_t gwi_thread_of(gw_model *model, uint32_t pid, uint32_t tid);

/* objects.c */
bool gwi_groups_start(gw_model *model); /* false: no memory */
void gwi_groups_finish(gw_model *model);
void gwi_group_kept(gw_model *model, const gwi_object *object); /* it was never given back */
/* What an event made. A thing of the same sort and key that is still there ends first. `device` -1: unknown, taken for
 * the first. The object is good until the next one is added; NULL: no memory, and nomem is set. */
gwi_object *gwi_object_add(gw_model *model, gwi_process *process, const gw_event *event, gwi_space space, gw_class cls,
                           uint64_t key, uint64_t bytes, int device);
/* Out of the table, still alive: whoever takes it drops it at last. */
bool gwi_object_take(gwi_process *process, gwi_space space, uint64_t key, uint32_t *ret_index);
void gwi_object_drop(gw_model *model, gwi_process *process, uint32_t index);
/* Both. False: there is none. */
bool gwi_object_end(gw_model *model, gwi_process *process, gwi_space space, uint64_t key);
/* The same for what nearly all events are about: device memory that was made at arg[0], of arg[1] bytes; its end. */
void gwi_memory_add(gw_model *model, gwi_process *process, const gw_event *event, gw_class cls);
void gwi_memory_free(gw_model *model, gwi_process *process, const gw_event *event);

/* The hash of the group that what `event` made, of so many bytes, belongs to: by what tells groups apart, but for the
 * class, which a function nearly always has but one of. */
static inline uint32_t gwi_group_hash(const gw_event *event, uint64_t bytes)
{
    uint64_t caller = event->site != 0 ? ~(uint64_t)event->site : event->tid;
    uint64_t who = caller << 16 ^ (uint64_t)event->pid << 40 ^ event->fn;
    return gwi_hash(bytes ^ who * 0xc2b2ae3d27d4eb4fu);
}

/* ledger.c: a call that succeeded. */
void gwi_ledger_apply(gw_model *model, gwi_process *process, const gw_event *event);
int gwi_device_find(gwi_process *process, uint64_t context);
/* The place of a device in the model's tables. */
static inline int gwi_device_place(uint64_t number)
{
    return number < GW_MODEL_DEVICES_MAX ? (int)number : GW_MODEL_DEVICE_BEYOND;
}
/* The device of a context; 0 when the context is not known. */
static inline int gwi_device_of(gwi_process *process, uint64_t context)
{
    return context == process->context_last ? process->context_last_device : gwi_device_find(process, context);
}

/* launches.c: a LAUNCH_SITE; and after the last event, names that came late. */
void gwi_launch_site(gw_model *model, const gwi_process *process, const gw_event *event);
void gwi_launches_finish(gw_model *model);
/* The name of a kernel. NULL: not known. */
const char *gwi_function_name(const gw_model *model, const gwi_process *process, uint64_t function);
/* "a, b": the kernel names of a graph; NULL: none known. Owned by the model. */
const char *gwi_exec_names(gw_model *model, gwi_process *process, uint64_t exec);
/* Was what this thread did then captured into a graph? */
bool gwi_was_captured(const gwi_process *process, uint32_t tid, uint64_t t_ns);

/* snapshot.c: pictures of the ledger. Taking one costs the same however much is alive; its list is made when asked for.
 * Indexes into the model's snapshots; -1: none. */
/* The picture of now: the caller uses it and may want its list. -1: no memory. */
int gwi_snapshot_take(gw_model *model, gwi_process *process, int device, uint64_t t_ns, gw_snapshot_reason reason);
/* Did nothing change since it was taken? */
bool gwi_snapshot_is_now(const gw_model *model, const gwi_process *process, int index);
void gwi_snapshot_unneed(gw_model *model, int index); /* a user of it will not want the list any more */
void gwi_snapshot_release(gw_model *model, int index,
                          bool needed); /* a user, who might still want the list or not, goes */
/* The device on which the process holds most; -1: it holds nothing. */
int gwi_fullest_device(const gw_process *facts);
/* The picture of a process at its end, in place of an older one. */
void gwi_snapshot_end(gw_model *model, gwi_process *process, int device, uint64_t t_ns);
/* A block of device or managed memory is about to die: kept, when a picture shows it. */
void gwi_snapshot_bury(gw_model *model, gwi_process *process, const gwi_object *object);

/* requests.c: what the ledger writes down of each request. NULL: no memory, and nomem is set. */
gwi_request *gwi_request_place(gw_model *model, gwi_process *process, uint64_t order);
/* The block that was the request `order` is given back; `frees`: of the process, this one counted; `order_now`: of the
 * newest request. */
void gwi_request_end(gwi_process *process, uint64_t order, uint64_t frees, uint64_t order_now);
void gwi_work_add(gwi_process *process, uint32_t work); /* `extra` of a request */
/* From the request of that order on: times that memory was given back between two of them, up to 16. */
uint32_t gwi_requests_turns(const gwi_process *process, uint64_t order);
void gwi_requests_free(gwi_process *process);
/* Those on the snapshot's device up to it, with room for one more; the caller frees the list. NULL: none are known. */
gw_request *gwi_requests_list(const gw_model *model, uint32_t pid, const gw_snapshot *snapshot, size_t *ret_count,
                              bool *ret_work_known);

/* Those of a framework's allocator, as its report has them, with room for one more; the caller frees the list. NULL: it
 * has none. */
gw_request *gwi_requests_of_report(const gw_allocator_report *report, size_t *ret_count);
/* Where no request tells of any work: fill in what the rings of all threads tell. */
void gwi_requests_work(const gw_model *model, uint32_t pid, gw_request *request, size_t count);

/* failures.c */
void gwi_failure_add(gw_model *model, gwi_process *process, const gw_event *event);
/* The thread that is counted as such; NULL: none, or not counted. */
gwi_asker *gwi_asker_find(gwi_process *process, uint32_t tid, bool add);
static inline void gwi_asker_count(gwi_process *process, uint32_t tid)
{
    gwi_asker *asker = &process->asker[process->asker_last];
    if (asker->tid != tid)
        asker = gwi_asker_find(process, tid, true);
    if (asker != NULL)
        asker->count++;
}
/* An allocation succeeded; call it where `bytes` reach the process's open_bytes_min. */
void gwi_failure_allocated(gw_model *model, gwi_process *process, const gw_event *event, uint64_t bytes);
void gwi_failure_info(gw_model *model, gwi_process *process, const gw_memory_info *info);
void gwi_failure_pool(gw_model *model, gwi_process *process, const gw_event *event); /* POOL_STATE */
void gwi_failure_refused(gw_model *model, gwi_process *process, const gw_event *event);
uint64_t gwi_work_count(const gw_process *process); /* launches, copies and fills so far */
void gwi_failures_finish(gw_model *model);

/* observer.c */
void gwi_observer_event(gw_model *model, gwi_process *process, const gw_event *event);
void gwi_observer_finish(gw_model *model);

/* phases.c */
void gwi_phase_event(gw_model *model, gwi_process *process, const gw_event *event);
void gwi_phases_sort(gw_model *model); /* before they are asked for; may be called again */
void gwi_phases_free(gw_model *model);

/* faults.c */
void gwi_fault_fact(gw_model *model, gw_fact_key what, const gw_item *item);
void gwi_fault_log(gw_model *model, const gw_event *event); /* of kind DRIVER_LOG */
void gwi_faults_finish(gw_model *model);
void gwi_faults_free(gw_model *model);

/* machine.c */
void gwi_machine_sample(gw_model *model, const gw_item *item);
void gwi_machine_event(gw_model *model, const gw_item *item);
void gwi_card_fact(gw_model *model, const gw_item *item);
/* NULL: there was no room for it. They borrow its text. */
void gwi_holder_fact(gw_model *model, const gw_pair *fact);
void gwi_peers_fact(gw_model *model, const gw_pair *fact);
void gwi_machine_finish(gw_model *model);

/* cudnn.c */
void gwi_cudnn_fact(gw_model *model, const gw_item *item);
void gwi_cudnn_free(gw_model *model);

/* crash.c: CRASH, and in the end what the kernel's log says and whose memory it was. */
void gwi_crash_event(gw_model *model, gwi_process *process, const gw_event *event);
void gwi_crash_finish(gw_model *model); /* after gwi_machine_finish() */

void gwi_machine_free(gw_model *model);

/* elsewhere.c: does the call that failed name something of another device? `process` as it was at the call. */
void gwi_elsewhere_find(const gw_model *model, gwi_process *process, gw_failure *failure);

/* order.c: a step (ORDER, ORDER_RANGE), and a call that succeeded and may matter, before the ledger knows of it. */
void gwi_order_step(gw_model *model, gwi_process *process, const gw_event *event);
void gwi_order_call(gw_model *model, gwi_process *process, const gw_event *event);
#define GWI_ORDER_MATTERS(name, price, effect, thing, fold, order, ...)                                                \
    GW_KIND_BIT(name, GW_ORDERING_##order != GW_ORDERING_NONE && GW_ORDERING_##order != GW_ORDERING_PINS)
static inline bool gwi_order_matters(uint8_t kind)
{
    return gw_kind_is_in(GW_KINDS(GWI_ORDER_MATTERS), kind);
}
void gwi_order_finish(gw_model *model);

/* waits.c: which calls of the rings are surely over. After the rings are decoded. */
void gwi_waits_finish(gw_model *model);
/* The stream of a call of that thread; waits and queries of a stream have it as what they are about. 1: the legacy
 * default stream. */
uint64_t gwi_ring_stream(const gw_ring_call *call, uint32_t tid);
/* alone.c: after the waits and the launches' names. */
void gwi_alone_finish(gw_model *model);

/* hang.c */
void gwi_hangs_finish(gw_model *model);
void gwi_hangs_free(gw_model *model);

/* stderr_lines.c */
void gwi_stderr_part(gw_model *model, uint64_t t_ns, const char *bytes, size_t count);
void gwi_stderr_finish(gw_model *model);
bool gwi_stderr_is_about_child(const char *text); /* its first line: the words of a parent whose child failed */

/* raised.c: the exception that a Python interpreter had when it ended. finish: where stderr does not hold it, it is
 * read as if it did. After gwi_stderr_finish(). */
void gwi_raised_event(gw_model *model, gw_process *process, const gw_event *event);
void gwi_raised_finish(gw_model *model);

#endif
