/* Copies the program's stderr to the terminal and into the recording. */
#include "gwi_stderr.h"

#include "gw_text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum {
    COPY_BYTES = 64 << 10,
    SETTLE_MS_MAX = 1000,
    SETTLE_BLOCKED_MS_MAX = 10000, /* while the reader of our stderr reads nothing */
    SETTLE_QUIET_MS = 20,
    COPIERS_MAX = 16
};

struct gwi_stderr_tail {
    _Atomic uint64_t total;   /* bytes read so far; the newest end at total % size */
    _Atomic uint64_t written; /* how many of these bytes were passed on */
    _Atomic bool ended;
    _Atomic pid_t copier; /* 0: not started */
    char bytes[GWI_STDERR_BYTES_MAX];
};
_Static_assert((size_t)COPY_BYTES <= (size_t)GWI_STDERR_BYTES_MAX,
               "what was read and not yet passed on is still there");

/* ---- the relay ---- */

/* Pass on what was read but not written. The data is in shared memory, so a copier that replaces a killed one continues
 * where that one stopped. */
static bool pass_on(int fd, gwi_stderr_tail *tail)
{
    uint64_t total = atomic_load_explicit(&tail->total, memory_order_relaxed);
    uint64_t done = atomic_load_explicit(&tail->written, memory_order_relaxed);
    while (done < total) {
        size_t at = (size_t)(done % sizeof tail->bytes), count = (size_t)(total - done);
        if (count > sizeof tail->bytes - at)
            count = sizeof tail->bytes - at;
        ssize_t written = write(fd, tail->bytes + at, count);
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

static void keep(gwi_stderr_tail *tail, const char *bytes, size_t count)
{
    uint64_t total = atomic_load_explicit(&tail->total, memory_order_relaxed);
    for (size_t i = 0; i < count;) {
        size_t at = (size_t)((total + i) % sizeof tail->bytes);
        size_t part = sizeof tail->bytes - at < count - i ? sizeof tail->bytes - at : count - i;
        memcpy(tail->bytes + at, bytes + i, part);
        i += part;
    }
    atomic_store_explicit(&tail->total, total + count, memory_order_release);
}

static volatile sig_atomic_t window_changed;

static void note_window_change(int signal)
{
    (void)signal;
    window_changed = 1;
}

/* A reader of our other descriptors must see their end when the program ends, not when the relay does. */
static void close_all_but(int first, int second)
{
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL) { /* no /proc */
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

/* Wait until there are bytes to copy. Returns false if the reader of our stderr has closed its end of the pipe. The
 * relay then ends at once, so that the program's next write fails as it would without gpuwhy, and not the write after
 * it. */
static bool wait_for_more(int source, bool is_pipe)
{
    struct pollfd waited[] = {{.fd = source, .events = POLLIN}, {.fd = is_pipe ? STDERR_FILENO : -1}};
    return poll(waited, 2, -1) < 0 || (waited[1].revents & POLLERR) == 0;
}

static void copy_until_end(int source, gwi_stderr_tail *tail)
{
    static char bytes[COPY_BYTES];
    struct stat stat;
    bool is_pipe = fstat(STDERR_FILENO, &stat) == 0 && S_ISFIFO(stat.st_mode);
    while (pass_on(STDERR_FILENO, tail) && wait_for_more(source, is_pipe)) {
        if (window_changed) {
            struct winsize size;
            window_changed = 0;
            if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0)
                ioctl(source, TIOCSWINSZ, &size);
        }
        ssize_t got = read(source, bytes, sizeof bytes);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0) /* a pty returns EIO after its last writer has gone */
            return;
        keep(tail, bytes, (size_t)got);
    }
}

/* The program's output passes through the copier. If the copier is killed, another one replaces it. */
static void copy_by_child(int source, gwi_stderr_tail *tail)
{
    for (int i = 0; i < COPIERS_MAX; i++) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0) {
            copy_until_end(source, tail);
            _exit(0);
        }
        if (pid < 0)
            break;
        atomic_store_explicit(&tail->copier, pid, memory_order_release);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        if (WIFEXITED(status))
            return;
    }
    atomic_store_explicit(&tail->copier, getpid(), memory_order_release);
    copy_until_end(source, tail);
}

static _Noreturn void relay(int source, gwi_stderr_tail *tail)
{
    /* Signals of the terminal and of the user are for the program. Whatever ends, the last output must get through. */
    static const int ignored[] = {SIGINT,  SIGQUIT, SIGHUP,  SIGTERM, SIGPIPE, SIGTSTP,
                                  SIGTTOU, SIGTTIN, SIGUSR1, SIGUSR2, SIGALRM};
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        signal(ignored[i], SIG_IGN);
    struct sigaction action = {.sa_handler = note_window_change}; /* no SA_RESTART, because poll must return */
    sigaction(SIGWINCH, &action, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_NAME, "gpuwhy-stderr");
    close_all_but(source, STDERR_FILENO);
    copy_by_child(source, tail);
    atomic_store_explicit(&tail->ended, true, memory_order_release);
    _exit(0);
}

/* ---- setting up ---- */

static bool start_relay(gwi_stderr *capture, int source)
{
    void *memory = mmap(NULL, sizeof *capture->tail, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    capture->tail = memory;
    capture->relay_pid = fork();
    if (capture->relay_pid == 0)
        relay(source, capture->tail);
    if (capture->relay_pid < 0) {
        capture->relay_pid = 0;
        munmap(memory, sizeof *capture->tail);
        capture->tail = NULL;
        return false;
    }
    return true;
}

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

/* Give the pipe the size and flags of the one that it replaces, as far as the system allows. */
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
        capture->not_recorded = "no pipe could be made for stderr";
    } else {
        dress_pipe(ends[1]);
        if (start_relay(capture, ends[0]))
            capture->child_fd = ends[1];
        else
            close(ends[1]);
        close(ends[0]); /* our copy; the relay keeps its own, so that the program notices when nobody reads any more */
    }
}

/* Take size and modes of the real terminal, but leave newlines unchanged, because the real one translates them. */
static void dress_terminal(int slave)
{
    struct termios modes;
    struct winsize size;
    if (tcgetattr(STDERR_FILENO, &modes) == 0) {
        modes.c_oflag &= (tcflag_t)~OPOST;
        tcsetattr(slave, TCSANOW, &modes);
    }
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0)
        ioctl(slave, TIOCSWINSZ, &size);
}

static void begin_terminal(gwi_stderr *capture)
{
    char name[64];
    int slave = -1;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0 && ptsname_r(master, name, sizeof name) == 0)
        slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0) {
        capture->not_recorded = "no second terminal could be made for stderr";
    } else {
        dress_terminal(slave);
        if (start_relay(capture, master))
            capture->child_fd = slave;
        else
            close(slave);
    }
    if (master >= 0)
        close(master);
}

void gwi_stderr_begin(gwi_stderr *capture, bool wanted)
{
    *capture = (gwi_stderr){.child_fd = -1, .file_fd = -1};
    struct stat ours;
    if (!wanted)
        capture->not_recorded = "not asked for";
    else if (fstat(STDERR_FILENO, &ours) < 0)
        capture->not_recorded = "stderr is closed";
    else if (S_ISREG(ours.st_mode))
        begin_file(capture);
    else if (S_ISFIFO(ours.st_mode))
        begin_pipe(capture);
    else if (isatty(STDERR_FILENO))
        begin_terminal(capture);
    else
        capture->not_recorded = "stderr is neither a file, a pipe nor a terminal";
    if (capture->not_recorded == NULL && capture->file_fd < 0 && capture->child_fd < 0)
        capture->not_recorded = "no process could be started to copy stderr";
    /* Two terminals in place of one would show lines in another order. */
    capture->with_stdout = capture->not_recorded == NULL && !isatty(STDERR_FILENO) && is_also_stdout(&ours);
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

/* True if the relay waits for more to copy. New output wakes it at once, but on a busy machine it may run only later.
 */
static bool relay_sleeps(const gwi_stderr *capture)
{
    char path[48], line[256] = "";
    pid_t copier = atomic_load_explicit(&capture->tail->copier, memory_order_acquire);
    if (copier == 0)
        return false;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)copier);
    FILE *stat = fopen(path, "re");
    if (stat == NULL)
        return true;
    if (fgets(line, sizeof line, stat) == NULL)
        line[0] = '\0';
    fclose(stat);
    const char *name_end = strrchr(line, ')');
    return name_end == NULL || gw_begins(name_end, ") S");
}

void gwi_stderr_settle(gwi_stderr *capture)
{
    if (capture->tail == NULL)
        return;
    uint64_t before = atomic_load_explicit(&capture->tail->total, memory_order_acquire);
    int quiet_ms = 0, blocked_ms = 0;
    for (int ms = 0; ms < SETTLE_MS_MAX && blocked_ms < SETTLE_BLOCKED_MS_MAX && quiet_ms < SETTLE_QUIET_MS;) {
        if (atomic_load_explicit(&capture->tail->ended, memory_order_acquire))
            return;
        poll(NULL, 0, 1);
        uint64_t now = atomic_load_explicit(&capture->tail->total, memory_order_acquire);
        /* Our own output must not overtake what waits for a slow reader, because the program would have waited too. */
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
    if (stat.st_size < from) /* somebody truncated the file, so its contents are new */
        from = 0;
    if (stat.st_size - from > GWI_STDERR_BYTES_MAX)
        from = stat.st_size - GWI_STDERR_BYTES_MAX;
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

static size_t take_from_tail(gwi_stderr *capture, char **ret_bytes)
{
    const gwi_stderr_tail *tail = capture->tail;
    uint64_t total = atomic_load_explicit(&tail->total, memory_order_acquire);
    uint64_t from = capture->bytes_taken;
    if (total - from > sizeof tail->bytes)
        from = total - sizeof tail->bytes;
    size_t count = (size_t)(total - from);
    char *bytes = count == 0 ? NULL : malloc(count);
    if (bytes == NULL)
        return 0;
    for (size_t i = 0; i < count; i++)
        bytes[i] = tail->bytes[(from + i) % sizeof tail->bytes];
    capture->bytes_taken = total;
    *ret_bytes = bytes;
    return count;
}

size_t gwi_stderr_take(gwi_stderr *capture, char **ret_bytes)
{
    if (capture->file_fd >= 0)
        return take_from_file(capture, ret_bytes);
    if (capture->tail != NULL)
        return take_from_tail(capture, ret_bytes);
    return 0;
}

void gwi_stderr_end(gwi_stderr *capture)
{
    if (capture->file_fd >= 0)
        close(capture->file_fd);
    gwi_stderr_began(capture);
    if (capture->relay_pid > 0)
        waitpid(capture->relay_pid, NULL, WNOHANG); /* it may outlive us if children of the program still write */
    if (capture->tail != NULL)
        munmap(capture->tail, sizeof *capture->tail);
    *capture = (gwi_stderr){.child_fd = -1, .file_fd = -1};
}
