/* Feeds events in groups, and prefetches the memory that each group will touch.
 *
 * An event touches places anywhere in a ledger that may be far larger than the caches. The time for a run of a million
 * blocks is spent waiting for memory, not computing. So events are fed a few dozen at a time. Before that, everything
 * that they will touch is prefetched in three rounds, each of which uses the result of the previous round:
 *
 *     1. the bucket in which an event's address is looked up, and the bucket of an allocation's group
 *     2. the object that a free ends, and the group that an allocation joins
 *     3. the group of the object that a free ends
 *
 * When a round is finished and the next one begins with the first event, the data of that event has arrived. The rounds
 * know only which table an event uses, not the kind of the event. Allocations and frees come in an order that no
 * processor can predict. So each event is treated as both, and half of the prefetches are wasted, but on memory nearby.
 *
 * Prefetching decides nothing: a useless prefetch (the block was freed in between, the table grew) costs a little and
 * changes no result. */
#ifndef GWI_AHEAD_H
#define GWI_AHEAD_H

#include "gwi_inner.h"

enum { GWI_AHEAD_MAX = 64 }; /* small enough that the events and what they touch fit into the smallest cache */

/* Feed `count` events, at most GWI_AHEAD_MAX, in order. On failure, the model's `nomem` is set. */
void gwi_ahead_feed(gw_model *model, const gw_event *event, size_t count);

#endif
