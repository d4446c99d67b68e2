/* Feeds events in batches, and prefetches the memory that each batch will access.
 *
 * Successive events access unrelated parts of a ledger, which may be far larger than the caches. With a million
 * blocks, most of the time is spent waiting for memory, not computing. So events are fed a few dozen at a time, and
 * their memory is prefetched first. There are three rounds, and each one uses the result of the previous one:
 *
 *     1. the bucket in which an event's address is looked up
 *     2. the object that a free ends
 *     3. the group of that object
 *
 * Each round handles all events of the batch before the next round begins, so the data for the first event has arrived
 * by then. The rounds know which table an event uses, but not whether the event is an allocation or a free. The
 * processor cannot predict the order of allocations and frees, so a branch on the kind would be slow. Instead, every
 * event is treated as a free. For an allocation, rounds 2 and 3 are useless, but cheap.
 *
 * Prefetching never changes a result. A useless prefetch, for example of a block that was freed in the meantime, only
 * costs a little time. */
#ifndef GWI_AHEAD_H
#define GWI_AHEAD_H

#include "gwi_inner.h"

/* events per batch; few enough that they and the prefetched memory fit into the L1 cache */
enum { GWI_AHEAD_MAX = 64 };

/* Feed `count` events, at most GWI_AHEAD_MAX, in order. If memory runs out, the model's `nomem` is set. */
void gwi_ahead_feed(gw_model *model, const gw_event *event, size_t count);

#endif
