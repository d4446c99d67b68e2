/* Names of the metrics, their sources and the states of their values. */
#include "gw_metrics.h"

#include <stddef.h>

static const gw_metric_info metrics[] = {
#define GW_X(name, text, unit, kind) {text, unit, GW_METRIC_##kind},
    GW_METRICS(GW_X)
#undef GW_X
};
_Static_assert(sizeof metrics / sizeof metrics[0] == GW_METRIC_COUNT, "one row a metric");

static const char *const sources[] = {
#define GW_X(name, text) text,
    GW_SOURCES(GW_X)
#undef GW_X
};
_Static_assert(sizeof sources / sizeof sources[0] == GW_SOURCE_COUNT, "one text a source");

static const char *const states[] = {
#define GW_X(name, text) text,
    GW_SAMPLE_STATES(GW_X)
#undef GW_X
};
_Static_assert(sizeof states / sizeof states[0] == GW_SAMPLE_STATE_COUNT, "one text a state");

const gw_metric_info *gw_metric_find(unsigned metric)
{
    return metric < GW_METRIC_COUNT ? &metrics[metric] : NULL;
}

const char *gw_source_text(unsigned source)
{
    return source < GW_SOURCE_COUNT ? sources[source] : "?";
}

const char *gw_sample_state_text(unsigned state)
{
    return state < GW_SAMPLE_STATE_COUNT ? states[state] : "?";
}
