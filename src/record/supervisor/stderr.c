/* Replaces the program's stderr with a pipe if a relay must copy it, and reads what was written. */
#include "gw_filter.h"
#include "gw_process.h"
#include "gw_stderr_door.h"
#include "gwi_stderr.h"

#include "gw_text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct gwi_stderr_tail {
    gw_stderr_ring ring;      /* what was read so far */
    _Atomic uint64_t written; /* number of these bytes that were written to our stderr */
    _Atomic bool ended;
    _Atomic pid_t copier;     /* pid of the process that copies; 0: not started */
    _Atomic pid_t supervisor; /* pid of the supervisor while it also holds a read end of the pipe, else 0 */
    _Atomic bool reader_gone; /* our stderr has no reader any more: the supervisor must close its read end too */
};

/* Starts the processes that copy the program's stderr to ours, and replaces them if they are killed. */

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

static _Noreturn void relay(int source, gwi_stderr_tail *tail)
{
    /* These signals are meant for the program. The relay must survive them to copy the last output. */
    static const int ignored[] = {SIGINT,  SIGQUIT, SIGHUP,  SIGTERM, SIGPIPE, SIGTSTP,
                                  SIGTTOU, SIGTTIN, SIGUSR1, SIGUSR2, SIGALRM};
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        signal(ignored[i], SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_NAME, "gpuwhy-stderr");
    close_all_but(source, STDERR_FILENO);
    wait_for_end_of(atomic_load_explicit(&tail->copier, memory_order_acquire));
    copy_by_child(source, tail);
    atomic_store_explicit(&tail->ended, true, memory_order_release);
    _exit(0);
}

static pid_t start(int source, gwi_stderr_tail *tail)
{
    pid_t pid = fork();
    if (pid == 0)
        relay(source, tail);
    return pid;
}

/* Start copying from `source`, the read end of a pipe, to our stderr. Returns false on failure. */
static bool relay_start(gwi_stderr *capture, int source)
{
    void *memory = mmap(NULL, sizeof *capture->tail, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    capture->tail = memory;
    capture->ring = &capture->tail->ring;
    capture->relay_pid = start(source, capture->tail);
    if (capture->relay_pid < 0) {
        capture->relay_pid = 0;
        munmap(memory, sizeof *capture->tail);
        capture->tail = NULL;
        capture->ring = NULL;
        return false;
    }
    capture->source_fd = fcntl(source, F_DUPFD_CLOEXEC, 0);
    if (capture->source_fd >= 0)
        atomic_store_explicit(&capture->tail->supervisor, getpid(), memory_order_release);
    return true;
}

void gwi_relay_look(gwi_stderr *capture)
{
    int status;
    if (capture->source_fd < 0)
        return;
    bool has_ended = capture->relay_pid > 0 && waitpid(capture->relay_pid, &status, WNOHANG) > 0;
    if (has_ended)
        capture->relay_pid = 0;
    if (atomic_load_explicit(&capture->tail->reader_gone, memory_order_acquire) || (has_ended && WIFEXITED(status))) {
        close(capture->source_fd);
        capture->source_fd = -1;
        atomic_store_explicit(&capture->tail->supervisor, 0, memory_order_release);
    } else if (has_ended) {
        pid_t pid = start(capture->source_fd, capture->tail);
        capture->relay_pid = pid < 0 ? 0 : pid;
    }
}

enum {
    SETTLE_MS_MAX = 1000,
    SETTLE_BLOCKED_MS_MAX = 10000, /* limit on the time during which the reader of our stderr does not read */
    SETTLE_QUIET_MS = 20
};

/* ---- setup ---- */

static void begin_file(gwi_stderr *capture)
{
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    struct stat stat;
    off_t at = lseek(STDERR_FILENO, 0, SEEK_CUR);
    capture->file_fd = open("/proc/self/fd/2", O_RDONLY | O_CLOEXEC);
    if (capture->file_fd < 0 || fstat(STDERR_FILENO, &stat) < 0 || at < 0) {
        capture->not_recorded = "stderr is a file that cannot be read";
        return;
    }
    capture->file_start = flags >= 0 && (flags & O_APPEND) != 0 ? stat.st_size : at;
}

static bool is_also_stdout(const struct stat *ours)
{
    struct stat other;
    return fstat(STDOUT_FILENO, &other) == 0 && other.st_dev == ours->st_dev && other.st_ino == ours->st_ino;
}

/* Set the size and flags of the new pipe to those of the pipe it replaces, as far as the system permits. */
static void dress_pipe(int writing_end)
{
    int bytes = fcntl(STDERR_FILENO, F_GETPIPE_SZ), flags = fcntl(STDERR_FILENO, F_GETFL);
    if (bytes > 0)
        fcntl(writing_end, F_SETPIPE_SZ, bytes);
    if (flags >= 0 && (flags & O_NONBLOCK) != 0)
        fcntl(writing_end, F_SETFL, O_NONBLOCK);
}

static void begin_pipe(gwi_stderr *capture)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        capture->not_recorded = "cannot create a pipe for stderr";
    } else {
        dress_pipe(ends[1]);
        if (relay_start(capture, ends[0]))
            capture->child_fd = ends[1];
        else
            close(ends[1]);
        close(ends[0]); /* the relay has its own copy of this descriptor, and so does source_fd */
    }
}

/* Make the ring that the processes of the program write to. All of its memory is reserved, so that writing to it cannot
 * kill them. */
static void begin_terminal(gwi_stderr *capture, const struct stat *terminal, const char *run_folder)
{
    void *memory = MAP_FAILED;
    capture->not_recorded = "stderr is a terminal, and there is no memory to copy the text to";
    if (run_folder[0] == '\0' || gw_path_format(capture->ring_path, NULL, "%s/stderr", run_folder) != GW_OK)
        return;
    int fd = open(capture->ring_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && posix_fallocate(fd, 0, sizeof *capture->ring) == 0)
        memory = mmap(NULL, sizeof *capture->ring, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (memory == MAP_FAILED) {
        capture->ring_path[0] = '\0';
        return;
    }
    capture->not_recorded = "stderr is a terminal, so only text from the C library's functions was recorded";
    capture->ring = memory;
    capture->ring->terminal = terminal->st_rdev;
}

void gwi_stderr_begin(gwi_stderr *capture, bool wanted, const char *run_folder)
{
    *capture = (gwi_stderr){.child_fd = -1, .file_fd = -1, .source_fd = -1};
    struct stat ours;
    if (!wanted)
        capture->not_recorded = "disabled with --no-stderr";
    else if (fstat(STDERR_FILENO, &ours) < 0)
        capture->not_recorded = "stderr is closed";
    else if (S_ISREG(ours.st_mode))
        begin_file(capture);
    else if (S_ISFIFO(ours.st_mode))
        begin_pipe(capture);
    else if (isatty(STDERR_FILENO))
        begin_terminal(capture, &ours, run_folder);
    else
        capture->not_recorded = "stderr is neither a file, a pipe nor a terminal";
    if (capture->not_recorded == NULL && capture->file_fd < 0 && capture->child_fd < 0)
        capture->not_recorded = "cannot start a process that copies stderr";
    capture->with_stdout = capture->not_recorded == NULL && is_also_stdout(&ours);
}

void gwi_stderr_enter(const gwi_stderr *capture)
{
    if (capture->child_fd >= 0)
        dup2(capture->child_fd, STDERR_FILENO);
    if (capture->child_fd >= 0 && capture->with_stdout)
        dup2(capture->child_fd, STDOUT_FILENO);
}

void gwi_stderr_began(gwi_stderr *capture)
{
    if (capture->child_fd >= 0)
        close(capture->child_fd);
    capture->child_fd = -1;
}

/* ---- reading ---- */

/* Return true if the relay process sleeps, because it has then copied everything. A relay that is ready to run but
 * waits for a CPU may still have bytes to copy. */
static bool relay_sleeps(const gwi_stderr *capture)
{
    char stat[GW_PROCESS_STAT_MAX];
    pid_t copier = atomic_load_explicit(&capture->tail->copier, memory_order_acquire);
    return copier != 0 && (!gw_process_stat(copier, stat) || gw_begins(stat, ") S"));
}

/* Wait until the processes have stored all text that they announced. */
static void settle_ring(gwi_stderr *capture)
{
    const gw_stderr_ring *ring = capture->ring;
    for (int ms = 0; ms < SETTLE_QUIET_MS && atomic_load(&ring->stored) != atomic_load(&ring->total); ms++)
        poll(NULL, 0, 1);
    capture->missing_at = atomic_load(&ring->total);
}

void gwi_stderr_settle(gwi_stderr *capture)
{
    if (capture->tail == NULL && capture->ring != NULL)
        settle_ring(capture);
    if (capture->tail == NULL)
        return;
    uint64_t before = atomic_load_explicit(&capture->tail->ring.total, memory_order_acquire);
    int quiet_ms = 0, blocked_ms = 0;
    for (int ms = 0; ms < SETTLE_MS_MAX && blocked_ms < SETTLE_BLOCKED_MS_MAX && quiet_ms < SETTLE_QUIET_MS;) {
        if (atomic_load_explicit(&capture->tail->ended, memory_order_acquire))
            return;
        gwi_relay_look(capture);
        poll(NULL, 0, 1);
        uint64_t now = atomic_load_explicit(&capture->tail->ring.total, memory_order_acquire);
        /* If a slow reader of our stderr blocks the relay, wait, as the program would have done without gpuwhy.
         * Otherwise our messages would overtake its output. */
        bool blocked = atomic_load_explicit(&capture->tail->written, memory_order_acquire) != now;
        quiet_ms = now == before && !blocked && relay_sleeps(capture) ? quiet_ms + 1 : 0;
        blocked_ms += blocked && now == before;
        ms += !(blocked && now == before);
        before = now;
    }
}

static size_t take_from_file(gwi_stderr *capture, char **ret_bytes)
{
    struct stat stat;
    if (fstat(capture->file_fd, &stat) < 0)
        return 0;
    off_t from = capture->file_start + (off_t)capture->bytes_taken;
    if (stat.st_size < from) /* the file was truncated, so its contents are new */
        from = 0;
    if (stat.st_size - from > GW_STDERR_BYTES_MAX)
        from = stat.st_size - GW_STDERR_BYTES_MAX;
    size_t count = (size_t)(stat.st_size - from);
    char *bytes = count == 0 ? NULL : malloc(count);
    ssize_t got = bytes == NULL ? 0 : pread(capture->file_fd, bytes, count, from);
    if (got <= 0) {
        free(bytes);
        return 0;
    }
    capture->file_start = 0;
    capture->bytes_taken = (uint64_t)from + (uint64_t)got;
    *ret_bytes = bytes;
    return (size_t)got;
}

/* Bytes that a process is still storing are left for the next call, unless no more have come since this one: the
 * process was then killed. */
static size_t take_from_ring(gwi_stderr *capture, char **ret_bytes)
{
    const gw_stderr_ring *ring = capture->ring;
    uint64_t stored = atomic_load_explicit(&ring->stored, memory_order_acquire);
    uint64_t total = atomic_load_explicit(&ring->total, memory_order_acquire);
    uint64_t from = capture->bytes_taken;
    if (stored != total && capture->missing_at != total) {
        capture->missing_at = total;
        return 0;
    }
    if (total - from > sizeof ring->bytes)
        from = total - sizeof ring->bytes;
    size_t count = (size_t)(total - from);
    char *bytes = count == 0 ? NULL : malloc(count);
    if (bytes == NULL)
        return 0;
    for (size_t i = 0; i < count; i++)
        bytes[i] = ring->bytes[(from + i) % sizeof ring->bytes];
    capture->bytes_taken = total;
    *ret_bytes = bytes;
    return count;
}

size_t gwi_stderr_take(gwi_stderr *capture, char **ret_bytes)
{
    if (capture->file_fd >= 0)
        return take_from_file(capture, ret_bytes);
    if (capture->ring != NULL)
        return take_from_ring(capture, ret_bytes);
    return 0;
}

void gwi_stderr_end(gwi_stderr *capture)
{
    if (capture->file_fd >= 0)
        close(capture->file_fd);
    gwi_stderr_began(capture);
    if (capture->source_fd >= 0)
        close(capture->source_fd);
    if (capture->relay_pid > 0)
        /* the relay may outlive us if children of the program still write to it */
        waitpid(capture->relay_pid, NULL, WNOHANG);
    if (capture->tail != NULL)
        munmap(capture->tail, sizeof *capture->tail);
    else if (capture->ring != NULL)
        munmap(capture->ring, sizeof *capture->ring);
    *capture = (gwi_stderr){.child_fd = -1, .file_fd = -1, .source_fd = -1};
}
