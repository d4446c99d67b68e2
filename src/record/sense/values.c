/* Stores the last values of an object and decides which values to record again. */
#include "gwi_values.h"

#include <errno.h>

/* At this interval, all values are recorded, even unchanged ones. Near its size limit, a recording drops its old
 * samples, but keeps some of these complete ones. */
static const uint64_t whole_every_ns = 60000000000u;

void gwi_values_keep(gwi_values *values, gw_metric metric, gw_sample_state state, uint64_t value)
{
    gw_sample_value *mine = &values->value[metric];
    bool same = values->has[metric] && mine->state == state && mine->value == value;
    values->has[metric] = true;
    values->changed[metric] |= !same;
    *mine = (gw_sample_value){(uint16_t)metric, (uint8_t)state, value};
}

void gwi_values_number(gwi_values *values, gw_metric metric, bool is_known, uint64_t number, int why)
{
    if (is_known)
        gwi_values_keep(values, metric, GW_SAMPLE_KNOWN, number);
    else if (why == EACCES || why == EPERM)
        gwi_values_keep(values, metric, GW_SAMPLE_NO_PERMISSION, 0);
    else if (why == ENOENT || why == ENOTDIR || why == EOPNOTSUPP)
        gwi_values_keep(values, metric, GW_SAMPLE_NOT_SUPPORTED, 0);
    else
        gwi_values_keep(values, metric, GW_SAMPLE_FAILED, (uint64_t)(why > 0 ? why : 0));
}

uint32_t gwi_values_take(gwi_values *values, uint64_t now_ns, bool whole, gw_sample_value ret_value[GW_METRIC_COUNT],
                         bool *ret_whole)
{
    uint32_t count = 0;
    *ret_whole = whole || !values->told || now_ns - values->whole_at_ns >= whole_every_ns;
    for (size_t i = 0; i < GW_METRIC_COUNT; i++) {
        if (values->has[i] && (*ret_whole || values->changed[i]))
            ret_value[count++] = values->value[i];
        values->changed[i] = false;
    }
    if (*ret_whole)
        values->whole_at_ns = now_ns;
    values->told = true;
    return count;
}
