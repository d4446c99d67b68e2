/* Records the stacks of a hanging process's threads as call sites. */
#ifndef GWI_HANG_SITES_H
#define GWI_HANG_SITES_H

#include "gw_hang_watch.h"

struct gw_stack_process;
struct gw_stack_thread;

/* The stacks of one process, and where to record them. */
typedef struct gwi_hang_stacks {
    gw_hang_watch *watch;
    const struct gw_stack_process *process;
    const gw_item *like; /* an item whose time and pid are used for every recorded item */
    gw_hang_sink put;
    void *user;
    uint64_t for_ns;     /* time since the process last made progress */
    uint32_t code_first; /* id of the process's first Python code object */
    bool full;           /* no unused ids are left: no more stacks are recorded */
} gwi_hang_stacks;

/* Record the files and the Python code objects that the stacks of the process contain, as events MAPPED, PYTHON_CODE
 * and PYTHON_LINES. */
void gwi_hang_stacks_begin(gwi_hang_stacks *stacks);
/* Record a thread's stack as events SITE and SITE_FRAMES. Returns the id of the site, or 0 if nothing was recorded. */
uint32_t gwi_hang_stack_tell(gwi_hang_stacks *stacks, const struct gw_stack_thread *thread);

#endif
