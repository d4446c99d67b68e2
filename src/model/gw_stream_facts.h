/* Part of gw_model_facts.h: work in flight: hangs, order between streams, and launches that nothing waited for. */
#ifndef GW_STREAM_FACTS_H
#define GW_STREAM_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A thread of a process that makes no progress. Strings belong to the model. */
typedef struct gw_hang_thread {
    uint32_t tid;
    char name[16];
    char wait[16];        /* a word of gw_stacks.h; "": not known */
    uint32_t owner_tid;   /* the thread whose lock or end it waits for; 0: not known */
    uint32_t owner_ended; /* 1: that thread has ended */
    char inside_fn[48];   /* the driver call that it was inside of all the time; "": none */
    uint64_t inside_ns;   /* for how long, as far as was watched */
    uint64_t questions;   /* how often it asked the GPU for completion; it made no other call */
    uint64_t not_ready;   /* how often the GPU answered "not ready"; 0 also in recordings of older versions */
    char where[40];       /* function in the Linux kernel; "": not known */
    uint32_t site;        /* where it stands, read from outside; 0: not known */
    const char **frame;   /* the same in recordings of older versions: innermost first; owned list */
    size_t frame_count;
} gw_hang_thread;

/* For some time, a process began and ended no driver call except questions. */
typedef struct gw_hang {
    uint64_t t_ns, for_ns; /* reported at t_ns, when it had lasted for_ns */
    uint32_t pid;
    bool cpu_known;
    uint64_t cpu_ms; /* CPU time of all threads of the process during that time */
    bool over;       /* the process made progress later */
    uint64_t t_over_ns;
    gw_hang_thread *thread; /* owned */
    size_t thread_count;
} gw_hang;

/* Memory that was freed while a copy (or a fill) that uses it was not known to have ended: according to the calls,
 * there was no event, wait or synchronisation in between, and all calls in between are known. The verdict decides
 * whether it is a fault. */
typedef enum gw_unordered_kind {
    GW_UNORDERED_FREE,     /* stream-ordered memory, freed in the order of another stream, or at once */
    GW_UNORDERED_HOST_FREE /* page-locked memory that the copy writes to */
} gw_unordered_kind;
enum { GW_ORDER_STREAMS_MAX = 8 };
typedef struct gw_unordered {
    gw_unordered_kind kind;
    uint32_t pid, copy_tid, free_tid;
    uint32_t free_site, block_site; /* of the free and of the block's allocation; 0: not known */
    uint16_t copy_fn_id, free_fn_id;
    const char *copy_fn, *free_fn; /* "?" unknown */
    uint64_t t_copy_ns, t_free_ns; /* when these calls began; a fill's time may be slightly early */
    uint64_t t_block_ns, address, block_bytes;
    uint64_t copy_bytes;
    bool is_fill;
    bool to_host;   /* the copy writes to page-locked memory, where the host may see that it has ended */
    bool from_host; /* it reads from the host's memory */
    uint64_t copy_stream, free_stream;     /* as in ORDER; free_stream: only for FREE_ASYNC */
    bool by_free;                          /* freed by a call without a stream */
    uint64_t stream[GW_ORDER_STREAMS_MAX]; /* work on these streams comes after the copy */
    uint32_t stream_count;
    bool on_blocking;     /* one of them is a blocking stream, so a launch into the default stream may order it */
    bool recorded;        /* an event was recorded after it */
    uint64_t later_count; /* copies, fills and similar calls on these streams after it */
    /* From the rings of all threads, for the time in between. */
    bool launches_known;    /* false: some launches may be missing */
    uint64_t launch_count;  /* launches on these streams */
    uint64_t default_count; /* launches into the legacy default stream */
    uint64_t graph_count;   /* launches of graphs, on any stream */
} gw_unordered;
enum { GW_UNORDERED_MAX = 64 };

/* A copy to the host that nothing waited for until the process ended. */
typedef struct gw_unwaited {
    uint32_t pid, tid;
    const char *copy_fn;
    uint64_t t_ns, bytes, stream;
    uint64_t count; /* number of such copies, including this last one */
} gw_unwaited;

/* A place from which a function was launched: the first, and a few later ones. */
typedef struct gw_launch_site {
    uint64_t t_ns; /* of the first launch seen there */
    uint64_t function;
    const char *kernel; /* its name; belongs to the model; NULL: not known */
    uint64_t stream;
    uint32_t pid, tid;
    uint32_t site; /* number in gw_model.sites */
} gw_launch_site;

/* Work on a stream that nothing is known to have waited for, while the program waited for other work (alone.c). */
typedef struct gw_alone {
    uint32_t pid, tid;
    uint64_t stream;
    uint64_t t_ns;        /* if on_record: of the oldest of these launches; else of the last noted one */
    const char *kernel;   /* of that launch; NULL: unknown */
    uint64_t launches;    /* if on_record: outstanding launches on that stream, as far as the rings reach back */
    uint64_t waits_after; /* later waits for other work that returned, as far as the rings reach back */
    bool is_graph_launch;
    uint32_t site;  /* from where that kernel was launched on that stream; 0: not known, or several places */
    bool on_record; /* the rings contain the launch, so certainly nothing waited for it. Otherwise some ring begins
                     * later and contains nothing more about that stream, so whether something waited for it is not
                     * known */
} gw_alone;

#endif
