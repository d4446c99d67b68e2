/* Detects idle workers of a library's thread pool in a hanging process. Idle workers wait for work, not for a lock. */
#ifndef GWI_POOLS_H
#define GWI_POOLS_H

#include "gwi_cause.h"

/* Return the name of the thread's pool, such as "OpenBLAS", if the thread is an idle worker; otherwise NULL. A thread
 * is not idle if it:
 * - waits for a lock with a known owner;
 * - is inside a driver call;
 * - runs a line of the program;
 * - runs Python code other than a pool's own loop. */
const char *gwi_idle_worker_of(const gwi_case *c, const gw_hang_thread *thread);
size_t gwi_count_idle_workers(const gwi_case *c, const gw_hang *hang);
/* Report all idle workers in one line of evidence, if there are any. */
void gwi_say_idle_workers(const gwi_case *c, gwi_finding *finding, const gw_hang *hang);

#endif
