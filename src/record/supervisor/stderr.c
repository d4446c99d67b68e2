/* Replaces the program's stderr with a pipe if a relay must copy it, and reads what was written. */
#include "gwi_stderr.h"

#include "gw_filter.h"
#include "gw_process.h"
#include "gw_text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the relay ---- */

/* True if this is the file of our own relay: another program would not execute the user's command. */
static bool is_relay(const char *path)
{
    struct stat stat;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t bytes = fd >= 0 && fstat(fd, &stat) == 0 ? (size_t)stat.st_size : 0;
    void *file = bytes == 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    bool is_ours = file != MAP_FAILED && memmem(file, bytes, GW_RELAY_MARK, sizeof GW_RELAY_MARK) != NULL;
    if (file != MAP_FAILED)
        munmap(file, bytes);
    if (fd >= 0)
        close(fd);
    return is_ours;
}

/* Make the memory that the relay shares with us. Its own program maps it from a descriptor. */
static bool make_tail(gwi_stderr *capture)
{
    struct rlimit size;
    size_t bytes = sizeof *capture->tail;
    bool may_have_file = getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur >= bytes && gw_rare_calls_are_safe();
    capture->tail_fd = may_have_file ? memfd_create(GW_RELAY_FILE, MFD_CLOEXEC) : -1;
    if (capture->tail_fd < 0 || ftruncate(capture->tail_fd, (off_t)bytes) != 0 ||
        gw_library_find(GW_RELAY_FILE, capture->relay_path, NULL) != GW_OK || !is_relay(capture->relay_path))
        capture->relay_path[0] = '\0';
    bool is_shared = capture->relay_path[0] != '\0';
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (is_shared ? 0 : MAP_ANONYMOUS),
                        is_shared ? capture->tail_fd : -1, 0);
    if (memory == MAP_FAILED)
        return false;
    capture->tail = memory;
    capture->ring = &capture->tail->ring;
    return true;
}

/* Start the relay's program. Returns 0 if it cannot be executed. On return, it is executed: a process that still ran
 * the file of gpuwhy would be killed with gpuwhy. */
static pid_t spawn_relay(const gwi_stderr *capture, int source)
{
    posix_spawn_file_actions_t files;
    const int from[3] = {source, capture->tail_fd, STDERR_FILENO};
    int fds[3];
    gw_path path;
    char number[3][12], *argv[] = {path, number[0], number[1], number[2], NULL}, *environment[] = {NULL};
    pid_t pid = 0;
    memcpy(path, capture->relay_path, sizeof path);
    if (path[0] == '\0' || posix_spawn_file_actions_init(&files) != 0)
        return 0;
    for (size_t i = 0; i < 3; i++) {
        fds[i] = fcntl(from[i], F_DUPFD, STDERR_FILENO + 1);
        snprintf(number[i], sizeof number[i], "%d", fds[i]);
    }
    /* what the loader of programs may print is not for the user */
    if (posix_spawn_file_actions_addclose(&files, STDERR_FILENO) != 0 ||
        posix_spawn(&pid, path, &files, NULL, argv, environment) != 0)
        pid = 0;
    posix_spawn_file_actions_destroy(&files);
    for (size_t i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return pid;
}

/* Start the relay: its program, or a copy of this process. Returns 0 on failure. */
static pid_t start_relay(const gwi_stderr *capture, int source)
{
    atomic_store_explicit(&capture->tail->has_begun, false, memory_order_release);
    pid_t pid = spawn_relay(capture, source);
    if (pid == 0 && (pid = fork()) == 0)
        gwi_relay(source, capture->tail);
    return pid < 0 ? 0 : pid;
}

void gwi_relay_look(gwi_stderr *capture)
{
    int status;
    if (capture->source_fd < 0)
        return;
    bool has_ended = capture->relay_pid > 0 && waitpid(capture->relay_pid, &status, WNOHANG) > 0;
    bool has_begun = atomic_load_explicit(&capture->tail->has_begun, memory_order_acquire);
    if (has_ended)
        capture->relay_pid = 0;
    if (atomic_load_explicit(&capture->tail->reader_gone, memory_order_acquire) ||
        (has_ended && has_begun && WIFEXITED(status))) {
        close(capture->source_fd);
        capture->source_fd = -1;
        atomic_store_explicit(&capture->tail->supervisor, 0, memory_order_release);
    } else if (has_ended) {
        if (!has_begun) /* its program cannot be loaded */
            capture->relay_path[0] = '\0';
        capture->relay_pid = start_relay(capture, capture->source_fd);
    }
}

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

static const char no_relay[] = "cannot start a process that copies stderr";

static void begin_pipe(gwi_stderr *capture)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        capture->not_recorded = "cannot create a pipe for stderr";
    } else {
        dress_pipe(ends[1]);
        capture->source_fd = ends[0];
        capture->child_fd = ends[1];
        if (make_tail(capture))
            atomic_store_explicit(&capture->tail->supervisor, getpid(), memory_order_release);
        else
            gwi_stderr_end(capture);
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
    *capture = (gwi_stderr){.child_fd = -1, .file_fd = -1, .source_fd = -1, .tail_fd = -1};
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
        capture->not_recorded = no_relay;
    capture->with_stdout = capture->not_recorded == NULL && is_also_stdout(&ours);
}

/* ---- in the child ---- */

/* Return our environment for the relay's program: what the program is to preload must not be loaded here. Returns NULL
 * if memory is short. */
static char **hold_environment(void)
{
    static const char mark[] = {GW_RELAY_HOLDS, '\0'};
    static const char *const held[] = {"LD_", "GLIBC_TUNABLES=", mark};
    size_t count = 0;
    while (environ[count] != NULL)
        count++;
    char **environment = calloc(count + 1, sizeof *environment);
    for (size_t i = 0; environment != NULL && i < count; i++) {
        environment[i] = environ[i];
        for (size_t k = 0; k < sizeof held / sizeof held[0]; k++)
            if (gw_begins(environ[i], held[k]) && asprintf(&environment[i], "%c%s", GW_RELAY_HOLDS, environ[i]) < 0)
                return NULL;
    }
    return environment;
}

/* Execute the relay's program, which starts the relay and then executes the program. Returns if it cannot. */
static void execute_starter(const gwi_stderr *capture, char *const *program, int report_fd)
{
    enum { FIRST = GW_RELAY_PROGRAM };
    const int fds[] = {capture->source_fd, capture->tail_fd, capture->child_fd, report_fd};
    char number[4][12];
    gw_path path;
    char both[] = "both", one[] = "stderr";
    size_t count = 0;
    while (program[count] != NULL)
        count++;
    char **argv = calloc(FIRST + count + 1, sizeof *argv), **environment = hold_environment();
    if (capture->relay_path[0] == '\0' || argv == NULL || environment == NULL)
        return;
    memcpy(path, capture->relay_path, sizeof path);
    argv[0] = path;
    for (size_t i = 0; i < 4; i++) {
        snprintf(number[i], sizeof number[i], "%d", fds[i]);
        argv[1 + i] = number[i];
        fcntl(fds[i], F_SETFD, 0);
    }
    argv[FIRST - 1] = capture->with_stdout ? both : one;
    memcpy(argv + FIRST, program, count * sizeof *argv);
    execve(path, argv, environment);
    for (size_t i = 0; i < 4; i++)
        fcntl(fds[i], F_SETFD, FD_CLOEXEC);
}

void gwi_stderr_execute(const gwi_stderr *capture, char *const *argv, int report_fd)
{
    if (capture->child_fd < 0)
        return;
    execute_starter(capture, argv, report_fd);
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        gwi_relay(capture->source_fd, capture->tail);
    gwi_relay_enter(capture->tail, pid, capture->child_fd, capture->with_stdout);
}

/* ---- in the supervisor ---- */

void gwi_stderr_began(gwi_stderr *capture)
{
    if (capture->child_fd < 0)
        return;
    close(capture->child_fd);
    capture->child_fd = -1;
    capture->relay_pid = atomic_load_explicit(&capture->tail->relay, memory_order_acquire);
    if (capture->relay_pid == 0) {
        gwi_stderr_end(capture);
        capture->not_recorded = no_relay;
    }
}

/* ---- reading ---- */

enum {
    SETTLE_MS_MAX = 1000,
    SETTLE_BLOCKED_MS_MAX = 10000, /* limit on the time during which the reader of our stderr does not read */
    SETTLE_QUIET_MS = 20
};

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
    if (capture->child_fd >= 0)
        close(capture->child_fd);
    if (capture->source_fd >= 0)
        close(capture->source_fd);
    if (capture->tail_fd >= 0)
        close(capture->tail_fd);
    if (capture->relay_pid > 0)
        /* the relay may outlive us if children of the program still write to it */
        waitpid(capture->relay_pid, NULL, WNOHANG);
    if (capture->tail != NULL)
        munmap(capture->tail, sizeof *capture->tail);
    else if (capture->ring != NULL)
        munmap(capture->ring, sizeof *capture->ring);
    *capture = (gwi_stderr){.child_fd = -1, .file_fd = -1, .source_fd = -1, .tail_fd = -1};
}
