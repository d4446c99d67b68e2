/* Feeds events in batches, and prefetches the memory that each batch will access.
 *
 * Successive events access unrelated parts of a ledger that may be far larger than the caches. With a million blocks,
 * most of the time is spent waiting for memory. So a few dozen events are fed at a time, after three rounds of
 * prefetching for all of them. Each round uses the result of the previous one:
 *
 *     1. the bucket of the hash table that is searched for an event's address
 *     2. the object that the event frees
 *     3. the group of that object
 *
 * Every event is treated as a free. A branch on its kind would be slow, because the processor cannot predict the
 * order of allocations and frees. For an allocation, rounds 2 and 3 are useless, but cheap. Prefetching never
 * changes a result. */
#ifndef GWI_AHEAD_H
#define GWI_AHEAD_H

#include "gwi_inner.h"

/* events per batch; few enough that they and the prefetched memory fit into the L1 cache */
enum { GWI_AHEAD_MAX = 64 };

/* Feed `count` events, at most GWI_AHEAD_MAX, in order. If memory runs out, the model's `nomem` is set. */
void gwi_ahead_feed(gw_model *model, const gw_event *event, size_t count);

#endif
