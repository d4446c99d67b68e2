/* Tables with the names of the values in gw_event.h, gw_recording.h, gw_metrics.h and gw_machine.h. */
#include "gw_names.h"

#include "gw_collective.h"
#include "gw_recording.h"
#include "gw_text.h"

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

static const char *const item_names[] = {
    [GW_ITEM_META] = "meta",           [GW_ITEM_PROCESS] = "process",
    [GW_ITEM_EVENT] = "event",         [GW_ITEM_COUNTERS] = "counters",
    [GW_ITEM_RING] = "ring",           [GW_ITEM_LOST] = "lost",
    [GW_ITEM_STDERR] = "stderr",       [GW_ITEM_EXIT] = "exit",
    [GW_ITEM_MAPS] = "maps",           [GW_ITEM_SUPERVISOR] = "supervisor",
    [GW_ITEM_TRUNCATED] = "truncated", [GW_ITEM_SYMBOL] = "symbol",
    [GW_ITEM_SAMPLE] = "sample",       [GW_ITEM_MACHINE] = "machine",
    [GW_ITEM_DRAINED] = "drained",
};
_Static_assert(sizeof item_names / sizeof item_names[0] == GW_ITEM_COUNT, "one name an item kind");

static const gw_metric_info metrics[] = {
#define GW_X(name, text, unit, kind) {text, unit, GW_METRIC_##kind},
    GW_METRICS(GW_X)
#undef GW_X
};
_Static_assert(sizeof metrics / sizeof metrics[0] == GW_METRIC_COUNT, "one row a metric");

const char *gw_event_kind_name(unsigned kind)
{
    return kind < GW_EV_COUNT ? kinds[kind].name : "?";
}

const char *gw_event_arg_name(unsigned kind, unsigned arg_index)
{
    return kind < GW_EV_COUNT && arg_index < 4 ? kinds[kind].arg[arg_index] : "";
}

const gw_kind_traits *gw_event_kind_traits(unsigned kind)
{
    return &kinds[kind < GW_EV_COUNT ? kind : GW_EV_CALL].traits;
}

GW_WORDS_BY(GW_WORD_NAME, gw_counter_name, unsigned, GW_COUNTERS, "?")

const char *gw_item_kind_name(unsigned kind)
{
    return kind < GW_ITEM_COUNT ? item_names[kind] : "?";
}

const gw_metric_info *gw_metric_find(unsigned metric)
{
    return metric < GW_METRIC_COUNT ? &metrics[metric] : NULL;
}

GW_WORDS(gw_source_text, unsigned, GW_SOURCES, "?")

GW_WORDS(gw_sample_state_text, unsigned, GW_SAMPLE_STATES, "?")

GW_WORDS(gw_machine_event_text, unsigned, GW_MACHINE_EVENTS, "?")

GW_WORDS(gw_nccl_call_name, gw_nccl_call, GW_NCCL_CALLS, "")

GW_WORDS(gw_collective_state_word, gw_collective_state, GW_COLLECTIVE_STATES, "")
