/* What is said when no cause is: a clean run, an undetermined one, and the advice that goes with any verdict. */
#ifndef GWI_HEALTHY_H
#define GWI_HEALTHY_H

#include "cause.h"

void gwi_say_clean(const gwi_case *c, gwi_finding *finding);
void gwi_say_undetermined(const gwi_case *c, bool unobserved, gwi_finding *finding);
bool gwi_say_advice(const gwi_case *c, gw_verdict_status status, gw_string_list *advice); /* false: no memory */

#endif
