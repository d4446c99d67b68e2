/* Inside format/: buffers of a run folder, live (drained by the supervisor) or copied (looked at by a reader). */
#ifndef GWI_DRAIN_H
#define GWI_DRAIN_H

#include "gwi_source.h"

/* Copy what the buffers hold now; nothing in the folder is ever changed. As gw_drain_open() else. */
gw_status gwi_drain_open_copy(const char *run_folder, uint64_t t0_monotonic_ns, gw_drain **ret_drain, gw_error *err);
/* The recording holds the records up to this mark: do not hand them out. */
void gwi_drain_pass_over(gw_drain *drain, const gwi_mark *mark);

#endif
