/* Find the iterations of a program in its requests for device memory, and what each iteration left behind.
 *
 * The order of requests repeats from one iteration to the next: the same places request memory again, in equal or other
 * sizes. A place is a call site. A *mark* is a request that begins an iteration: the same place (or the same place and
 * size) has requested memory before, and work was done on the GPU in between. The live bytes at successive marks show
 * what an iteration left behind, which is memory that it allocated and that is still alive at the end of the list.
 *
 * The requests come from a ledger (requests that reached the driver) or from a framework's allocator. */
#ifndef GW_ITERATIONS_H
#define GW_ITERATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A granted request for device memory. Only the last request of a list may be a refused one. launches, copies, reads
 * and waits are totals of the process up to the request. */
typedef struct gw_request {
    uint64_t t_ns, bytes;
    uint64_t live_bytes; /* live bytes on the device before the request */
    uint64_t launches, copies, reads, waits;
    uint64_t frees;    /* total of the process up to the request */
    uint64_t order;    /* number of the request in the process, on any device */
    uint64_t lifetime; /* number of requests of the process until the block was freed, or GW_ALIVE */
    uint32_t site;     /* 0: not known */
    uint32_t group;    /* number that requests with the same size, place and function share */
    uint16_t thread;   /* thread that made the request, and did the work since its last request; 0: not known */
} gw_request;
#define GW_ALIVE UINT64_MAX

/* Why a loop that leaves memory behind may not be a leak. */
typedef enum gw_loop_doubt {
    GW_LOOP_SURE,       /* no such reason is known */
    GW_LOOP_FEW,        /* fewer than three whole iterations */
    GW_LOOP_NO_WORK,    /* no kernel ran, and nothing was read back or waited for: a pool, or data loaded in pieces */
    GW_LOOP_OTHER_WORK, /* like NO_WORK, for the threads that keep the memory; others worked at their own pace */
    GW_LOOP_LOADING,  /* the memory was filled by copies, or through staging buffers: weights, loaded layer by layer */
    GW_LOOP_ONE_PASS, /* each block was followed by a kernel and stayed: one pass through layers, or their creation */
    GW_LOOP_UNEVEN,   /* one iteration left nearly all of the memory */
    GW_LOOP_LATE,     /* most work was done before the loop: a phase that needs more memory */
    GW_LOOP_OUTGROWN, /* a later phase needed more than all iterations left, and more than twice what any needed */
    GW_LOOP_HELD_BEFORE /* the same places held as much memory before, and freed it */
} gw_loop_doubt;

enum { GW_KEEPERS_MAX = 4 };
typedef struct gw_keeper {
    uint32_t site;         /* 0: not known */
    uint32_t group;        /* group of the place's last block */
    uint64_t bytes, count; /* live blocks that the iterations left at this place */
} gw_keeper;

typedef struct gw_iterations {
    uint64_t last_work;     /* work between the last two requests */
    uint64_t waits_between; /* waits between the first and the last request */
    uint64_t least_work;    /* least work, except 0, between any other two successive requests; 0: there was none */
    uint64_t most_requests; /* most requests of any one place */
    /* Growth of live bytes at a place that requested memory again, after kernels had run and the host had waited. One
     * iteration may have left this behind. 0: none. */
    uint64_t again_bytes;
    bool searched; /* false: there are too few requests, or the amount of work is not known */
    /* The newest consecutive iterations that each left something behind. All fields are 0 if there are none. */
    uint64_t leak_count;
    uint64_t leak_bytes;                        /* live bytes that all these iterations left */
    uint64_t leak_bytes_max, leak_bytes_median; /* bytes that one iteration left */
    uint64_t leak_blocks;                       /* live blocks that all these iterations left */
    uint64_t leak_begin_ns, leak_end_ns;        /* start of the first and end of the last of these iterations */
    uint64_t requests, launches, copies, reads, waits, passing; /* medians per iteration; passing: blocks not kept */
    uint64_t idle_count;  /* number of whole iterations directly before these that left nothing behind */
    bool leak_is_current; /* the list ends within the next such iteration */
    bool each_waited;     /* the host waited for the GPU, or read results, in nearly every iteration */
    bool is_interleaved;  /* nearly every request follows some work */
    bool is_late;         /* less than half of all work was done since the loop began */
    bool is_even;         /* each iteration left the same amount, within a sixteenth */
    bool is_apart;        /* other threads requested memory at another pace; the counts leave out their work */
    gw_loop_doubt doubt;
    gw_keeper keeper[GW_KEEPERS_MAX]; /* places that kept the memory, most bytes first */
    size_t keeper_count;
    /* The newest consecutive whole iterations that ended with about as many live bytes as they began with. */
    uint64_t balanced_count;
    uint64_t balanced_peak_bytes; /* highest live bytes within these iterations */
    uint64_t balanced_begin_ns;
    bool balanced_whole; /* these are all iterations of the loop, except perhaps the first */
    bool balanced_asked; /* the places of these iterations also made all later requests of the list */
    size_t leak_begin, balanced_end, balanced_span; /* indexes in the list; balanced_span is a number of requests */
} gw_iterations;

typedef enum gw_request_source {
    GW_REQUESTS_WITHOUT_WORK, /* the recording does not count work between requests, so nothing is found */
    GW_REQUESTS_OF_DRIVER,
    GW_REQUESTS_OF_FRAMEWORK /* each operation requests memory for its result; reads count as waits */
} gw_request_source;

/* Find iterations in `count` requests, sorted by `order`. `live_bytes_now` are the live bytes on the device at the end
 * of the list. All memory that this allocates is freed again. Finds nothing if out of memory. */
void gw_iterations_find(const gw_request *request, size_t count, gw_request_source source, uint64_t live_bytes_now,
                        gw_iterations *ret_found);

/* True if the iterations prove a leak, so that a cause may be *established*. One pass through layers, and a model that
 * is built layer by layer, repeat themselves like a leak, but not for long, and without earlier iterations that kept
 * nothing. So at least eight consecutive iterations up to the present one must have left something behind, with kernels
 * and with a wait by the host in each. In addition, three earlier iterations of the same loop must have left nothing,
 * or there must be at least 256 iterations. There must be no doubt (gw_loop_doubt). */
bool gw_iterations_prove_leak(const gw_iterations *found);

#endif
