/* Reports the failures that made a launcher start all its ranks again, as torchrun does with --max-restarts. The
 * verdict is about the last start; the failures before the restarts are evidence or advice. */
#ifndef GWI_ELASTIC_H
#define GWI_ELASTIC_H

#include "gwi_kin.h"

/* Add evidence about the failures before the restarts of the judged process. Does nothing without restarts. */
void gwi_say_restarts(const gwi_case *c, const gwi_kin *kin, gwi_finding *finding);

/* Add one line for each restart. Returns false if there is no memory. */
bool gwi_advise_restarts(const gw_model *model, const gwi_kin *kin, gw_string_list *advice);

#endif
