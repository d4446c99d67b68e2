/* The threads of another process, read from outside: what each one waits for, and where it stands.
 *
 * Most is read from /proc and from the process's memory, which disturbs nobody. A native stack needs the thread to
 * stand still for some milliseconds (ptrace); only threads whose system call begins again by itself afterwards are
 * stopped, so that the program sees nothing of it. Needs the right to trace the process: the same user, and where the
 * kernel's yama module restricts tracing (scope 1, usual) a descendant of ours. What may not be read is unknown and
 * says why.
 *
 * Native stacks are walked by elfutils; without it there are none. Python's frames (CPython 3.9 to 3.14, as in the
 * hook) are read from the process's memory: while the thread stands still for its native stack; of a thread that may
 * not be stopped, twice, and they count only where it did not run in between. Stacks are numbers here, as in gw_site.h,
 * with what is needed to name them.
 *
 * One thread of ours at a time. */
#ifndef GW_STACKS_H
#define GW_STACKS_H

#include "gw_site.h"
#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a thread does. X(name, word) */
#define GW_WAITS(X)                                                                                                    \
    X(UNKNOWN, "unknown")                                                                                              \
    X(RUNNING, "running")                                                                                              \
    X(LOCK, "lock")               /* for ever, for something that only a thread of its own process can give */         \
    X(JOIN, "join")               /* for the end of a thread of its process */                                         \
    X(TIMED_LOCK, "timed-lock")   /* or until some time */                                                             \
    X(SHARED_LOCK, "shared-lock") /* another process can give it */                                                    \
    X(INPUT, "input")             /* bytes, a connection, a signal, an event of the kernel */                          \
    X(SLEEP, "sleep")                                                                                                  \
    X(CHILD, "child")   /* the end of another process */                                                               \
    X(DEVICE, "device") /* a driver of the kernel */                                                                   \
    X(OTHER, "other")

typedef enum gw_wait {
#define GW_X(name, word) GW_WAIT_##name,
    GW_WAITS(GW_X)
#undef GW_X
        GW_WAIT_COUNT
} gw_wait;

const char *gw_wait_word(gw_wait wait);

typedef struct gw_stack_thread {
    uint32_t tid;
    char name[16];
    char state; /* as in /proc: R, S, D, T, Z; '?' unknown */
    gw_wait wait;
    int syscall;                        /* -1: none, or not known */
    uint64_t lock_address;              /* LOCK and kin; 0: not known */
    uint32_t owner_tid;                 /* LOCK: who holds it, JOIN: whose end it is; 0: not known */
    char where[40];                     /* what it sleeps in inside the Linux kernel; "": not known */
    uint64_t cpu_ms;                    /* used since it began */
    uint64_t frame[GW_SITE_FRAMES_MAX]; /* as in SITE_FRAMES; a Python frame's code is an index of the process's list */
    size_t frame_count;
    unsigned flags; /* gw_site_flag: what is missing of the stack */
} gw_stack_thread;

/* What a Python frame runs, as in PYTHON_CODE. */
typedef struct gw_stack_code {
    uint64_t address;
    char *text; /* owned */
    int32_t first_line;
    uint16_t version;
    uint8_t *table;       /* owned; NULL: not kept */
    uint32_t table_bytes; /* GW_PYTHON_TABLE_NOT_KEPT where there is none */
} gw_stack_code;

/* A file that native frames lie in, as in MAPPED. */
typedef struct gw_stack_mapping {
    uint64_t start, bytes, bias, build_id;
    char *path; /* owned */
} gw_stack_mapping;

typedef struct gw_stack_process {
    gw_stack_thread *thread; /* owned */
    size_t thread_count;
    uint64_t threads_left_out; /* there are more than are looked at */
    char no_waits[160];        /* why it is not known what threads wait for; "": it is */
    char no_stacks[160];       /* why there are no stacks, or not of all threads; "": all there */
    char no_python[160];       /* why there are no Python frames, or not of all threads; "": all that there are */
    gw_stack_code *code;       /* owned */
    size_t code_count;
    gw_stack_mapping *mapping; /* owned */
    size_t mapping_count;
} gw_stack_process;

/* Look at `pid`. `stacks` false: nobody is stopped, and there are no frames. GW_OK: the caller's, freed by
 * gw_stack_process_free(). GW_MISSING: there is no such process. GW_IO: it may not even be listed. GW_NOMEM. */
GW_MUST_CHECK gw_status gw_stacks_look(uint32_t pid, bool stacks, gw_stack_process **ret_process, gw_error *err);
void gw_stack_process_free(gw_stack_process *process); /* takes NULL */

/* A thread that did not stop in time stops later, and must then be let go: to be called now and then, until the process
 * has ended, by who goes on living after gw_stacks_look() with stacks. Costs nothing when there is none. */
void gw_stacks_let_go(void);

/* CPU time that all threads of `pid` have used, in ms. False: not known. */
bool gw_stacks_cpu_ms(uint32_t pid, uint64_t *ret_ms);

#endif
