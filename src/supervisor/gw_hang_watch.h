/* Hangs: when nothing goes on in a recorded process, who waits for what (hang.c). Shared by `run` and `poke`. */
#ifndef GWI_HANG_H
#define GWI_HANG_H

#include "gw_recording.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { GWI_HANG_PROCESSES_MAX = 128, GWI_HANG_THREADS_MAX = 1024 };

typedef struct gwi_hang_thread {
    uint32_t pid, tid;
    uint64_t calls, progress, questions;
    uint64_t not_ready, not_ready_at_ns;         /* when that was seen to have grown last */
    uint64_t questions_before, not_ready_before; /* when the process last went on */
    uint16_t inside_fn_plus_1;
    uint64_t inside_since_ns; /* as watched: not before this call was seen */
    bool seen;                /* in the look in progress */
} gwi_hang_thread;

typedef struct gwi_hang_process {
    uint32_t pid;
    uint64_t progress, since_ns; /* it has stood so since then */
    uint64_t looked_at_ns;       /* when its threads were last looked at for nothing */
    bool cpu_known;
    uint64_t cpu_ms; /* used when it last went on */
    bool told;
    uint32_t told_count;
    bool seen, moved;
    uint64_t progress_now; /* of the look in progress */
} gwi_hang_process;

/* What was seen of all threads so far. Zeroed to begin. All times are the caller's ns. */
typedef struct gwi_hang_watch {
    gwi_hang_process process[GWI_HANG_PROCESSES_MAX];
    size_t process_count;
    gwi_hang_thread thread[GWI_HANG_THREADS_MAX];
    size_t thread_count;
    uint64_t now_ns;
    uint32_t sites_told, codes_told; /* stacks that were read from outside have numbers of their own */
} gwi_hang_watch;

/* The supervisor's numbers end here, and those of `poke`, which looks at the same run, begin. */
enum { GWI_HANG_NUMBERS_MAX = 1 << 16 };

/* A look: begin, gwi_hang_see() as the sink for each thread, end. */
void gwi_hang_begin(gwi_hang_watch *watch, uint64_t now_ns);
void gwi_hang_see(void *user, const gw_thread_look *look); /* user: the watch */
void gwi_hang_end(gwi_hang_watch *watch);

typedef void (*gwi_item_sink)(void *user, const gw_item *item);

/* Hand the facts of a hang of `process` to `put`: see src/model/hang.c. False, and nothing is handed out, when what its
 * threads do is no sign of a hang: nobody is in the driver, nobody asks the GPU, and not all wait for locks.
 * `whatever`: also then. */
bool gwi_hang_tell(gwi_hang_watch *watch, const gwi_hang_process *process, bool whatever, gwi_item_sink put,
                   void *user);

/* ---- the stacks (hang_sites.c) ---- */

struct gw_stack_process;
struct gw_stack_thread;

/* What stacks of one look are told with. */
typedef struct gwi_hang_stacks {
    gwi_hang_watch *watch;
    const struct gw_stack_process *process;
    const gw_item *like; /* time and pid of all that is told */
    gwi_item_sink put;
    void *user;
    uint64_t for_ns;     /* the process has stood still */
    uint32_t code_first; /* number of the process's first code */
    bool full;           /* there are no numbers left */
} gwi_hang_stacks;

/* Tell files and Python code that the process's stacks need: events MAPPED, PYTHON_CODE, PYTHON_LINES. */
void gwi_hang_stacks_begin(gwi_hang_stacks *stacks);
/* Tell a thread's stack: SITE, SITE_FRAMES. Returns its number; 0: there is nothing to tell. */
uint32_t gwi_hang_stack_tell(gwi_hang_stacks *stacks, const struct gw_stack_thread *thread);

#endif
