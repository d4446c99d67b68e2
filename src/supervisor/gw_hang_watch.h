/* Hangs: when nothing goes on in a recorded process, who waits for what. Used by `run` and by `gpuwhy poke`. */
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
    uint64_t not_ready, not_ready_at_ns;         /* when that was seen to have grown last */
    uint64_t questions_before, not_ready_before; /* when the process last went on */
    uint16_t inside_fn_plus_1;
    uint64_t inside_since_ns; /* as watched: not before this call was seen */
    bool seen;                /* in the look in progress */
} gw_watched_thread;

typedef struct gw_watched_process {
    uint32_t pid;
    uint64_t progress, since_ns; /* it has stood so since then */
    uint64_t looked_at_ns;       /* when its threads were last looked at for nothing */
    bool cpu_known;
    uint64_t cpu_ms; /* used when it last went on */
    bool told;
    uint32_t told_count;
    bool seen, moved;
    uint64_t progress_now; /* of the look in progress */
} gw_watched_process;

/* What was seen of all threads so far. Zeroed to begin. All times are the caller's ns. */
typedef struct gw_hang_watch {
    gw_watched_process process[GW_HANG_PROCESSES_MAX];
    size_t process_count;
    gw_watched_thread thread[GW_HANG_THREADS_MAX];
    size_t thread_count;
    uint64_t now_ns;
    uint32_t sites_told, codes_told; /* stacks that were read from outside have numbers of their own */
} gw_hang_watch;

/* The supervisor's numbers end here, and those of `poke`, which looks at the same run, begin. */
enum { GW_HANG_NUMBERS_MAX = 1 << 16 };

/* A look: begin, gw_hang_watch_see() as the sink for each thread, end. */
void gw_hang_watch_begin(gw_hang_watch *watch, uint64_t now_ns);
void gw_hang_watch_see(void *user, const gw_thread_look *look); /* user: the watch */
void gw_hang_watch_end(gw_hang_watch *watch);

typedef void (*gw_hang_sink)(void *user, const gw_item *item);

/* Hand the facts of a hang of `process` to `put`: see src/model/hang.c. False, and nothing is handed out, when what its
 * threads do is no sign of a hang: nobody is in the driver, nobody asks the GPU, and not all wait for locks.
 * `whatever`: also then. */
bool gw_hang_tell(gw_hang_watch *watch, const gw_watched_process *process, bool whatever, gw_hang_sink put, void *user);

#endif
