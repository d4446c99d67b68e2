/* Detects what a hanging process waits for: a kernel, a peer, or the program's own locks. */
#ifndef GWI_VERDICT_HANG_H
#define GWI_VERDICT_HANG_H

#include "gwi_cause.h"

/* Classify the last hang of the process. The kind is NONE if:
 * - there was no hang, or it ended before the recording;
 * - the process waits for neither the GPU nor a lock. */
gwi_hang gwi_hang_of(const gw_model *model, uint32_t pid);

/* True if a kernel of NCCL may not have ended. Later work may wait for that kernel, so it need not be the last one. */
bool gwi_has_nccl_work(const gw_model *model, uint32_t pid);

/* Report the thread that waits for the GPU, and the newest launches that nothing has waited for. */
void gwi_say_waiting(const gwi_case *c, gwi_finding *finding);
/* Report where a thread is: at most five frames of its stack. Frames of the driver, the C library and the interpreter
 * are left out. */
void gwi_say_stand(const gwi_case *c, gwi_finding *finding, const gw_hang_thread *thread);
/* Return the number of frames of the thread's call site. Frames of the driver, the C library and the interpreter are
 * left out. Returns 0 if the thread has no recorded call site. */
size_t gwi_count_stand(const gwi_case *c, const gw_hang_thread *thread);
/* True if the thread waits in a line of the user's own code. False if this line called a Python function that waits,
 * such as Thread.join(), or if the call site is unknown. */
bool gwi_waits_in_own_line(const gwi_case *c, const gw_hang_thread *thread);
/* Report what the threads of an unexplained hang do, and where. The first eight threads are reported singly, the idle
 * workers in one line. Other threads are only counted. */
void gwi_say_threads(const gwi_case *c, gwi_finding *finding);
/* Report the ranks that did not join the NCCL collective in which the process hangs. They ended or are doing something
 * else. Returns their number. */
size_t gwi_say_missing_ranks(const gwi_case *c, gwi_finding *finding);
/* True if the main thread of such a rank stands still at a known place outside the driver. */
bool gwi_a_rank_stands(const gwi_case *c);

/* ---- a job whose ranks all stand still (job_hang.c) ---- */

enum { GWI_JOB_RANKS_MAX = 64 };
typedef struct gwi_job_rank {
    uint32_t rank, of;
    const gw_hang *hang;               /* borrowed from the model */
    const gw_hang_thread *main_thread; /* borrowed from the model */
    size_t like;                       /* ranks that stand like this one, which stands for them; at least 1 */
} gwi_job_rank;
/* Divide the ranks into those that wait for others and those that are elsewhere, by the first of these that tells them
 * apart: the stack is inside a collective; the main thread sleeps or waits for the end of a thread; the place is not
 * that of most ranks. Returns false if none does. */
bool gwi_find_elsewhere(const gwi_case *c, const gwi_job_rank *rank, size_t count, bool is_elsewhere[]);
/* List the ranks that stand still, or that wait for the others to come. Returns their number; 0 if there is no such
 * job, if it went on, or if a rank waits for another job. */
size_t gwi_job_ranks(const gwi_case *c, gwi_job_rank ret_rank[GWI_JOB_RANKS_MAX]);
/* True if the kind of the hang is GWI_HANG_JOB, and the ranks stand in calls that cannot meet. */
bool gwi_are_job_calls_apart(const gwi_case *c);
/* Report where each rank stands, and which one did not follow the others. Call it only if the kind of the hang is
 * GWI_HANG_JOB. Returns true if the ranks stand at different places. */
bool gwi_say_still_job(const gwi_case *c, gwi_finding *finding);

const gw_hang_thread *gwi_hang_thread(const gw_hang *hang, uint32_t tid); /* NULL: none with this tid */

#endif
