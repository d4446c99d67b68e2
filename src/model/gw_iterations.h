/* The iterations of a program, found in its requests for device memory, and what each of them left behind.
 *
 * The order of requests repeats from one iteration to the next: the same places ask again, whatever the sizes. A *mark*
 * is a request that begins an iteration: the same place (or the same place and size) asks again, and work was done on
 * the GPU in between. Live bytes at successive marks are the books: what an iteration leaves behind is what it
 * allocated and what is still alive at the end of the list.
 *
 * Source: a ledger (requests that reached the driver) or a framework's allocator. */
#ifndef GW_ITERATIONS_H
#define GW_ITERATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One request for device memory, granted; the last of a list may be the one that was refused. Counts of work are of the
 * process, since it began, up to the request. */
typedef struct gw_request {
    uint64_t t_ns, bytes;
    uint64_t live_bytes; /* on the device, before the request */
    uint64_t launches, copies, reads, waits;
    uint64_t frees;    /* of the process so far */
    uint64_t order;    /* counts the requests of the process, on whatever device */
    uint64_t lifetime; /* requests of the process that came until it was given back; GW_ALIVE */
    uint32_t site;     /* 0: not known */
    uint32_t group;    /* same size, place and function */
    uint16_t thread;   /* that asked, and that gave the GPU the work since its last request; 0: not known */
} gw_request;
#define GW_ALIVE UINT64_MAX

/* Why what repeats need not be a leak, although it leaves memory behind. */
typedef enum gw_loop_doubt {
    GW_LOOP_SURE,       /* no such reason */
    GW_LOOP_FEW,        /* fewer than three whole iterations */
    GW_LOOP_NO_WORK,    /* no kernel ran, nothing was read back or waited for: a pool, or data loaded in pieces */
    GW_LOOP_OTHER_WORK, /* the same of the threads that keep it; other threads worked, each at its own pace */
    GW_LOOP_LOADING,    /* copied in, or through staging buffers: weights, loaded layer by layer */
    GW_LOOP_ONE_PASS,   /* each block was followed by its kernel and stayed: one pass through layers, or their making */
    GW_LOOP_UNEVEN,     /* one of them left nearly all of it */
    GW_LOOP_LATE,       /* most work was done before it: a phase that needs more */
    GW_LOOP_OUTGROWN,   /* what came after the last whole one is larger than all that they left, and than any of them */
    GW_LOOP_HELD_BEFORE /* as much was held by the same places before, and given back */
} gw_loop_doubt;

enum { GW_KEEPERS_MAX = 4 };
typedef struct gw_keeper {
    uint32_t site;         /* 0: not known */
    uint32_t group;        /* of its last block */
    uint64_t bytes, count; /* alive, of those iterations */
} gw_keeper;

typedef struct gw_iterations {
    uint64_t last_work;     /* between the last two requests */
    uint64_t waits_between; /* the first request and the last */
    uint64_t least_work;    /* between any two others with work in between; 0: there are none */
    uint64_t most_requests; /* of one place */
    uint64_t again_bytes;   /* a place that asked again had so much more alive, the host having waited in between: one
                             * iteration may have left it behind. 0: none */
    bool searched;          /* false: there are too few requests, or work is not known */
    /* Iterations that left something behind, in a row up to the newest. All zero: there are none. */
    uint64_t leak_count;
    uint64_t leak_bytes;                                        /* of all of them, alive */
    uint64_t leak_bytes_max, leak_bytes_median;                 /* of one */
    uint64_t leak_blocks;                                       /* alive, of all of them */
    uint64_t leak_begin_ns, leak_end_ns;                        /* the first of these iterations; the end of the last */
    uint64_t requests, launches, copies, reads, waits, passing; /* of one of them, median; passing: given back in it */
    uint64_t idle_count;  /* whole iterations before them that left nothing behind */
    bool leak_is_current; /* the list ends within such an iteration */
    bool each_waited;     /* the host waited for the GPU, or read results, in nearly every one of them */
    bool is_interleaved;  /* work lies before nearly every request */
    bool is_late;         /* less than half of all work was done since the loop began */
    bool is_even;         /* each left the same, within a sixteenth */
    bool is_apart;        /* other threads asked for memory meanwhile, not in step: the counts are without theirs */
    gw_loop_doubt doubt;
    gw_keeper keeper[GW_KEEPERS_MAX]; /* by place, most bytes first */
    size_t keeper_count;
    /* Whole iterations, in a row up to the newest, at whose ends as much was alive as at their beginning. */
    uint64_t balanced_count;
    uint64_t balanced_peak_bytes; /* most bytes live at once within them */
    uint64_t balanced_begin_ns;
    bool balanced_whole;                            /* so were all before them, the first one perhaps excepted */
    bool balanced_asked;                            /* their places made all later requests of the list, too */
    size_t leak_begin, balanced_end, balanced_span; /* indexes into the list; a number of requests */
} gw_iterations;

typedef enum gw_request_source {
    GW_REQUESTS_WITHOUT_WORK, /* the recording does not count work between requests: nothing is found */
    GW_REQUESTS_OF_DRIVER,
    GW_REQUESTS_OF_FRAMEWORK /* each operation asks its allocator for its result; reads are counted as waits */
} gw_request_source;

/* Find them in `count` requests in order of `order`; `live_bytes_now`: on the device at the end of the list. Allocates
 * short-lived memory alone; without it nothing is found. */
void gw_iterations_find(const gw_request *request, size_t count, gw_request_source source, uint64_t live_bytes_now,
                        gw_iterations *ret_found);

/* The rule by which a leak is *established*. One pass through layers, and a model that is built layer by layer, repeat
 * themselves as a leak does, but not for long, and not before. So: eight iterations or more in a row, each with kernels
 * and waited for by the host, all of which left something behind; and either three of the same loop before them had
 * left nothing, or they are 256 and more. No doubt of gw_loop_doubt's may be left. */
bool gw_iterations_prove_leak(const gw_iterations *found);

#endif
