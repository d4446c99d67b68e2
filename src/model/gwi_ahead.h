/* Looking ahead while a recording is read.
 *
 * What an event touches lies anywhere in a ledger that may be far larger than the caches: waiting for memory, not work,
 * is what a run of a million blocks costs. So events are not fed one by one but a few dozen at a time, and before they
 * are, what they will touch is fetched in three rounds, each of which needs what the one before it brought:
 *
 *     1. where its address is looked up, and where the group of an allocation is
 *     2. the object that a free ends, the group that an allocation joins
 *     3. the group of the object that a free ends
 *
 * By the time a round comes back to the first event, what was asked for is there. The rounds know no kinds beyond which
 * table an event looks into: allocations and frees come in an order that no processor guesses, so each event is treated
 * as both, and for the half that it is not, something near is fetched in vain.
 *
 * Nothing is decided ahead: what is fetched in vain (the block died in between, the table grew) costs a little and
 * changes nothing. */
#ifndef GWI_AHEAD_H
#define GWI_AHEAD_H

#include "gwi_inner.h"

enum { GWI_AHEAD_MAX = 64 }; /* events, and what they touch, are to fit into the smallest cache */

/* Feed `count` events, at most GWI_AHEAD_MAX, in order. What fails shows in the model's nomem. */
void gwi_ahead_feed(gw_model *model, const gw_event *event, size_t count);

#endif
