/* Copies the program's stderr from one pipe to another (gwi_relay.h). The relay starts a child that copies, and
 * replaces it if it is killed. */
#include "gw_filter.h"
#include "gwi_relay.h"

#include "gw_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    COPY_BYTES = GW_STDERR_BYTES_MAX / 4,
    COPIERS_MAX = 1000
}; /* what was read is in the ring until it is written */

/* Write to `fd` the bytes that were read from the program and not yet written. They are in shared memory, so that the
 * next copier continues if one is killed. Returns false if writing fails. */
static bool pass_on(int fd, gwi_stderr_tail *tail)
{
    uint64_t total = atomic_load_explicit(&tail->ring.total, memory_order_relaxed);
    uint64_t done = atomic_load_explicit(&tail->written, memory_order_relaxed);
    while (done < total) {
        size_t at = (size_t)(done % sizeof tail->ring.bytes), count = (size_t)(total - done);
        if (count > sizeof tail->ring.bytes - at)
            count = sizeof tail->ring.bytes - at;
        ssize_t written = write(fd, tail->ring.bytes + at, count);
        if (written < 0 && errno == EAGAIN) {
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (written < 0 && errno != EINTR) {
            return false;
        } else if (written > 0) {
            done += (uint64_t)written;
            atomic_store_explicit(&tail->written, done, memory_order_release);
        }
    }
    return true;
}

/* Close all descriptors except `first` and `second`. The relay may outlive the program, and a pipe that it kept open
 * for writing would never end. */
static void close_all_but(int first, int second)
{
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL) { /* there is no /proc: close the descriptors below 1024 */
        for (int fd = 0; fd < 1024; fd++)
            if (fd != first && fd != second)
                close(fd);
        return;
    }
    int own = dirfd(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && fd != first && fd != second && fd != own)
            close(fd);
    }
    closedir(folder);
}

/* Wait until there are bytes to copy. Returns false if our stderr's reader has closed the pipe. The relay then ends, so
 * that the program's next write fails as it would without gpuwhy. */
static bool wait_for_more(int source)
{
    struct pollfd waited[] = {{.fd = source, .events = POLLIN}, {.fd = STDERR_FILENO}};
    return poll(waited, 2, -1) < 0 || (waited[1].revents & POLLERR) == 0;
}

static void copy_until_end(int source, gwi_stderr_tail *tail)
{
    static char bytes[COPY_BYTES];
    while (pass_on(STDERR_FILENO, tail) && wait_for_more(source)) {
        ssize_t got = read(source, bytes, sizeof bytes);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return;
        gw_stderr_ring_add(&tail->ring, bytes, (size_t)got);
    }
}

/* Move `count` bytes from the pipe `source` to the pipe at our stderr. Returns false if nothing reads our stderr any
 * more. */
static bool move(int source, size_t count)
{
    while (count > 0) {
        ssize_t moved = splice(source, NULL, STDERR_FILENO, NULL, count, 0);
        if (moved < 0 && errno == EAGAIN) {
            struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (moved == 0 || (moved < 0 && errno != EINTR)) {
            return false;
        } else if (moved > 0) {
            count -= (size_t)moved;
        }
    }
    return true;
}

/* Copy from one pipe to another. The kernel moves the bytes in one step, so killing the copier loses and repeats no
 * output. Before each move, tee() copies the bytes to a third pipe for us to read. Returns false, with nothing moved,
 * if tee() never worked. */
static bool move_until_end(int source, gwi_stderr_tail *tail)
{
    static char bytes[COPY_BYTES];
    int look[2];
    bool works = false;
    /* An earlier copier may have been killed. The bytes that it read were moved to our stderr, or will be read again
     * from the pipe. So no byte remains to be written. */
    atomic_store_explicit(&tail->written, atomic_load(&tail->ring.total), memory_order_release);
    if (pipe2(look, O_CLOEXEC) < 0)
        return false;
    while (wait_for_more(source)) {
        ssize_t seen = tee(source, look[1], sizeof bytes, SPLICE_F_NONBLOCK);
        if (seen < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        works = works || seen >= 0;
        if (seen <= 0 || read(look[0], bytes, (size_t)seen) != seen)
            break;
        gw_stderr_ring_add(&tail->ring, bytes, (size_t)seen);
        if (!move(source, (size_t)seen))
            break;
        atomic_fetch_add_explicit(&tail->written, (uint64_t)seen, memory_order_release);
    }
    close(look[0]);
    close(look[1]);
    return works;
}

/* Make the program's next write fail after our stderr's reader has gone: wake the supervisor with SIGCHLD, and wait
 * until it has closed its read end of the program's pipe. This may take seconds on a busy machine. The wait is limited,
 * because the supervisor may be stopped or dead. */
static void let_supervisor_close(gwi_stderr_tail *tail)
{
    enum { WAIT_MS = 5000 };
    pid_t supervisor;
    atomic_store_explicit(&tail->reader_gone, true, memory_order_release);
    for (int ms = 0; ms < WAIT_MS && (supervisor = atomic_load_explicit(&tail->supervisor, memory_order_acquire)) > 0 &&
                     (ms > 0 ? kill(supervisor, 0) : kill(supervisor, SIGCHLD)) == 0;
         ms++)
        poll(NULL, 0, 1);
}

static _Noreturn void be_copier(int source, gwi_stderr_tail *tail)
{
    /* an earlier copier may have been killed while it stored bytes */
    atomic_store(&tail->ring.total, atomic_load(&tail->ring.stored));
    if (!move_until_end(source, tail))
        copy_until_end(source, tail);
    struct pollfd reader = {.fd = STDERR_FILENO};
    if (poll(&reader, 1, 0) > 0 && (reader.revents & POLLERR) != 0)
        let_supervisor_close(tail);
    _exit(0);
}

/* Start a child that copies the program's output. If it is killed or stopped, start another. After COPIERS_MAX
 * children, or if none can be started, copy in this process. */
static void copy_by_child(int source, gwi_stderr_tail *tail)
{
    for (int i = 0; i < COPIERS_MAX; i++) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0)
            be_copier(source, tail);
        if (pid < 0)
            break;
        atomic_store_explicit(&tail->copier, pid, memory_order_release);
        while (waitpid(pid, &status, WUNTRACED) < 0 && errno == EINTR)
            ;
        if (WIFSTOPPED(status)) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
        }
        if (WIFEXITED(status))
            return;
    }
    atomic_store_explicit(&tail->copier, getpid(), memory_order_release);
    copy_until_end(source, tail);
}

/* Wait until the copier of a killed relay has ended. Two copiers at the same time would mix up the output. */
static void wait_for_end_of(pid_t copier)
{
    int fd = -1;
#ifdef SYS_pidfd_open
    if (copier > 0 && gw_rare_calls_are_safe())
        fd = (int)syscall(SYS_pidfd_open, copier, 0);
#endif
    if (fd >= 0) { /* unlike kill(), a pidfd also reports that the process has become a zombie */
        struct pollfd ended = {.fd = fd, .events = POLLIN};
        while (poll(&ended, 1, -1) < 0 && errno == EINTR)
            ;
        close(fd);
        return;
    }
    while (copier > 0 && (kill(copier, 0) == 0 || errno != ESRCH))
        poll(NULL, 0, 20);
}

void gwi_relay_enter(gwi_stderr_tail *tail, pid_t relay, int writer, bool both)
{
    if (relay <= 0)
        return;
    atomic_store_explicit(&tail->relay, relay, memory_order_release);
    dup2(writer, STDERR_FILENO);
    if (both)
        dup2(writer, STDOUT_FILENO);
}

_Noreturn void gwi_relay(int source, gwi_stderr_tail *tail)
{
    /* These signals are meant for the program. The relay must survive them to copy the last output. */
    static const int ignored[] = {SIGINT,  SIGQUIT, SIGHUP,  SIGTERM, SIGPIPE, SIGTSTP,
                                  SIGTTOU, SIGTTIN, SIGUSR1, SIGUSR2, SIGALRM};
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        signal(ignored[i], SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    atomic_store_explicit(&tail->has_begun, true, memory_order_release);
    prctl(PR_SET_NAME, GW_RELAY_FILE); /* if it is a copy of the supervisor */
    close_all_but(source, STDERR_FILENO);
    int unused = chdir("/"); /* the relay must not keep the program's folder busy */
    (void)unused;
    wait_for_end_of(atomic_load_explicit(&tail->copier, memory_order_acquire));
    copy_by_child(source, tail);
    atomic_store_explicit(&tail->ended, true, memory_order_release);
    _exit(0);
}
