/* Part of gw_model_facts.h: hangs, sites of launches, memory freed while a copy may have used it, and work that nothing
 * waited for. */
#ifndef GW_STREAM_FACTS_H
#define GW_STREAM_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
