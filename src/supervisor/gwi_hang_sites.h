/* Writes the stacks of a hang as call sites of the recording. */
#ifndef GWI_HANG_SITES_H
#define GWI_HANG_SITES_H

#include "gw_hang_watch.h"

struct gw_stack_process;
struct gw_stack_thread;

/* Shared data for the stacks of one look. */
typedef struct gwi_hang_stacks {
    gw_hang_watch *watch;
    const struct gw_stack_process *process;
    const gw_item *like; /* time and pid for all records */
    gw_hang_sink put;
    void *user;
    uint64_t for_ns;     /* how long the process has made no progress */
    uint32_t code_first; /* number of the process's first Python code */
    bool full;           /* all numbers are used */
} gwi_hang_stacks;

/* Record the files and the Python code that the process's stacks refer to: events MAPPED, PYTHON_CODE, PYTHON_LINES. */
void gwi_hang_stacks_begin(gwi_hang_stacks *stacks);
/* Record a thread's stack: SITE, SITE_FRAMES. Returns its number; 0: nothing was recorded. */
uint32_t gwi_hang_stack_tell(gwi_hang_stacks *stacks, const struct gw_stack_thread *thread);

#endif
