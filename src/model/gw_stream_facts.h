/* Part of gw_model_facts.h: work in flight. Describes hangs, missing order between streams, and launches that nothing
 * waited for. */
#ifndef GW_STREAM_FACTS_H
#define GW_STREAM_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A thread of a process that makes no progress. Strings belong to the model. */
typedef struct gw_hang_thread {
    uint32_t tid;
    char name[16];
    char wait[16];        /* a word of gw_stacks.h; "": unknown */
    uint32_t owner_tid;   /* the thread that has the lock, or whose end this thread waits for; 0: unknown */
    uint32_t owner_ended; /* 1: the owner thread has ended */
    char inside_fn[48];   /* the one driver call in which the thread was during the whole hang; "": none */
    uint64_t inside_ns;   /* how long the thread was seen in that call */
    uint64_t questions;   /* number of completion queries of the thread, which made no other call */
    uint64_t not_ready; /* number of times that the GPU answered "not ready"; also 0 in recordings of older versions */
    char where[40];     /* function in the Linux kernel; "": unknown */
    uint32_t site;      /* where the thread was, read from outside the process; 0: unknown */
    const char **frame; /* the stack in recordings of older versions, innermost frame first; owned list */
    size_t frame_count;
} gw_hang_thread;

/* A time in which a process neither began nor ended a driver call, except completion queries. */
typedef struct gw_hang {
    uint64_t t_ns, for_ns; /* the supervisor reported the hang at t_ns, after it had lasted for_ns */
    uint32_t pid;
    bool cpu_known;
    uint64_t cpu_ms; /* CPU time of all threads of the process during the hang */
    bool over;       /* the process made progress later */
    uint64_t t_over_ns;
    gw_hang_thread *thread; /* owned */
    size_t thread_count;
} gw_hang;

/* Memory that was freed while a copy or fill that uses it may still have been running. All calls between the copy and
 * the free are known, and none of them is an event, wait or synchronisation that orders the two. The verdict decides
 * whether this is a fault. */
typedef enum gw_unordered_kind {
    GW_UNORDERED_FREE,     /* stream-ordered memory that was freed in the order of another stream, or at once */
    GW_UNORDERED_HOST_FREE /* page-locked memory to which the copy writes */
} gw_unordered_kind;
enum { GW_ORDER_STREAMS_MAX = 8 };
typedef struct gw_unordered {
    gw_unordered_kind kind;
    uint32_t pid, copy_tid, free_tid;
    uint32_t free_site, block_site; /* call sites of the free and of the block's allocation; 0: unknown */
    uint16_t copy_fn_id, free_fn_id;
    const char *copy_fn, *free_fn; /* "?": unknown */
    uint64_t t_copy_ns, t_free_ns; /* when the copy and the free were called; a fill's time may be slightly early */
    uint64_t t_block_ns, address, block_bytes;
    uint64_t copy_bytes;
    bool is_fill;
    bool to_host;   /* the copy writes to page-locked memory, so the host may see that the copy has ended */
    bool from_host; /* the copy reads from the host's memory */
    uint64_t copy_stream, free_stream;     /* as in ORDER records; free_stream: only for FREE_ASYNC */
    bool by_free;                          /* freed by a call that takes no stream */
    uint64_t stream[GW_ORDER_STREAMS_MAX]; /* streams on which work comes after the copy */
    uint32_t stream_count;
    bool on_blocking;     /* one of `stream` is a blocking stream, so a launch into the default stream may order it */
    bool recorded;        /* an event was recorded after the copy */
    uint64_t later_count; /* number of copies, fills and similar calls on `stream` after the copy */
    /* Launches between the copy and the free, from the rings of all threads. */
    bool launches_known;    /* false: some launches may be missing */
    uint64_t launch_count;  /* launches on `stream` */
    uint64_t default_count; /* launches into the legacy default stream */
    uint64_t graph_count;   /* launches of graphs, into any stream */
} gw_unordered;
enum { GW_UNORDERED_MAX = 64 };

/* Copies to the host for which nothing waited until the process ended. The fields describe the last one. */
typedef struct gw_unwaited {
    uint32_t pid, tid;
    const char *copy_fn;
    uint64_t t_ns, bytes, stream;
    uint64_t count; /* number of such copies, including the last one */
} gw_unwaited;

/* A call site that launched a function: the first one of that function, or one of a few later ones. */
typedef struct gw_launch_site {
    uint64_t t_ns; /* time of the first recorded launch at this site */
    uint64_t function;
    const char *kernel; /* name of the function; belongs to the model; NULL: unknown */
    uint64_t stream;
    uint32_t pid, tid;
    uint32_t site; /* number in gw_model.sites */
} gw_launch_site;

/* Work on a stream for which nothing is known to have waited, although the program waited for other work (alone.c). */
typedef struct gw_alone {
    uint32_t pid, tid;
    uint64_t stream;
    uint64_t t_ns;        /* if on_record: time of the oldest outstanding launch; else of the last noted launch */
    const char *kernel;   /* kernel of that launch; NULL: unknown */
    uint64_t launches;    /* if on_record: number of outstanding launches on the stream that the rings contain */
    uint64_t waits_after; /* number of later waits for other work that returned, from the rings */
    bool is_graph_launch;
    uint32_t site;  /* site that launched `kernel` on that stream; 0: unknown, or several sites did */
    bool on_record; /* The rings contain the launch, so it is certain that nothing waited for it. If false, some ring
                     * begins after the launch and contains nothing more about that stream, so it is unknown whether
                     * something waited for it */
} gw_alone;

#endif
