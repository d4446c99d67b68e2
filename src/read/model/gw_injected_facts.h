/* Part of gw_model_facts.h: failures that gpuwhy injected (--inject), what the program did next, and the fence. */
#ifndef GW_INJECTED_FACTS_H
#define GW_INJECTED_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A call of the thread after the failed one. */
typedef struct gw_injected_next {
    uint16_t fn, result;
    uint32_t site; /* 0: not known */
    uint64_t t_ns;
} gw_injected_next;

/* A call that gpuwhy changed. Only events are followed; launches and copies that succeeded are in the rings. */
enum { GW_INJECTED_NEXT_MAX = 3 };
typedef struct gw_injection {
    uint64_t t_ns;
    uint32_t pid, tid;
    uint16_t fn;
    uint16_t result; /* 0: the call was only slow */
    uint64_t order;  /* number of the rule's injections in the process, including this one */
    uint64_t slow_ns;
    bool closes; /* all later calls of the process fail with `result`, too */
    char *rule;  /* as the user wrote it; owned by the model; NULL: not known */
    /* The failed call itself, if its event was recorded. */
    bool has_call;
    uint32_t site;  /* 0: not known */
    uint64_t bytes; /* size of the request; 0: the call requests no memory */
    bool is_retry;  /* the call repeated the one of the thread's injection before, and nothing else was in between */
    /* What the thread did until the next injection into it. A retry is a call of the same function before any
     * other work: from the same site, or after memory was freed for the same size. Calls that only release something do
     * not count as work; retries do. */
    uint32_t release_count;
    uint32_t retry_count;
    bool retry_succeeded;
    uint64_t t_retry_ns; /* of the first retry; 0: none */
    uint64_t work_count;
    gw_injected_next next[GW_INJECTED_NEXT_MAX]; /* the first of these calls */
    uint32_t next_count;
} gw_injection;

/* The fence of a process. `refused_count` is the number of calls that it kept from the driver and that were recorded.
 */
typedef struct gw_fence {
    uint64_t t_ns;
    uint32_t pid;
    uint16_t fn, result;
    bool ends; /* the process was ended at this call */
    uint64_t refused_count;
} gw_fence;

#endif
