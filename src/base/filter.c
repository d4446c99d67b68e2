/* Count the system call filters (seccomp) of the calling thread. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "gw_filter.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static long number_after(const char *text, const char *name, long otherwise)
{
    const char *line = strstr(text, name);
    return line == NULL ? otherwise : strtol(line + strlen(name), NULL, 10);
}

int gw_filter_count(void)
{
    char status[8192];
    size_t done = 0;
    ssize_t got = -1;
    /* use raw system calls: the C library's functions are cancellation points, where pthread_cancel() could end the
     * thread */
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return INT_MAX;
    while (done + 1 < sizeof status && (got = syscall(SYS_read, fd, status + done, sizeof status - 1 - done)) > 0)
        done += (size_t)got;
    syscall(SYS_close, fd);
    status[done] = '\0';
    /* "Seccomp:" is 0 if no filter is active; a kernel without seccomp prints no such line */
    if (got < 0 || number_after(status, "\nSeccomp:", 0) == 0)
        return got < 0 ? INT_MAX : 0;
    long count = number_after(status, "\nSeccomp_filters:", INT_MAX); /* printed since Linux 5.9 */
    return count > 0 && count < INT_MAX ? (int)count : INT_MAX;
}
