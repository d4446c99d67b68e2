/* From where kernels are launched (launch.c). What stands here is the launch path's part of it. */
#ifndef GWI_LAUNCH_H
#define GWI_LAUNCH_H

#include "gw_buffer.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gwi_slot_ref;

/* Functions whose launches are not looked at for now: three bits of one word for each, so that all of them fit into
 * two or three dozen lines. A new function may find its bits set by others, and its launches are then not looked at:
 * one in 10,000 where 100 are settled, one in 1,000 where there are 400, one in 30 where there are 2,000. */
enum { GWI_LAUNCH_WORDS = 256 };

static inline uint64_t gwi_launch_hash(uint64_t function)
{
    return function * UINT64_C(0x9e3779b97f4a7c15);
}

static inline uint64_t gwi_launch_bits(uint64_t hash)
{
    return UINT64_C(1) << (hash >> 58) | UINT64_C(1) << (hash >> 52 & 63) | UINT64_C(1) << (hash >> 46 & 63);
}

static inline unsigned gwi_launch_word(uint64_t hash)
{
    return hash >> 38 & (GWI_LAUNCH_WORDS - 1);
}

static inline bool gwi_launch_is_settled(const _Atomic uint64_t *settled, uint64_t function)
{
    uint64_t hash = gwi_launch_hash(function), bits = gwi_launch_bits(hash);
    return (atomic_load_explicit(&settled[gwi_launch_word(hash)], memory_order_relaxed) & bits) == bits;
}

/* A launch of a function that is not settled has succeeded: inside the wrapper of `fn`. */
void gwi_launch_look(struct gwi_slot_ref *th, unsigned fn, uint64_t function, uint64_t stream)
    __attribute__((noinline, cold));
/* Handles may mean something else from now on, or this is a new process. */
void gwi_launch_forget(void);
/* A synchronisation at `now`, and gwi_wipe.launches_due has come: all functions are watched again. */
void gwi_launch_watch_again(uint64_t now) __attribute__((noinline, cold));

#endif
