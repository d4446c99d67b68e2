/* Filters of system calls (seccomp). A filter can kill a process for a call that it does not know, so calls that a
 * program of the usual kind never makes are made only if no filter is active, or if a child process has tried them.
 *
 * gw_filter_count() is also part of the hook; it needs only the C library. Any thread. */
#ifndef GW_FILTER_H
#define GW_FILTER_H

#include <stdbool.h>

/* The number of filters of the calling thread, read from /proc. INT_MAX: there are some and the kernel does not count
 * them, or /proc cannot be read. Opens one file, and makes no other unusual call. */
int gw_filter_count(void);

/* True if this process may call inotify_init1, pidfd_open, memfd_create, process_vm_readv, ptrace, prctl, getrandom and
 * socket. An error as their result is fine; being killed is not. If there is a filter, the first call starts a child
 * that tries them. Not for the hook. */
bool gw_rare_calls_are_safe(void);

/* The environment variable in which the supervisor tells the hook how many filters its own calls have passed. */
#define GW_FILTER_VARIABLE "GPUWHY_FILTERS"

#endif
