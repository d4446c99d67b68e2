/* The threads of another process, read from outside: what each one waits for, and its stack.
 *
 * Most data is read from /proc and from the process's memory, without disturbing the process. To read a native stack
 * the thread must be stopped for some milliseconds (ptrace). Only threads whose system call restarts by itself are
 * stopped, so that the program does not notice. The caller needs the right to trace the process: the same user, and, if
 * the kernel's yama module restricts tracing (scope 1, the usual setting), the process must be our descendant. Data
 * that may not be read is unknown, with the reason.
 *
 * Native stacks are walked with elfutils; a build without it has none. Python's frames (CPython 3.9 to 3.14, as in the
 * hook) are read from the process's memory. For a thread that is stopped for its native stack, they are read during the
 * stop. For a thread that may not be stopped, they are read twice and used only if the thread did not run in between.
 * Stacks are numbers, as in gw_site.h, together with the data that is needed to name them.
 *
 * Call these functions from one thread at a time. */
#ifndef GW_STACKS_H
#define GW_STACKS_H

#include "gw_site.h"
#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a thread is doing. X(name, word) */
#define GW_WAITS(X)                                                                                                    \
    X(UNKNOWN, "unknown")                                                                                              \
    X(RUNNING, "running")                                                                                              \
    X(LOCK, "lock")               /* without a time limit; only a thread of the same process can release it */         \
    X(JOIN, "join")               /* the end of a thread of the same process */                                        \
    X(TIMED_LOCK, "timed-lock")   /* like lock or join, with a time limit */                                           \
    X(SHARED_LOCK, "shared-lock") /* another process can release it */                                                 \
    X(INPUT, "input")             /* data, a connection, a signal, a kernel event */                                   \
    X(SLEEP, "sleep")                                                                                                  \
    X(CHILD, "child")   /* the end of another process */                                                               \
    X(DEVICE, "device") /* a kernel driver */                                                                          \
    X(OTHER, "other")

typedef enum gw_wait {
#define GW_X(name, word) GW_WAIT_##name,
    GW_WAITS(GW_X)
#undef GW_X
        GW_WAIT_COUNT
} gw_wait;

/* The word for a wait. Static; "unknown" for values out of range. */
const char *gw_wait_word(gw_wait wait);

typedef struct gw_stack_thread {
    uint32_t tid;
    char name[16];
    char state; /* as in /proc: R, S, D, T, Z; '?': unknown */
    gw_wait wait;
    int syscall;           /* -1: none, or not known */
    uint64_t lock_address; /* for the three kinds of locks; 0: not known */
    uint32_t owner_tid;    /* LOCK: the thread that holds it; JOIN: the thread whose end is awaited; 0: not known */
    char where[40];        /* the kernel function that it sleeps in; "": not known */
    uint64_t cpu_ms;       /* CPU time since its start */
    uint64_t frame[GW_SITE_FRAMES_MAX]; /* as in SITE_FRAMES; the code of a Python frame is an index into the process's
                                           list */
    size_t frame_count;
    unsigned flags; /* gw_site_flag: the missing parts of the stack */
} gw_stack_thread;

/* The code of a Python frame, as in PYTHON_CODE. */
typedef struct gw_stack_code {
    uint64_t address;
    char *text; /* owned */
    int32_t first_line;
    uint16_t version;
    uint8_t *table;       /* owned; NULL: not stored */
    uint32_t table_bytes; /* GW_PYTHON_TABLE_NOT_KEPT if there is no table */
} gw_stack_code;

/* A file with native frames, as in MAPPED. */
typedef struct gw_stack_mapping {
    uint64_t start, bytes, bias, build_id;
    char *path; /* owned */
} gw_stack_mapping;

typedef struct gw_stack_process {
    gw_stack_thread *thread; /* owned */
    size_t thread_count;
    uint64_t threads_left_out; /* number of threads beyond the limit */
    char no_waits[160];        /* why the waits are not known; "": they are known */
    char no_stacks[160];       /* why stacks are missing, of some threads or of all; "": none are missing */
    char no_python[160];       /* why Python frames are missing, of some threads or of all; "": none are missing */
    gw_stack_code *code;       /* owned */
    size_t code_count;
    gw_stack_mapping *mapping; /* owned */
    size_t mapping_count;
} gw_stack_process;

/* Read the threads of `pid`. If `stacks` is false, no thread is stopped and there are no frames. GW_OK: *ret_process is
 * the caller's, freed by gw_stack_process_free(). GW_MISSING: there is no such process. GW_IO: its threads cannot be
 * listed. GW_NOMEM. */
GW_MUST_CHECK gw_status gw_stacks_look(uint32_t pid, bool stacks, gw_stack_process **ret_process, gw_error *err);
void gw_stack_process_free(gw_stack_process *process); /* takes NULL */

/* Release threads that did not stop in time and have stopped later. A program that continues to run after
 * gw_stacks_look() with stacks must call this from time to time until the process has ended. Does nothing if there are
 * no such threads. */
void gw_stacks_let_go(void);

/* CPU time used by all threads of `pid`, in ms. False: not known. */
bool gw_stacks_cpu_ms(uint32_t pid, uint64_t *ret_ms);

#endif
