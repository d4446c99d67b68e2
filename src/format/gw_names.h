/* The tables of gw_event.h and gw_buffer.h as text. All strings are static. Numbers out of range yield "?"
 * (arguments: ""). */
#ifndef GW_NAMES_H
#define GW_NAMES_H

#include "gw_buffer.h"
#include "gw_event.h"

const char *gw_event_kind_name(unsigned kind);                    /* for example "ALLOC_ASYNC" */
const char *gw_event_arg_name(unsigned kind, unsigned arg_index); /* for example "bytes"; "": the kind does not use
                                                                   * this argument */
/* When calls of this kind are recorded: always, only if they fail, or combined with others. */
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
