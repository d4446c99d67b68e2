/* System call filters (seccomp). A filter can kill a process for a call that the filter does not permit. So we make
 * unusual calls only if no filter is active, or after a child process has made them and was not killed.
 *
 * gw_filter_count() is also part of the hook, and needs only the C library. Any thread may call these functions. */
#ifndef GW_FILTER_H
#define GW_FILTER_H

#include <stdbool.h>

/* Return the number of filters of the calling thread, as the kernel reports it in /proc. Returns INT_MAX if filters
 * exist but the kernel does not report their number, or if /proc cannot be read. Opens one file, and makes no other
 * unusual call. */
int gw_filter_count(void);

/* True if this process may call inotify_init1, pidfd_open, memfd_create, process_vm_readv, process_vm_writev, ptrace,
 * prctl, getrandom and socket without being killed; the calls may still fail. If a filter is active, the first use
 * starts a child process that tries these calls. The hook must not use this function. */
bool gw_rare_calls_are_safe(void);

/* Environment variable that tells the hook how many filters the supervisor itself has. These filters permitted the
 * supervisor's unusual calls. Not set: none, or their number is unknown. */
#define GW_FILTER_VARIABLE "GPUWHY_FILTERS"

#endif
