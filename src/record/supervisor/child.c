/* Starts the program, passes signals on to it and waits for it. A witness process in the same process group detects
 * whether a signal was sent to the whole group or only to gpuwhy. */
#include "gwi_child.h"

#include "gw_clock.h"
#include "gw_exit.h"
#include "gw_process.h"
#include "gwi_cudnn.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WITNESS_WAIT_MS = 10 };

/* Store in `set` the signals that we read from a signalfd, so that they do not end us. These are all signals except:
 * - those that errors in our own code cause;
 * - those that cannot be blocked;
 * - the terminal's stop signals for background processes, which must stop us, too. */
static void fill_taken(sigset_t *set)
{
    static const int left_out[] = {SIGSEGV, SIGBUS,  SIGILL,  SIGFPE,  SIGTRAP, SIGSYS,
                                   SIGABRT, SIGPIPE, SIGTTIN, SIGTTOU, SIGKILL, SIGSTOP};
    sigfillset(set);
    for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++)
        sigdelset(set, left_out[i]);
}

/* ---- the witness ----
 *
 * A signal sent to the whole process group has already reached the program. Passing it on would deliver it twice, and
 * a second interrupt makes some launchers abort their clean-up. The kernel does not report whether a signal was sent
 * to the group. Therefore the group has another process, the witness, which only counts the signals that it receives.
 * If the witness received a signal, too, the signal was sent to the group. */

static void close_all(void)
{
#ifdef SYS_close_range /* older headers do not define it, and older kernels do not support it */
    if (syscall(SYS_close_range, 0, ~0u, 0) == 0)
        return;
#endif
    for (int fd = 0; fd < 1024; fd++)
        close(fd);
}

static _Noreturn void witness(_Atomic uint32_t *counts, const sigset_t *taken, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "gpuwhy-witness");
    close_all(); /* otherwise, the reader of a pipe from the program would wait for the witness to end */
    while (getppid() == parent) {
        siginfo_t info;
        int signal = sigwaitinfo(taken, &info);
        if (signal > 0 && signal < 65)
            atomic_fetch_add_explicit(&counts[signal], 1, memory_order_release);
    }
    _exit(0);
}

static void start_witness(gwi_signals *signals, const sigset_t *taken)
{
    void *memory = mmap(NULL, 65 * sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return;
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        witness(memory, taken, parent);
    if (pid < 0) {
        munmap(memory, 65 * sizeof(uint32_t));
        return;
    }
    signals->witness_pid = pid;
    signals->witness_counts = memory;
}

static bool witness_saw(gwi_signals *signals, int signal)
{
    if (signals->witness_counts == NULL || signal >= 65)
        return false;
    const _Atomic uint32_t *counts = signals->witness_counts;
    for (int ms = 0; ms <= WITNESS_WAIT_MS; ms++) {
        uint32_t count = atomic_load_explicit(&counts[signal], memory_order_acquire);
        if (count != signals->witness_seen[signal]) {
            /* set, not increased by one: several equal signals may have reached us as one */
            signals->witness_seen[signal] = count;
            return true;
        }
        poll(NULL, 0, 1);
    }
    return false;
}

/* ---- signals ---- */

void gwi_signals_begin(gwi_signals *signals)
{
    *signals = (gwi_signals){.fd = -1};
    sigset_t taken;
    fill_taken(&taken);
    struct sigaction ignore = {.sa_handler = SIG_IGN}, standard = {.sa_handler = SIG_DFL};
    sigaction(SIGPIPE, &ignore, &signals->pipe_before);
    sigaction(SIGCHLD, &standard, &signals->child_before); /* with an inherited SIG_IGN we would get no exit statuses */
    sigprocmask(SIG_BLOCK, &taken, &signals->mask_before);
    signals->fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->fd < 0) /* a signal that cannot be passed on must still end this process */
        sigprocmask(SIG_SETMASK, &signals->mask_before, NULL);
    start_witness(signals, &taken);
}

void gwi_signals_restore(const gwi_signals *signals)
{
    sigaction(SIGPIPE, &signals->pipe_before, NULL);
    sigaction(SIGCHLD, &signals->child_before, NULL);
    sigprocmask(SIG_SETMASK, &signals->mask_before, NULL);
}

static bool is_ours_alone(gwi_signals *signals, const struct signalfd_siginfo *info)
{
    int signal = (int)info->ssi_signo;
    if (signal == SIGCHLD || signal == SIGWINCH || signal == SIGURG || signal == SIGTSTP)
        return false; /* the program gets these signals itself, or does not need them */
    if (info->ssi_code == SI_KERNEL)
        return false; /* sent by the terminal to the whole group */
    return !witness_saw(signals, signal);
}

bool gwi_signal_is_stop(int signal)
{
    return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

/* True if nohup has started us: SIGHUP is then ignored, and no reason to end. A blocked signal arrives even then. */
static bool is_nohup(int signal)
{
    struct sigaction now;
    return signal == SIGHUP && sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

/* Return when a process started, in clock ticks since the machine started; UINT64_MAX if it cannot be read. */
static uint64_t started_at(pid_t pid)
{
    uint64_t ticks;
    return gw_process_started(pid, &ticks) ? ticks : UINT64_MAX;
}

/* Remember who sent a signal that asks us to end. The program and its descendants started after us, so a process that
 * is older than we are does not belong to them. */
static void look_at_sender(gwi_signals *signals, const struct signalfd_siginfo *info)
{
    bool is_terminal = info->ssi_code == SI_KERNEL;
    signals->sender = is_terminal ? 0 : (pid_t)info->ssi_pid;
    signals->is_from_outside = signals->sender == 0 || started_at(signals->sender) < started_at(getpid());
    gw_text name = {0};
    if (signals->sender == 0)
        gw_text_add_str(&name, is_terminal ? "the terminal" : "a process outside of this pid namespace");
    else
        gw_process_command_add(&name, signals->sender);
    snprintf(signals->sender_name, sizeof signals->sender_name, "%s", gw_text_str(&name));
    gw_text_free(&name);
}

/* Pass on the signals that arrived. `is_new`: the child was started a moment ago. Then a signal to the whole group may
 * have come before the child was in it. If it came later, the child has it twice, but sees it once, because it still
 * blocks its signals. */
static void pass_on(gwi_signals *signals, pid_t child, bool is_new)
{
    struct signalfd_siginfo info;
    while (signals->fd >= 0 && read(signals->fd, &info, sizeof info) == sizeof info) {
        int signal = (int)info.ssi_signo;
        if (signal == SIGXFSZ && (pid_t)info.ssi_pid == getpid()) /* a limit stopped our own writing */
            continue;
        if (gwi_signal_is_stop(signal) && !is_nohup(signal)) {
            signals->stop_signal = signal;
            signals->stop_ns = gw_monotonic_ns();
            look_at_sender(signals, &info);
        }
        bool is_for_all = !is_ours_alone(signals, &info);
        if (child <= 0 || (is_for_all && !(is_new && gwi_signal_is_stop(signal))))
            continue;
        union sigval value = {.sival_ptr = (void *)(uintptr_t)info.ssi_ptr};
        if (info.ssi_code == SI_QUEUE)
            sigqueue(child, signal, value);
        else
            kill(child, signal);
    }
}

void gwi_signals_pass_on(gwi_signals *signals, pid_t child)
{
    pass_on(signals, child, false);
}

void gwi_signals_end(gwi_signals *signals)
{
    if (signals->witness_pid > 0) {
        kill(signals->witness_pid, SIGKILL);
        waitpid(signals->witness_pid, NULL, 0);
        munmap(signals->witness_counts, 65 * sizeof(uint32_t));
    }
    if (signals->fd >= 0)
        close(signals->fd);
    signals->fd = -1;
    signals->witness_pid = 0;
}

/* ---- starting ---- */

enum { FILES_WANTED = 1024, FILES_MIN = 48, STACK_WANTED = 1 << 20 };

typedef struct raised_limit {
    int resource;
    rlim_t wanted;
    struct rlimit before;
    bool is_raised;
} raised_limit;

static raised_limit raised[] = {{.resource = RLIMIT_NOFILE, .wanted = FILES_WANTED},
                                {.resource = RLIMIT_FSIZE, .wanted = RLIM_INFINITY},
                                {.resource = RLIMIT_STACK, .wanted = STACK_WANTED}};
enum { RAISED_COUNT = sizeof raised / sizeof raised[0] };

static void raise_limit(raised_limit *limit)
{
    if (getrlimit((__rlimit_resource_t)limit->resource, &limit->before) != 0 || limit->before.rlim_cur >= limit->wanted)
        return;
    struct rlimit more = limit->before;
    more.rlim_cur = more.rlim_max < limit->wanted ? more.rlim_max : limit->wanted;
    limit->is_raised = setrlimit((__rlimit_resource_t)limit->resource, &more) == 0;
}

bool gwi_limits_begin(void)
{
    struct rlimit files;
    for (size_t i = 0; i < RAISED_COUNT; i++)
        raise_limit(&raised[i]);
    return getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= FILES_MIN;
}

void gwi_limits_restore(void)
{
    for (size_t i = 0; i < RAISED_COUNT; i++)
        if (raised[i].is_raised)
            setrlimit((__rlimit_resource_t)raised[i].resource, &raised[i].before);
}

/* The timers of setitimer(), in which a caller may have set a limit: exec keeps them, but fork clears them. */
enum { TIMER_COUNT = 3 };
static const __itimer_which_t timers[TIMER_COUNT] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};

static _Noreturn void become(const gwi_start *start, int report_fd, const struct itimerval left[TIMER_COUNT])
{
    gwi_cudnn_enter(start->cudnn);
    gwi_doors_enter(start->doors, start->options, start->program, start->run_folder, start->handout,
                    start->capture->ring_path);
    bool ends_with_us = start->options->end_with_parent || start->options->rehearse; /* nobody needs a killed trial */
    if (ends_with_us && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() != start->supervisor)
        _exit(GW_EXIT_CANNOT_RUN); /* the supervisor died before the prctl() call */
    gwi_signals_restore(start->signals);
    gwi_limits_restore();
    for (size_t i = 0; i < TIMER_COUNT; i++)
        setitimer(timers[i], &left[i], NULL);
    gwi_stderr_execute(start->capture, start->argv, report_fd);
    execvp(start->argv[0], start->argv);
    int why = errno;
    ssize_t ignored = write(report_fd, &why, sizeof why);
    (void)ignored;
    _exit(GW_EXIT_NOT_FOUND);
}

gw_status gwi_child_start(const gwi_start *start, pid_t *ret_pid, int *ret_errno, gw_error *err)
{
    int report[2]; /* pipe: a successful exec closes it; otherwise the child writes the errno of exec */
    *ret_errno = EAGAIN;
    if (pipe2(report, O_CLOEXEC) < 0)
        return gw_fail(err, GW_IO, "start %s: %s", start->argv[0], strerror(errno));
    struct itimerval left[TIMER_COUNT] = {0};
    for (size_t i = 0; i < TIMER_COUNT; i++)
        getitimer(timers[i], &left[i]);
    pid_t pid = fork();
    if (pid == 0)
        become(start, report[1], left);
    close(report[1]);
    int why = errno;
    if (pid > 0)
        pass_on(start->signals, pid, true);
    gw_status st = GW_OK;
    ssize_t got = 0;
    if (pid < 0) {
        st = gw_fail(err, GW_IO, "start %s: %s", start->argv[0], strerror(why));
        goto out;
    }
    do
        got = read(report[0], &why, sizeof why);
    while (got < 0 && errno == EINTR);
    if (got == sizeof why) {
        waitpid(pid, NULL, 0);
        *ret_errno = why;
        st = gw_fail(err, GW_IO, "%s: cannot be executed: %s%s", start->program->path, strerror(why),
                     why == ENOENT ? " (its interpreter is missing)" : "");
        goto out;
    }
    *ret_pid = pid;
out:
    close(report[0]);
    return st;
}

/* ---- the end ---- */

bool gwi_child_ended(pid_t pid, int *ret_status)
{
    int status;
    pid_t got = waitpid(pid, &status, WNOHANG | WUNTRACED);
    if (got != pid)
        return false;
    if (WIFSTOPPED(status)) {
        /* ^Z: the shell waits until we have stopped too. Ignore SIGSTOP, which was sent only to the program. */
        int signal = WSTOPSIG(status);
        if (signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU) {
            raise(SIGSTOP);
            kill(pid, SIGCONT);
        }
        return false;
    }
    *ret_status = status;
    return true;
}

_Noreturn void gwi_end_like(int status)
{
    if (WIFSIGNALED(status)) {
        int signal_number = WTERMSIG(status);
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        prctl(PR_SET_DUMPABLE, 0); /* RLIMIT_CORE alone does not stop the kernel from running a core dump handler */
        signal(signal_number, SIG_DFL);
        sigset_t only;
        sigemptyset(&only);
        sigaddset(&only, signal_number);
        sigprocmask(SIG_UNBLOCK, &only, NULL);
        raise(signal_number);
        _exit(128 + signal_number); /* reached only if the signal that killed the program does not kill us */
    }
    exit(WEXITSTATUS(status));
}
