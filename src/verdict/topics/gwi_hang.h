/* What stands still, and why: a kernel, a peer, or the program's own locks. */
#ifndef GWI_VERDICT_HANG_H
#define GWI_VERDICT_HANG_H

#include "gwi_cause.h"

/* Look at the last hang of the process that was not over when the recording ended. NONE also when what stands still
 * waits for something that has nothing to do with the GPU or with locks: input, time, another process. */
gwi_hang gwi_hang_of(const gw_model *model, uint32_t pid);

/* The thread that waits for the GPU, and the launches that nothing has waited for since: the newest ones. */
void gwi_say_waiting(const gwi_case *c, gwi_finding *finding);
/* Where a thread stands: its frames outside the driver, the C library and the interpreter. */
void gwi_say_stand(const gwi_case *c, gwi_finding *finding, const gw_hang_thread *thread);
/* How many frames that would be, of a site; 0: none, or the recording has no site. */
size_t gwi_count_stand(const gwi_case *c, const gw_hang_thread *thread);
/* Does the user's own line wait, and not a Python function that it called, such as Thread.join()? False: not known. */
bool gwi_waits_in_own_line(const gwi_case *c, const gw_hang_thread *thread);
/* All threads in a line each, for a hang that is not explained. */
void gwi_say_threads(const gwi_case *c, gwi_finding *finding);
/* Who else should be in the collective: ranks that ended or do something else. Returns how many were named. */
size_t gwi_say_missing_ranks(const gwi_case *c, gwi_finding *finding);

const gw_hang_thread *gwi_hang_thread(const gw_hang *hang, uint32_t tid); /* NULL: none */

#endif
