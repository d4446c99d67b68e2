/* Names for the tables of gw_event.h, gw_buffer.h and gw_recording.h, as static strings. A number out of range gives
 * "?", or "" for arguments. */
#ifndef GW_NAMES_H
#define GW_NAMES_H

#include "gw_buffer.h"
#include "gw_event.h"

/* Return the name of an event kind, for example "ALLOC_ASYNC". */
const char *gw_event_kind_name(unsigned kind);
/* Return the name of an argument of an event kind, for example "bytes"; "" if the kind does not use this argument. */
const char *gw_event_arg_name(unsigned kind, unsigned arg_index);

/* The traits of an event kind: its columns in GW_EVENT_KINDS. */
typedef struct gw_kind_traits {
    gw_price price; /* which of its calls are recorded */
    gw_effect effect;
    gw_thing thing;
    gw_fold fold;
    gw_ordering order;
} gw_kind_traits;
/* Return the traits of an event kind. Never NULL: for an unknown kind, returns those of CALL. */
const gw_kind_traits *gw_event_kind_traits(unsigned kind);
/* Return the name of a counter, for example "LAUNCH". */
const char *gw_counter_name(unsigned counter);
/* Return the name of a kind of item (gw_item_kind), for example "counters". */
const char *gw_item_kind_name(unsigned kind);

#endif
