/* PyTorch's own view of its memory, at the door it offers.
 *
 * A caching allocator hides lifetimes from the driver: its segments never come back. PyTorch tells more itself: it
 * calls an observer when it is out of memory, and it has statistics, a map of its blocks and, when asked, a history of
 * allocations. This module asks for them from inside a Python process, without Python's headers, without Python source
 * and without importing anything but atexit, a part of the interpreter: all functions are found by name in the process,
 * and work waits for the interpreter's own pending-call queue, because the thread inside a driver call does not hold
 * the interpreter's lock.
 *
 * Promises to the program: nothing is attached before torch is imported and has initialised CUDA by itself; a pending
 * error of the interpreter is saved and restored; the pending call and the observer never raise; history that the
 * program switched on itself is left alone. While the program's own snapshot of the history is taken it sees our
 * entries too (without stacks): GPUWHY_HISTORY=0 avoids that.
 *
 * Where the hook follows PyTorch's allocations itself (gwi_course.h), ages, the order of requests and the way of live
 * bytes come from there, and no history is switched on unless the environment asks for it.
 *
 * History has a price: a small network that is bound by its launches (1.2 ms and 108 entries an iteration) runs 2.7 %
 * slower with it on an H200, and the length of the ring does not matter. So it is switched on only when the process's
 * memory use says that memory may become its problem: when the device memory that it has taken since its start comes
 * to a sixteenth of the card, or after an out-of-memory. Until then an out-of-memory report has blocks of unknown age.
 *
 * With GPUWHY_DEEP=1 the history is on from the attach and keeps the Python stack of each allocation (about 5 % on such
 * a network). It is then also read at the end, and blocks, the refused request and those who held most at the peak come
 * with their call sites. Where the program records stacks by itself, they are read at an out-of-memory as well.
 *
 * In any Python program it looks, when the interpreter ends, at the last exception that reached the top level, and
 * writes its traceback line by line: no redirection of stderr hides it there (observer_raised.c).
 *
 * Environment: GPUWHY_ATTACH=0: nothing of this. GPUWHY_HISTORY=0: no history; =N: N entries, on from the attach.
 * GPUWHY_DEEP=1: with stacks. */
#ifndef GWI_OBSERVER_H
#define GWI_OBSERVER_H

#include "gw_event.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    GWI_OBSERVER_HISTORY_ENTRIES = 100000,
    GWI_OBSERVER_HISTORY_SHARE = 16, /* history begins when one part of so many of the card was taken */
    GWI_OBSERVER_BLOCKS_MAX = 16384
};

/* What the course of PyTorch's allocations (gwi_course.h) knows of a live block. */
typedef struct gwi_observer_block {
    uint64_t order;  /* number of its request on the device, from 1 on */
    uint64_t age_ns; /* before the last course_write of the device */
    uint32_t site;   /* 0: not known */
} gwi_observer_block;

/* What the observer needs of the hook. All members are set, and valid for the life of the process. Called on any
 * thread, with the interpreter's lock held, never inside a driver call. */
typedef struct gwi_observer_port {
    /* Write one fact; `text` may be NULL and is borrowed for the call. False: there was no room for it. */
    bool (*fact)(gw_event_kind kind, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, const char *text);
    /* The same with the call site of what it tells; 0: not known. */
    void (*fact_at)(gw_event_kind kind, uint32_t site, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3);
    /* Driver calls of this thread between the two are our own and are not recorded. They nest: what the first returns
     * goes into the second. */
    uint32_t (*guard_enter)(void);
    void (*guard_leave)(uint32_t before);
    /* The course of allocations, where there is one; all NULL: there is none.
     * course_is_whole: blocks are followed, from the first one on and without a gap: no history is needed.
     * course_write: what the course says of a device, into the report that is open. False: nothing is known of it.
     * course_find: a live block; false: not known. course_request: the site of the request that was refused last on
     * the device, once; 0: not known. */
    bool (*course_is_whole)(void);
    bool (*course_write)(uint64_t device);
    bool (*course_find)(uint64_t device, uint64_t address, gwi_observer_block *ret_block);
    uint32_t (*course_request)(uint64_t device);
} gwi_observer_port;

/* PyTorch calls us at its next out-of-memory. Any thread. */
bool gwi_observer_is_attached(void);

/* Once, before the first notice. `port` is borrowed for ever. Looks at the environment, and for an interpreter among
 * the libraries that are there by then. Keeps errno. */
void gwi_observer_start(const gwi_observer_port *port);

/* Tell the observer that the process has taken `bytes` of device memory; `card_bytes` is what the program sees as the
 * smallest device's size, 0: not known, and then only the sum is kept. Before the notice of the same call. Any thread.
 * One atomic add. */
void gwi_observer_taken(uint64_t bytes, uint64_t card_bytes);

/* Tell the observer that a rare driver call has just returned to our wrapper. Any thread, with or without the
 * interpreter's lock. `now_ticks` is any steady clock of about a billion ticks a second. Two loads, unless it
 * is time for an attempt (to attach, later to begin the history): then a pending call is queued. Allocates nothing,
 * waits for nothing, keeps errno. */
void gwi_observer_notice(uint64_t now_ticks);

/* In the child of a fork, before its first notice: what was queued in the parent does not run here. */
void gwi_observer_forked(void);

#endif
