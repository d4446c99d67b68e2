/* Finds out what a thread waits for. It reads the thread's system call from /proc, and the owner of a lock from the
 * memory of the process. */
#define _GNU_SOURCE
#include "gwi_stacks.h"

#include "gw_filter.h"
#include "gw_process.h"
#include "gw_text.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

GW_WORDS(gw_wait_word, gw_wait, GW_WAITS, words[GW_WAIT_UNKNOWN])

ssize_t gwi_read_of_thread(char *text, size_t room, uint32_t pid, uint32_t tid, const char *file)
{
    return gw_read_small(text, room, NULL, "/proc/%u/task/%u/%s", pid, tid, file);
}

/* ---- system calls ---- */

static const struct {
    int number;
    gw_wait wait;
    bool goes_on; /* after a stop, the call continues and returns the same result */
    bool has_fd;  /* its first argument is a file */
} calls[] = {
    {SYS_futex, GW_WAIT_LOCK, true, false},
    {SYS_clock_nanosleep, GW_WAIT_SLEEP, true, false},
    {SYS_nanosleep, GW_WAIT_SLEEP, true, false},
    {SYS_sched_yield, GW_WAIT_RUNNING, true, false},
    {SYS_wait4, GW_WAIT_CHILD, true, false},
    {SYS_waitid, GW_WAIT_CHILD, true, false},
    {SYS_read, GW_WAIT_INPUT, false, true},
    {SYS_readv, GW_WAIT_INPUT, false, true},
    {SYS_pread64, GW_WAIT_INPUT, false, true},
    {SYS_write, GW_WAIT_INPUT, false, true},
    {SYS_writev, GW_WAIT_INPUT, false, true},
    {SYS_recvfrom, GW_WAIT_INPUT, false, true},
    {SYS_recvmsg, GW_WAIT_INPUT, false, true},
    {SYS_sendto, GW_WAIT_INPUT, false, true},
    {SYS_sendmsg, GW_WAIT_INPUT, false, true},
    {SYS_connect, GW_WAIT_INPUT, false, true},
    {SYS_accept, GW_WAIT_INPUT, false, true},
    {SYS_accept4, GW_WAIT_INPUT, false, true},
    {SYS_epoll_pwait, GW_WAIT_INPUT, false, true},
    {SYS_ppoll, GW_WAIT_INPUT, false, false},
    {SYS_pselect6, GW_WAIT_INPUT, false, false},
    {SYS_rt_sigtimedwait, GW_WAIT_INPUT, false, false},
    {SYS_rt_sigsuspend, GW_WAIT_INPUT, false, false},
    {SYS_flock, GW_WAIT_INPUT, false, true},
    {SYS_fcntl, GW_WAIT_INPUT, false, true},
    {SYS_fsync, GW_WAIT_INPUT, false, true},
    {SYS_io_getevents, GW_WAIT_INPUT, false, false},
    {SYS_semtimedop, GW_WAIT_SHARED_LOCK, false, false},
    {SYS_semop, GW_WAIT_SHARED_LOCK, false, false},
    {SYS_msgrcv, GW_WAIT_INPUT, false, false},
    {SYS_ioctl, GW_WAIT_DEVICE, false, true},
#ifdef SYS_poll /* newer architectures do not have these older calls */
    {SYS_poll, GW_WAIT_INPUT, true, false},
#endif
#ifdef SYS_select
    {SYS_select, GW_WAIT_INPUT, false, false},
#endif
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, GW_WAIT_INPUT, false, true},
#endif
    /* a thread that sleeps in clone waits until the child has executed another program, or has ended */
    {SYS_clone, GW_WAIT_CHILD, false, false},
    {SYS_clone3, GW_WAIT_CHILD, false, false},
#ifdef SYS_vfork
    {SYS_vfork, GW_WAIT_CHILD, false, false},
#endif
    {SYS_restart_syscall, GW_WAIT_OTHER, true, false}, /* see restarted_call() */
#ifdef SYS_pause
    {SYS_pause, GW_WAIT_INPUT, false, false},
#endif
};
enum { CALL_COUNT = sizeof calls / sizeof calls[0] };

bool gwi_may_be_stopped(const gw_stack_thread *thread)
{
    if (thread->state == 'Z' || thread->state == 'D' || thread->state == 't' || thread->state == 'T' ||
        thread->tracer != 0)
        return false;
    /* the thread may enter any system call before it stops: see undo_interruption() */
    if (thread->wait == GW_WAIT_RUNNING) {
#ifdef __x86_64__
        return true;
#else
        return false;
#endif
    }
    for (size_t i = 0; i < CALL_COUNT; i++) {
        if (calls[i].number == thread->syscall)
            return calls[i].goes_on;
    }
    return false;
}

/* ---- locks ---- */

bool gwi_read_memory(uint32_t pid, uint64_t address, void *to, size_t bytes)
{
    struct iovec ours = {to, bytes}, theirs = {(void *)(uintptr_t)address, bytes};
    return gw_rare_calls_are_safe() && process_vm_readv((pid_t)pid, &ours, 1, &theirs, 1, 0) == (ssize_t)bytes;
}

/* Return the thread that the process knows by this number. */
static const gw_stack_thread *thread_at(const gw_stack_process *process, uint32_t tid)
{
    for (size_t i = 0; i < process->thread_count; i++) {
        if (gwi_inner_tid(&process->thread[i]) == tid)
            return &process->thread[i];
    }
    return NULL;
}

/* Find out what a futex call waits for. While a thread waits for a plain lock of the C library, the lock's word is 2.
 * The thread id of the owner is 8 bytes after it. A priority-inheritance lock has the owner in the word itself. */
static void look_at_futex(uint32_t pid, const gw_stack_process *process, const uint64_t *argument,
                          gw_stack_thread *thread)
{
    uint32_t word[3] = {0};
    int operation = (int)argument[1] & FUTEX_CMD_MASK;
    bool is_private = (argument[1] & FUTEX_PRIVATE_FLAG) != 0;
    bool is_lock_pi = operation == FUTEX_LOCK_PI || operation == 13 /* FUTEX_LOCK_PI2 */;
    if (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET && operation != FUTEX_WAIT_REQUEUE_PI &&
        !is_lock_pi) {
        thread->wait = GW_WAIT_OTHER;
        return;
    }
    thread->lock_address = argument[0];
    thread->wait = GW_WAIT_SHARED_LOCK;
    if (argument[3] != 0)
        thread->wait = GW_WAIT_TIMED_LOCK;
    else if (is_private)
        thread->wait = GW_WAIT_LOCK;
    uint32_t wanted = (uint32_t)argument[2];
    const gw_stack_thread *other = thread_at(process, wanted);
    if (!is_private && !is_lock_pi && other != NULL && other != thread && gwi_read_memory(pid, argument[0], word, 4) &&
        word[0] == wanted) {
        thread->wait = argument[3] != 0
                           ? GW_WAIT_TIMED_LOCK
                           : GW_WAIT_JOIN; /* pthread_join: the kernel clears the word when the thread ends */
        thread->owner_tid = other->tid;
        return;
    }
    if (is_lock_pi && gwi_read_memory(pid, argument[0], word, 4))
        thread->owner_tid = word[0] & FUTEX_TID_MASK;
    else if (operation == FUTEX_WAIT && wanted == 2 && gwi_read_memory(pid, argument[0], word, sizeof word) &&
             word[0] == 2)
        thread->owner_tid = word[2];
    other = thread->owner_tid == 0 ? NULL : thread_at(process, thread->owner_tid);
    if (other != NULL)
        thread->owner_tid = other->tid;
    else if (thread->inner_tid != 0)
        thread->owner_tid = 0; /* the number of a thread that has ended inside of a container means nothing here */
    else if (thread->owner_tid != 0) {
        char path[48];
        snprintf(path, sizeof path, "/proc/%u/task/%u", pid, thread->owner_tid);
        bool looks_like_tid = thread->owner_tid <= 1u << 22; /* the largest thread id of the kernel */
        if (!looks_like_tid || access(path, F_OK) == 0)
            /* not a thread id, or a thread that is not in our list (THREADS_MAX) */
            thread->owner_tid = 0;
    }
}

/* After a stop, a call with a time limit continues as restart_syscall: futex, poll, or one that sleeps. Find out which,
 * by the function of the kernel in which the thread waits (do_nanosleep, hrtimer_nanosleep, alarmtimer_do_nsleep). The
 * kernel leaves functions of its scheduler out, do_nanosleep() among them, so a sleep that goes on may seem to wait in
 * the entry of system calls. The arguments in /proc/PID/syscall are still those of that call. */
static int restarted_call(const gw_stack_thread *thread)
{
    if (gw_begins(thread->where, "futex"))
        return SYS_futex;
#ifdef SYS_poll
    if (gw_begins(thread->where, "poll_") || gw_begins(thread->where, "do_sys_poll"))
        return SYS_poll;
#endif
    static const char *const sleeps[] = {"nanosleep", "nsleep", "do_syscall_64", "x64_sys_call", "el0_svc"};
    return GW_HAS_ONE_OF(thread->where, sleeps) ? SYS_clock_nanosleep : SYS_restart_syscall;
}

void gwi_look_at_call(uint32_t pid, gw_stack_process *process, gw_stack_thread *thread)
{
    char text[256];
    uint64_t argument[6] = {0};
    if (gwi_read_of_thread(text, sizeof text, pid, thread->tid, "syscall") <= 0) {
        if (process->no_waits[0] == '\0')
            snprintf(process->no_waits, sizeof process->no_waits, "/proc/%u/task/%u/syscall: %s", pid, thread->tid,
                     strerror(errno));
        return;
    }
    if (gw_begins(text, "running")) {
        thread->wait = GW_WAIT_RUNNING;
        return;
    }
    if (sscanf(text, "%d %lx %lx %lx %lx %lx %lx", &thread->syscall, &argument[0], &argument[1], &argument[2],
               &argument[3], &argument[4], &argument[5]) < 1 ||
        thread->syscall < 0) {
        thread->syscall = -1;
        thread->wait = thread->state == 'R' ? GW_WAIT_RUNNING : GW_WAIT_OTHER;
        return;
    }
    thread->wait = GW_WAIT_OTHER;
    if (thread->syscall == SYS_restart_syscall)
        thread->syscall = restarted_call(thread);
    for (size_t i = 0; i < CALL_COUNT; i++) {
        if (calls[i].number != thread->syscall)
            continue;
        thread->wait = calls[i].wait;
        thread->fd = calls[i].has_fd ? (int)argument[0] : -1;
    }
    int child = (int)(thread->syscall == SYS_waitid && argument[0] == P_PID ? argument[1] : argument[0]);
    if ((thread->syscall == SYS_wait4 || (thread->syscall == SYS_waitid && argument[0] == P_PID)) && child > 0 &&
        thread->inner_tid == 0)
        thread->child = (uint32_t)child;
    if (thread->syscall == SYS_futex)
        look_at_futex(pid, process, argument, thread);
}

/* ---- threads that are not stopped ---- */

bool gwi_asleep_read(uint32_t pid, const gw_stack_thread *thread, gwi_asleep *ret)
{
    char status[32768];
    ssize_t used = gwi_read_of_thread(ret->text, sizeof ret->text / 2, pid, thread->tid, "syscall");
    if (used <= 0 || gw_begins(ret->text, "running") ||
        gwi_read_of_thread(status, sizeof status, pid, thread->tid, "status") <= 0)
        return false;
    const char *switches = strstr(status, "\nvoluntary_ctxt_switches");
    if (switches == NULL)
        return false;
    snprintf(ret->text + used, sizeof ret->text - (size_t)used, "%s", switches);
    return true;
}

void gwi_stacks_unheld(uint32_t pid, gw_stack_process *process, gw_stack_thread *thread, gwi_python *python)
{
    gwi_asleep before, after;
    gw_stack_thread again = *thread;
    bool stood =
        thread->wait != GW_WAIT_RUNNING && thread->wait != GW_WAIT_UNKNOWN && gwi_asleep_read(pid, thread, &before);
    gwi_python_frames(python, process, &again);
    if (again.frame_count == thread->frame_count && again.flags == thread->flags)
        return; /* no Python runs in this thread */
    gw_stack_thread first = again;
    again = *thread;
    gwi_python_frames(python, process, &again);
    stood = stood && gwi_asleep_read(pid, thread, &after) && strcmp(before.text, after.text) == 0 &&
            again.frame_count == first.frame_count && again.flags == first.flags &&
            memcmp(again.frame, first.frame, again.frame_count * sizeof again.frame[0]) == 0;
    if (stood) {
        *thread = again;
        return;
    }
    thread->flags |= GW_SITE_PYTHON_UNKNOWN;
    if (process->no_python[0] == '\0')
        snprintf(process->no_python, sizeof process->no_python, "threads ran while gpuwhy read them (such as tid %u)",
                 thread->tid);
}
