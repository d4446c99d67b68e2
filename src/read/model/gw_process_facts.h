/* Part of gw_model_facts.h: processes, how they ended, their threads, and the last calls of each thread; hangs, sites
 * of launches, memory freed while a copy may have used it, and work that nothing waited for. */
#ifndef GW_PROCESS_FACTS_H
#define GW_PROCESS_FACTS_H

#include "gw_collective_facts.h"
#include "gw_event.h"
#include "gw_libs.h"
#include "gw_memory_facts.h"
#include "gw_recording.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gw_ring_call {
    uint64_t t_ns, what, stream;
    const char *fn_name;
    const char *kernel; /* name of the launched kernel, or names of the kernels in a launched graph; NULL: unknown */
    bool is_launch, is_graph_launch, is_copy, is_sync, is_query;
    bool captured; /* the call was captured into a graph, so it did not run on the GPU */
    /* Whether later waits show that the work of this call has certainly ended (`waited`), or may have ended
     * (`maybe_waited`). See waits.c. */
    bool waited, maybe_waited;
} gw_ring_call;

typedef struct gw_thread {
    uint32_t pid, tid;
    uint32_t next_plus_1; /* index + 1 of the next thread with this pid (see gw_model_next_thread()); 0: none */
    char name[16];
    uint64_t counter[GW_COUNT_COUNT];
    uint64_t calls, synced_at_ns;
    const char *inside_fn; /* the driver call in which the thread was at the last sample; NULL: none */
    uint64_t inside_since_ns;
    gw_ring_call *ring; /* the thread's last calls, oldest first; owned */
    size_t ring_count;
    uint64_t ring_total, ring_synced_total;
} gw_thread;

/* A signal for a fault in host code. It is reported by gpuwhy's handler (--catch-crash), a core dump or the Linux
 * kernel's log. The program may have handled the signal and survived. */
typedef struct gw_crash {
    bool seen;
    bool by_handler; /* reported by gpuwhy's handler; if false, `site` is 0 */
    /* reported by a core dump; if neither by_handler nor by_core is set, the kernel's log reported the signal, and
     * `tid` and `instruction` are 0 */
    bool by_core;
    bool was_sent;    /* the signal was sent by kill() or similar, not raised by a fault of thread `tid` */
    bool has_address; /* the address of the faulting access is known; some faults report none */
    bool in_block;    /* `block` is the live block of device memory that contains the address */
    bool has_code;
    int code; /* si_code */
    int signal;
    uint64_t address, instruction, t_ns;
    uint32_t tid, site;
    bool has_file;  /* the core dump lists the mapped files */
    char file[256]; /* if has_file: shortened path of the file mapped at the address; "": none */
    gw_live block;
} gw_crash;

typedef struct gw_process {
    uint32_t pid, parent_pid;
    bool is_command;
    char *exe, *driver_path, *driver_build_id; /* owned by the model; NULL: unknown */
    bool is_described;                         /* its item PROCESS was read */
    uint64_t start_realtime_ns;                /* 0: unknown */
    uint64_t pid_namespace;                    /* that the pid belongs to; 0: unknown */
    /* A process of another pid namespace had the same pid. Their events cannot be told apart, so all of them count for
     * this process. */
    bool is_several;
    bool called_exec; /* it became another program; the driver then freed what the old one had created */
    uint64_t t_seen_ns, t_first_call_ns, t_last_event_ns;
    bool init_ok;
    uint64_t address_limit_bytes,
        data_limit_bytes; /* limits of the process, read after a refused request; 0: unlimited, or not read */
    uint64_t t_init_ns;
    bool forked;            /* the process was forked and did not call exec */
    bool forked_after_init; /* the process was forked after its parent had initialised the driver */
    uint64_t t_fork_ns;
    uint32_t fork_parent_pid;
    uint32_t init_site; /* call site of the first successful cuInit; 0: unknown */
    uint32_t fork_site; /* call site of fork() in the parent; 0: unknown */
    bool exit_known;    /* the supervisor saw the end of the process */
    gw_exit_fact exit;
    uint64_t t_exit_ns;
    /* The program forbade what recording needs (GW_NOTE_QUIET), so later calls are missing. They count as one more lost
     * event and failure, with t_lost_ns UINT64_MAX. */
    bool is_quiet;
    uint64_t lost_events, lost_failures, lost_threads;
    uint64_t t_lost_ns;               /* when the latest event was lost; 0: none were lost */
    uint64_t counter[GW_COUNT_COUNT]; /* sum of each counter over the process's threads */
    uint64_t synced_at_ns;            /* time of the last successful synchronisation by any thread */
    gw_usage *usage; /* array of GW_MODEL_DEVICE_PLACES; all zero until the process creates its first object */
    uint64_t alloc_order, free_order;
    uint64_t allocation_us; /* time spent in successful ALLOC and FREE calls; each call is rounded down to whole us */
    uint64_t made_total;    /* number of objects that the process created, except functions and mappings */
    uint64_t pinned_bytes, pinned_bytes_peak;
    uint64_t unknown_frees; /* number of frees of addresses at which the ledger had no block */
    uint64_t primary_retains[GW_MODEL_DEVICE_PLACES];
    bool has_rank, has_world; /* the process's launcher set its rank (has_rank) or the number of ranks (has_world) */
    uint32_t rank, world;     /* world: number of ranks */
    bool has_restart;         /* the launcher counts how often it starts its processes again */
    uint32_t restart;         /* number of such restarts before this process was started */
    uint32_t driver_api;      /* the CUDA version that the driver reports, such as 12040; 0: unknown */
    gw_libraries libraries;   /* CUDA libraries that the supervisor saw mapped into the process */
    char torch_release[GW_VERSION_TEXT_MAX]; /* PyTorch's version as it prints it, "2.9.0+cu128"; "": not known */
    /* The last uncaught exception of the Python interpreter, read at its exit. It looks like a traceback without source
     * lines. Owned; NULL if there was none, or if it could not be read. */
    char *raised;
    size_t raised_bytes;
    uint64_t t_raised_ns;
    gw_crash crash;
    gw_communicator *communicator; /* owned array, in the order of their creation */
    size_t communicator_count;
    bool nccl_unseen;  /* NCCL is loaded, but its calls could not be observed, for example because it is linked
                          statically */
    bool is_own_stop;  /* gpuwhy began to end the run before the process ended, so its status says nothing */
    bool alive_at_end; /* the process was still alive shortly after the command ended */
    /* index for gw_model_snapshot(), taken at the process's end or at its largest teardown; -1: none */
    int end_snapshot;
} gw_process;

/* Return how many kernels and graphs a process or thread launched. */
static inline uint64_t gw_launches(const uint64_t counter[GW_COUNT_COUNT])
{
    return counter[GW_COUNT_LAUNCH] + counter[GW_COUNT_GRAPH_LAUNCH];
}

/* True if the process is known to have ended by itself, with a status other than 0 or by a signal. */
static inline bool gw_died_badly(const gw_process *process)
{
    return process->exit_known && process->exit.status_known && !process->is_own_stop &&
           (process->exit.exit_code != 0 || process->exit.signal != 0);
}
static inline bool gw_ended_well(const gw_process *process)
{
    return process->exit_known && process->exit.status_known && !process->is_own_stop && !gw_died_badly(process);
}
/* True if an uncaught exception had ended the Python program, but its process did not end by itself: the interpreter
 * waits in its shutdown, for example for a thread or for other ranks. */
static inline bool gw_is_left_over(const gw_process *process)
{
    return process->raised != NULL && (!process->exit_known || process->is_own_stop);
}
/* True for a launch of a kernel or of a graph. */
static inline bool gw_is_any_launch(const gw_ring_call *call)
{
    return call->is_launch || call->is_graph_launch;
}

/* True for a launch that may still be running, because no later wait shows that it has ended. A wait for another stream
 * shows nothing. */
static inline bool gw_is_outstanding(const gw_ring_call *call)
{
    return gw_is_any_launch(call) && !call->captured && !call->waited && !call->maybe_waited;
}

/* ---- hangs, launches, and the order of work in streams ---- */

/* A thread of a hanging process. The model owns the strings. */
typedef struct gw_hang_thread {
    uint32_t tid;
    char name[16];
    char wait[16];        /* one of the words in GW_WAITS (gw_stacks.h); "": unknown */
    uint32_t owner_tid;   /* thread that holds the lock, or for whose end this thread waits; 0: unknown */
    uint32_t owner_ended; /* 1: the owner thread has ended */
    char inside_fn[48];   /* driver call in which the thread spent the whole hang; "": none */
    uint64_t inside_ns;   /* how long the thread had been in this call */
    /* number of completion queries during the hang, such as cuEventQuery; if any, the thread made no other call */
    uint64_t questions;
    uint64_t not_ready; /* how many of these queries returned "not ready"; always 0 in recordings of older versions */
    char where[40];     /* function of the Linux kernel in which the thread sleeps; "": unknown */
    uint32_t site;      /* call site: the stack of the thread, read from outside the process; 0: unknown */
    const char **frame; /* stack, innermost frame first; only in recordings of older versions; the list is owned */
    size_t frame_count;
} gw_hang_thread;

/* A period in which a process neither began nor ended a driver call, except completion queries and waits that
 * returned. */
typedef struct gw_hang {
    uint64_t t_ns, for_ns; /* the supervisor reported the hang at t_ns, after it had lasted for_ns */
    uint32_t pid;
    bool cpu_known;
    uint64_t cpu_ms; /* CPU time of all threads of the process during the hang */
    bool meets;      /* of a rank that may only wait until all ranks have come: its stack must show that */
    bool over;       /* the process made progress again at t_over_ns */
    uint64_t t_over_ns;
    gw_hang_thread *thread; /* owned */
    size_t thread_count;
} gw_hang;

/* Memory that was freed while a copy or fill that uses it may still have been running. No event, wait or
 * synchronisation orders the two. The verdict decides whether this is a fault. */
typedef enum gw_unordered_kind {
    GW_UNORDERED_FREE,     /* stream-ordered memory; it was freed immediately, or in the order of another stream */
    GW_UNORDERED_HOST_FREE /* page-locked memory to which the copy writes */
} gw_unordered_kind;
enum { GW_ORDER_STREAMS_MAX = 8 };
typedef struct gw_unordered {
    gw_unordered_kind kind;
    uint32_t pid, copy_tid, free_tid;
    uint32_t free_site, block_site; /* call sites of the free and of the block's allocation; 0: unknown */
    uint16_t copy_fn_id, free_fn_id;
    const char *copy_fn, *free_fn; /* "?": unknown */
    uint64_t t_copy_ns, t_free_ns; /* times of the two calls; the time of a fill may be slightly too early */
    uint64_t t_block_ns, address, block_bytes;
    uint64_t copy_bytes;
    bool is_fill;
    bool to_host;   /* the copy writes to page-locked memory, so the host may have seen there that the copy ended */
    bool from_host; /* the copy reads from page-locked host memory */
    /* streams, numbered as in ORDER events; free_stream is set only for FREE_ASYNC */
    uint64_t copy_stream, free_stream;
    bool by_free; /* the block was freed by a call without a stream argument, such as cuMemFree */
    uint64_t stream[GW_ORDER_STREAMS_MAX]; /* streams whose later work runs after the copy */
    uint32_t stream_count;
    /* `stream` contains a blocking stream, so a launch into the default stream may order the copy and the free */
    bool on_blocking;
    bool recorded;        /* an event was recorded after the copy */
    uint64_t later_count; /* number of copies, fills and similar calls in the streams of `stream` after the copy */
    /* Number of launches between the copy and the free, from the rings of all threads. */
    bool launches_known;    /* false: some launches may be missing */
    uint64_t launch_count;  /* launches into the streams in `stream`, or into a default stream */
    uint64_t default_count; /* launches and fills in the legacy default stream, which may order the copy and the free */
    uint64_t graph_count;   /* launches of graphs into any stream */
} gw_unordered;
enum { GW_UNORDERED_MAX = 64 };

/* Copies to the host that the process did not wait for before it ended. All fields except `count` describe the last of
 * these copies. */
typedef struct gw_unwaited {
    uint32_t pid, tid;
    const char *copy_fn;
    uint64_t t_ns, bytes, stream;
    uint64_t count; /* number of these copies, including the last one */
} gw_unwaited;

/* A launch of a function, with its call site. Only the first launch of each function, and a few from other sites, are
 * recorded. */
typedef struct gw_launch_site {
    uint64_t t_ns; /* time of the launch */
    uint64_t function;
    const char *kernel; /* name of the function; owned by the model; NULL: unknown */
    uint64_t stream;
    uint32_t pid, tid;
    uint32_t site; /* number of the call site in gw_model.sites */
} gw_launch_site;

/* A stream whose work no known call waited for, although the program waited for other work (alone.c). */
typedef struct gw_alone {
    uint32_t pid, tid;
    uint64_t stream;
    /* if on_record: time of the oldest outstanding launch; otherwise of the last launch with a recorded site */
    uint64_t t_ns;
    const char *kernel;   /* kernel of that launch; NULL: unknown */
    uint64_t launches;    /* if on_record: number of outstanding launches on the stream in the rings */
    uint64_t waits_after; /* number of later waits for other work that returned (from the rings) */
    bool is_graph_launch;
    uint32_t site; /* site that launched `kernel` on this stream; 0: unknown, or there were several sites */
    /* the rings contain the launch and show that nothing waited for it; false: something may have waited */
    bool on_record;
} gw_alone;

#endif
