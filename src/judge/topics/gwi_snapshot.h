/* Reports the content of a memory snapshot that PyTorch saved. */
#ifndef GWI_SNAPSHOT_H
#define GWI_SNAPSHOT_H

#include "gwi_cause.h"

/* Report the content of the snapshot. Used if no cause is supported for it. */
void gwi_say_snapshot(const gwi_case *c, gwi_finding *finding);

#endif
