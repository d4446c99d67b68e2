/* Names of the kinds of machine events. */
#include "gw_machine.h"

static const char *const events[] = {
#define GW_X(name, text) text,
    GW_MACHINE_EVENTS(GW_X)
#undef GW_X
};
_Static_assert(sizeof events / sizeof events[0] == GW_MACHINE_EVENT_COUNT, "one text a kind");

const char *gw_machine_event_text(unsigned kind)
{
    return kind < GW_MACHINE_EVENT_COUNT ? events[kind] : "?";
}
