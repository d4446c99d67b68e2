/* System call filters (seccomp). A filter can kill a process for a call that it does not permit. So we make unusual
 * calls only without a filter, or after a child process has survived them. gw_filter_count() is part of the hook, too.
 * Any thread may call these functions. */
#ifndef GW_FILTER_H
#define GW_FILTER_H

#include <stdbool.h>

/* Return the number of filters of the calling thread, from /proc. Returns INT_MAX if there are filters but no number,
 * or if /proc cannot be read. Opens one file, and makes no other unusual call. */
int gw_filter_count(void);

/* True if unusual calls cannot kill this process, though they may fail: inotify_init1, pidfd_open, memfd_create,
 * process_vm_readv, process_vm_writev, ptrace, sched_setscheduler, sched_setattr, prctl, getrandom and socket. Under a
 * filter, the first use tries them in a child process. The hook must not use this function. */
bool gw_rare_calls_are_safe(void);

/* Environment variable with the supervisor's number of filters, which permitted its unusual calls. The hook makes such
 * calls only if its process has no more filters. Not set: no filters, or their number is unknown. */
#define GW_FILTER_VARIABLE "GPUWHY_FILTERS"

#endif
