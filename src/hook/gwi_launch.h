/* From where kernels are launched (launch.c). What stands here is the launch path's part of it. */
#ifndef GWI_LAUNCH_H
#define GWI_LAUNCH_H

#include "gw_buffer.h"

#include <stdbool.h>
#include <stdint.h>

struct gwi_slot_ref;

enum { GWI_LAUNCH_SETTLED_BITS = 12, GWI_LAUNCH_SETTLED_MAX = 1 << GWI_LAUNCH_SETTLED_BITS };

/* Functions whose launches are not looked at for now, each at one place only. 0: nothing there. */
extern __attribute__((visibility("hidden"))) _Atomic uint64_t gwi_launch_settled[GWI_LAUNCH_SETTLED_MAX];

static inline uint64_t gwi_launch_hash(uint64_t function)
{
    return function * 0x9e3779b97f4a7c15u >> 32;
}

static inline uint64_t gwi_launch_at(uint64_t function)
{
    return gwi_launch_hash(function) >> (32 - GWI_LAUNCH_SETTLED_BITS);
}

/* A launch is about to be made. Each kernel has a line of its own in the table, and by the next launch of that kernel
 * the program's work has pushed it out. */
static inline void gwi_launch_ahead(uint64_t function)
{
    __builtin_prefetch((const void *)&gwi_launch_settled[gwi_launch_at(function)]);
}

/* A launch of a function that is not settled has succeeded: inside the wrapper of `fn`. */
void gwi_launch_look(struct gwi_slot_ref *th, unsigned fn, uint64_t function, uint64_t stream)
    __attribute__((noinline, cold));
/* Handles may mean something else from now on, or this is a new process. */
void gwi_launch_forget(void);
/* A synchronisation at `now`, and gwi_wipe.launches_due has come: all functions are watched again. */
void gwi_launch_watch_again(uint64_t now) __attribute__((noinline, cold));

#endif
