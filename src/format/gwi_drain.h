/* Shared inside format/: the buffers of a run folder, live (drained by the supervisor) or copied (for a reader). */
#ifndef GWI_DRAIN_H
#define GWI_DRAIN_H

#include "gwi_source.h"

/* Copy the current contents of the buffers. Nothing in the folder is changed. Otherwise like gw_drain_open(). */
gw_status gwi_drain_open_copy(const char *run_folder, uint64_t t0_monotonic_ns, gw_drain **ret_drain, gw_error *err);
/* Skip the records up to this mark, because the recording already holds them. */
void gwi_drain_pass_over(gw_drain *drain, const gwi_mark *mark);

#endif
