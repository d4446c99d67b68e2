/* Reports what gpuwhy itself did to the run because an option requested it: further attempts, waits for memory. */
#ifndef GWI_INTERVENTIONS_H
#define GWI_INTERVENTIONS_H

#include "gwi_cause.h"

/* Fill the verdict's attempts, interventions and needed_bytes. Returns false if there is no memory. */
bool gwi_fill_interventions(const gwi_case *c, gw_verdict *verdict);

#endif
