/* Tables with the names of the values in gw_event.h. */
#include "gw_names.h"

static const struct {
    const char *name;
    gw_kind_traits traits;
    const char *arg[4];
} kinds[] = {
#define GW_X(name, price, effect, thing, fold, order, ...)                                                             \
    {#name,                                                                                                            \
     {GW_PRICE_##price, GW_EFFECT_##effect, GW_THING_##thing, GW_FOLD_##fold, GW_ORDERING_##order},                    \
     {__VA_ARGS__}},
    GW_EVENT_KINDS(GW_X)
#undef GW_X
};
_Static_assert(sizeof kinds / sizeof kinds[0] == GW_EV_COUNT, "one row a kind");

static const char *const counters[] = {
#define GW_X(name) #name,
    GW_COUNTERS(GW_X)
#undef GW_X
};
_Static_assert(sizeof counters / sizeof counters[0] == GW_COUNT_COUNT, "one name a counter");

const char *gw_event_kind_name(unsigned kind)
{
    return kind < GW_EV_COUNT ? kinds[kind].name : "?";
}

const char *gw_event_arg_name(unsigned kind, unsigned arg_index)
{
    return kind < GW_EV_COUNT && arg_index < 4 ? kinds[kind].arg[arg_index] : "";
}

gw_price gw_event_kind_price(unsigned kind)
{
    return gw_event_kind_traits(kind)->price;
}

const gw_kind_traits *gw_event_kind_traits(unsigned kind)
{
    return &kinds[kind < GW_EV_COUNT ? kind : GW_EV_CALL].traits;
}

const char *gw_counter_name(unsigned counter)
{
    return counter < GW_COUNT_COUNT ? counters[counter] : "?";
}
