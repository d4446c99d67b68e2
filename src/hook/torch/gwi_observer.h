/* PyTorch's own view of its memory, read through its Python interface.
 *
 * A caching allocator hides the lifetimes of blocks from the driver, because it rarely frees its segments. PyTorch
 * itself offers more: it calls an observer when it is out of memory, and it has statistics, a map of its blocks and, on
 * request, a history of allocations. This module reads them from inside a Python process, without Python's headers,
 * without Python source and without importing anything but atexit, a part of the interpreter. All functions are found
 * by name in the process, and work is queued as a pending call of the interpreter, because the thread inside a driver
 * call does not hold the interpreter's lock.
 *
 * Guarantees to the program: nothing is attached before the program has imported torch and initialised CUDA; a pending
 * error of the interpreter is saved and restored; the pending call and the observer never raise an exception; a
 * history that the program enabled itself is not changed. While our history is on, the program's own snapshots also
 * contain our entries; GPUWHY_HISTORY=0 avoids this.
 *
 * If the hook follows PyTorch's allocations itself (gwi_course.h), ages, the order of requests and live bytes over time
 * are read from there, and the history is not enabled unless the environment asks for it.
 *
 * The history has a cost: a small network that is limited by its launches (1.2 ms and 108 entries an iteration) runs
 * 2.7 % slower with it on an H200, however many entries it may hold. So the history is enabled only when memory may
 * become a problem: after the process has allocated a sixteenth of the card's memory, or after an out-of-memory. Until
 * then, the blocks in an out-of-memory report have no age.
 *
 * With GPUWHY_DEEP=1 the history is enabled when the observer attaches, and stores the Python stack of each allocation
 * (such a network then runs about 5 % slower). The history is then also read when the program ends, and the report has
 * call sites for the blocks, the refused request and the largest holders at the peak. If the program itself records
 * stacks, they are also read at an out-of-memory.
 *
 * In every Python program, the observer also records the traceback of an uncaught exception, line by line, when the
 * interpreter shuts down. This works even if stderr is redirected (observer_raised.c).
 *
 * Environment: GPUWHY_ATTACH=0 disables all of this. GPUWHY_HISTORY=0: no history. GPUWHY_HISTORY=N: a history of N
 * entries, enabled when the observer attaches. GPUWHY_DEEP=1: a history with stacks.
 * GPUWHY_ALLOCATIONS=1: the course is also written when the program ends. */
#ifndef GWI_OBSERVER_H
#define GWI_OBSERVER_H

#include "gw_event.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    GWI_OBSERVER_HISTORY_ENTRIES = 100000,
    GWI_OBSERVER_HISTORY_SHARE = 16, /* enable the history once the process has allocated 1/16 of the card's memory */
    GWI_OBSERVER_BLOCKS_MAX = 16384
};

/* A live block of PyTorch's allocator, as the hook itself has followed it (gwi_course.h). */
typedef struct gwi_observer_block {
    uint64_t order;  /* number of the block's request on the device, counted from 1 */
    uint64_t age_ns; /* time from the request to the last course_write() for the device */
    uint32_t site;   /* call site of the request; 0: not known */
} gwi_observer_block;

/* The hook functions that the observer calls. All members are set, except that the four course_ functions may be
 * NULL. The functions stay valid for the life of the process. The observer calls them on any thread, with the
 * interpreter's lock held, and never inside a driver call. */
typedef struct gwi_observer_port {
    /* Write one fact. `text` may be NULL and need not be valid after the call. False: the buffer was full. */
    bool (*fact)(gw_event_kind kind, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, const char *text);
    /* Write one fact together with its call site. `site` 0: not known. */
    void (*fact_at)(gw_event_kind kind, uint32_t site, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3);
    /* The thread's driver calls between guard_enter and guard_leave are our own and are not recorded. Pairs may
     * nest: pass the return value of guard_enter to guard_leave. */
    uint32_t (*guard_enter)(void);
    void (*guard_leave)(uint32_t before);
    /* The course: PyTorch's allocations and frees as the hook itself follows them (gwi_course.h). All four functions
     * are NULL if the hook does not follow them.
     *
     *   course_is_whole   true if no allocation or free was missed since the first block, so no history is needed
     *   course_write      write what the course recorded on a device; false: nothing was recorded on the device
     *   course_find       find the live block at an address; false: there is no such block in the course
     *   course_request    return the call site of the last refused request on the device; 0: not known, or a previous
     *                     call has already returned it */
    bool (*course_is_whole)(void);
    bool (*course_write)(uint64_t device);
    bool (*course_find)(uint64_t device, uint64_t address, gwi_observer_block *ret_block);
    uint32_t (*course_request)(uint64_t device);
} gwi_observer_port;

/* True if PyTorch will call us at its next out-of-memory. Any thread. */
bool gwi_observer_is_attached(void);

/* Start the observer. Call once, before the first gwi_observer_notice(). `port` must stay valid for the life of the
 * process. Reads the environment and looks for an interpreter among the libraries loaded so far. Preserves errno. */
void gwi_observer_start(const gwi_observer_port *port);

/* Report that the process has allocated `bytes` bytes of device memory. `card_bytes` is the memory size of the
 * smallest device as the program sees it; if it is 0 (not known), the bytes are only added up. Call this before
 * gwi_observer_notice() for the same driver call. Any thread. Costs one atomic add. */
void gwi_observer_taken(uint64_t bytes, uint64_t card_bytes);

/* Report that a driver call which is recorded as an event has just returned to our wrapper. Any thread, with or without
 * the interpreter's lock. `now_ticks` is any steady clock of about a billion ticks a second. Costs two loads. If it is
 * time to try to attach (or later, to enable the history), queues a pending call for that. Does not allocate or wait,
 * and preserves errno. */
void gwi_observer_notice(uint64_t now_ticks);

/* Call in a forked child before its first gwi_observer_notice(): pending calls queued in the parent do not run in the
 * child. */
void gwi_observer_forked(void);

#endif
