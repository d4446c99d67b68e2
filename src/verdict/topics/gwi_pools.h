/* Detects idle workers of a library's thread pool in a hang. They wait for work, not for a lock. */
#ifndef GWI_POOLS_H
#define GWI_POOLS_H

#include "gwi_cause.h"

/* The owner of the thread's pool: "OpenBLAS", "PyTorch"; NULL: the thread is not an idle worker, or this is not known.
 * A thread that waits for a known lock owner, runs a line of the program, or runs Python code other than a pool's own
 * loop is not an idle worker. */
const char *gwi_idle_worker_of(const gwi_case *c, const gw_hang_thread *thread);
size_t gwi_count_idle_workers(const gwi_case *c, const gw_hang *hang);
/* Report all idle workers in one line of evidence, if there are any. */
void gwi_say_idle_workers(const gwi_case *c, gwi_finding *finding, const gw_hang *hang);

#endif
