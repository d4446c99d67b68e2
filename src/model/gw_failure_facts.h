/* Part of gw_model_facts.h: failed calls, what followed them, and destroyed contexts. */
#ifndef GW_FAILURE_FACTS_H
#define GW_FAILURE_FACTS_H

#include "gw_memory_facts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gw_recovery {
    GW_RECOVERED_NOT,
    GW_RECOVERED_BY_SIZE,    /* a request of at least that size succeeded later */
    GW_RECOVERED_BY_SMALLER, /* memory was freed, or the same line asked again; then a smaller request succeeded, and
                              * later work was waited for */
    GW_RECOVERED_BY_WORK,    /* many launches, copies and fills succeeded later and were waited for */
    GW_RECOVERED_BY_REQUESTS /* very many requests for memory succeeded later */
} gw_recovery;

/* A call names an object of another device than the one on which it works. */
typedef struct gw_elsewhere {
    bool found;
    uint8_t cls;     /* FUNCTION, EVENT, or a class of memory: the object's class */
    uint64_t key;    /* handle or address */
    uint64_t bytes;  /* memory */
    int device;      /* the object was created on this one */
    int call_device; /* the call works on this one: its stream's, else the current context's */
    uint64_t stream; /* of the call; 0: the default stream of the current context */
    uint32_t site;   /* where the object was created; 0: not known */
    uint64_t t_made_ns;
} gw_elsewhere;

/* What succeeded after a failure. All counts of the process are lower bounds. */
typedef struct gw_after {
    uint64_t launches;
    uint64_t work;   /* number of launches, copies and fills */
    uint64_t allocs; /* allocations of device memory */
    uint64_t frees;
    /* Lower bounds for the thread that was refused: granted requests; launches, fills and copies other than fetching
     * results; waits and fetched results. */
    uint64_t own_allocs, own_work, own_waits;
    uint32_t turns;        /* how often memory was freed and then granted again; at most 16 */
    bool synced;           /* a synchronisation succeeded */
    bool worked;           /* new work was done, and the host waited for some of it without an error */
    uint64_t null_used_at; /* index + 1 of the first later failure that names a NULL address; 0: none */
} gw_after;

/* The first request of the same thread that succeeded after a refusal. */
typedef struct gw_next_request {
    bool known;
    bool is_retry; /* it asked for the same size again */
    uint64_t bytes, t_ns;
    uint32_t site; /* 0: not known */
} gw_next_request;

/* What the recorded processes had on the device at a failure, and which devices were free. */
typedef struct gw_around {
    uint32_t other_pid; /* the other process that holds most; 0: none */
    uint64_t other_bytes, other_bytes_total;
    uint32_t process_count; /* number of processes with a context on it, including this one */
    uint32_t devices_idle;  /* bits: known devices on which no process has a context */
    uint64_t ledger_bytes;  /* requested by all of them */
} gw_around;

/* A context was destroyed before the failure: bits of the classes of live objects that arg[k] may name by handle, or
 * into which it may point. Only for the first failures after the context's end. */
typedef struct gw_named {
    bool known;
    bool context_lives; /* the current context, perhaps a new one */
    uint32_t classes[4];
} gw_named;

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
    int device;            /* -1: unknown; may be GW_MODEL_DEVICE_BEYOND, as everywhere in the model */

    bool is_probe;         /* an answer that programs ask for on purpose: never a root */
    bool is_allocation;    /* device memory, or an object that needs some, was refused for lack of memory */
    bool is_sticky;        /* the context, or the whole process, is lost from here on */
    bool is_echo;          /* a consequence of an earlier sticky error or fork */
    bool is_earlier;       /* before the only phase that is judged, and not sticky */
    uint64_t bytes_wanted; /* if is_allocation; 0: an object without a size */
    uint32_t site;         /* of the first of them; 0: not known */
    gw_recovery recovery;
    uint64_t t_recovered_ns;
    gw_elsewhere elsewhere;
    gw_after after;

    bool has_info; /* the driver's totals, asked right after the failure, or after an earlier one and updated */
    gw_memory_info info;
    gw_pool_state pools; /* asked right after the failure; count 0: none, or not known */
    bool guard;          /* our guard refused it, not the driver */
    bool has_limit;
    uint64_t bytes_limit, bytes_used; /* of the guard */
    gw_next_request next;
    gw_around around;
    int snapshot;  /* for gw_model_snapshot(); -1: none */
    int allocator; /* index of its report in the model's allocator reports; -1: none */

    gw_named named;

    const char *kernel; /* if is_sticky and a launch: its kernel; NULL: unknown */
    bool by_dump; /* no call reported it: it comes from a GPU core dump, and the driver ended the process. fn_name is
                   * the call that a thread was inside of, "?" if there was none */
} gw_failure;

/* A context, or everything on a device, was destroyed, including all objects that were still alive. */
typedef enum gw_teardown_kind { GW_TEARDOWN_DESTROY, GW_TEARDOWN_RELEASE, GW_TEARDOWN_RESET } gw_teardown_kind;
typedef struct gw_buried {
    uint64_t key, bytes, t_made_ns;
    uint32_t site; /* where it was created; 0: not known */
    uint8_t cls;
} gw_buried;
typedef struct gw_teardown {
    gw_teardown_kind kind;
    uint64_t t_ns;
    uint32_t pid, tid;
    uint32_t site; /* site of the destroying call; 0: not known */
    int device;
    uint64_t context;
    uint64_t t_made_ns;             /* when the context was created, or a primary one first retained; 0: not seen */
    uint32_t made_site;             /* site of that call; 0: not known */
    uint64_t count[GW_CLASS_COUNT]; /* objects that were destroyed with it */
    uint64_t bytes;                 /* of device memory */
    gw_buried *buried;              /* the first GW_BURIED_MAX destroyed objects; owned */
    size_t buried_count;
} gw_teardown;
enum { GW_BURIED_MAX = 1 << 16 };

#endif
