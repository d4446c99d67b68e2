/* Functions of the drain for format/ only. A drain reads the buffers of a run folder: live for the supervisor, from
 * a copy for a reader. */
#ifndef GWI_DRAIN_H
#define GWI_DRAIN_H

#include "gwi_source.h"

/* Copy the current contents of the buffers, and open a drain on the copies. The folder stays unchanged. Statuses:
 * gw_drain_open(). */
gw_status gwi_drain_open_copy(const char *run_folder, uint64_t t0_monotonic_ns, gw_drain **ret_drain, gw_error *err);
/* Skip the records of a chunk up to `mark`, because the recording already contains them. */
void gwi_drain_pass_over(gw_drain *drain, const gwi_mark *mark);

#endif
