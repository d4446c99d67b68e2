/* Replaces the program's stderr with a pipe or a terminal if a relay must copy it (relay.c), and reads what was
 * written. */
#include "gwi_relay.h"

#include "gw_text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

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
        if (gwi_relay_start(capture, ends[0]))
            capture->child_fd = ends[1];
        else
            close(ends[1]);
        close(ends[0]); /* the relay has its own copy of this descriptor, and so does source_fd */
    }
}

/* Copy the real terminal's size and modes to `slave`, without the translation of newlines: the real terminal does
 * that. */
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
        capture->not_recorded = "cannot create a terminal for stderr";
    } else {
        dress_terminal(slave);
        if (gwi_relay_start(capture, master))
            capture->child_fd = slave;
        else
            close(slave);
    }
    if (master >= 0)
        close(master);
}

void gwi_stderr_begin(gwi_stderr *capture, bool wanted)
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
        begin_terminal(capture);
    else
        capture->not_recorded = "stderr is neither a file, a pipe nor a terminal";
    if (capture->not_recorded == NULL && capture->file_fd < 0 && capture->child_fd < 0)
        capture->not_recorded = "cannot start a process that copies stderr";
    /* If stderr is a terminal, the program's standard output stays on the real terminal. */
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

/* Return true if the relay process sleeps, because it has then copied everything. A relay that is ready to run but
 * waits for a CPU may still have bytes to copy. */
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
        gwi_relay_look(capture);
        poll(NULL, 0, 1);
        uint64_t now = atomic_load_explicit(&capture->tail->total, memory_order_acquire);
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
    if (capture->source_fd >= 0)
        close(capture->source_fd);
    if (capture->relay_pid > 0)
        /* the relay may outlive us if children of the program still write to it */
        waitpid(capture->relay_pid, NULL, WNOHANG);
    if (capture->tail != NULL)
        munmap(capture->tail, sizeof *capture->tail);
    *capture = (gwi_stderr){.child_fd = -1, .file_fd = -1, .source_fd = -1};
}
