/* Part of gw_model_facts.h: failed calls, what followed them, and destroyed contexts. */
#ifndef GW_FAILURE_FACTS_H
#define GW_FAILURE_FACTS_H

#include "gw_memory_facts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gw_recovery {
    GW_RECOVERED_NOT,
    GW_RECOVERED_BY_SIZE, /* a later request of at least the same size succeeded */
    /* memory was freed or the same line asked again; then a smaller request succeeded, and later work was waited for */
    GW_RECOVERED_BY_SMALLER,
    GW_RECOVERED_BY_WORK,    /* many launches, copies and fills succeeded later and were waited for */
    GW_RECOVERED_BY_REQUESTS /* very many later requests for memory succeeded */
} gw_recovery;

/* An object that a failed call named, although it belongs to another device than the call. */
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

/* What succeeded after a failure. All counts of the process are lower bounds. */
typedef struct gw_after {
    uint64_t launches;
    uint64_t work;   /* number of launches, copies and fills */
    uint64_t allocs; /* allocations of device memory */
    uint64_t frees;
    /* Lower bounds for the thread whose request was refused. own_allocs: granted requests. own_work: launches, fills,
     * and copies other than those to the host. own_waits: waits, and copies to the host. */
    uint64_t own_allocs, own_work, own_waits;
    uint32_t turns;        /* how often memory was freed and then granted again; at most 16 */
    bool synced;           /* a synchronisation succeeded */
    bool worked;           /* new work was done, and the host waited for a part of it without an error */
    uint64_t null_used_at; /* index + 1 of the first later failure that has a NULL address; 0: none */
} gw_after;

/* The first request of the same thread that succeeded after a refusal. */
typedef struct gw_next_request {
    bool known;
    bool is_retry; /* has the size of the refused request */
    uint64_t bytes, t_ns;
    uint32_t site; /* 0: not known */
} gw_next_request;

/* Memory and contexts of the recorded processes on the device at the failure, and devices that were free. */
typedef struct gw_around {
    uint32_t other_pid; /* the other process with the most memory; 0: none */
    uint64_t other_bytes, other_bytes_total;
    uint32_t process_count; /* number of processes with a context on the device, including this one */
    uint32_t devices_idle;  /* bit mask of the known devices on which no process has a context */
    uint64_t ledger_bytes;  /* device memory of all recorded processes */
} gw_around;

/* Objects that the arguments of a failure may name, if a context was destroyed before. classes[k] has one bit for each
 * class of live objects: an object has the handle arg[k], or contains the address arg[k]. Set only for the first
 * failures after a context was destroyed. */
typedef struct gw_named {
    bool known;
    bool context_lives; /* a context with the handle of the current one exists; it may be a new one */
    uint32_t classes[4];
} gw_named;

/* A driver call that failed. Equal failures of one thread in a row share one entry. */
typedef struct gw_failure {
    uint64_t t_ns, t_last_ns;
    uint32_t pid, tid;
    uint16_t fn, result;
    uint8_t kind, flags;
    uint16_t took_us;
    uint32_t extra;
    uint64_t context;
    uint64_t arg[4];
    uint64_t repeat_count; /* 1: failed once */
    const char *fn_name;   /* "?": unknown */
    char *text;            /* owned by the model; NULL: none */
    int device;            /* -1: unknown; may be GW_MODEL_DEVICE_BEYOND, as everywhere in the model */

    bool is_probe;         /* the result only answers a question of the program; never the cause of other failures */
    bool is_allocation;    /* device memory, or an object that needs device memory, was refused for lack of memory */
    bool is_sticky;        /* the failure made the context, or the whole process, unusable */
    bool is_echo;          /* a consequence of an earlier sticky error or fork */
    uint32_t next_plus_1;  /* index + 1 of the next failure with this pid; 0: none. See gw_model_next_failure() */
    bool is_earlier;       /* not sticky, and before the phase to which the analysis is limited */
    uint64_t bytes_wanted; /* size of the request, if is_allocation; 0: an object without a size */
    uint32_t site;         /* call site of the first of the equal failures; 0: not known */
    gw_recovery recovery;
    uint64_t t_recovered_ns;
    gw_elsewhere elsewhere;
    gw_after after;

    bool has_info; /* `info` is known: read right after the failure, or derived from an earlier reading */
    gw_memory_info info;
    gw_pool_state pools; /* read right after the failure; count 0: none, or not known */
    bool guard;          /* gpuwhy's guard refused the call, not the driver */
    bool has_limit;
    uint64_t bytes_limit, bytes_used; /* the guard's limit, and the bytes in use */
    gw_next_request next;
    gw_around around;
    int snapshot;  /* number for gw_model_snapshot(); -1: none */
    int allocator; /* index of the failure's report in the model's allocator reports; -1: none */

    gw_named named;

    const char *kernel; /* kernel of the launch, if a launch reported a sticky error; NULL: unknown */
    /* The failure comes from a GPU core dump, because the driver ended the process before a call reported it. fn_name
     * is the call that a thread was in, or "?" if no thread was in a call. */
    bool by_dump;
} gw_failure;

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

#endif
