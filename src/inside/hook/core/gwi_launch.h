/* Records the call sites that launch kernels (launch_sites.c). The inline functions run at every launch and skip
 * ignored functions. */
#ifndef GWI_LAUNCH_H
#define GWI_LAUNCH_H

#include "gw_buffer.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gwi_slot_ref;

/* Size in words of the filter for functions whose launches are ignored for now (gwi_wipe.launches_settled). Each
 * function sets three bits of one word, so a launch touches only one cache line. A new function is ignored, too, if its
 * three bits are already set: 1 function in 10,000 if 100 are settled, 1 in 1,000 if 400 are, and 1 in 30 if 2,000
 * are. */
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

/* Handle a successful launch of a function whose launches are not ignored (gwi_launch_is_settled() is false). Call
 * inside the wrapper of `fn`. */
void gwi_launch_look(struct gwi_slot_ref *th, unsigned fn, uint64_t function, uint64_t stream)
    __attribute__((noinline, cold));
/* Forget all functions. Called when handles of functions may be reused for other functions, and in a new process. */
void gwi_launch_forget(void);
/* Stop ignoring launches of any function. Called at the first synchronisation at or after gwi_wipe.launches_due, which
 * is at `now` (ticks). */
void gwi_launch_watch_again(uint64_t now) __attribute__((noinline, cold));

#endif
