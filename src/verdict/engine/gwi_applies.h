/* Selects those fixes of a cause that apply to the program. */
#ifndef GWI_APPLIES_H
#define GWI_APPLIES_H

#include "gwi_cause.h"

/* Add the cause's fixes for the framework, except a fix that only makes sense after a call that the program never made.
 * Returns false if there is no memory. */
bool gwi_add_fixes_for(const gwi_case *c, gw_string_list *next, const struct gw_cause *cause, gw_framework framework);

#endif
