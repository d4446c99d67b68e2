/* Detects what a hanging process waits for: a kernel, a peer, or the program's own locks. */
#ifndef GWI_VERDICT_HANG_H
#define GWI_VERDICT_HANG_H

#include "gwi_cause.h"

/* Classify the last hang of the process. Returns kind NONE if there was no hang, if it ended before the recording did,
 * or if the process waits for something unrelated to the GPU and to locks, such as input, time or another process. */
gwi_hang gwi_hang_of(const gw_model *model, uint32_t pid);

/* Report the thread that waits for the GPU, and the newest launches that nothing has waited for. */
void gwi_say_waiting(const gwi_case *c, gwi_finding *finding);
/* Report where a thread is: at most five frames of its stack, without those of the driver, the C library and the
 * interpreter. */
void gwi_say_stand(const gwi_case *c, gwi_finding *finding, const gw_hang_thread *thread);
/* Return the number of frames of the thread's call site without those of the driver, the C library and the interpreter;
 * 0: none, or the recording has no site for the thread. */
size_t gwi_count_stand(const gwi_case *c, const gw_hang_thread *thread);
/* True if the thread waits in a line of the user's own code. False if a Python function that this line calls waits,
 * such as Thread.join(), or if the thread's call site is not known. */
bool gwi_waits_in_own_line(const gwi_case *c, const gw_hang_thread *thread);
/* Report the threads of an unexplained hang: what each of the first eight does and where it is, the number of further
 * threads, and all idle workers in one line. */
void gwi_say_threads(const gwi_case *c, gwi_finding *finding);
/* Report the ranks that did not join the NCCL collective in which the process hangs, because they ended or do something
 * else. Returns their number. */
size_t gwi_say_missing_ranks(const gwi_case *c, gwi_finding *finding);

const gw_hang_thread *gwi_hang_thread(const gw_hang *hang, uint32_t tid); /* NULL: none with this tid */

#endif
