/* Call sites of kernel launches (launch_sites.c). This header has the part that runs on the launch path. */
#ifndef GWI_LAUNCH_H
#define GWI_LAUNCH_H

#include "gw_buffer.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gwi_slot_ref;

/* Size of the filter of functions whose launches are currently ignored (gwi_wipe.launches_settled). Each function
 * sets three bits of one word, so that the whole filter fits into two or three dozen cache lines. If the three bits
 * of a new function are already set by others, its launches are ignored too. This affects 1 function in 10,000 if
 * 100 are settled, 1 in 1,000 if 400 are, and 1 in 30 if 2,000 are. */
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
/* Stop ignoring launches: watch those of all functions again. Called at a synchronisation at tick `now`, once
 * gwi_wipe.launches_due is reached. */
void gwi_launch_watch_again(uint64_t now) __attribute__((noinline, cold));

#endif
