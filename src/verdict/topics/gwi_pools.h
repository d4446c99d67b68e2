/* Threads of a hang that are idle workers of a library's pool: they wait because there is no work, not for a lock. */
#ifndef GWI_POOLS_H
#define GWI_POOLS_H

#include "gwi_cause.h"

/* Whose pool: "OpenBLAS", "PyTorch"; NULL: it is no idle worker, or that is not known. A thread that waits for a known
 * owner, runs a line of the program, or runs Python other than a pool's own loop is none. */
const char *gwi_idle_worker_of(const gwi_case *c, const gw_hang_thread *thread);
size_t gwi_count_idle_workers(const gwi_case *c, const gw_hang *hang);
/* Evidence: all of them in one line; nothing where there are none. */
void gwi_say_idle_workers(const gwi_case *c, gwi_finding *finding, const gw_hang *hang);

#endif
