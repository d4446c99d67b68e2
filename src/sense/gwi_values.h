/* The values of one thing - a card, the machine, a process - as last read, so that only what changed is told again. */
#ifndef GWI_VALUES_H
#define GWI_VALUES_H

#include "gw_machine.h"

#include <stddef.h>

typedef struct gwi_values {                 /* {0}: nothing was read */
    gw_sample_value value[GW_METRIC_COUNT]; /* by metric */
    bool has[GW_METRIC_COUNT], changed[GW_METRIC_COUNT];
    bool told;
    uint64_t whole_at_ns;
} gwi_values;

void gwi_values_keep(gwi_values *values, gw_metric metric, gw_sample_state state, uint64_t value);
/* A number, or why there is none: `why` is an errno. */
void gwi_values_number(gwi_values *values, gw_metric metric, bool is_known, uint64_t number, int why);
/* What is to be told now: what changed, and from time to time everything. Returns how many are in ret_value. */
uint32_t gwi_values_take(gwi_values *values, uint64_t now_ns, bool whole, gw_sample_value ret_value[GW_METRIC_COUNT],
                         bool *ret_whole);

#endif
