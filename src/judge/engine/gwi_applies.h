/* Selects those fixes of a cause that apply to the program. */
#ifndef GWI_APPLIES_H
#define GWI_APPLIES_H

#include "gwi_cause.h"

/* Add the cause's fixes for the framework, except fixes that presuppose a call which the program never made. If a
 * replay has shown which of PyTorch's settings help (is_replayed), also without those that set one. Returns false if
 * there is no memory. */
bool gwi_add_fixes_for(const gwi_case *c, gw_string_list *next, const struct gw_cause *cause, gw_framework framework,
                       bool is_replayed);

#endif
