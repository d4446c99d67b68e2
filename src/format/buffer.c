/* Opens, checks and reads the buffer of a process, and finds out whether the process is alive and how it ended. */
#define _GNU_SOURCE
#include "gwi_buffer.h"

#include "gw_clock.h"
#include "gw_filter.h"
#include "gw_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum { BUFFER_BYTES_MAX = 64 << 20, SLOTS_MAX = 1024, RINGS_MAX = 1024, COMMUNICATORS_MAX = 1024, CHUNKS_MAX = 4096 };

/* Read the counter that this processor has. */
static void read_ticks(gwi_now *now)
{
#if defined(__x86_64__)
    now->tsc = __rdtsc();
#elif defined(__aarch64__)
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(now->cntvct));
#endif
}

/* Read the clocks several times and use the fastest reading: the process may be interrupted between two clocks. */
gwi_now gwi_now_take(void)
{
    gwi_now best = {0};
    uint64_t best_ns = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        gwi_now now = {.monotonic_ns = gw_monotonic_ns()};
        read_ticks(&now);
        uint64_t took_ns = gw_monotonic_ns() - now.monotonic_ns;
        if (took_ns >= best_ns)
            continue;
        best_ns = took_ns;
        now.monotonic_ns += took_ns / 2;
        best = now;
    }
    return best;
}

static size_t read_fd(int fd, uint64_t offset, void *to, size_t bytes)
{
    size_t got = 0;
    while (got < bytes) {
        ssize_t n = pread(fd, (uint8_t *)to + got, bytes - got, (off_t)(offset + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    return got;
}

/* Fences order the copies of the buffer, which the kernel makes in pread() and pwrite(). ThreadSanitizer sees neither
 * these copies nor the fences. */
#ifdef __SANITIZE_THREAD__
#define FENCE(order)
#else
#define FENCE(order) atomic_thread_fence(order)
#endif

void gwi_buffer_read(const gwi_buffer *buffer, uint64_t offset, void *to, size_t bytes)
{
    size_t got = 0;
    if (buffer->copy == NULL) {
        got = read_fd(buffer->fd, offset, to, bytes);
        /* Later reads must not return older data, because a count is read before the records that it counts. */
        FENCE(memory_order_acquire);
    } else if (offset < buffer->copy_bytes) {
        got = buffer->copy_bytes - offset < bytes ? (size_t)(buffer->copy_bytes - offset) : bytes;
        memcpy(to, buffer->copy + offset, got);
    }
    memset((uint8_t *)to + got, 0, bytes - got);
}

void gwi_buffer_write(const gwi_buffer *buffer, uint64_t offset, const void *from, size_t bytes)
{
    if (buffer->copy != NULL || buffer->fd < 0)
        return;
    FENCE(memory_order_release);
    /* Ignore errors: only the process of this buffer is affected, because its chunk stays taken. */
    ssize_t ignored = pwrite(buffer->fd, from, bytes, (off_t)offset);
    (void)ignored;
}

static int open_pidfd(uint32_t pid)
{
#ifdef SYS_pidfd_open
    return gw_rare_calls_are_safe() ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;
#else
    (void)pid;
    errno = ENOSYS;
    return -1;
#endif
}

gw_status gwi_buffer_open(int folder_fd, const char *name, bool copy, gwi_buffer **ret_buffer)
{
    gw_status st = GW_NOMEM;
    struct stat info, folder;
    gwi_buffer *buffer = calloc(1, sizeof *buffer);
    if (buffer == NULL)
        return GW_NOMEM;
    buffer->pidfd = -1;
    buffer->fd = openat(folder_fd, name, (copy ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (buffer->fd < 0) {
        st = errno == ENOENT || errno == ELOOP ? GW_MISSING : GW_IO;
        goto out;
    }
    /* A buffer belongs to the user of the run, or to root if the program gained root's rights. Another user's file may
     * be a trap: we would read it, or write through a link. */
    if (fstat(buffer->fd, &info) != 0 || !S_ISREG(info.st_mode) || fstat(folder_fd, &folder) != 0 ||
        (info.st_uid != folder.st_uid && info.st_uid != 0) || info.st_nlink > 1) {
        st = GW_MISSING;
        goto out;
    }
    buffer->name = strdup(name);
    if (buffer->name == NULL)
        goto out;
    buffer->opened_at_ns = gw_monotonic_ns();
    /* Open the pidfd now, because the process may have ended when the buffer becomes ready. */
    buffer->pidfd = open_pidfd((uint32_t)strtoul(name, NULL, 10));
    uint64_t bytes = info.st_size < BUFFER_BYTES_MAX ? (uint64_t)info.st_size : BUFFER_BYTES_MAX;
    buffer->copy = copy ? malloc(bytes + 1) : NULL;
    if (copy && buffer->copy == NULL)
        goto out;
    if (copy)
        buffer->copy_bytes = read_fd(buffer->fd, 0, buffer->copy, bytes);
    st = GW_OK;
    *ret_buffer = buffer;
    buffer = NULL;
out:
    gwi_buffer_close(buffer);
    return st;
}

void gwi_buffer_close(gwi_buffer *buffer)
{
    if (buffer == NULL)
        return;
    if (buffer->fd >= 0)
        close(buffer->fd);
    if (buffer->pidfd >= 0)
        close(buffer->pidfd);
    free(buffer->name);
    free(buffer->copy);
    free(buffer->ring_head_after);
    free(buffer->chunk);
    free(buffer->slot);
    free(buffer);
}

static bool section_fits(const gw_buffer_head *head, uint64_t offset, uint64_t count, uint64_t count_max, uint64_t each)
{
    return count <= count_max && offset % 8 == 0 && offset >= sizeof *head && offset + count * each <= head->bytes;
}

static uint64_t now_ticks(const gwi_buffer *buffer, const gwi_now *now)
{
    switch (buffer->head.clock) {
    case GW_CLOCK_TSC:
        return now->tsc;
    case GW_CLOCK_CNTVCT:
        return now->cntvct;
    default:
        return now->monotonic_ns;
    }
}

static gw_status check_head(const gwi_buffer *buffer, const gwi_now *now, gw_error *err)
{
    const gw_buffer_head *head = &buffer->head;
    if (memcmp(head->magic, GW_BUFFER_MAGIC, sizeof head->magic) != 0)
        return gw_fail(err, GW_CORRUPT, "%s: offset 0: not a buffer", buffer->name);
    if (head->version != GW_BUFFER_VERSION)
        return gw_fail(err, GW_CORRUPT, "%s: offset 8: version %u, expected %u", buffer->name, head->version,
                       (unsigned)GW_BUFFER_VERSION);
    if (head->bytes > BUFFER_BYTES_MAX ||
        !section_fits(head, head->slot_offset, head->slot_count, SLOTS_MAX, sizeof(gw_slot)) ||
        !section_fits(head, head->ring_offset, head->ring_count, RINGS_MAX, sizeof(gw_ring)) ||
        !section_fits(head, head->communicator_offset, head->communicator_count, COMMUNICATORS_MAX,
                      sizeof(gw_buffer_communicator)) ||
        !section_fits(head, head->chunk_offset, head->chunk_count, CHUNKS_MAX, GW_CHUNK_BYTES))
        return gw_fail(err, GW_CORRUPT, "%s: its sections do not fit into %u bytes", buffer->name, head->bytes);
    if (head->clock > GW_CLOCK_CNTVCT || now_ticks(buffer, now) == 0)
        return gw_fail(err, GW_CORRUPT, "%s: clock %u is not available", buffer->name, head->clock);
    if (head->start_monotonic_ns > now->monotonic_ns || head->start_ticks > now_ticks(buffer, now))
        return gw_fail(err, GW_CORRUPT, "%s: its start time is in the future", buffer->name);
    return GW_OK;
}

/* The program continues while we copy its buffer. If a chunk was freed, or freed and reused, meanwhile, its copy is
 * inconsistent. Then clear the chunk's head in the copy. No event is lost, because a chunk is freed only after its
 * events are in the recording.
 *
 * Store the current head of each ring, too. It shows which entries may have been overwritten during the copy. */
static gw_status settle_copy(gwi_buffer *buffer)
{
    if (buffer->copy == NULL || buffer->fd < 0)
        return GW_OK;
    buffer->ring_head_after = calloc(buffer->head.slot_count + 1u, sizeof *buffer->ring_head_after);
    if (buffer->ring_head_after == NULL)
        return GW_NOMEM;
    for (uint32_t i = 0; i < buffer->head.chunk_count; i++) {
        gw_chunk_head before, after = {0};
        gwi_buffer_read(buffer, gwi_chunk_offset(buffer, i), &before, sizeof before);
        read_fd(buffer->fd, gwi_chunk_offset(buffer, i), &after, sizeof after);
        bool torn = before.sequence != after.sequence || before.used_bytes > after.used_bytes ||
                    (before.state != after.state && after.state == GW_CHUNK_FREE);
        if (torn && gwi_chunk_offset(buffer, i) + sizeof before <= buffer->copy_bytes)
            memset(buffer->copy + gwi_chunk_offset(buffer, i), 0, sizeof before);
    }
    for (uint32_t i = 0; i < buffer->head.slot_count; i++) {
        gw_slot after = {0};
        read_fd(buffer->fd, gwi_slot_offset(buffer, i), &after, sizeof after);
        buffer->ring_head_after[i] = after.ring_head;
    }
    close(buffer->fd);
    buffer->fd = -1;
    return GW_OK;
}

/* True if this pid namespace is not ours. False if either one is unknown. */
static bool is_elsewhere(uint64_t pid_namespace)
{
    char text[40] = "";
    ssize_t n = readlink("/proc/self/ns/pid", text, sizeof text - 1);
    const char *digits = n > 0 ? strpbrk(text, "0123456789") : NULL;
    return digits != NULL && pid_namespace != 0 && strtoull(digits, NULL, 10) != pid_namespace;
}

gw_status gwi_buffer_adopt(gwi_buffer *buffer, gw_error *err)
{
    gwi_buffer_read(buffer, 0, &buffer->head, sizeof buffer->head);
    if (buffer->head.ready != 1)
        return buffer->head.ready == 0 ? GW_MISSING
                                       : gw_fail(err, GW_CORRUPT, "%s: offset 16: invalid ready flag", buffer->name);
    /* Read the head again, because it may have been incomplete when it was read together with the flag. */
    gwi_buffer_read(buffer, 0, &buffer->head, sizeof buffer->head);
    /* Read the clocks after the head. Otherwise, a new process would appear to start in the future. */
    gwi_now now = gwi_now_take();
    gw_status st = check_head(buffer, &now, err);
    if (st != GW_OK)
        return st;
    buffer->head.driver_path[sizeof buffer->head.driver_path - 1] = '\0';
    buffer->head.driver_build_id[sizeof buffer->head.driver_build_id - 1] = '\0';
    buffer->head.exe[sizeof buffer->head.exe - 1] = '\0';
    buffer->chunk = calloc(buffer->head.chunk_count + 1u, sizeof *buffer->chunk);
    buffer->slot = calloc(buffer->head.slot_count + 1u, sizeof *buffer->slot);
    if (buffer->chunk == NULL || buffer->slot == NULL || settle_copy(buffer) != GW_OK)
        return gw_fail(err, GW_NOMEM, "%s: no memory", buffer->name);
    buffer->is_elsewhere = is_elsewhere(buffer->head.pid_namespace);
    if (buffer->pidfd >= 0 && (buffer->is_elsewhere || strtoul(buffer->name, NULL, 10) != buffer->head.pid)) {
        close(buffer->pidfd);
        buffer->pidfd = -1;
    }
    if (buffer->pidfd < 0 && !buffer->is_elsewhere)
        buffer->pidfd = open_pidfd(buffer->head.pid);
    buffer->adopted = true;
    return GW_OK;
}

bool gwi_buffer_process_gone(const gwi_buffer *buffer)
{
    if (buffer->is_elsewhere)
        return false;
    if (buffer->pidfd >= 0) { /* a pidfd is correct even if the pid was reused */
        struct pollfd poll_fd = {.fd = buffer->pidfd, .events = POLLIN};
        return poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLIN) != 0;
    }
    uint32_t pid = buffer->head.pid;
    return pid == 0 || pid > INT32_MAX || (kill((pid_t)pid, 0) != 0 && errno == ESRCH);
}

/* Read the exit status of a zombie: field 52, the last one, of /proc/PID/stat. */
static bool status_of_zombie(uint32_t pid, int *ret_status)
{
    char stat[GW_PROCESS_STAT_MAX];
    if (!gw_process_stat((int)pid, stat) || !gw_begins(stat, ") Z "))
        return false;
    *ret_status = (int)strtol(strrchr(stat, ' '), NULL, 10);
    return true;
}

/* The first version of struct pidfd_info, which the ioctl PIDFD_GET_INFO fills. It contains the exit status. */
typedef struct pidfd_info_v0 {
    uint64_t mask, cgroup;
    uint32_t pid, tgid, ppid, ids[8];
    int32_t exit_code;
} pidfd_info_v0;
_Static_assert(sizeof(pidfd_info_v0) == 64, "the size is part of the request");
#define PIDFD_GET_INFO_V0 _IOWR(0xFF, 11, pidfd_info_v0)
#define PIDFD_HAS_EXIT    (1u << 3)

static bool status_of_pidfd(int pidfd, int *ret_status)
{
    pidfd_info_v0 info = {.mask = PIDFD_HAS_EXIT};
    if (ioctl(pidfd, PIDFD_GET_INFO_V0, &info) != 0 || (info.mask & PIDFD_HAS_EXIT) == 0)
        return false;
    *ret_status = info.exit_code;
    return true;
}

static bool is_waited_for(int pidfd)
{
#ifdef SYS_pidfd_send_signal
    return syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) != 0 && errno == ESRCH;
#else
    (void)pidfd;
    return true;
#endif
}

void gwi_buffer_ask_status(gwi_buffer *buffer)
{
    int status;
    if (buffer->status_known || buffer->pidfd < 0)
        return;
    /* If the process is still a zombie after its status was read, its pid was not reused, so the status is that of this
     * process. */
    if ((status_of_zombie(buffer->head.pid, &status) && !is_waited_for(buffer->pidfd)) ||
        status_of_pidfd(buffer->pidfd, &status)) {
        buffer->status_known = true;
        buffer->status = status;
    }
}

uint64_t gwi_buffer_ns(const gwi_buffer *buffer, const gwi_now *now, uint64_t ticks)
{
    const gw_buffer_head *head = &buffer->head;
    uint64_t last = now_ticks(buffer, now);
    if (ticks <= head->start_ticks || last <= head->start_ticks || now->monotonic_ns <= head->start_monotonic_ns)
        return head->start_monotonic_ns;
    if (ticks >= last)
        return now->monotonic_ns;
    unsigned __int128 span_ns = now->monotonic_ns - head->start_monotonic_ns;
    return now->monotonic_ns - (uint64_t)(span_ns * (last - ticks) / (last - head->start_ticks));
}
