/* PyTorch's own view of its memory, read through its Python interface.
 *
 * A caching allocator rarely frees its segments, so the driver does not see the lifetimes of blocks. PyTorch knows
 * more. It calls an observer when it is out of memory. It has statistics, a map of its blocks and, on request, a
 * history of allocations.
 *
 * This module reads them from inside a Python process. It uses no Python headers and no Python source, and imports only
 * atexit, a part of the interpreter. All functions are found by name in the process. A thread inside a driver call does
 * not hold the interpreter's lock. So work is queued as a pending call of the interpreter.
 *
 * Guarantees to the program:
 * - Nothing is attached before the program has imported torch and initialised CUDA.
 * - A pending error of the interpreter is saved and restored.
 * - The pending call and the observer never raise an exception.
 * - A history that the program enabled itself is not changed.
 * - While our history is on, the program's own snapshots also contain our entries; GPUWHY_HISTORY=0 avoids this.
 *
 * The history costs time. A small network that is limited by its launches (1.2 ms and 108 entries an iteration) runs
 * 2.7 % slower with it on an H200, at any size of the history. So it is enabled only after the process has allocated a
 * sixteenth of the card's memory, or after PyTorch was out of memory once. Until then, the blocks in an out-of-memory
 * report have no age. If the hook follows PyTorch's allocations (gwi_course.h), no history is needed.
 *
 * With GPUWHY_DEEP=1, the history is enabled when the observer attaches. It stores the Python stack of each allocation:
 * the network is then about 5 % slower. The history is read at the end of the program, too. The report then has call
 * sites for the blocks, the refused request and the largest holders at the peak. It uses the stacks in the program's
 * own history, if there are any.
 *
 * In every Python program, the observer records the traceback of an uncaught exception when the interpreter shuts down
 * (observer_raised.c). This works even if stderr is redirected.
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

/* The hook functions that the observer calls. They stay valid for the life of the process. Only the course_
 * functions may be NULL. They are called on any thread, with the interpreter's lock held, and never inside a driver
 * call. */
typedef struct gwi_observer_port {
    /* Write one fact. `text` may be NULL and need not be valid after the call. False: the buffer was full. */
    bool (*fact)(gw_event_kind kind, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, const char *text);
    /* Write one fact together with its call site. `site` 0: not known. */
    void (*fact_at)(gw_event_kind kind, uint32_t site, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3);
    /* Driver calls of this thread between guard_enter and guard_leave are our own and are not recorded. Pass the
     * result of guard_enter to guard_leave. Pairs may nest. */
    uint32_t (*guard_enter)(void);
    void (*guard_leave)(uint32_t before);
    /* The course: PyTorch's allocations and frees as the hook follows them (gwi_course.h). All four are NULL if it does
     * not.
     *
     *   course_is_whole   true if no allocation or free was missed since the first block, so no history is needed
     *   course_write      write the course of a device, or only its totals if not `full`; false: it has none
     *   course_find       find the live block at an address; false: the course has no such block
     *   course_request    return the call site of the last refused request on the device; 0: unknown, or already
     *                     returned by a previous call */
    bool (*course_is_whole)(void);
    bool (*course_write)(uint64_t device, bool full);
    bool (*course_find)(uint64_t device, uint64_t address, gwi_observer_block *ret_block);
    uint32_t (*course_request)(uint64_t device);
    /* Called before and after the observer writes a report, so that the hook's own reports are not mixed with it. May
     * be NULL, too. */
    void (*course_report_begin)(void);
    void (*course_report_end)(void);
    /* True if the observer must do nothing any more (gw_quiet_door.h). NULL: never. */
    bool (*is_quiet)(void);
} gwi_observer_port;

/* True if PyTorch will call us at its next out-of-memory. Any thread. */
bool gwi_observer_is_attached(void);

/* Start the observer: read the environment and look for an interpreter in the process. Call this once, before
 * gwi_observer_notice(). `port` must stay valid for the life of the process. Preserves errno. */
void gwi_observer_start(const gwi_observer_port *port);

/* Report that the process has allocated `bytes` of device memory. Call this before gwi_observer_notice() for that
 * driver call. `card_bytes`: memory of the smallest visible device; 0: unknown, only add up the bytes. Any thread.
 * Costs one atomic add. */
void gwi_observer_taken(uint64_t bytes, uint64_t card_bytes);

/* Report that a driver call has just returned to our wrapper and is recorded as an event. If it is time to attach,
 * or to enable the history, this queues a pending call. Any thread, with or without the interpreter's lock.
 * `now_ticks` is a steady clock of about a billion ticks a second. Usually costs two loads. Never allocates or
 * waits. Preserves errno. */
void gwi_observer_notice(uint64_t now_ticks);

/* Call this in a forked child before gwi_observer_notice(). The parent's pending calls do not run there, so they
 * may have to be queued again. */
void gwi_observer_forked(void);

#endif
