/* Inspects the threads of another process from outside: what each thread waits for, and its stack.
 *
 * Most data is read from /proc and from the process's memory, without disturbing the process. For a native stack, the
 * thread is stopped with ptrace while its registers and its stack are copied, usually for less than a millisecond. The
 * program must not notice this. So a thread in a system call is stopped only if the kernel restarts this call by
 * itself. Other sleeping threads, also those that a debugger or SIGSTOP has stopped, are read as they sleep. Their
 * stack ends at the first function that uses a frame pointer. The result contains a reason for missing data.
 *
 * The caller must run as the same user. With Yama's scope 1, the usual setting, the process must be a descendant of the
 * caller, too.
 *
 * Native stacks need elfutils. Python frames (CPython 3.9 to 3.14) are read from the process's memory, during the stop
 * if there is one. Without a stop, they are read twice. They are used only if both results are equal and the thread did
 * not run in between. Frames are stored as numbers, as in gw_site.h, with the data needed to find their names.
 *
 * Call these functions from one thread at a time. */
#ifndef GW_STACKS_H
#define GW_STACKS_H

#include "gw_site.h"
#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a thread is doing, or what it is waiting for. X(name, word) */
#define GW_WAITS(X)                                                                                                    \
    X(UNKNOWN, "unknown")                                                                                              \
    X(RUNNING, "running")                                                                                              \
    X(LOCK, "lock")               /* a lock, without time limit; only a thread of this process can release it */       \
    X(JOIN, "join")               /* waits until another thread of the process ends */                                 \
    X(TIMED_LOCK, "timed-lock")   /* LOCK or JOIN with a time limit */                                                 \
    X(SHARED_LOCK, "shared-lock") /* a lock that another process can release */                                        \
    X(INPUT, "input")             /* waits for data, a connection, a signal, or a kernel event */                      \
    X(SLEEP, "sleep")                                                                                                  \
    X(CHILD, "child")   /* waits until a child process ends */                                                         \
    X(DEVICE, "device") /* waits for a kernel driver (ioctl) */                                                        \
    X(OTHER, "other")

typedef enum gw_wait {
#define GW_X(name, word) GW_WAIT_##name,
    GW_WAITS(GW_X)
#undef GW_X
        GW_WAIT_COUNT
} gw_wait;

/* Return the word for `wait`, a static string. Returns "unknown" for values out of range. */
const char *gw_wait_word(gw_wait wait);

typedef struct gw_stack_thread {
    uint32_t tid;
    uint32_t inner_tid; /* its number inside of the process's container; 0: the same */
    char name[16];
    char state; /* as in /proc: R, S, D, T, Z; '?' if unknown */
    gw_wait wait;
    int syscall;           /* number of the system call; -1 if none or unknown */
    uint64_t lock_address; /* LOCK, TIMED_LOCK, SHARED_LOCK: address of the lock; 0 if unknown */
    uint32_t owner_tid;    /* LOCK: the thread that holds the lock; JOIN: the thread that must end; 0 if unknown */
    int fd;                /* the file that a system call such as read waits for; -1: none, or unknown */
    uint32_t child;        /* CHILD: the process that must end; 0: any child, or unknown */
    uint32_t tracer;       /* the process that traces the thread, such as a debugger; 0: none */
    char where[40];        /* the kernel function in which the thread sleeps; "" if unknown */
    uint64_t cpu_ms;       /* CPU time since the thread started */
    uint64_t frame[GW_SITE_FRAMES_MAX]; /* as in event SITE_FRAMES, but a Python frame holds an index into `code` */
    size_t frame_count;
    unsigned flags; /* gw_site_flag bits that mark missing parts of the stack */
} gw_stack_thread;

/* The code object of a Python frame, with the fields of the event PYTHON_CODE (gw_event.h). */
typedef struct gw_stack_code {
    uint64_t address;
    char *text; /* owned; names of function and file, separated by a newline */
    int32_t first_line;
    uint16_t version;
    uint8_t *table;       /* line table; owned; NULL: not stored */
    uint32_t table_bytes; /* GW_PYTHON_TABLE_NOT_KEPT if `table` is NULL */
} gw_stack_code;

/* A file that contains code of native frames, with the fields of the event MAPPED (gw_event.h). */
typedef struct gw_stack_mapping {
    uint64_t start, bytes, bias, build_id;
    char *path; /* owned */
} gw_stack_mapping;

typedef struct gw_stack_process {
    gw_stack_thread *thread; /* owned */
    size_t thread_count;
    uint64_t stops;            /* how many threads were stopped */
    uint64_t stop_ns_max;      /* upper bound of the longest stop of a thread */
    uint64_t threads_left_out; /* number of threads above the limit, which were not read */
    char no_waits[160];        /* why the waits of some or all threads are unknown; "" if they are known */
    char no_stacks[160];       /* why some or all threads have no native stack; "" if none is missing */
    char no_python[160];       /* why some or all threads have no Python frames; "" if none are missing */
    gw_stack_code *code;       /* owned */
    size_t code_count;
    gw_stack_mapping *mapping; /* owned */
    size_t mapping_count;
} gw_stack_process;

/* Read the threads of process `pid`. Without `stacks`, no thread is stopped and no frames are read. On GW_OK, free
 * *ret_process with gw_stack_process_free(). Errors: GW_MISSING if there is no such process; GW_IO if its threads
 * cannot be listed; GW_NOMEM. */
GW_MUST_CHECK gw_status gw_stacks_look(uint32_t pid, bool stacks, gw_stack_process **ret_process, gw_error *err);
void gw_stack_process_free(gw_stack_process *process); /* takes NULL */

/* Release threads that stopped too late for gw_stacks_look(). After gw_stacks_look() with `stacks`, call this from
 * time to time until the process has ended. */
void gw_stacks_let_go(void);

/* Store the total CPU time of all threads of `pid`, in ms, in *ret_ms. Returns false if it is unknown. */
bool gw_stacks_cpu_ms(uint32_t pid, uint64_t *ret_ms);

/* ---- stacks as call sites ---- */

struct gw_item;

/* Limit for the ids of sites and code objects. The supervisor uses ids below it. `gpuwhy poke` on the same run uses ids
 * from this limit upwards. */
enum { GW_STACKS_IDS_MAX = 1 << 16 };

/* The stacks of one process, and where to record them: as events MAPPED, PYTHON_CODE, PYTHON_LINES, SITE and
 * SITE_FRAMES. All pointers are borrowed. */
typedef struct gw_stacks_writer {
    const gw_stack_process *process;
    const struct gw_item *like; /* an item whose time and pid are used for every recorded item */
    void (*put)(void *user, const struct gw_item *item);
    void *user;
    uint32_t *sites_told, *codes_told; /* the last ids given to sites and to code objects */
    /* set by gw_stacks_write_begin() */
    uint32_t code_first; /* id of the process's first Python code object */
    bool full;           /* no unused ids are left: no more stacks are recorded */
} gw_stacks_writer;

/* Record the files and the Python code objects that the stacks of the process contain. Call it first. */
void gw_stacks_write_begin(gw_stacks_writer *writer);
/* Record a thread's stack. Returns the id of the site, or 0 if nothing was recorded. */
uint32_t gw_stacks_write(gw_stacks_writer *writer, const gw_stack_thread *thread);

#endif
