/* Part of gw_model_facts.h: calls that did not succeed, what followed them, and contexts that went away. */
#ifndef GW_FAILURE_FACTS_H
#define GW_FAILURE_FACTS_H

#include "gw_memory_facts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gw_recovery {
    GW_RECOVERED_NOT,
    GW_RECOVERED_BY_SIZE,    /* a request of at least that size succeeded later */
    GW_RECOVERED_BY_SMALLER, /* memory was given back, or the same line asked again; a smaller request followed, work
                              * went on and was waited for */
    GW_RECOVERED_BY_WORK,    /* many launches, copies and fills succeeded later and were waited for */
    GW_RECOVERED_BY_REQUESTS /* very many requests for memory succeeded later */
} gw_recovery;

/* A call names something of another device than the one that it works on. */
typedef struct gw_elsewhere {
    bool found;
    uint8_t cls;     /* FUNCTION, EVENT, or a class of memory: what lies elsewhere */
    uint64_t key;    /* handle or address */
    uint64_t bytes;  /* memory */
    int device;      /* it was made on this one */
    int call_device; /* the call works on this one: its stream's, else the current context's */
    uint64_t stream; /* of the call; 0: the default stream, that of the current context */
    uint32_t site;   /* where it was made; 0: not known */
    uint64_t t_made_ns;
} gw_elsewhere;

/* What succeeded after a failure. Of the process, at least: */
typedef struct gw_after {
    uint64_t launches;
    uint64_t work;   /* launches, copies and fills */
    uint64_t allocs; /* of device memory */
    uint64_t frees;
    /* Of the thread that was refused, at least: requests granted to it; launches, fills and copies that are more than
     * fetching results; waits and results that it fetched. */
    uint64_t own_allocs, own_work, own_waits;
    uint32_t turns;        /* memory was given back, then asked for and granted; counted up to 16 */
    bool synced;           /* a synchronisation succeeded */
    bool worked;           /* new work was done, and the host waited for some of it and found it good */
    uint64_t null_used_at; /* index + 1 of the first later failure that names a NULL address */
} gw_after;

/* The first request of the same thread that succeeded after a refusal. */
typedef struct gw_next_request {
    bool known;
    bool is_retry; /* it asked for the same again */
    uint64_t bytes, t_ns;
    uint32_t site; /* 0: not known */
} gw_next_request;

/* What the recorded processes had on the device at a failure, and which devices were free. */
typedef struct gw_around {
    uint32_t other_pid; /* the one that holds most besides this one; 0: none */
    uint64_t other_bytes, other_bytes_total;
    uint32_t process_count; /* with a context on it, this one included */
    uint32_t devices_idle;  /* bits: known devices on which none has a context */
    uint64_t ledger_bytes;  /* asked for by all of them */
} gw_around;

/* A context had gone before the failure: bits of the classes of living things that arg[k] may name by handle, or point
 * into. Of the first failures after the context's end alone. */
typedef struct gw_named {
    bool known;
    bool context_lives; /* the current one, made anew perhaps */
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
    int device;            /* -1: unknown; perhaps GW_MODEL_DEVICE_BEYOND, as all devices of the model */

    bool is_probe;         /* an answer programs ask for on purpose: never a root */
    bool is_allocation;    /* device memory (or an object that costs some) was refused for lack of it */
    bool is_sticky;        /* the context, or the whole process, is lost from here on */
    bool is_echo;          /* a result that a sticky error or a fork before it explains */
    bool is_earlier;       /* before the phase that is judged alone, and not sticky */
    uint64_t bytes_wanted; /* is_allocation; 0: an object without a size */
    uint32_t site;         /* of the first one; 0: not known */
    gw_recovery recovery;
    uint64_t t_recovered_ns;
    gw_elsewhere elsewhere;
    gw_after after;

    bool has_info; /* the driver's totals, asked right after the failure; or after an earlier one, and brought up to it
                    */
    gw_memory_info info;
    gw_pool_state pools; /* asked right after the failure; count 0: none, or not known */
    bool guard;          /* our guard refused, not the driver */
    bool has_limit;
    uint64_t bytes_limit, bytes_used; /* the guard's */
    gw_next_request next;
    gw_around around;
    int snapshot;  /* for gw_model_snapshot(); -1: none */
    int allocator; /* index into the model's allocator reports that belongs to it; -1: none */

    gw_named named;

    const char *kernel; /* is_sticky and a launch: its kernel; NULL: unknown */
    bool by_dump;       /* no call reported it: a GPU core dump tells, and the driver ended the process. fn_name is the
                         * call that a thread was inside then, "?" when none was */
} gw_failure;

/* A context (or all of a device) went away and took with it what was still alive. */
typedef enum gw_teardown_kind { GW_TEARDOWN_DESTROY, GW_TEARDOWN_RELEASE, GW_TEARDOWN_RESET } gw_teardown_kind;
typedef struct gw_buried {
    uint64_t key, bytes, t_made_ns;
    uint32_t site; /* where it was made; 0: not known */
    uint8_t cls;
} gw_buried;
typedef struct gw_teardown {
    gw_teardown_kind kind;
    uint64_t t_ns;
    uint32_t pid, tid;
    uint32_t site; /* of the call that did it; 0: not known */
    int device;
    uint64_t context;
    uint64_t t_made_ns;             /* the context; a primary one: first retained. 0: not seen */
    uint32_t made_site;             /* of that; 0: not known */
    uint64_t count[GW_CLASS_COUNT]; /* destroyed with it */
    uint64_t bytes;                 /* of device memory */
    gw_buried *buried;              /* what was destroyed, the first GW_BURIED_MAX; owned */
    size_t buried_count;
} gw_teardown;
enum { GW_BURIED_MAX = 1 << 16 };

#endif
