/* Detects what a hanging process waits for: a kernel, a peer, or the program's own locks. */
#ifndef GWI_VERDICT_HANG_H
#define GWI_VERDICT_HANG_H

#include "gwi_cause.h"

/* Judge the last hang of the process that had not ended when the recording ended. NONE also if the process waits for
 * something unrelated to the GPU or locks: input, time, another process. */
gwi_hang gwi_hang_of(const gw_model *model, uint32_t pid);

/* Report the thread that waits for the GPU, and the newest launches that nothing has waited for since. */
void gwi_say_waiting(const gwi_case *c, gwi_finding *finding);
/* Report the position of a thread: its frames outside the driver, the C library and the interpreter. */
void gwi_say_stand(const gwi_case *c, gwi_finding *finding, const gw_hang_thread *thread);
/* The number of these frames; 0: none, or the recording has no site. */
size_t gwi_count_stand(const gwi_case *c, const gw_hang_thread *thread);
/* True if the user's own line waits, and not a Python function that it called, such as Thread.join(). Also false if
 * this is not known. */
bool gwi_waits_in_own_line(const gwi_case *c, const gw_hang_thread *thread);
/* Report all threads, one line each, for an unexplained hang. */
void gwi_say_threads(const gwi_case *c, gwi_finding *finding);
/* Report the ranks missing in the collective, because they ended or do something else. Returns their number. */
size_t gwi_say_missing_ranks(const gwi_case *c, gwi_finding *finding);

const gw_hang_thread *gwi_hang_thread(const gw_hang *hang, uint32_t tid); /* NULL: none */

#endif
