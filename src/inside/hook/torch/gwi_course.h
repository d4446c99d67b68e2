/* The course of PyTorch's allocations: every allocation and free, from the first block on. gw_c10_door.h describes how
 * the events get here.
 *
 *   course.c        updates live blocks, a ring of the last requests and spans of live bytes at each event
 *   course_write.c  writes this data into the buffer when PyTorch runs out of memory, or when the observer requests it
 *
 * An event costs a few cache lines, but no system call, no malloc and no record in the buffer. Each device has its
 * own course, as PyTorch has one allocator and one lock per device. A course that misses events counts them and
 * stays incomplete. A forked child has no course, because PyTorch refuses CUDA there.
 *
 * What it stores of each device, in the hook's own memory: up to 1,048,576 live blocks by address (bytes, number of the
 * request, time, call site); the last 65,536 requests (also their lifetimes, and how many launches and waits the
 * process had made); the highest and lowest live bytes in 512 equal spans of time, which are merged in pairs when all
 * are used; and sums for 48 classes of sizes.
 *
 * Nothing is written to the recording until a request is refused, or with --allocations until the program ends. The
 * cudaMallocAsync back end, pluggable allocators and PyTorch before about 1.11 do not make these calls; their
 * allocations are visible as driver events. */
#ifndef GWI_COURSE_H
#define GWI_COURSE_H

#include "gw_c10_door.h"
#include "gwi_hook.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GWI_COURSE_REQUESTS = 1 << 16, /* the newest requests, which are stored one by one */
    GWI_COURSE_BLOCKS_MAX = 1 << 20,
    GWI_COURSE_SPANS = 512,
    GWI_COURSE_SIZES = 48 /* size classes: class i holds 2^i to 2^(i+1) - 1 bytes */
};

/* A live block. */
typedef struct gwi_course_block {
    uint64_t address;    /* 0: this table entry is empty */
    uint64_t bytes_when; /* bytes << 16 | the upper 16 bits of the time */
    uint64_t order;      /* number of its request on this device, from 1 on */
    uint32_t when;       /* the lower 32 bits of the time: ticks at the request >> GWI_COURSE_WHEN_SHIFT */
    uint32_t site;       /* call site of the request; 0: not recorded */
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

/* A request, whether its block is alive or not. */
typedef struct gwi_course_request {
    uint64_t ticks;
    uint64_t bytes;
    uint32_t launches,
        waits; /* launches and waits of the process so far, as seen by threads that request memory; modulo 2^32 */
    uint32_t site;
    uint32_t freed_after; /* 0: still live; otherwise 1 + the number of requests between this one and its free */
} gwi_course_request;

/* The highest and the lowest number of live bytes in a span of time. */
typedef struct gwi_course_span {
    uint64_t highest, lowest; /* highest < lowest: there was no event in this span */
} gwi_course_span;

typedef struct gwi_course_size {
    uint64_t requests, frees, live_bytes;
    uint64_t lifetime_sum; /* sum of the freed blocks' lifetimes, in requests */
} gwi_course_size;

/* The totals of a device at one instant. */
typedef struct gwi_course_totals {
    uint64_t requests, frees, live_count, live_bytes, peak_bytes, peak_order;
    uint64_t missed;                          /* events that were missed: if not 0, these totals are incomplete */
    uint64_t allocated_bytes, reserved_bytes; /* PyTorch's own values at its last event */
    uint64_t first_ticks, last_ticks;         /* times of the first and of the last event */
} gwi_course_totals;

/* Called when PyTorch has refused a request, inside PyTorch's allocator and with its lock held. `site` is the call site
 * of the request. */
typedef void gwi_course_refusal(uint64_t device, uint64_t bytes, uint32_t site);

/* Connect PyTorch's allocator events to this module. Call this once, after the hook has been attached, from a
 * thread that does not hold the hook's lock. `refusal` is called for each request that PyTorch refuses. */
void gwi_course_attach(gwi_course_refusal *refusal);

/* True if PyTorch's allocations are followed on at least one device, and no event was missed there. Events during a
 * rest of the course do not matter. */
bool gwi_course_is_whole(void);

/* True if PyTorch's allocations are followed on at least one device. Costs a few loads. */
bool gwi_course_is_any(void);

/* Find the live block that starts at `address`. Returns false if no live block is known to start there. */
bool gwi_course_find(uint64_t device, uint64_t address, gwi_course_block *ret_block);

/* Return the totals of a device. Returns false if the device has no course, if its course rests, or if the lock was not
 * obtained. */
bool gwi_course_totals_read(uint64_t device, gwi_course_totals *ret_totals);

double gwi_course_ns_per_tick(void); /* the hook's estimate, which improves over time */

/* A copy of all data of a device at one instant, in memory of its own. */
typedef struct gwi_course_copy {
    gwi_course_totals totals;
    uint64_t now_ticks;
    double ns_per_tick;      /* used for all ages of this copy, because the hook's estimate improves over time */
    gwi_course_block *block; /* in no order */
    size_t block_count;
    gwi_course_request *request; /* oldest first; the last one has the number totals.requests */
    size_t request_count;
    gwi_course_size size[GWI_COURSE_SIZES];
    gwi_course_span span[GWI_COURSE_SPANS]; /* each of length span_ticks; the first starts at totals.first_ticks */
    uint64_t span_ticks;
    size_t span_count;
    void *memory; /* owned */
    size_t memory_bytes;
} gwi_course_copy;

/* Copy all data of a device. Returns false if the device has no course, if its course rests, if the lock was not
 * obtained, or if memory runs out. */
bool gwi_course_copy_make(uint64_t device, gwi_course_copy *ret_copy);
void gwi_course_copy_free(gwi_course_copy *copy);

/* ---- course_write.c ---- */

/* Write a device's totals into the current report; if `full`, also its spans, sizes and requests, but never its blocks.
 * Returns false if the device has no data. */
bool gwi_course_write(uint64_t device, bool full);

/* Set *ret_age_ns to the time in ns from `ticks` to that device's last gwi_course_write(). Returns false if nothing
 * was written for the device. */
bool gwi_course_age(uint64_t device, uint64_t ticks, uint64_t *ret_age_ns);

/* Call these before and after writing a report about a request that PyTorch refused. In between, no thread begins a
 * report about another library's request. Waits for the end of one, at most two seconds. May change errno. */
void gwi_course_report_begin(void);
void gwi_course_report_end(void);

/* A gwi_course_refusal that writes a report, unless the observer is attached and will write it. */
void gwi_course_refused(uint64_t device, uint64_t bytes, uint32_t site);

/* Write a report about PyTorch's memory on the device, because the driver has refused a request that did not come from
 * PyTorch. Call this in the wrapper of that call, after the failure was recorded. Writes nothing if there is no course.
 * Takes no lock of PyTorch's or of the interpreter. May change errno. */
void gwi_course_other_refused(uint64_t device);

/* Return the call site of the request that PyTorch last refused on that device. 0 if it is unknown, or was already
 * returned once. */
uint32_t gwi_course_refused_site(uint64_t device);

#endif
