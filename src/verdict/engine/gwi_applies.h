/* Which of a cause's fixes are for this program: advice names only what the program did. */
#ifndef GWI_APPLIES_H
#define GWI_APPLIES_H

#include "gwi_cause.h"

/* The cause's fixes in the framework's words, without those that presuppose a call which the program never made. */
bool gwi_add_fixes_for(const gwi_case *c, gw_string_list *next, const struct gw_cause *cause, gw_framework framework);

#endif
