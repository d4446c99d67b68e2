/* Looking ahead while a recording is read.
 *
 * An event touches places anywhere in a ledger that may be far larger than the caches. Waiting for memory, not
 * computing, determines how long a run of a million blocks takes. So events are fed a few dozen at a time, and first
 * everything that they will touch is prefetched in three rounds, each of which uses the result of the one before:
 *
 *     1. the bucket in which its address is looked up, and the bucket of an allocation's group
 *     2. the object that a free ends, and the group that an allocation joins
 *     3. the group of the object that a free ends
 *
 * When a round returns to the first event, the data has arrived. The rounds know nothing about kinds except which table
 * an event uses. Allocations and frees come in an order that no processor can predict, so each event is treated as
 * both, and something nearby is prefetched in vain for the other half.
 *
 * Nothing is decided ahead: a useless prefetch (the block was freed in between, the table grew) costs a little and
 * changes nothing. */
#ifndef GWI_AHEAD_H
#define GWI_AHEAD_H

#include "gwi_inner.h"

enum { GWI_AHEAD_MAX = 64 }; /* so that the events, and what they touch, fit into the smallest cache */

/* Feed `count` events, at most GWI_AHEAD_MAX, in order. Failures show in the model's nomem. */
void gwi_ahead_feed(gw_model *model, const gw_event *event, size_t count);

#endif
