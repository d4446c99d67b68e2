/* Detects hangs. If a recorded process makes no progress, records what each of its threads waits for. Used by `gpuwhy
 * run` and `gpuwhy poke`. */
#ifndef GW_HANG_WATCH_H
#define GW_HANG_WATCH_H

#include "gw_recording.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { GW_HANG_PROCESSES_MAX = 128, GW_HANG_THREADS_MAX = 1024 };

typedef struct gw_watched_thread {
    uint32_t pid, tid;
    uint64_t calls, progress, questions;
    uint64_t not_ready, not_ready_at_ns;         /* not_ready_at_ns: time at which `not_ready` last grew */
    uint64_t questions_before, not_ready_before; /* values when the process last made progress */
    uint16_t inside_fn_plus_1;
    bool is_in_nccl;
    uint64_t inside_since_ns; /* time at which this call was first seen; it may have begun earlier */
    bool seen;                /* gw_hang_watch_see() saw the thread after the last gw_hang_watch_begin() */
} gw_watched_thread;

typedef struct gw_watched_process {
    uint32_t pid;
    uint64_t progress, since_ns; /* `progress` has not changed since `since_ns` */
    uint64_t looked_at_ns;       /* time of the last gw_hang_tell(); 0: none since the last progress */
    bool cpu_known;
    uint64_t cpu_ms;     /* the process's CPU time when it last made progress */
    bool told;           /* a hang that is not over was recorded */
    bool is_undecided;   /* it was judged to be none, as seen then; the threads may come to wait for each other later */
    uint32_t looks;      /* how many times the current standstill was recorded */
    uint32_t told_count; /* standstills that were recorded */
    uint32_t beside_count; /* how often its stacks were recorded because another process hung */
    bool meets;            /* a rank that may only wait for all ranks to come (gwi_meeting_ranks()) */
    bool seen, moved;
    uint64_t progress_now; /* sum over the threads seen in this round; the next value of `progress` */
} gw_watched_process;

/* The state of all watched threads and processes. Set it to zeros before use. All times are in ns of the caller's
 * clock. */
typedef struct gw_hang_watch {
    gw_watched_process process[GW_HANG_PROCESSES_MAX];
    size_t process_count;
    gw_watched_thread thread[GW_HANG_THREADS_MAX];
    size_t thread_count;
    uint64_t now_ns;
    uint32_t sites_told, codes_told; /* last ids given to stacks and code objects read from outside the process */
} gw_hang_watch;

/* Update the state: call gw_hang_watch_begin(), then gw_hang_watch_see() (a gw_thread_sink) for each thread, then
 * gw_hang_watch_end(). */
void gw_hang_watch_begin(gw_hang_watch *watch, uint64_t now_ns);
void gw_hang_watch_see(void *user, const gw_thread_look *look); /* `user` is the gw_hang_watch */
void gw_hang_watch_end(gw_hang_watch *watch);

typedef void (*gw_hang_sink)(void *user, const gw_item *item);

/* Pass the facts about a hang of `process` to `put`, for src/read/model/faults/hang.c. Returns false and passes nothing
 * if the process cannot be read, or if it does not look like a hang. If `whatever`, the second condition is not
 * checked.
 *
 * A process looks like a hang if one of these is true:
 * - A thread is in a driver call or polls the GPU.
 * - All threads wait for locks or for the end of other threads.
 * - A thread waits for a lock with a known owner. */
bool gw_hang_tell(gw_hang_watch *watch, const gw_watched_process *process, bool whatever, gw_hang_sink put, void *user);

#endif
