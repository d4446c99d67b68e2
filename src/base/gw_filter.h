/* System call filters (seccomp). A filter can kill a process for a call that the filter does not permit. So we make
 * unusual calls only if no filter is active, or after a child process has survived them.
 *
 * gw_filter_count() is also part of the hook, and needs only the C library. Any thread may call these functions. */
#ifndef GW_FILTER_H
#define GW_FILTER_H

#include <stdbool.h>

/* Return the number of filters of the calling thread, read from /proc. Returns INT_MAX if filters exist but the kernel
 * does not count them, or if /proc cannot be read. Opens one file, and makes no other unusual call. */
int gw_filter_count(void);

/* True if this process may call inotify_init1, pidfd_open, memfd_create, process_vm_readv, ptrace, prctl, getrandom
 * and socket without being killed; the calls may still fail. If a filter is active, the first use starts a child that
 * tries these calls. The hook must not use this function. */
bool gw_rare_calls_are_safe(void);

/* Environment variable with the number of filters that permitted the supervisor's unusual calls. The hook reads it. */
#define GW_FILTER_VARIABLE "GPUWHY_FILTERS"

#endif
