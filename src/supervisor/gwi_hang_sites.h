/* The stacks of a hang as call sites of the recording. */
#ifndef GWI_HANG_SITES_H
#define GWI_HANG_SITES_H

#include "gw_hang_watch.h"

struct gw_stack_process;
struct gw_stack_thread;

/* What stacks of one look are told with. */
typedef struct gwi_hang_stacks {
    gw_hang_watch *watch;
    const struct gw_stack_process *process;
    const gw_item *like; /* time and pid of all that is told */
    gw_hang_sink put;
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
