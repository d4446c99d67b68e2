/* Reads a process's threads from /proc, and the locks they wait for from its memory. */
#define _GNU_SOURCE
#include "gwi_stacks.h"

#include "gw_filter.h"
#include "gw_text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { THREADS_MAX = 256 };

const char *gw_wait_word(gw_wait wait)
{
    static const char *const words[] = {
#define GW_X(name, word) word,
        GW_WAITS(GW_X)
#undef GW_X
    };
    _Static_assert(sizeof words / sizeof words[0] == GW_WAIT_COUNT, "one word each");
    return (unsigned)wait < GW_WAIT_COUNT ? words[wait] : words[GW_WAIT_UNKNOWN];
}

/* Read the start of a /proc file as text. Returns the number of bytes; 0 if the file cannot be read, with the reason
 * in errno. */
static size_t read_small(char *text, size_t room, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd < 0 ? -1 : read(fd, text, room - 1);
    int why = errno;
    if (fd >= 0)
        close(fd);
    text[bytes < 0 ? 0 : bytes] = '\0';
    errno = why;
    return bytes < 0 ? 0 : (size_t)bytes;
}

static size_t read_of_thread(char *text, size_t room, uint32_t pid, uint32_t tid, const char *file)
{
    char path[80];
    snprintf(path, sizeof path, "/proc/%u/task/%u/%s", pid, tid, file);
    return read_small(text, room, path);
}

/* Add user and system time, fields 14 and 15 of a stat file. */
static bool cpu_ms_of(const char *stat, uint64_t *ret_ms, char *ret_state)
{
    const char *at = strrchr(stat, ')');
    unsigned long user, system;
    char state;
    if (at == NULL || sscanf(at, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &state, &user, &system) != 3)
        return false;
    long ticks = sysconf(_SC_CLK_TCK);
    *ret_ms = (uint64_t)(user + system) * 1000u / (uint64_t)(ticks > 0 ? ticks : 100);
    *ret_state = state;
    return true;
}

bool gw_stacks_cpu_ms(uint32_t pid, uint64_t *ret_ms)
{
    char path[48], stat[1024], state;
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    return read_small(stat, sizeof stat, path) > 0 && cpu_ms_of(stat, ret_ms, &state);
}

/* ---- system calls ---- */

static const struct {
    int number;
    gw_wait wait;
    bool goes_on; /* continues after a stop and returns the same result */
} calls[] = {
    {SYS_futex, GW_WAIT_LOCK, true},           {SYS_clock_nanosleep, GW_WAIT_SLEEP, true},
    {SYS_nanosleep, GW_WAIT_SLEEP, true},      {SYS_sched_yield, GW_WAIT_RUNNING, true},
    {SYS_wait4, GW_WAIT_CHILD, true},          {SYS_waitid, GW_WAIT_CHILD, true},
    {SYS_read, GW_WAIT_INPUT, false},          {SYS_readv, GW_WAIT_INPUT, false},
    {SYS_pread64, GW_WAIT_INPUT, false},       {SYS_write, GW_WAIT_INPUT, false},
    {SYS_writev, GW_WAIT_INPUT, false},        {SYS_recvfrom, GW_WAIT_INPUT, false},
    {SYS_recvmsg, GW_WAIT_INPUT, false},       {SYS_sendto, GW_WAIT_INPUT, false},
    {SYS_sendmsg, GW_WAIT_INPUT, false},       {SYS_connect, GW_WAIT_INPUT, false},
    {SYS_accept, GW_WAIT_INPUT, false},        {SYS_accept4, GW_WAIT_INPUT, false},
    {SYS_epoll_pwait, GW_WAIT_INPUT, false},   {SYS_ppoll, GW_WAIT_INPUT, false},
    {SYS_pselect6, GW_WAIT_INPUT, false},      {SYS_rt_sigtimedwait, GW_WAIT_INPUT, false},
    {SYS_rt_sigsuspend, GW_WAIT_INPUT, false}, {SYS_flock, GW_WAIT_INPUT, false},
    {SYS_fcntl, GW_WAIT_INPUT, false},         {SYS_fsync, GW_WAIT_INPUT, false},
    {SYS_io_getevents, GW_WAIT_INPUT, false},  {SYS_semtimedop, GW_WAIT_SHARED_LOCK, false},
    {SYS_semop, GW_WAIT_SHARED_LOCK, false},   {SYS_msgrcv, GW_WAIT_INPUT, false},
    {SYS_ioctl, GW_WAIT_DEVICE, false},
#ifdef SYS_poll /* newer architectures lack the older calls */
    {SYS_poll, GW_WAIT_INPUT, true},
#endif
#ifdef SYS_select
    {SYS_select, GW_WAIT_INPUT, false},
#endif
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, GW_WAIT_INPUT, false},
#endif
#ifdef SYS_pause
    {SYS_pause, GW_WAIT_INPUT, false},
#endif
};
enum { CALL_COUNT = sizeof calls / sizeof calls[0] };

bool gwi_may_be_stopped(const gw_stack_thread *thread)
{
    if (thread->state == 'Z' || thread->state == 'D' || thread->state == 't' || thread->state == 'T')
        return false;
    if (thread->wait == GW_WAIT_RUNNING) { /* it may enter any system call before it stops: see undo_interruption() */
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

static bool read_memory(uint32_t pid, uint64_t address, void *to, size_t bytes)
{
    struct iovec ours = {to, bytes}, theirs = {(void *)(uintptr_t)address, bytes};
    return gw_rare_calls_are_safe() && process_vm_readv((pid_t)pid, &ours, 1, &theirs, 1, 0) == (ssize_t)bytes;
}

static const gw_stack_thread *thread_at(const gw_stack_process *process, uint32_t tid)
{
    for (size_t i = 0; i < process->thread_count; i++) {
        if (process->thread[i].tid == tid)
            return &process->thread[i];
    }
    return NULL;
}

/* Find out what a futex call waits for. The C library's plain lock waits while its word is 2, and stores the owner's
 * thread id 8 bytes after the word. A priority-inheritance lock stores the owner in the word itself. */
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
    if (!is_private && !is_lock_pi && wanted != thread->tid && thread_at(process, wanted) != NULL &&
        read_memory(pid, argument[0], word, 4) && word[0] == wanted) {
        thread->wait = argument[3] != 0
                           ? GW_WAIT_TIMED_LOCK
                           : GW_WAIT_JOIN; /* pthread_join: the kernel clears the word when the thread ends */
        thread->owner_tid = wanted;
        return;
    }
    if (is_lock_pi && read_memory(pid, argument[0], word, 4))
        thread->owner_tid = word[0] & FUTEX_TID_MASK;
    else if (operation == FUTEX_WAIT && wanted == 2 && read_memory(pid, argument[0], word, sizeof word) && word[0] == 2)
        thread->owner_tid = word[2];
    if (thread->owner_tid != 0 && thread_at(process, thread->owner_tid) == NULL) {
        char path[48];
        snprintf(path, sizeof path, "/proc/%u/task/%u", pid, thread->owner_tid);
        bool looks_like_tid = thread->owner_tid <= 1u << 22; /* the limit of the kernel's thread ids */
        if (!looks_like_tid || access(path, F_OK) == 0)
            thread->owner_tid = 0; /* not a thread id, or a thread above THREADS_MAX */
    }
}

static void look_at_call(uint32_t pid, gw_stack_process *process, gw_stack_thread *thread)
{
    char text[256];
    uint64_t argument[6] = {0};
    if (read_of_thread(text, sizeof text, pid, thread->tid, "syscall") == 0) {
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
    for (size_t i = 0; i < CALL_COUNT; i++) {
        if (calls[i].number == thread->syscall)
            thread->wait = calls[i].wait;
    }
    if (thread->syscall == SYS_futex)
        look_at_futex(pid, process, argument, thread);
}

/* ---- Python ---- */

static bool read_theirs(void *user, uint64_t at, void *out, size_t bytes)
{
    return read_memory(*(const uint32_t *)user, at, out, bytes);
}

/* Parses lines of the form "start-end rights offset device inode path". Only files with code are examined, because
 * reading the first page of a data file could wait for a disk. `path` and `base` belong to the last file whose first
 * mapping was parsed. */
typedef struct scan {
    uint64_t base;
    char path[4096];
    bool tried;
} scan;

static void see_mapping(scan *it, const char *line, gwi_python *python)
{
    uint64_t start, end, offset;
    char rights[8];
    int at = 0;
    if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %n", &start, &end, rights, &offset, &at) < 4 || at == 0 ||
        line[at] != '/')
        return;
    if (offset == 0) {
        it->base = start;
        it->tried = false;
        snprintf(it->path, sizeof it->path, "%s", line + at);
    }
    if (rights[2] == 'x' && !it->tried && strcmp(it->path, line + at) == 0) {
        it->tried = true;
        gwi_python_try(python, it->base);
    }
}

static bool may_be_read(uint32_t pid, const char *first_line)
{
    uint32_t word;
    return read_memory(pid, strtoull(first_line, NULL, 16), &word, sizeof word) || errno == EFAULT;
}

/* Find the process's Python interpreters and their threads. */
static void find_python(uint32_t pid, gwi_python *python, gw_stack_process *process)
{
    scan it = {.tried = true};
    char path[48], *line = NULL;
    size_t room = 0, lines = 0;
    snprintf(path, sizeof path, "/proc/%u/maps", pid);
    FILE *maps = fopen(path, "re");
    if (maps == NULL)
        snprintf(process->no_python, sizeof process->no_python, "%s: %s", path, strerror(errno));
    for (; maps != NULL && getline(&line, &room, maps) > 0; lines++) {
        if (lines == 0 && !may_be_read(pid, line)) {
            snprintf(process->no_python, sizeof process->no_python, "cannot read the memory of pid %u: %s", pid,
                     strerror(errno));
            break;
        }
        see_mapping(&it, line, python);
    }
    free(line);
    if (maps != NULL)
        fclose(maps);
    gwi_python_list(python);
    if (python->why[0] != '\0')
        snprintf(process->no_python, sizeof process->no_python, "%s", python->why);
}

void gwi_stacks_unheld(uint32_t pid, gw_stack_process *process, gw_stack_thread *thread, gwi_python *python)
{
    char before[256], after[256];
    gw_stack_thread again = *thread;
    bool stood = thread->wait != GW_WAIT_RUNNING && thread->wait != GW_WAIT_UNKNOWN &&
                 read_of_thread(before, sizeof before, pid, thread->tid, "syscall") > 0;
    gwi_python_frames(python, process, &again);
    if (again.frame_count == thread->frame_count && again.flags == thread->flags)
        return; /* no Python runs in this thread */
    gw_stack_thread first = again;
    again = *thread;
    gwi_python_frames(python, process, &again);
    stood = stood && read_of_thread(after, sizeof after, pid, thread->tid, "syscall") > 0 &&
            strcmp(before, after) == 0 && again.frame_count == first.frame_count && again.flags == first.flags &&
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

/* ---- the whole process ---- */

static void look_at_thread(uint32_t pid, gw_stack_thread *thread)
{
    char text[1024];
    thread->syscall = -1;
    thread->state = '?';
    if (read_of_thread(text, sizeof text, pid, thread->tid, "comm") > 0)
        snprintf(thread->name, sizeof thread->name, "%.*s", (int)strcspn(text, "\n"), text);
    if (read_of_thread(text, sizeof text, pid, thread->tid, "stat") > 0)
        cpu_ms_of(text, &thread->cpu_ms, &thread->state);
    if (read_of_thread(text, sizeof text, pid, thread->tid, "wchan") > 0 && strcmp(text, "0") != 0)
        snprintf(thread->where, sizeof thread->where, "%.39s", text);
}

static gw_status list_threads(uint32_t pid, gw_stack_process *process, gw_error *err)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%u/task", pid);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return errno == ENOENT ? gw_fail(err, GW_MISSING, "process %u does not exist", pid)
                               : gw_fail(err, GW_IO, "%s: %s", path, strerror(errno));
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        uint32_t tid = (uint32_t)strtoul(entry->d_name, NULL, 10);
        if (tid == 0)
            continue;
        if (process->thread_count == THREADS_MAX) {
            process->threads_left_out++;
            continue;
        }
        process->thread[process->thread_count++].tid = tid;
    }
    closedir(folder);
    return GW_OK;
}

gw_status gw_stacks_look(uint32_t pid, bool stacks, gw_stack_process **ret_process, gw_error *err)
{
    gw_stack_process *process = calloc(1, sizeof *process);
    gwi_python *python = NULL;
    gw_status st = GW_NOMEM;
    if (process == NULL || (process->thread = calloc(THREADS_MAX, sizeof *process->thread)) == NULL) {
        st = gw_fail(err, GW_NOMEM, "inspect process %u", pid);
        goto out;
    }
    st = list_threads(pid, process, err);
    if (st != GW_OK)
        goto out;
    for (size_t i = 0; i < process->thread_count; i++)
        look_at_thread(pid, &process->thread[i]);
    for (size_t i = 0; i < process->thread_count; i++) /* looks up lock owners among all threads */
        look_at_call(pid, process, &process->thread[i]);
    if (stacks && (python = calloc(1, sizeof *python)) == NULL) {
        st = gw_fail(err, GW_NOMEM, "inspect process %u", pid);
        goto out;
    }
    if (stacks) {
        python->read = read_theirs;
        python->user = &pid;
        find_python(pid, python, process);
        gwi_stacks_walk(pid, process, python);
    }
    *ret_process = process;
    process = NULL;
out:
    free(python);
    gw_stack_process_free(process);
    return st;
}

void gw_stack_process_free(gw_stack_process *process)
{
    if (process == NULL)
        return;
    for (size_t i = 0; i < process->code_count; i++) {
        free(process->code[i].text);
        free(process->code[i].table);
    }
    for (size_t i = 0; i < process->mapping_count; i++)
        free(process->mapping[i].path);
    free(process->code);
    free(process->mapping);
    free(process->thread);
    free(process);
}
