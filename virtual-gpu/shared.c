/* The state shared by processes: see gwi_shared.h. */
#include "gwi_shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gw_clock.h"

uint64_t gwi_process_start_ticks(int pid)
{
    char path[40];
    char text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    if (bytes <= 0)
        return 0;
    text[bytes] = '\0';
    /* The command name may contain any character, so count the fields after its closing bracket. The first is the
     * state, the twentieth is the start time. A zombie has already released its memory. */
    const char *field = strrchr(text, ')');
    if (field == NULL || field[1] == '\0' || field[2] == 'Z' || field[2] == 'X')
        return 0;
    field++;
    for (int i = 0; i < 19 && field != NULL; i++)
        field = strchr(field + 1, ' ');
    return field != NULL ? strtoull(field + 1, NULL, 10) : 0;
}

void gwi_shared_lock(gwi_shared *shared)
{
    /* EOWNERDEAD: a process died while it held the lock, so one of the sums in used_bytes may be wrong. Compute all of
     * them again. */
    if (pthread_mutex_lock(&shared->lock) != EOWNERDEAD)
        return;
    for (unsigned d = 0; d < GW_VIRT_DEVICES_MAX; d++) {
        shared->used_bytes[d] = 0;
        for (unsigned p = 0; p < GWI_SHARED_PROCESSES; p++)
            shared->used_bytes[d] += shared->processes[p].used_bytes[d];
    }
    pthread_mutex_consistent(&shared->lock);
}

void gwi_shared_unlock(gwi_shared *shared)
{
    pthread_mutex_unlock(&shared->lock);
}

static void process_clear(gwi_shared *shared, gwi_shared_process *process)
{
    for (unsigned d = 0; d < GW_VIRT_DEVICES_MAX; d++) {
        shared->used_bytes[d] -= process->used_bytes[d];
        gwi_shared_busy *busy = &shared->busy[process - shared->processes][d];
        shared->cards[d].busy_ns += gwi_busy_ns(busy, 0, gw_monotonic_ns());
        memset(busy, 0, sizeof *busy);
    }
    memset(process, 0, sizeof *process);
}

static void dead_clear(gwi_shared *shared)
{
    for (unsigned p = 0; p < GWI_SHARED_PROCESSES; p++) {
        gwi_shared_process *process = &shared->processes[p];
        if (process->pid != 0 && process->pid != getpid() &&
            gwi_process_start_ticks(process->pid) != process->start_ticks)
            process_clear(shared, process);
    }
}

static bool slot_take(gwi_shared *shared, unsigned *ret_slot)
{
    bool found = false;
    gwi_shared_lock(shared);
    dead_clear(shared);
    /* An entry with our pid is left over from the program that this process ran before exec(): clear it. */
    for (unsigned p = 0; p < GWI_SHARED_PROCESSES; p++)
        if (shared->processes[p].pid == getpid())
            process_clear(shared, &shared->processes[p]);
    for (unsigned p = 0; p < GWI_SHARED_PROCESSES && !found; p++) {
        gwi_shared_process *process = &shared->processes[p];
        if (process->pid != 0)
            continue;
        process->pid = getpid();
        process->start_ticks = gwi_process_start_ticks(process->pid);
        *ret_slot = p;
        found = true;
    }
    gwi_shared_unlock(shared);
    return found;
}

void gwi_shared_tidy(gwi_shared *shared)
{
    gwi_shared_lock(shared);
    dead_clear(shared);
    gwi_shared_unlock(shared);
}

void gwi_shared_close(gwi_shared *shared)
{
    munmap(shared, sizeof *shared);
}

static void prepare(gwi_shared *shared, const gw_virt_spec *spec)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    shared->version = GWI_SHARED_VERSION;
    shared->device_count = spec->device_count;
    shared->began_ns = gw_monotonic_ns();
    for (unsigned d = 0; d < spec->device_count; d++)
        shared->total_bytes[d] = spec->card.memory_bytes;
    __atomic_store_n(&shared->magic, GWI_SHARED_MAGIC, __ATOMIC_RELEASE);
}

static bool write_zeros(int fd)
{
    static const char zeros[16 << 10];
    for (size_t done = 0; done < sizeof(gwi_shared);) {
        size_t left = sizeof(gwi_shared) - done;
        ssize_t written = pwrite(fd, zeros, left < sizeof zeros ? left : sizeof zeros, (off_t)done);
        if (written <= 0)
            return false;
        done += (size_t)written;
    }
    return true;
}

/* True if RLIMIT_FSIZE forbids a file of the needed size. Do not try to write such a file, because the attempt would
 * send SIGXFSZ. */
static bool is_limited(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < sizeof(gwi_shared);
}

/* Reserve the file's blocks, unless another process has done so. Write zeros if a seccomp filter forbids
 * posix_fallocate(). */
static bool extend(int fd)
{
    if (lseek(fd, 0, SEEK_END) >= (off_t)sizeof(gwi_shared))
        return true;
    if (is_limited())
        return false;
    int refused = posix_fallocate(fd, 0, sizeof(gwi_shared));
    return refused == 0 || ((refused == EPERM || refused == ENOSYS) && write_zeros(fd));
}

/* Open the file, extend it to its full size, and lock it against other processes that do the same. Returns -1 on
 * failure. */
static int file_open(const char *folder)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder, GWI_SHARED_NAME) >= (int)sizeof path)
        return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX) != 0 || !extend(fd)) {
        close(fd);
        return -1;
    }
    return fd;
}

bool gwi_shared_open(const char *folder, const gw_virt_spec *spec, gwi_shared **ret_shared, unsigned *ret_slot)
{
    int fd = -1;
    /* If RLIMIT_FSIZE forbids the file, no descriptor is free, or the program has become another user or changed its
     * root folder, use a private state: GPUs that no other process sees. One that only looks on needs the folder. */
    if (folder != NULL && (fd = file_open(folder)) < 0 && errno != EMFILE && errno != EACCES &&
        (errno != ENOENT || ret_slot == NULL) && !is_limited())
        return false;
    gwi_shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
    bool ok = shared != MAP_FAILED;
    if (ok && shared->magic != GWI_SHARED_MAGIC)
        prepare(shared, spec);
    if (fd >= 0) {
        flock(fd, LOCK_UN); /* unlock now: the mapping keeps the open file, and so the lock, after close() */
        close(fd);
    }
    ok = ok && shared->version == GWI_SHARED_VERSION && (ret_slot == NULL || slot_take(shared, ret_slot));
    if (ok)
        *ret_shared = shared;
    else if (shared != MAP_FAILED)
        gwi_shared_close(shared);
    return ok;
}

bool gwi_shared_take(gwi_shared *shared, unsigned slot, unsigned device, uint64_t bytes)
{
    gwi_shared_lock(shared);
    if (shared->total_bytes[device] - shared->used_bytes[device] < bytes)
        dead_clear(shared);
    bool ok = shared->total_bytes[device] - shared->used_bytes[device] >= bytes;
    if (ok) {
        shared->processes[slot].used_bytes[device] += bytes;
        shared->used_bytes[device] += bytes;
    }
    gwi_shared_unlock(shared);
    return ok;
}

void gwi_shared_give(gwi_shared *shared, unsigned slot, unsigned device, uint64_t bytes)
{
    gwi_shared_lock(shared);
    shared->processes[slot].used_bytes[device] -= bytes;
    shared->used_bytes[device] -= bytes;
    gwi_shared_unlock(shared);
}

uint64_t gwi_shared_free_bytes(gwi_shared *shared, unsigned device)
{
    gwi_shared_lock(shared);
    dead_clear(shared);
    uint64_t bytes = shared->total_bytes[device] - shared->used_bytes[device];
    gwi_shared_unlock(shared);
    return bytes;
}

/* Records in the shared state when each GPU of a run was busy, and computes for how long it was. */

void gwi_busy_add(gwi_shared *shared, unsigned slot, unsigned device, uint64_t from_ns, uint64_t until_ns)
{
    const uint64_t gap_ns = 1000000;
    gwi_shared_busy *busy = &shared->busy[slot][device];
    gwi_shared_span *last = &busy->spans[(busy->count + GWI_SHARED_SPANS - 1) % GWI_SHARED_SPANS];
    if (busy->count > 0 && (from_ns <= last->until_ns || from_ns - last->until_ns < gap_ns)) {
        if (until_ns > last->until_ns)
            last->until_ns = until_ns;
        return;
    }
    gwi_shared_span *next = &busy->spans[busy->count % GWI_SHARED_SPANS];
    busy->past_ns += next->until_ns - next->from_ns;
    *next = (gwi_shared_span){from_ns, until_ns};
    busy->count++;
}

void gwi_busy_cut(gwi_shared *shared, unsigned slot, unsigned device, uint64_t now_ns)
{
    gwi_shared_busy *busy = &shared->busy[slot][device];
    gwi_shared_span *last = &busy->spans[(busy->count + GWI_SHARED_SPANS - 1) % GWI_SHARED_SPANS];
    if (last->until_ns > now_ns)
        last->until_ns = now_ns > last->from_ns ? now_ns : last->from_ns;
}

uint64_t gwi_busy_ns(const gwi_shared_busy *busy, uint64_t from_ns, uint64_t now_ns)
{
    uint64_t sum_ns = from_ns == 0 ? busy->past_ns : 0;
    for (unsigned i = 0; i < GWI_SHARED_SPANS; i++) {
        uint64_t begin_ns = busy->spans[i].from_ns > from_ns ? busy->spans[i].from_ns : from_ns;
        uint64_t end_ns = busy->spans[i].until_ns < now_ns ? busy->spans[i].until_ns : now_ns;
        sum_ns += end_ns > begin_ns ? end_ns - begin_ns : 0;
    }
    return sum_ns;
}
