/* Finds a program's iterations in its requests for device memory, and what each of them left behind.
 *
 * The order of requests repeats from one iteration to the next: the same places ask again, whatever the sizes. A *mark*
 * is a request that begins an iteration: the same place (or the same place and size) asks again, and work was done on
 * the GPU in between. The live bytes at successive marks show what an iteration left behind: what it allocated and what
 * is still alive at the end of the list.
 *
 * Source: a ledger (requests that reached the driver) or a framework's allocator. */
#ifndef GW_ITERATIONS_H
#define GW_ITERATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A granted request for device memory. The last one of a list may be the refused one. Counts of work are totals of the
 * process up to the request. */
typedef struct gw_request {
    uint64_t t_ns, bytes;
    uint64_t live_bytes; /* on the device, before the request */
    uint64_t launches, copies, reads, waits;
    uint64_t frees;    /* total of the process */
    uint64_t order;    /* number of the request in the process, on any device */
    uint64_t lifetime; /* number of requests of the process until its block was freed; GW_ALIVE */
    uint32_t site;     /* 0: not known */
    uint32_t group;    /* requests with the same size, place and function */
    uint16_t thread;   /* it made the request, and launched the work since its last request; 0: not known */
} gw_request;
#define GW_ALIVE UINT64_MAX

/* Why a loop that leaves memory behind need not be a leak. */
typedef enum gw_loop_doubt {
    GW_LOOP_SURE,       /* no reason is known */
    GW_LOOP_FEW,        /* fewer than three whole iterations */
    GW_LOOP_NO_WORK,    /* no kernel ran, nothing was read back or waited for: a pool, or data loaded in pieces */
    GW_LOOP_OTHER_WORK, /* the same, for the threads that keep the memory; others worked at their own pace */
    GW_LOOP_LOADING,    /* copied in, or through staging buffers: weights, loaded layer by layer */
    GW_LOOP_ONE_PASS, /* each block was followed by its kernel and stayed: one pass through layers, or their creation */
    GW_LOOP_UNEVEN,   /* one iteration left nearly all of it */
    GW_LOOP_LATE,     /* most work was done before it: a phase that needs more */
    GW_LOOP_OUTGROWN, /* what followed the last whole iteration is larger than all that they left, and than any of them
                       */
    GW_LOOP_HELD_BEFORE /* the same places held as much before, and freed it */
} gw_loop_doubt;

enum { GW_KEEPERS_MAX = 4 };
typedef struct gw_keeper {
    uint32_t site;         /* 0: not known */
    uint32_t group;        /* of its last block */
    uint64_t bytes, count; /* live blocks of those iterations */
} gw_keeper;

typedef struct gw_iterations {
    uint64_t last_work;     /* work between the last two requests */
    uint64_t waits_between; /* waits between the first request and the last */
    uint64_t least_work;    /* least work between any other two requests with work in between; 0: there are none */
    uint64_t most_requests; /* of one place */
    uint64_t again_bytes;   /* growth of live bytes at a place that asked again after the host had waited: one iteration
                             * may have left this behind. 0: none */
    bool searched;          /* false: there are too few requests, or work is not known */
    /* Consecutive iterations up to the newest one that left something behind. All zero: there are none. */
    uint64_t leak_count;
    uint64_t leak_bytes;                        /* live bytes that all of them left */
    uint64_t leak_bytes_max, leak_bytes_median; /* of one iteration */
    uint64_t leak_blocks;                       /* live blocks that all of them left */
    uint64_t leak_begin_ns, leak_end_ns;        /* begin of the first and end of the last of these iterations */
    uint64_t requests, launches, copies, reads, waits, passing; /* medians of one iteration; passing: freed within it */
    uint64_t idle_count;  /* whole iterations before them that left nothing behind */
    bool leak_is_current; /* the list ends within such an iteration */
    bool each_waited;     /* the host waited for the GPU, or read results, in nearly every iteration */
    bool is_interleaved;  /* nearly every request follows some work */
    bool is_late;         /* less than half of all work was done since the loop began */
    bool is_even;         /* each left the same amount, within a sixteenth */
    bool is_apart;        /* other threads asked for memory meanwhile, at another pace: the counts are without theirs */
    gw_loop_doubt doubt;
    gw_keeper keeper[GW_KEEPERS_MAX]; /* by place, most bytes first */
    size_t keeper_count;
    /* Consecutive whole iterations up to the newest one that ended with as many live bytes as they began with. */
    uint64_t balanced_count;
    uint64_t balanced_peak_bytes; /* most live bytes within them */
    uint64_t balanced_begin_ns;
    bool balanced_whole; /* the same is true of all iterations before them, except perhaps the first */
    bool balanced_asked; /* their places also made all later requests of the list */
    size_t leak_begin, balanced_end, balanced_span; /* indexes into the list; balanced_span: a number of requests */
} gw_iterations;

typedef enum gw_request_source {
    GW_REQUESTS_WITHOUT_WORK, /* the recording does not count work between requests: nothing is found */
    GW_REQUESTS_OF_DRIVER,
    GW_REQUESTS_OF_FRAMEWORK /* each operation asks its allocator for its result; reads are counted as waits */
} gw_request_source;

/* Find iterations in `count` requests, sorted by `order`. `live_bytes_now`: on the device at the end of the list.
 * Allocates only memory that it frees again. Without memory it finds nothing. */
void gw_iterations_find(const gw_request *request, size_t count, gw_request_source source, uint64_t live_bytes_now,
                        gw_iterations *ret_found);

/* The rule that makes a leak *established*. One pass through layers, and a model that is built layer by layer, repeat
 * themselves like a leak, but not for long, and not earlier. So the rule asks for at least eight consecutive iterations
 * that all left something behind, each with kernels and a wait by the host. In addition, three earlier iterations of
 * the same loop had left nothing, or there are at least 256. No doubt of gw_loop_doubt may be left. */
bool gw_iterations_prove_leak(const gw_iterations *found);

#endif
