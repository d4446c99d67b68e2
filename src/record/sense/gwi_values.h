/* Stores the last values of one object (a card, the machine, a process), so that only changed values are recorded. */
#ifndef GWI_VALUES_H
#define GWI_VALUES_H

#include "gw_metrics.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct gwi_values {                 /* {0}: no value was stored yet */
    gw_sample_value value[GW_METRIC_COUNT]; /* indexed by metric */
    bool has[GW_METRIC_COUNT], changed[GW_METRIC_COUNT];
    bool told;
    uint64_t whole_at_ns;
} gwi_values;

/* Store a metric's state and value. If they differ from the stored ones, mark the metric as changed. */
void gwi_values_keep(gwi_values *values, gw_metric metric, gw_sample_state state, uint64_t value);
/* Store a number. If it is unknown, store the state that corresponds to the errno `why` instead. */
void gwi_values_number(gwi_values *values, gw_metric metric, bool is_known, uint64_t number, int why);
/* Collect the values to record now, and return their number. These are the changed values, or all values if `whole`, at
 * the first call, or when a full sample is due. *ret_whole is true if they are all values. */
uint32_t gwi_values_take(gwi_values *values, uint64_t now_ns, bool whole, gw_sample_value ret_value[GW_METRIC_COUNT],
                         bool *ret_whole);

#endif
