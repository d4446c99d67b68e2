/* The course of PyTorch's allocations, from the first block on (gw_c10_door.h says how it gets here).
 *
 *   course.c        what follows each event: live blocks, a ring of the last requests, spans of live bytes
 *   course_write.c  what is written of it, at an out-of-memory and when the observer asks
 *
 * An event costs a few cache lines: no system call, no malloc, nothing written to the buffer. Each device has a course
 * of its own, because PyTorch has an allocator and a lock a device. A course that missed an event says so and is never
 * repaired. In the child of a fork there is none: PyTorch refuses CUDA there. */
#ifndef GWI_COURSE_H
#define GWI_COURSE_H

#include "gw_c10_door.h"
#include "gwi_hook.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GWI_COURSE_REQUESTS = 1 << 16, /* the last so many are kept one by one */
    GWI_COURSE_BLOCKS_MAX = 1 << 20,
    GWI_COURSE_SPANS = 512,
    GWI_COURSE_SIZES = 48 /* size classes: of 2^i to 2^(i+1) - 1 bytes */
};

/* A live block. */
typedef struct gwi_course_block {
    uint64_t address;    /* 0: an empty place */
    uint64_t bytes_when; /* bytes << 16 | the upper 16 bits of `when` */
    uint64_t order;      /* number of its request on this device, from 1 on */
    uint32_t when;       /* ticks at the request >> GWI_COURSE_WHEN_SHIFT, the lower bits */
    uint32_t site;       /* 0: not asked for */
} gwi_course_block;
enum { GWI_COURSE_WHEN_SHIFT = 12 };

static inline uint64_t gwi_course_bytes(const gwi_course_block *block)
{
    return block->bytes_when >> 16;
}

static inline uint64_t gwi_course_ticks(const gwi_course_block *block)
{
    return ((block->bytes_when & 0xffff) << 32 | block->when) << GWI_COURSE_WHEN_SHIFT;
}

/* A request, alive or not. */
typedef struct gwi_course_request {
    uint64_t ticks;
    uint64_t bytes;
    uint32_t launches, waits; /* of the process so far, as far as threads that ask for memory have shown; modulo 2^32 */
    uint32_t site;
    uint32_t freed_after; /* 0: alive; else 1 + the requests that came between it and its end, saturating */
} gwi_course_request;

/* The highest and the lowest live bytes of a stretch of time. */
typedef struct gwi_course_span {
    uint64_t highest, lowest; /* highest < lowest: no event in it */
} gwi_course_span;

typedef struct gwi_course_size {
    uint64_t requests, frees, live_bytes;
    uint64_t lifetime_sum; /* of the freed ones: requests from the block's own to its end */
} gwi_course_size;

/* What the totals are at an instant. */
typedef struct gwi_course_totals {
    uint64_t requests, frees, live_count, live_bytes, peak_bytes, peak_order;
    uint64_t missed;                          /* events that were not followed: what is here is not all */
    uint64_t allocated_bytes, reserved_bytes; /* PyTorch's own, after its last event */
    uint64_t first_ticks, last_ticks;         /* of the first event, and the latest look at the clock */
} gwi_course_totals;

/* The hook is in the process: lead the door here. Any thread, outside the hook's lock. */
void gwi_course_attach(void);

/* PyTorch's allocations are followed on some device, from the first one on and without a gap. */
bool gwi_course_is_whole(void);

/* The live block at `address`; false: none. */
bool gwi_course_find(uint64_t device, uint64_t address, gwi_course_block *ret_block);

/* Everything about a device at one instant, in memory of its own. */
typedef struct gwi_course_copy {
    gwi_course_totals totals;
    uint64_t now_ticks;
    double ns_per_tick;      /* one for all ages: the hook gets to know it better as time goes by */
    gwi_course_block *block; /* in no order */
    size_t block_count;
    gwi_course_request *request; /* oldest first, the numbers up to totals.requests */
    size_t request_count;
    gwi_course_size size[GWI_COURSE_SIZES];
    gwi_course_span span[GWI_COURSE_SPANS]; /* of span_ticks each, from totals.first_ticks on */
    uint64_t span_ticks;
    size_t span_count;
    void *memory; /* owned */
    size_t memory_bytes;
} gwi_course_copy;

/* False: there is none, or no memory. */
bool gwi_course_copy_make(uint64_t device, gwi_course_copy *ret_copy);
void gwi_course_copy_free(gwi_course_copy *copy);

/* ---- course_write.c ---- */

/* What the course says of a device, into the report that is open: totals, spans, sizes, requests. Not the blocks.
 * False: nothing is known of it. */
bool gwi_course_write(uint64_t device);

/* How long before the last gwi_course_write() of that device `ticks` was. False: nothing was written of it. */
bool gwi_course_age(uint64_t device, uint64_t ticks, uint64_t *ret_age_ns);

/* A request was refused; `site`: of the request. Writes a whole report where the observer does not. Inside PyTorch's
 * allocator, with its lock held. */
void gwi_course_refused(uint64_t device, uint64_t bytes, uint32_t site);

/* The site of the request that PyTorch refused last on that device, once; 0: not known. */
uint32_t gwi_course_refused_site(uint64_t device);

#endif
