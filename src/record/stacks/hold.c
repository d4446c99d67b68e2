/* Stops threads of another process for a moment, and copies their registers and stacks. Each thread is attached with
 * PTRACE_SEIZE and stopped with PTRACE_INTERRUPT, which sends no signal. If gpuwhy dies meanwhile, the kernel releases
 * the thread. The copy is unwound after the release (walk.c), so that a stop is short. */
#define _GNU_SOURCE
#include "gw_filter.h"
#include "gwi_stacks.h"

#include "gw_clock.h"
#include "gw_process.h"

#include <elf.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PENDING_MAX = 64 };
static const uint64_t stop_wait_ns = 2000000000u;

/* Threads that did not stop in time. They may stop later, and must then be released. */
static uint32_t pending[PENDING_MAX];
static size_t pending_count;

/* True if a signal is pending for the thread, or if this cannot be determined. A pending signal would have interrupted
 * the system call even without our stop. */
static bool has_signal(uint32_t tid)
{
    char status[32768];
    unsigned long long own, shared;
    gw_read_small(status, sizeof status, NULL, "/proc/%u/status", tid);
    const char *line = strstr(status, "\nSigPnd:"); /* the line ShdPnd follows */
    return line == NULL || sscanf(line, "\nSigPnd: %llx ShdPnd: %llx", &own, &shared) != 2 || (own | shared) != 0;
}

/* Some system calls return EINTR after a stop instead of continuing. We do not stop a thread that is in such a call,
 * but it may have entered one between our check and the stop. Make that call restart. */
static void undo_interruption(uint32_t tid)
{
#ifdef __x86_64__
    const unsigned long long interrupted = (unsigned long long)-4, begin_again = (unsigned long long)-513;
    struct user_regs_struct registers;
    struct iovec all = {&registers, sizeof registers};
    if (ptrace(PTRACE_GETREGSET, (pid_t)tid, (void *)NT_PRSTATUS, &all) != 0 || all.iov_len != sizeof registers ||
        (long long)registers.orig_rax < 0 || registers.rax != interrupted || has_signal(tid))
        return;
    registers.rax = begin_again;
    ptrace(PTRACE_SETREGSET, (pid_t)tid, (void *)NT_PRSTATUS, &all);
#else
    (void)tid; /* on other architectures, running threads are not stopped: see gwi_may_be_stopped() */
#endif
}

/* Release a thread. If it stopped because of a signal, deliver that signal. */
static void let_go(uint32_t tid, int status)
{
    int signal_ = WIFSTOPPED(status) && status >> 16 == 0 ? WSTOPSIG(status) : 0;
    if (signal_ == 0)
        undo_interruption(tid);
    ptrace(PTRACE_DETACH, (pid_t)tid, NULL, (void *)(uintptr_t)(unsigned)signal_);
}

void gw_stacks_let_go(void)
{
    for (size_t i = pending_count; i-- > 0;) {
        int status;
        pid_t tid = (pid_t)pending[i];
        bool stopped = waitpid(tid, &status, __WALL | WNOHANG) == tid && WIFSTOPPED(status);
        if (stopped)
            let_go((uint32_t)tid, status);
        else if (ptrace(PTRACE_DETACH, tid, NULL, NULL) != 0 && kill(tid, 0) == 0)
            continue; /* the thread has not stopped yet */
        pending[i] = pending[--pending_count];
    }
}

/* Wait until an attached thread has stopped. *ret_running_ns: a time at which it had not stopped yet. */
static bool wait_for_stop(uint32_t tid, int *ret_status, uint64_t *ret_running_ns)
{
    enum { PAUSE_NS_MAX = 200000 };
    struct timespec pause_time = {.tv_nsec = 10000}; /* most threads stop at once */
    uint64_t begin_ns = gw_monotonic_ns();
    for (uint64_t now_ns = begin_ns; now_ns - begin_ns < stop_wait_ns; now_ns = gw_monotonic_ns()) {
        pid_t got = waitpid((pid_t)tid, ret_status, __WALL | WNOHANG);
        if (got == (pid_t)tid && WIFSTOPPED(*ret_status))
            return true;
        if (got != 0)
            return false; /* the thread has ended */
        *ret_running_ns = now_ns;
        ppoll(NULL, 0, &pause_time, NULL);
        pause_time.tv_nsec = 2 * pause_time.tv_nsec < PAUSE_NS_MAX ? 2 * pause_time.tv_nsec : PAUSE_NS_MAX;
    }
    errno = ETIMEDOUT;
    return false;
}

/* Ask the kernel for short time slices, with which a program may run before others when it wakes up (Linux 6.12; older
 * kernels ignore it). 0: the usual ones. */
static void set_slice(uint64_t ns)
{
    struct { /* sched_attr of linux/sched/types.h, in its first version */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime_ns, deadline_ns, period_ns;
    } wanted = {.size = sizeof wanted, .policy = SCHED_OTHER, .nice = getpriority(PRIO_PROCESS, 0), .runtime_ns = ns};
    syscall(SYS_sched_setattr, 0, &wanted, 0);
}

/* On a busy machine, gpuwhy itself may have to wait for a processor while a thread is stopped. So run before all other
 * programs if the kernel permits it, and otherwise with the shortest slices. Do not call sched_yield() first to get a
 * new slice: with Linux 6.18, gpuwhy then has to wait for the other programs afterwards, during the stop. */
static void hurry(gwi_held *held)
{
    enum { SLICE_NS = 100000 };
    const struct sched_param lowest = {.sched_priority = 1};
    bool is_usual = sched_getscheduler(0) == SCHED_OTHER;
    held->is_first = is_usual && sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest) == 0;
    held->has_slice = is_usual && !held->is_first;
    if (held->has_slice)
        set_slice(SLICE_NS);
}

static void hurry_no_more(const gwi_held *held)
{
    const struct sched_param none = {.sched_priority = 0};
    if (held->is_first)
        sched_setscheduler(0, SCHED_OTHER, &none);
    if (held->has_slice)
        set_slice(0);
}

bool gwi_hold(gwi_held *held, uint32_t tid)
{
    *held = (gwi_held){.tid = tid};
    errno = pending_count == PENDING_MAX ? EAGAIN : EPERM;
    if (pending_count == PENDING_MAX || !gw_rare_calls_are_safe())
        return false;
    if (ptrace(PTRACE_SEIZE, (pid_t)tid, NULL, NULL) != 0)
        return false;
    hurry(held);
    held->running_ns = gw_monotonic_ns();
    if (ptrace(PTRACE_INTERRUPT, (pid_t)tid, NULL, NULL) == 0 && wait_for_stop(tid, &held->status, &held->running_ns))
        return true;
    int why = errno;
    hurry_no_more(held);
    pending[pending_count++] = tid;
    gw_stacks_let_go();
    errno = why;
    return false;
}

uint64_t gwi_let_go(const gwi_held *held)
{
    let_go(held->tid, held->status);
    uint64_t stop_ns = gw_monotonic_ns() - held->running_ns;
    hurry_no_more(held);
    return stop_ns;
}

/* ---- copies ---- */

/* Copy the stack from the stack pointer on. The kernel copies page by page, up to the end of the stack. */
static bool copy_stack(uint32_t pid, gwi_stack_copy *copy)
{
    enum { PAGE_BYTES = 4096, PAGES_MAX = GWI_STACK_COPY_MAX / PAGE_BYTES };
    struct iovec ours = {copy->stack, sizeof copy->stack}, theirs[PAGES_MAX];
    uint64_t at = copy->start;
    for (size_t i = 0; i < PAGES_MAX; i++) {
        size_t bytes = PAGE_BYTES - (size_t)(at % PAGE_BYTES);
        theirs[i] = (struct iovec){(void *)(uintptr_t)at, bytes};
        at += bytes;
    }
    ssize_t got = gw_rare_calls_are_safe() ? process_vm_readv((pid_t)pid, &ours, 1, theirs, PAGES_MAX, 0) : -1;
    copy->bytes = got > 0 ? (size_t)got : 0;
    return got > 0;
}

bool gwi_copy_held(uint32_t pid, const gwi_held *held, gwi_stack_copy *copy)
{
    struct user_regs_struct r;
    struct iovec all = {&r, sizeof r};
    if (ptrace(PTRACE_GETREGSET, (pid_t)held->tid, (void *)NT_PRSTATUS, &all) != 0 || all.iov_len != sizeof r)
        return false;
    copy->is_whole = true;
#if defined(__x86_64__)
    const uint64_t value[] = {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
                              r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip};
    memcpy(copy->value, value, sizeof value);
    copy->pc = r.rip;
    copy->start = r.rsp;
#else
    memcpy(copy->value, r.regs, sizeof r.regs);
    copy->value[31] = r.sp;
    copy->pc = r.pc;
    copy->start = r.sp;
#endif
    return copy_stack(pid, copy);
}

bool gwi_copy_asleep(uint32_t pid, uint32_t tid, gwi_stack_copy *copy)
{
    char text[256];
    if (gwi_read_of_thread(text, sizeof text, pid, tid, "syscall") <= 0)
        return false;
    const char *last = strrchr(text, ' '); /* ".. 0xSTACKPOINTER 0xINSTRUCTION" */
    const char *before = last == NULL ? NULL : memrchr(text, ' ', (size_t)(last - text));
    if (before == NULL || sscanf(before, " %lx %lx", &copy->start, &copy->pc) != 2 || copy->start == 0)
        return false;
    copy->is_whole = false;
    return copy_stack(pid, copy);
}
