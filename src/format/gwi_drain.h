/* Functions of the drain that only format/ uses. A drain reads the buffers of a run folder, either live (for the
 * supervisor) or from a copy (for a reader). */
#ifndef GWI_DRAIN_H
#define GWI_DRAIN_H

#include "gwi_source.h"

/* Copy the current contents of the buffers and open a drain that reads the copies. Nothing in the folder is changed.
 * Returns the same statuses as gw_drain_open(). */
gw_status gwi_drain_open_copy(const char *run_folder, uint64_t t0_monotonic_ns, gw_drain **ret_drain, gw_error *err);
/* Skip the records of a chunk up to `mark`, because the recording already contains them. */
void gwi_drain_pass_over(gw_drain *drain, const gwi_mark *mark);

#endif
