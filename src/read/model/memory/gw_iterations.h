/* Finds the iterations of a program in its requests for device memory, and the memory that each iteration left behind.
 *
 * Each iteration repeats the requests of the previous one: the same places (call sites) request memory in the same
 * order, with equal or other sizes.
 * - A *mark* is a request that begins an iteration. Its place, or its place with this size, has requested memory
 *   before, and the program has worked in between.
 * - An iteration left memory behind if its blocks are still alive at the end of the list. For a leak, the live bytes
 *   must also have grown from mark to mark.
 *
 * All requests reached the driver (from a ledger), or all went to a framework's allocator. */
#ifndef GW_ITERATIONS_H
#define GW_ITERATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A granted request for device memory; the last one of a list may have been refused. launches, copies, reads and waits
 * are totals of the process up to the request. */
typedef struct gw_request {
    uint64_t t_ns, bytes;
    uint64_t live_bytes; /* live bytes on the device before the request */
    uint64_t launches, copies, reads, waits;
    uint64_t frees;    /* total of the process up to the request */
    uint64_t order;    /* number of the request in the process, counted over all devices */
    uint64_t lifetime; /* number of requests that the process made until it freed the block, or GW_ALIVE */
    uint32_t site;     /* 0: unknown */
    uint32_t group;    /* requests with the same size, place and function have the same number */
    /* number of the call of a framework in which this request was made, such as the call of a model, a backward pass or
     * a step of an optimizer; the outermost one. Calls from the same line have the same number. 0: none, or unknown */
    uint64_t call;
    bool moves_weights; /* this call moves or converts weights, and may wait for each of them */
    uint16_t thread;    /* thread that made the request and did the work since its previous request; 0: unknown */
} gw_request;
#define GW_ALIVE UINT64_MAX

/* Reasons why a loop that leaves memory behind may not be a leak. */
typedef enum gw_loop_doubt {
    GW_LOOP_SURE,    /* no such reason was found */
    GW_LOOP_FEW,     /* fewer than three whole iterations */
    GW_LOOP_NO_WORK, /* no kernel ran, and the host neither read results nor waited; probably a pool, or data loaded in
                        pieces */
    GW_LOOP_OTHER_WORK, /* the threads that keep the memory did no work, and other threads worked at their own pace */
    GW_LOOP_LOADING,  /* copies filled the memory, directly or through staging buffers; probably weights loaded layer by
                         layer */
    GW_LOOP_ONE_PASS, /* a kernel followed each block, and all blocks stayed alive; probably layers that are created, or
                         used once; or most iterations lie in one call of a framework without a wait */
    GW_LOOP_UNLIKE,   /* they made different calls of a framework: probably phases of one iteration */
    GW_LOOP_UNEVEN,   /* one iteration left nearly all of the memory */
    GW_LOOP_LATE,     /* most of the work was done before the loop, which may be a later phase that needs more memory */
    /* a later phase needed more than the loop left behind, and more than twice what any iteration needed */
    GW_LOOP_OUTGROWN,
    GW_LOOP_GROUP,      /* iterations before kept memory, too, and freed it together: a group of them is a unit */
    GW_LOOP_HELD_BEFORE /* the same places held about as much memory before, and freed it */
} gw_loop_doubt;

enum { GW_KEEPERS_MAX = 4 };
typedef struct gw_keeper {
    uint32_t site;         /* 0: unknown */
    uint32_t group;        /* `group` of the last request at this place */
    uint64_t bytes, count; /* live blocks that the iterations allocated at this place */
} gw_keeper;

typedef struct gw_iterations {
    uint64_t last_work;     /* work (launches, copies, reads, waits and frees) between the last two requests */
    uint64_t waits_between; /* number of waits between the first and the last request */
    uint64_t least_work;    /* least work above 0 between any other two successive requests; 0: none */
    uint64_t most_requests; /* highest number of requests at any one place */
    /* Largest growth of live bytes between two requests of one place, if kernels ran and the host waited between them;
     * 0: none. A single iteration may have caused it. */
    uint64_t again_bytes;
    bool searched; /* false: there are no requests, the amount of work is unknown, or memory ran out */
    /* The leak: the newest consecutive iterations that each left memory behind. All these fields are 0 if there are
     * none. */
    uint64_t leak_count;
    uint64_t leak_bytes;                        /* live bytes that all these iterations left behind */
    uint64_t leak_bytes_max, leak_bytes_median; /* largest and median number of bytes that one iteration left behind */
    uint64_t leak_blocks;                       /* live blocks that all these iterations left behind */
    uint64_t leak_begin_ns, leak_end_ns;        /* start of the first and end of the last of these iterations */
    /* medians per iteration; passing: mean number of blocks that were freed again */
    uint64_t requests, launches, copies, reads, waits, passing;
    uint64_t idle_count; /* number of whole iterations directly before the leak that left nothing behind at their end */
    uint64_t group_count; /* longest row of earlier iterations that left memory behind at their end; all is freed now */
    /* If the request after these iterations needs more than they kept: when the program had used as much, before the
     * leak, as it needs now without what was kept. 0: it never had. */
    uint64_t fitted_before_ns;
    uint64_t held_before_bytes; /* most memory that `keeper` held before they freed more than half of it */
    bool leak_is_current;       /* the list ends at most about one iteration after the leak */
    bool each_waited;           /* the host waited for the GPU or read results in nearly every iteration */
    bool is_interleaved;        /* nearly every request came after some work */
    bool is_late;               /* less than half of all work was done since the loop began */
    bool is_even;               /* all iterations left about the same amount (they differ by at most 1/16) */
    bool is_apart; /* other threads requested memory at another pace; the medians above exclude their work */
    gw_loop_doubt doubt;
    gw_keeper keeper[GW_KEEPERS_MAX]; /* the places that kept the memory, most bytes first */
    size_t keeper_count;
    /* Balance: the newest consecutive whole iterations that ended with about as many live bytes as they began with. */
    uint64_t balanced_count;
    uint64_t balanced_peak_bytes; /* highest live bytes within these iterations */
    uint64_t balanced_begin_ns;
    bool balanced_whole; /* the loop has no other iterations, except perhaps the first */
    bool balanced_asked; /* all requests after these iterations came from places that also requested memory in them */
    /* indexes in the list; balanced_span: number of requests in the balanced iterations */
    size_t leak_begin, balanced_end, balanced_span;
} gw_iterations;

typedef enum gw_request_source {
    GW_REQUESTS_WITHOUT_WORK, /* the recording has no counts of work between requests, so no iterations are found */
    GW_REQUESTS_OF_DRIVER,
    GW_REQUESTS_OF_FRAMEWORK /* each operation requests memory for its result; reads of results count as waits */
} gw_request_source;

/* Find iterations in `count` requests, sorted by `order`. `live_bytes_now` is the number of live bytes on the device at
 * the end of the list. *ret_found owns no memory, and contains no iterations if memory runs out. */
void gw_iterations_find(const gw_request *request, size_t count, gw_request_source source, uint64_t live_bytes_now,
                        gw_iterations *ret_found);

/* True if the iterations are no pass through layers and no model that is being built: these are short and do not follow
 * iterations that kept nothing. The growth may still be planned. All of this is required:
 * - there is no doubt (gw_loop_doubt)
 * - at least eight consecutive iterations, up to the current one, left memory behind
 * - each of them had kernels and a wait by the host
 * - three earlier iterations of the same loop left nothing behind, or there are at least 256 iterations */
bool gw_iterations_are_sure(const gw_iterations *found);

#endif
