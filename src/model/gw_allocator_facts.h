/* Part of gw_model_facts.h: what a framework's own allocator reported. */
#ifndef GW_ALLOCATOR_FACTS_H
#define GW_ALLOCATOR_FACTS_H

#include "gw_event.h"
#include "gw_failure_facts.h"
#include "gw_memory_facts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The highest and, if known, the lowest number of live bytes in a span of time that ends at t_ns. */
typedef struct gw_peak {
    uint64_t t_ns, bytes;
    bool has_low;
    uint64_t low_bytes;
} gw_peak;
enum { GW_PEAKS_MAX = 1024 };

/* What one call site held at one moment. */
typedef struct gw_held {
    uint64_t bytes, count;
    uint32_t site; /* 0: not known */
} gw_held;
enum { GW_HELD_MAX = 64 };

/* One request to an allocator whose every request was followed: shows in which order an iteration asks for memory, and
 * what it keeps. */
typedef struct gw_allocator_request {
    uint64_t order; /* counted from 1 on, on that device */
    uint64_t bytes; /* after the allocator's rounding */
    uint64_t t_ns;  /* coarse: the thread's last reading of the clock before it */
    /* Totals of the process: kernel launches (a graph counts as one) and waits for the GPU (for streams, events and
     * contexts). They are counted when a thread asks for memory: threads that ask for none are missing, and what a
     * thread did after its last request is added at its next one. Only differences are meaningful. */
    uint64_t launches, waits;
    uint32_t site; /* 0: not known; known for large blocks, and for some of the others */
    bool freed;
    uint64_t freed_order; /* order of the last request before its block was freed; UINT64_MAX: after more than 2^32 */
} gw_allocator_request;

/* All requests of at least `bytes_least` and less than twice that. */
typedef struct gw_allocator_size {
    uint64_t bytes_least, requests, frees;
    uint64_t lifetime_sum; /* for freed blocks: sum of the numbers of requests from a block's own to its end */
} gw_allocator_size;
enum { GW_ALLOCATOR_SIZES_MAX = 64 };

/* A report about a framework's own allocator, by its observer or from a snapshot that the program saved. `t_ns` is the
 * time of the report. */
typedef struct gw_allocator_report {
    uint64_t t_ns;
    uint32_t pid;
    int device;
    bool is_oom;
    uint64_t bytes_wanted, bytes_total, bytes_free; /* bytes_total 0: not known */
    bool has_free;                                  /* bytes_free is known */
    uint32_t wanted_site;                           /* site of the refused request; 0: not known */
    bool has_field[GW_ALLOCATOR_FIELD_COUNT];
    uint64_t field[GW_ALLOCATOR_FIELD_COUNT];
    gw_live *live; /* blocks in use, with their times; owned */
    size_t live_count;
    uint64_t rest_count, rest_bytes; /* live blocks that are not in the list */
    uint64_t order;                  /* when the list was taken */
    /* Each block was followed from the first one on. Then `order` counts all requests and a live block has the order of
     * its own (0: not known), `peak` covers the whole time, and `request` contains the last requests. */
    bool has_course;
    uint64_t course_missed;        /* events that were missed; if this is not 0, the course is incomplete */
    gw_allocator_request *request; /* oldest first, without gaps; owned */
    size_t request_count;
    gw_allocator_size size[GW_ALLOCATOR_SIZES_MAX]; /* smallest first */
    size_t size_count;
    uint64_t history_count;     /* number of single allocations in the history */
    gw_peak peak[GW_PEAKS_MAX]; /* most live bytes in each of equal spans of time, oldest first */
    size_t peak_count;
    gw_held held[GW_HELD_MAX]; /* the largest holders when live bytes were highest */
    size_t held_count;
    gw_held held_rest; /* all other holders together */
    uint64_t t_held_ns;
    bool settled;
    gw_recovery recovery; /* if it is an out-of-memory report */
} gw_allocator_report;

/* JAX's live arrays when its out-of-memory error ended the program. */
typedef struct gw_array_kind {
    uint64_t bytes, count; /* bytes of one array; how many there are */
    char name[96];         /* "float32[1024,1024]" */
} gw_array_kind;
enum { GW_ARRAY_KINDS_MAX = 32 };
typedef struct gw_arrays {
    bool seen;
    uint64_t t_ns; /* when JAX was asked: at the end, not at the failure */
    uint32_t pid;
    uint64_t bytes_wanted, bytes_in_use, bytes_limit, bytes_peak; /* according to the allocator; 0: not known */
    gw_array_kind kind[GW_ARRAY_KINDS_MAX];                       /* largest sum first */
    size_t kind_count;
    uint64_t rest_bytes, rest_count; /* of all other arrays together */
} gw_arrays;

/* Find equal arrays that are so many that they hold at least half of what JAX had in use: a loop keeps them, or the
 * program needs them. Capacity is then not established. NULL: there are none. */
const gw_array_kind *gw_arrays_pile(const gw_arrays *arrays);

#endif
