/* Functions shared by the files of this folder. */
#ifndef GWI_STACKS_H
#define GWI_STACKS_H

#include "gwi_python.h"

#include <sys/types.h>

/* Return the number by which the process itself knows the thread. */
static inline uint32_t gwi_inner_tid(const gw_stack_thread *thread)
{
    return thread->inner_tid != 0 ? thread->inner_tid : thread->tid;
}

/* Read the start of /proc/PID/task/TID/FILE as text (waits.c), like gw_read_small(). */
ssize_t gwi_read_of_thread(char *text, size_t room, uint32_t pid, uint32_t tid, const char *file);
/* Read memory of process `pid`. Returns false if not all of it can be read; errno has the reason. */
bool gwi_read_memory(uint32_t pid, uint64_t address, void *to, size_t bytes);
/* Find out which system call a thread is in, and what it waits for. `process` must have all threads, because lock
 * owners are looked up there. */
void gwi_look_at_call(uint32_t pid, gw_stack_process *process, gw_stack_thread *thread);

/* What shows that a thread slept between two reads: its system call, and how often it has left the processor. */
typedef struct gwi_asleep {
    char text[512];
} gwi_asleep;

/* Returns false if the thread runs, or if this cannot be read. */
bool gwi_asleep_read(uint32_t pid, const gw_stack_thread *thread, gwi_asleep *ret);

/* Return true if the thread may be stopped without a visible effect. Its system call must continue afterwards with the
 * same result. A stop may change the result of epoll_wait, socket reads with a time limit, or ioctl on a device. */
bool gwi_may_be_stopped(const gw_stack_thread *thread);

/* Read the Python frames of a thread without stopping it. If it ran meanwhile, the frames are dropped,
 * GW_SITE_PYTHON_UNKNOWN is set, and `no_python` has the reason. */
void gwi_stacks_unheld(uint32_t pid, gw_stack_process *process, gw_stack_thread *thread, gwi_python *python);

/* ---- stops and copies (hold.c) ---- */

typedef struct gwi_held { /* a thread that is stopped */
    uint32_t tid;
    int status;               /* from waitpid() */
    bool is_first, has_slice; /* how gpuwhy hurries until the thread is released: real-time priority, short slices */
    uint64_t running_ns;      /* a time, of the monotonic clock, at which it still ran */
} gwi_held;

#if defined(__x86_64__)
enum { GWI_REGISTERS = 17 };
#else
enum { GWI_REGISTERS = 32 };
#endif
enum { GWI_STACK_COPY_MAX = 512 << 10 };

/* The registers and the stack of a thread at one moment. */
typedef struct gwi_stack_copy {
    bool is_whole;                 /* false: only pc and start are known */
    uint64_t value[GWI_REGISTERS]; /* by their DWARF numbers */
    uint64_t pc, start;            /* start: the stack pointer */
    size_t bytes;
    uint64_t stack[GWI_STACK_COPY_MAX / sizeof(uint64_t)];
} gwi_stack_copy;

/* Attach to a thread and wait until it has stopped. Returns false with the reason in errno; gw_stacks_let_go() may
 * still have to release the thread then. */
bool gwi_hold(gwi_held *held, uint32_t tid);
/* Release a stopped thread. Returns an upper bound of the time for which it was stopped. */
uint64_t gwi_let_go(const gwi_held *held);
/* Copy registers and stack of a stopped thread. Returns false if they cannot be read. */
bool gwi_copy_held(uint32_t pid, const gwi_held *held, gwi_stack_copy *copy);
/* The same for a thread that sleeps and is not stopped: the kernel reports its instruction and its stack pointer. */
bool gwi_copy_asleep(uint32_t pid, uint32_t tid, gwi_stack_copy *copy);

/* Read the frames of all threads (walk.c). A thread is stopped briefly if gwi_may_be_stopped() allows it. If stacks are
 * missing, process->no_stacks has the reason. */
void gwi_stacks_walk(uint32_t pid, gw_stack_process *process, gwi_python *python);

#endif
