/* Reads native stacks of another process with elfutils. Each thread is attached with PTRACE_SEIZE and stopped with
 * PTRACE_INTERRUPT, which sends no signal. If gpuwhy dies meanwhile, the kernel releases the thread. */
#define _GNU_SOURCE
#include "gw_filter.h"
#include "gwi_stacks.h"

#include "gw_array.h"
#include "gw_process.h"

#include <elf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

enum { STOP_WAIT_MS = 2000, PENDING_MAX = 64 };

/* Threads that did not stop in time. They may stop later, and must then be released. */
static uint32_t pending[PENDING_MAX];
static size_t pending_count;

/* Do not search for separate debug files: the search could contact servers on the network. */
static int no_debug_files(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base, const char *file,
                          const char *link, GElf_Word crc, char **ret_file)
{
    (void)module, (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)ret_file;
    return -1;
}

static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf, .find_debuginfo = no_debug_files};

/* Add the file that a module was loaded from to the process's mappings. */
static void take_module(Dwfl_Module *module, gw_stack_process *process)
{
    enum { MODULES_MAX = 4096 };
    Dwarf_Addr start, end, bias, id_address;
    const unsigned char *id;
    const char *path = dwfl_module_info(module, NULL, &start, &end, NULL, NULL, NULL, NULL);
    size_t count = process->mapping_count;
    for (size_t i = 0; i < count; i++)
        if (process->mapping[i].start == start)
            return;
    if (path == NULL || count == MODULES_MAX || dwfl_module_getelf(module, &bias) == NULL)
        return; /* without its symbols, addresses in this module get no names */
    char *copy = gw_array_more(&process->mapping, count, sizeof *process->mapping) ? strdup(path) : NULL;
    if (copy == NULL)
        return;
    gw_stack_mapping *mapping = &process->mapping[count];
    *mapping = (gw_stack_mapping){.start = start, .bytes = end - start, .bias = bias, .path = copy};
    int bytes = dwfl_module_build_id(module, &id, &id_address);
    if (bytes > 0)
        memcpy(&mapping->build_id, id, (size_t)bytes < sizeof(uint64_t) ? (size_t)bytes : sizeof(uint64_t));
    process->mapping_count++;
}

typedef struct walking {
    gw_stack_process *process;
    gw_stack_thread *thread;
} walking;

static int take_frame(Dwfl_Frame *frame, void *user)
{
    const walking *it = user;
    Dwarf_Addr pc;
    bool is_activation;
    if (it->thread->frame_count == GW_SITE_NATIVE_MAX) {
        it->thread->flags |= GW_SITE_NATIVE_CUT;
        return DWARF_CB_ABORT;
    }
    if (!dwfl_frame_pc(frame, &pc, &is_activation))
        return DWARF_CB_ABORT;
    /* as in gw_site.h: the byte before `address` belongs to the instruction that ran */
    uint64_t address = is_activation ? pc + 1 : pc;
    Dwfl_Module *module = dwfl_addrmodule(dwfl_thread_dwfl(dwfl_frame_thread(frame)), address - 1);
    if (module != NULL)
        take_module(module, it->process);
    it->thread->frame[it->thread->frame_count++] = address & ~(GW_FRAME_PYTHON | GW_FRAME_ENTRY);
    return DWARF_CB_OK;
}

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

/* Attach to a thread and wait until it has stopped. *ret_status is the status from waitpid(). On failure, returns false
 * with the reason in errno; gw_stacks_let_go() may still have to release the thread. */
static bool hold(uint32_t tid, int *ret_status)
{
    if (pending_count == PENDING_MAX) {
        errno = EAGAIN;
        return false;
    }
    if (!gw_rare_calls_are_safe()) {
        errno = EPERM;
        return false;
    }
    if (ptrace(PTRACE_SEIZE, (pid_t)tid, NULL, NULL) != 0)
        return false;
    int why = errno;
    if (ptrace(PTRACE_INTERRUPT, (pid_t)tid, NULL, NULL) == 0) {
        for (int ms = 0; ms < STOP_WAIT_MS; ms++) {
            pid_t got = waitpid((pid_t)tid, ret_status, __WALL | WNOHANG);
            if (got == (pid_t)tid && WIFSTOPPED(*ret_status))
                return true;
            if (got != 0)
                break; /* the thread has ended */
            poll(NULL, 0, 1);
        }
    }
    why = errno == 0 ? ETIMEDOUT : errno;
    pending[pending_count++] = tid;
    gw_stacks_let_go();
    errno = why;
    return false;
}

/* Read the frames of one thread. If the thread may be stopped, stop it while reading. If `dwfl` is NULL, read only its
 * Python frames. */
static void walk_thread(Dwfl *dwfl, uint32_t pid, gw_stack_process *process, gw_stack_thread *thread,
                        gwi_python *python)
{
    int status = 0;
    walking it = {process, thread};
    if (!gwi_may_be_stopped(thread)) {
        snprintf(process->no_stacks, sizeof process->no_stacks,
                 "threads whose system call would be interrupted by a stop (such as tid %u) were skipped", thread->tid);
        gwi_stacks_unheld(pid, process, thread, python);
        return;
    }
    errno = 0;
    if (!hold(thread->tid, &status)) {
        snprintf(process->no_stacks, sizeof process->no_stacks, "tid %u cannot be stopped: %s", thread->tid,
                 errno == EPERM ? "no permission to trace it" : strerror(errno));
        gwi_stacks_unheld(pid, process, thread, python);
        return;
    }
    int ended = dwfl == NULL ? 0 : dwfl_getthread_frames(dwfl, (pid_t)thread->tid, take_frame, &it);
    if (ended < 0) {
        thread->flags |= GW_SITE_NATIVE_LOST;
        if (thread->frame_count == 0)
            snprintf(process->no_stacks, sizeof process->no_stacks, "tid %u: %s", thread->tid, dwfl_errmsg(-1));
    }
    gwi_python_frames(python, process, thread);
    let_go(thread->tid, status);
}

void gwi_stacks_walk(uint32_t pid, gw_stack_process *process, gwi_python *python)
{
    Dwfl *dwfl = dwfl_begin(&callbacks);
    bool attached = dwfl != NULL && dwfl_linux_proc_report(dwfl, (pid_t)pid) == 0 &&
                    dwfl_report_end(dwfl, NULL, NULL) == 0 && dwfl_linux_proc_attach(dwfl, (pid_t)pid, true) == 0;
    if (!attached)
        snprintf(process->no_stacks, sizeof process->no_stacks, "pid %u: %s", pid, dwfl_errmsg(-1));
    for (size_t i = 0; i < process->thread_count; i++)
        walk_thread(attached ? dwfl : NULL, pid, process, &process->thread[i], python);
    dwfl_end(dwfl);
}
