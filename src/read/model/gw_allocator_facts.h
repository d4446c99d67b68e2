/* Part of gw_model_facts.h: reports about a framework's own allocator. */
#ifndef GW_ALLOCATOR_FACTS_H
#define GW_ALLOCATOR_FACTS_H

#include "gw_event.h"
#include "gw_failure_facts.h"
#include "gw_memory_facts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A span of time that ends at t_ns. `bytes` is the highest number of live bytes in it; `low_bytes` is the lowest, if
 * has_low. */
typedef struct gw_peak {
    uint64_t t_ns, bytes;
    bool has_low;
    uint64_t low_bytes;
} gw_peak;
enum { GW_PEAKS_MAX = 1024 };

/* Number and total size of the live blocks that one call site had allocated, at one moment. */
typedef struct gw_held {
    uint64_t bytes, count;
    uint32_t site; /* 0: not known */
} gw_held;
enum { GW_HELD_MAX = 64 };

/* A request to an allocator whose requests were all recorded. They show an iteration's order of requests, and which
 * blocks it keeps. */
typedef struct gw_allocator_request {
    uint64_t order; /* number of the request on the device, counted from 1 */
    uint64_t bytes; /* size after the allocator's rounding */
    uint64_t t_ns;  /* not exact: when the thread last read the clock before this request */
    /* Totals of the process: kernel launches (a graph is one) and waits. A thread's counts are added only when the
     * thread requests memory, so use only the difference between two requests. */
    uint64_t launches, waits;
    uint32_t site; /* 0: not known; known for large blocks, and for some others */
    bool freed;
    /* `order` of the last request before this block was freed. 0: not freed. UINT64_MAX: freed about 2^32 or more
     * requests after its own request. */
    uint64_t freed_order;
} gw_allocator_request;

/* Counts for all requests whose size is at least `bytes_least` and less than twice that size. */
typedef struct gw_allocator_size {
    uint64_t bytes_least, requests, frees;
    uint64_t lifetime_sum; /* sum over all freed blocks of the number of requests made while the block was live */
} gw_allocator_size;
enum { GW_ALLOCATOR_SIZES_MAX = 64 };

/* An entry of the allocator's own history: all of them, in their order. */
typedef struct gw_allocator_entry {
    uint8_t action;  /* gw_allocator_action, except LIVE_PEAK and LIVE_LOW */
    uint32_t stream; /* number of the stream; 0: the first one, or not known */
    uint64_t address, bytes;
} gw_allocator_entry;

/* A report about a framework's own allocator. It comes from the observer, or from a memory snapshot that the program
 * saved. `t_ns` is the time of the report. */
typedef struct gw_allocator_report {
    uint64_t t_ns;
    uint32_t pid;
    int device;
    bool is_oom; /* the allocator refused a request */
    /* The driver refused a request that did not come from this allocator, such as one of cuBLAS. The report shows what
     * the allocator held meanwhile. */
    bool is_other_refused;
    uint64_t bytes_wanted, bytes_total, bytes_free; /* bytes_total 0: not known */
    bool has_free;                                  /* false: bytes_free is not known */
    uint32_t wanted_site;                           /* call site of the refused request; 0: not known */
    bool has_field[GW_ALLOCATOR_FIELD_COUNT];
    uint64_t field[GW_ALLOCATOR_FIELD_COUNT];
    gw_live *live; /* blocks in use, with their times; owned */
    size_t live_count;
    uint64_t rest_count, rest_bytes; /* number and total size of the live blocks that are not in `live` */
    uint64_t order;                  /* number of the last request when `live` was read */
    /* True if the hook followed every block of the allocator from the start. Then `order` counts all requests, a live
     * block has the number of its request (0: not known), and `peak` covers the whole time. */
    bool has_course;
    uint64_t course_missed; /* number of missed events; the course is complete only if this is 0 */
    bool shares_lists;      /* nothing was requested or freed since an earlier report, which owns the lists of both */
    gw_allocator_request *request; /* oldest first, without gaps; owned */
    size_t request_count;
    gw_allocator_size size[GW_ALLOCATOR_SIZES_MAX]; /* smallest first */
    size_t size_count;
    uint64_t history_count;    /* number of single allocations that the history contains */
    gw_allocator_entry *entry; /* the entries of the history that were written one by one, oldest first; owned */
    size_t entry_count;
    size_t memory_call_count; /* number of the process's calls for memory before the report: for gw_model_replay.h */
    gw_peak *peak;            /* highest live bytes in each of several equal spans of time, oldest first; owned */
    size_t peak_count;
    gw_held held[GW_HELD_MAX]; /* the call sites that held the most memory when live bytes were highest */
    size_t held_count;
    gw_held held_rest; /* sum over all other call sites */
    uint64_t t_held_ns;
    bool settled;
    gw_recovery recovery; /* set only if is_oom */
} gw_allocator_report;

/* JAX's live arrays of one type and shape. They are read when JAX's out-of-memory error ends the program. */
typedef struct gw_array_kind {
    uint64_t bytes, count; /* size of one array; number of arrays */
    char name[96];         /* such as "float32[1024,1024]" */
} gw_array_kind;
enum { GW_ARRAY_KINDS_MAX = 32 };
typedef struct gw_arrays {
    bool seen;
    uint64_t t_ns; /* when the arrays were read: at the program's end, later than the failure */
    uint32_t pid;
    uint64_t bytes_wanted, bytes_in_use, bytes_limit, bytes_peak; /* reported by the allocator; 0: not known */
    gw_array_kind kind[GW_ARRAY_KINDS_MAX]; /* sorted by the total size of each kind, largest first */
    size_t kind_count;
    uint64_t rest_bytes, rest_count; /* total size and number of all other arrays */
} gw_arrays;

/* Find a kind with so many arrays that a loop probably keeps them. Returns NULL if there is none. One of these is true:
 * - At least 100 arrays hold at least half of the memory that JAX used.
 * - At least 16 arrays hold at least two thirds of it, and the program copied results to the host. `reads`, the number
 *   of these copies, is at least half the number of arrays.
 *
 * A program whose model does not fit reads few results before it fails. */
const gw_array_kind *gw_arrays_pile(const gw_arrays *arrays, uint64_t reads);

#endif
