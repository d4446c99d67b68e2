/* Looking ahead while a recording is read.
 *
 * What an event touches lies anywhere in a ledger that may be far larger than the caches: waiting for memory, not work,
 * is what a run of a million blocks costs. So events are not fed as they come. They wait a little, in order, and while
 * they wait what they will touch is fetched in three steps, each of which needs what the one before it brought: the
 * slot of the table, the object, the object's group. When an event is fed, it finds everything at hand.
 *
 *     event 100 comes: its bucket is asked for
 *     event 108 comes: the bucket is there, the object of event 100 is asked for
 *     event 116 comes: the object is there, its group is asked for
 *     event 124 comes: event 100 is fed
 *
 * Nothing is decided ahead: what is fetched in vain (the block died in between, the table grew) costs a little and
 * changes nothing. */
#ifndef GWI_AHEAD_H
#define GWI_AHEAD_H

#include "inner.h"

enum { GWI_AHEAD_STEP = 8, GWI_AHEAD_WAIT = 3 * GWI_AHEAD_STEP, GWI_AHEAD_ROOM = 32, GWI_AHEAD_TEXT_BYTES = 256 };
_Static_assert(GWI_AHEAD_WAIT < GWI_AHEAD_ROOM, "all that wait have room");

typedef struct gwi_ahead {
    gw_event event[GWI_AHEAD_ROOM]; /* copies: a reader's item dies with the next one */
    char text[GWI_AHEAD_ROOM][GWI_AHEAD_TEXT_BYTES];
    uint32_t object[GWI_AHEAD_ROOM]; /* what was found of them in the second step */
    uint64_t put_count, fed_count;
} gwi_ahead;

/* The next event. Ones that came before may be fed. What fails shows in the model's nomem. */
void gwi_ahead_put(gwi_ahead *ahead, gw_model *model, const gw_event *event);
/* Feed all that wait: before an item of another kind, and at the end. */
void gwi_ahead_flush(gwi_ahead *ahead, gw_model *model);

#endif
