/* Part of gw_model_facts.h: failed calls, what followed them, destroyed contexts, and kernel faults. */
#ifndef GW_FAILURE_FACTS_H
#define GW_FAILURE_FACTS_H

#include "gw_memory_facts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gw_recovery {
    GW_RECOVERED_NOT,
    GW_RECOVERED_BY_SIZE, /* a later request of at least the same size succeeded */
    /* a smaller request succeeded after memory was freed, or at the same call site, and the host waited for later
     * work */
    GW_RECOVERED_BY_SMALLER,
    GW_RECOVERED_BY_WORK,    /* at least 64 launches, copies and fills succeeded later, and the host waited for some */
    GW_RECOVERED_BY_REQUESTS /* at least 1,000 later requests for memory succeeded */
} gw_recovery;

/* An object that was an argument of a failed call, although it belongs to another device than the call. */
typedef struct gw_elsewhere {
    bool found;
    uint8_t cls;     /* class of the object: GW_CLASS_FUNCTION, GW_CLASS_EVENT, or a class of memory */
    uint64_t key;    /* handle or address */
    uint64_t bytes;  /* size of memory; 0 for other objects */
    int device;      /* device on which the object was created */
    int call_device; /* device of the call's stream; for a default stream, device of the current context */
    uint64_t stream; /* stream of the call; 0: the default stream of the current context */
    uint32_t site;   /* call site that created the object; 0: not known */
    uint64_t t_made_ns;
} gw_elsewhere;

/* The memory that an address of a failed copy, fill or free refers to. */
typedef struct gw_target {
    enum { GW_TARGET_UNKNOWN, GW_TARGET_NULL, GW_TARGET_FREED, GW_TARGET_PAST_END } what;
    uint8_t argument;       /* index of the address in gw_failure.arg */
    uint64_t offset, bytes; /* of the address in the block, and the size of the block */
    uint64_t t_made_ns, t_freed_ns;
    uint32_t made_site, freed_site; /* 0: not known */
} gw_target;

/* What the process did successfully after a failure. All counts are lower bounds. */
typedef struct gw_after {
    uint64_t launches;
    uint64_t work;   /* number of launches, copies and fills */
    uint64_t allocs; /* number of granted requests for device or managed memory */
    uint64_t frees;
    /* Counts of the thread whose request was refused:
     * - own_allocs: granted requests
     * - own_work: launches, fills, and copies other than those to the host
     * - own_waits: waits, and copies to the host */
    uint64_t own_allocs, own_work, own_waits;
    uint32_t turns;        /* pairs of successive granted requests between which memory was freed; at most 16 */
    bool synced;           /* a synchronisation succeeded */
    bool worked;           /* new work was done, and the host waited for at least a part of it without an error */
    uint64_t null_used_at; /* index + 1 of the first later failed copy or fill with a NULL address; 0: none */
} gw_after;

/* The first request for memory that succeeded after a refusal, in the same thread. */
typedef struct gw_next_request {
    bool known;
    bool is_retry; /* this request has the same size as the refused one */
    uint64_t bytes, t_ns;
    uint32_t site; /* 0: not known */
} gw_next_request;

/* The memory and contexts of the recorded processes on the failure's device, at the time of the failure, and the
 * devices that no process used. */
typedef struct gw_around {
    uint32_t other_pid; /* the other process with the most memory on the device; 0: none */
    uint64_t other_bytes, other_bytes_total;
    uint32_t process_count; /* number of processes with a context on the device, including this one */
    uint32_t devices_idle;  /* bit mask of the known devices on which no process has a context */
    uint64_t ledger_bytes;  /* live device memory of all recorded processes on the device */
} gw_around;

/* Which live objects the arguments of a failed call refer to. Bit c of classes[k] is set if arg[k] is the handle of a
 * live object of class c, or an address inside one. Recorded only for the first 32 failures after a context was
 * destroyed: an argument may refer to an object that died with it. */
typedef struct gw_named {
    bool known;
    bool context_lives; /* a live context has the handle of the call's context; this may be a new context */
    uint32_t classes[4];
} gw_named;

/* A driver call that failed. If a thread's call fails again in the same way, one entry counts all these failures. */
typedef struct gw_failure {
    uint64_t t_ns, t_last_ns;
    uint32_t pid, tid;
    uint16_t fn, result;
    uint8_t kind, flags;
    uint16_t took_us;
    uint32_t extra;
    uint64_t context;
    uint64_t arg[4];
    uint64_t repeat_count; /* number of equal failures, including the first */
    const char *fn_name;   /* "?": unknown */
    char *text;            /* text of the event; owned by the model; NULL: none */
    int device;            /* -1: unknown; GW_MODEL_DEVICE_BEYOND: a device beyond the first 16 */

    bool is_probe; /* the result is only an answer to the program and no error; never the cause of other failures */
    bool is_allocation;    /* device memory, or an object that needs device memory, was refused for lack of memory */
    bool is_sticky;        /* the failure made the context, or the whole process, unusable */
    bool is_echo;          /* the process already had a sticky failure, so this one may only be its consequence */
    uint32_t next_plus_1;  /* index + 1 of the next failure with this pid; 0: none. See gw_model_next_failure() */
    bool is_earlier;       /* not sticky, and before the phase that is judged (gw_model.asked_phase) */
    uint64_t bytes_wanted; /* size of the request, if is_allocation; 0: an object without a size */
    uint32_t site;         /* call site of the first of the equal failures; 0: not known */
    gw_recovery recovery;
    uint64_t t_recovered_ns;
    gw_elsewhere elsewhere;
    gw_target target;
    gw_after after;

    bool has_info; /* `info` is known: read right after the failure, or derived from values read earlier */
    gw_memory_info info;
    gw_pool_state pools;   /* state right after the failure; pools.count 0: there are no pools, or it is not known */
    bool injected, fenced; /* --inject or --fence returned the result, not the driver */
    bool guard;            /* gpuwhy's guard, not the driver, refused the call */
    bool has_limit;
    uint64_t bytes_limit, bytes_used; /* the guard's limit, and the bytes in use when it refused the call */
    gw_next_request next;
    gw_around around;
    int snapshot;  /* index for gw_model_snapshot(); -1: none */
    int allocator; /* index in gw_model.allocator of the framework's report about this failure; -1: none */

    gw_named named;

    const char *kernel; /* if a launch reported a sticky error: the kernel of this launch; NULL: unknown */
    /* The failure comes from a GPU core dump: the driver ended the process before a call reported it. fn_name is the
     * call that a thread was in, or "?" if there was none. */
    bool by_dump;
} gw_failure;

/* With this much work after a failure, the program surely does without what failed. See gw_after.work. */
enum { GW_WORK_MUCH = 64 };

/* True if the driver found no kernel of this name that runs on the GPU. */
static inline bool gw_is_kernel_lookup(const gw_failure *failure)
{
    enum { NO_BINARY_FOR_GPU = 209 };
    return failure->result == NO_BINARY_FOR_GPU && failure->kind == GW_EV_FUNCTION;
}

/* The destruction of a context, or of everything on a device, with all objects that were still alive. */
typedef enum gw_teardown_kind { GW_TEARDOWN_DESTROY, GW_TEARDOWN_RELEASE, GW_TEARDOWN_RESET } gw_teardown_kind;
typedef struct gw_buried {
    uint64_t key, bytes, t_made_ns;
    uint32_t site; /* call site that created the object; 0: not known */
    uint8_t cls;
} gw_buried;
typedef struct gw_teardown {
    gw_teardown_kind kind;
    uint64_t t_ns;
    uint32_t pid, tid;
    uint32_t site; /* call site that destroyed the context; 0: not known */
    int device;
    uint64_t context;
    uint64_t t_made_ns; /* when the context was created, or a primary context was first retained; 0: not seen */
    uint32_t made_site; /* call site that created or retained the context; 0: not known */
    uint64_t count[GW_CLASS_COUNT]; /* number of destroyed objects of each class */
    uint64_t bytes;                 /* bytes of destroyed device memory */
    gw_buried *buried;              /* the first GW_BURIED_MAX destroyed objects; owned */
    size_t buried_count;
} gw_teardown;
enum { GW_BURIED_MAX = 1 << 16 };

/* ---- kernel faults: from GPU core dumps, and from a second run with blocking launches ---- */

enum { GW_GPU_FAULTS_MAX = 256, GW_GPU_DUMPS_MAX = 64 };

/* A fault: threads of one kernel that had the same exception at the same place. */
typedef struct gw_gpu_fault {
    uint64_t t_ns; /* when the dump was complete */
    uint32_t pid;
    uint32_t exception; /* the driver's number for the exception */
    char *name;         /* such as "WARP_ILLEGAL_ADDRESS" */
    uint16_t result;    /* CUDA result that calls return after such an exception, such as 700 */
    uint32_t device, sm;
    uint64_t count;  /* number of threads with this exception; if !has_thread, number of SMs */
    bool has_thread; /* false: `block` and `thread` are unknown, because the warp had already ended */
    uint32_t block[3], thread[3];
    bool has_pc;
    uint64_t pc;
    char *kernel;    /* mangled name; NULL: unknown */
    char *function;  /* function that contains the PC; NULL: unknown */
    uint64_t offset; /* offset of the PC in the function */
    bool has_grid;
    uint32_t grid_dim[3], block_dim[3];
    char *file; /* source file; NULL: no line information */
    uint32_t line;
} gw_gpu_fault;

typedef struct gw_gpu_dump {
    uint64_t t_ns;
    uint32_t pid;
    char *path;
    uint64_t bytes;
    bool kept;             /* gpuwhy did not delete the dump's file */
    char *refused;         /* why the dump could not be read; NULL: it was read */
    uint64_t fault_count;  /* number of faults in the dump that were recorded; 0: the dump has no exception */
    uint64_t fault_beyond; /* number of further faults in the dump, which were not recorded */
    /* CUDA_COREDUMP_GENERATION_FLAGS contained skip_abort: the program continued after the exception */
    bool skip_abort;
} gw_gpu_dump;

/* How the second run of the same command, with CUDA_LAUNCH_BLOCKING=1, ended. */
typedef enum gw_blame_end {
    GW_BLAME_IN_LAUNCH, /* a launch reported the fault, so its kernel is at fault */
    GW_BLAME_ELSEWHERE, /* a call other than a launch reported the fault */
    GW_BLAME_NO_FAULT,  /* the program succeeded, so the fault did not occur again */
    GW_BLAME_OTHER,     /* the program failed, but without a GPU fault */
    GW_BLAME_NOT_RUN    /* the program could not be started */
} gw_blame_end;
const char *gw_blame_end_text(gw_blame_end end); /* such as "in-launch", as in the recording; static */

/* A frame in the stack of the call that reported the fault, from the verdict on --blame's second run
 * (gw_where_frame). */
typedef struct gw_blame_frame {
    char *function, *file, *module, *text, *whose; /* owned by the model; NULL: not known */
    uint64_t address;
    uint32_t line;
    bool python, inlined;
} gw_blame_frame;

enum { GW_BLAME_FRAMES_MAX = 512, GW_BLAME_NOTES_MAX = 8 };

typedef struct gw_blame {
    bool known;
    gw_blame_end end;
    char *recording; /* path of the second run's recording; NULL: it was not kept */
    char *ended;     /* how the program ended, such as "exit status 1" or "signal 6" */
    uint16_t result;
    char *call;   /* call that reported the fault; NULL unless `end` is GW_BLAME_IN_LAUNCH or GW_BLAME_ELSEWHERE */
    char *kernel; /* kernel of the launch that reported the fault, or of the last launch before `call`; NULL: unknown */
    uint64_t stream;
    uint32_t tid;
    char *thread; /* name of the thread that made the call */
    bool has_order;
    uint64_t order; /* number of launches that this thread made before the call */
    uint64_t t_ns;  /* time of the call, in ns since the second run began */
    char *frame;    /* innermost Python frame of the thread, from the traceback; NULL: none was seen */
    char *where;    /* place in the program where the call was made, from the second run's verdict; NULL: unknown */
    gw_blame_frame *stack;          /* stack that leads to `where`, innermost frame first; owned */
    size_t stack_count;             /* 0: the stack is unknown */
    size_t stack_user;              /* index in `stack` of the user's frame */
    char *note[GW_BLAME_NOTES_MAX]; /* texts that say which parts of the stack are missing; NULL after the last one */
    char *where_reason;             /* why `where` or its line is unknown; NULL: nothing is missing */
} gw_blame;

/* Lines of the driver's own log about a lost context. Most other lines of that log are about harmless probes. */
enum { GW_FAULT_LOGS_MAX = 8, GW_FAULT_LOG_BYTES_MAX = 200 };
typedef struct gw_fault_log {
    uint64_t t_ns;
    uint32_t pid;
    char text[GW_FAULT_LOG_BYTES_MAX];
} gw_fault_log;

typedef struct gw_fault_facts {
    gw_gpu_dump *dump;
    size_t dump_count;
    gw_gpu_fault *fault; /* for each dump: faults with a thread first, starting with the most frequent */
    size_t fault_count;
    gw_blame blame;
    gw_fault_log log[GW_FAULT_LOGS_MAX]; /* the first such lines, without repetitions */
    size_t log_count;
} gw_fault_facts;

#endif
