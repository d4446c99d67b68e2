/* Part of gw_model_facts.h: what a framework's own allocator reported. */
#ifndef GW_ALLOCATOR_FACTS_H
#define GW_ALLOCATOR_FACTS_H

#include "gw_event.h"
#include "gw_failure_facts.h"
#include "gw_memory_facts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most, and where known the least, live bytes in a span of time that ends at t_ns. */
typedef struct gw_peak {
    uint64_t t_ns, bytes;
    bool has_low;
    uint64_t low_bytes;
} gw_peak;
enum { GW_PEAKS_MAX = 1024 };

/* What one call site held at a moment. */
typedef struct gw_held {
    uint64_t bytes, count;
    uint32_t site; /* 0: not known */
} gw_held;
enum { GW_HELD_MAX = 64 };

/* One request of an allocator that followed all of them: the order in which an iteration asks for memory, and what it
 * keeps. */
typedef struct gw_allocator_request {
    uint64_t order; /* counted from 1 on, on that device */
    uint64_t bytes; /* as the allocator rounded them */
    uint64_t t_ns;  /* coarse: the thread's last look at the clock before it */
    /* Kernel launches (a graph is one) and waits for the GPU (of streams, events and contexts) of the process so far,
     * as counted when a thread asks for memory: those of a thread that asks for none are missing, and what a thread did
     * after its last request comes with its next one. Only differences mean something. */
    uint64_t launches, waits;
    uint32_t site; /* 0: not known; known of large blocks, and of a part of the others */
    bool freed;
    uint64_t freed_order; /* of the last request before it was given back; UINT64_MAX: more than 2^32 after its own */
} gw_allocator_request;

/* Requests of at least `bytes_least` and less than twice that, ever. */
typedef struct gw_allocator_size {
    uint64_t bytes_least, requests, frees;
    uint64_t lifetime_sum; /* of those that were freed: requests from a block's own to its end, added up */
} gw_allocator_size;
enum { GW_ALLOCATOR_SIZES_MAX = 64 };

/* A framework's own allocator, as its observer, or a snapshot that the program saved, reported it. `t_ns` is the
 * report's. */
typedef struct gw_allocator_report {
    uint64_t t_ns;
    uint32_t pid;
    int device;
    bool is_oom;
    uint64_t bytes_wanted, bytes_total, bytes_free; /* total 0: not known */
    bool has_free;                                  /* bytes_free is known */
    uint32_t wanted_site;                           /* of the refused request; 0: not known */
    bool has_field[GW_ALLOCATOR_FIELD_COUNT];
    uint64_t field[GW_ALLOCATOR_FIELD_COUNT];
    gw_live *live; /* blocks in use with their time; owned */
    size_t live_count;
    uint64_t rest_count, rest_bytes; /* live ones that the list leaves out */
    uint64_t order;                  /* of the list when it was taken */
    /* Each block was followed from the first one on: then `order` counts all requests, that of a live block is its own
     * (0: not known), `peak` tells of the whole time, and `request` holds the last ones. */
    bool has_course;
    uint64_t course_missed;        /* events that were not followed: not 0, and the course is not whole */
    gw_allocator_request *request; /* oldest first, without a gap; owned */
    size_t request_count;
    gw_allocator_size size[GW_ALLOCATOR_SIZES_MAX]; /* smallest first */
    size_t size_count;
    uint64_t history_count;     /* allocations that the history holds one by one */
    gw_peak peak[GW_PEAKS_MAX]; /* most live bytes in each of equal spans of time, oldest first */
    size_t peak_count;
    gw_held held[GW_HELD_MAX]; /* when live bytes were highest: those who held most */
    size_t held_count;
    gw_held held_rest; /* all others together */
    uint64_t t_held_ns;
    bool settled;
    gw_recovery recovery; /* of an out-of-memory */
} gw_allocator_report;

/* JAX's live arrays when its out-of-memory ended the program. */
typedef struct gw_array_kind {
    uint64_t bytes, count; /* of one; how many */
    char name[96];         /* "float32[1024,1024]" */
} gw_array_kind;
enum { GW_ARRAY_KINDS_MAX = 32 };
typedef struct gw_arrays {
    bool seen;
    uint64_t t_ns; /* when it was asked: at the end, not at the failure */
    uint32_t pid;
    uint64_t bytes_wanted, bytes_in_use, bytes_limit, bytes_peak; /* the allocator's own; 0: not known */
    gw_array_kind kind[GW_ARRAY_KINDS_MAX];                       /* those that hold most first */
    size_t kind_count;
    uint64_t rest_bytes, rest_count; /* of all other arrays together */
} gw_arrays;

/* Equal arrays of which there are many and which hold at least half of what JAX had in use: a loop that keeps them, or
 * a program that wants them. Capacity is not established then. NULL: there are none. */
const gw_array_kind *gw_arrays_pile(const gw_arrays *arrays);

#endif
