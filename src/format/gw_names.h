/* Names for the tables of gw_event.h and gw_buffer.h. All strings are static. For a number out of range, the result is
 * "?" ("" for arguments). */
#ifndef GW_NAMES_H
#define GW_NAMES_H

#include "gw_buffer.h"
#include "gw_event.h"

const char *gw_event_kind_name(unsigned kind);                    /* for example "ALLOC_ASYNC" */
const char *gw_event_arg_name(unsigned kind, unsigned arg_index); /* for example "bytes"; "": the kind does not use
                                                                   * this argument */
/* Return the price of a kind: which of its calls are recorded (see GW_EVENT_KINDS). */
gw_price gw_event_kind_price(unsigned kind);

/* The columns of an event kind. An unknown kind has the columns of CALL. */
typedef struct gw_kind_traits {
    gw_price price;
    gw_effect effect;
    gw_thing thing;
    gw_fold fold;
    gw_ordering order;
} gw_kind_traits;
const gw_kind_traits *gw_event_kind_traits(unsigned kind);
const char *gw_counter_name(unsigned counter); /* for example "LAUNCH" */

#endif
