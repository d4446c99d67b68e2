/* Detects hangs: nothing happens in a recorded process. Records which thread waits for what. Used by `run` and by
 * `gpuwhy poke`. */
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
    uint64_t not_ready, not_ready_at_ns;         /* when it was last seen to grow */
    uint64_t questions_before, not_ready_before; /* when the process last made progress */
    uint16_t inside_fn_plus_1;
    uint64_t inside_since_ns; /* not before this call was first seen */
    bool seen;                /* in the current look */
} gw_watched_thread;

typedef struct gw_watched_process {
    uint32_t pid;
    uint64_t progress, since_ns; /* it has not changed since then */
    uint64_t looked_at_ns;       /* when its threads were last examined without a result */
    bool cpu_known;
    uint64_t cpu_ms; /* CPU time when it last made progress */
    bool told;
    uint32_t told_count;
    bool seen, moved;
    uint64_t progress_now; /* sum of the current look */
} gw_watched_process;

/* What was seen of all threads so far. Start with zeros. All times are ns of the caller's clock. */
typedef struct gw_hang_watch {
    gw_watched_process process[GW_HANG_PROCESSES_MAX];
    size_t process_count;
    gw_watched_thread thread[GW_HANG_THREADS_MAX];
    size_t thread_count;
    uint64_t now_ns;
    uint32_t sites_told, codes_told; /* stacks that were read from outside are numbered separately */
} gw_hang_watch;

/* The supervisor's numbers end here. Those of `poke`, which looks at the same run, begin here. */
enum { GW_HANG_NUMBERS_MAX = 1 << 16 };

/* One look: begin, gw_hang_watch_see() as the sink for each thread, end. */
void gw_hang_watch_begin(gw_hang_watch *watch, uint64_t now_ns);
void gw_hang_watch_see(void *user, const gw_thread_look *look); /* `user` is the watch */
void gw_hang_watch_end(gw_hang_watch *watch);

typedef void (*gw_hang_sink)(void *user, const gw_item *item);

/* Pass the facts about a hang of `process` to `put`: see src/model/hang.c. Returns false, without facts, if its threads
 * do not look like a hang: none is in the driver, none asks the GPU, and not all wait for locks. `whatever`: pass them
 * even then. */
bool gw_hang_tell(gw_hang_watch *watch, const gw_watched_process *process, bool whatever, gw_hang_sink put, void *user);

#endif
