/* Test whether a system call filter would kill this process for the unusual calls that gpuwhy needs. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "gw_filter.h"

#include <errno.h>
#include <stddef.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void try_all(void)
{
    char from[8] = "", to[8];
    struct iovec source = {from, sizeof from}, target = {to, sizeof to};
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    inotify_init1(IN_CLOEXEC);
    syscall(SYS_pidfd_open, getpid(), 0);
    memfd_create("gpuwhy", MFD_CLOEXEC);
    process_vm_readv(getpid(), &target, 1, &source, 1, 0);
    process_vm_writev(getpid(), &source, 1, &target, 1, 0);
    ptrace(PTRACE_DETACH, getpid(), NULL, NULL);
    syscall(SYS_sched_setscheduler, 0, -1, NULL);
    syscall(SYS_sched_setattr, 0, NULL, 0);
    prctl(PR_GET_DUMPABLE);
    getrandom(to, sizeof to, GRND_NONBLOCK);
    socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

bool gw_rare_calls_are_safe(void)
{
    static int answer = -1;
    if (answer >= 0)
        return answer != 0;
    answer = gw_filter_count() == 0;
    if (answer == 0) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0) {
            try_all();
            _exit(0);
        }
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        answer = pid > 0 && WIFEXITED(status);
    }
    return answer != 0;
}
