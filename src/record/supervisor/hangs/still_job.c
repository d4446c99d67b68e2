/* Finds the ranks of a job below the command, and measures whether any of them does something. */
#include "gwi_still.h"

#include "gw_array.h"
#include "gw_fact.h"
#include "gw_hash.h"
#include "gw_process.h"
#include "gw_rank.h"
#include "gw_stacks.h"
#include "gw_text.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* ---- the processes ---- */

static uint64_t exe_hash_of(pid_t pid)
{
    char path[64], target[1024];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t bytes = readlink(path, target, sizeof target);
    return bytes <= 0 ? 0 : gw_hash_bytes(GW_HASH_START, target, (size_t)bytes);
}

static void read_rank(gwi_still_process *process)
{
    gw_text text = {0};
    gw_fact_rank rank;
    process->has_rank = gw_rank_of_process((uint32_t)process->pid, &text);
    if (process->has_rank) {
        gw_fact_rank_read(gw_fact_text_of(gw_text_str(&text)), &rank);
        process->has_rank = rank.has_rank && rank.has_of && rank.of > 1;
        process->rank = rank.rank;
        process->of = rank.of;
    }
    gw_text_free(&text);
}

/* Update the entry of a process, or add one. Returns true if the process is new or has called exec(). */
static bool see_process(gwi_still_job *job, pid_t pid, pid_t parent)
{
    size_t at = 0;
    uint64_t ticks = 0, exe_hash = exe_hash_of(pid);
    if (!gw_process_started(pid, &ticks))
        return false;
    while (at < job->process_count && job->process[at].pid != pid)
        at++;
    if (at == GWI_FAMILY_MAX)
        return false;
    gwi_still_process *process = &job->process[at];
    bool is_known = at < job->process_count && process->start_ticks == ticks && process->exe_hash == exe_hash;
    bool had_rank = is_known && process->has_rank;
    if (!is_known) {
        *process = (gwi_still_process){.pid = pid, .parent = parent, .start_ticks = ticks, .exe_hash = exe_hash};
    }
    /* A launcher in Python may have been seen between fork() and exec() of a rank, which then runs the same file. */
    if (!process->has_rank)
        read_rank(process);
    is_known = is_known && had_rank == process->has_rank;
    job->process_count += at == job->process_count;
    process->seen = true;
    return !is_known;
}

/* Update the list of processes. Returns true if one was started or has ended. */
static bool see_family(gwi_still_job *job, pid_t command)
{
    static gwi_family family;
    bool changed = false;
    gwi_family_find(&family, command);
    for (size_t i = 0; i < job->process_count; i++)
        job->process[i].seen = false;
    for (size_t i = 0; i < family.count; i++)
        changed = see_process(job, family.pid[i], family.parent[i]) || changed;
    size_t kept = 0;
    for (size_t i = 0; i < job->process_count; i++)
        if (job->process[i].seen)
            job->process[kept++] = job->process[i];
    changed = changed || kept != job->process_count;
    job->process_count = kept;
    return changed;
}

/* Return the process of the rank: the first one, which is not a shell around it. Its children have the same rank. */
static const gwi_still_process *process_of_rank(const gwi_still_job *job, uint32_t rank)
{
    const gwi_still_process *found = NULL;
    for (size_t i = 0; i < job->process_count; i++) {
        const gwi_still_process *process = &job->process[i];
        if (!process->has_rank || process->rank != rank)
            continue;
        if (found != NULL && (process->parent != found->pid || process->exe_hash == found->exe_hash))
            continue;
        char call[32] = "";
        bool is_waiting_for_child = found != NULL &&
                                    gw_read_small(call, sizeof call, NULL, "/proc/%d/syscall", (int)found->pid) > 0 &&
                                    atoi(call) == SYS_wait4;
        if (found == NULL || is_waiting_for_child)
            found = process;
    }
    return found;
}

/* True if the process does the work of a rank: it is the process of a rank, or a child with the same program, such as
 * a worker that loads data. A child with another program, such as one that reports to a server, is none. */
static bool is_of_rank(const gwi_still_job *job, const gwi_still_process *process)
{
    const gwi_still_process *rank = process->has_rank ? process_of_rank(job, process->rank) : NULL;
    return rank != NULL && rank->exe_hash == process->exe_hash;
}

/* ---- the sockets ---- */

typedef struct visit {
    gwi_owners *owners;
    gwi_owned next; /* the process whose files are visited */
    bool failed;
} visit;

static bool add_owner(void *user, int fd, const char *target)
{
    visit *it = user;
    gwi_owners *all = it->owners;
    it->next.socket = gwi_socket_at(&all->sockets, target);
    (void)fd;
    if (it->next.socket == NULL)
        return true;
    it->failed = !gw_array_room(&all->item, all->count, &all->capacity, sizeof *all->item);
    if (!it->failed)
        all->item[all->count++] = it->next;
    return !it->failed;
}

static int by_socket(const void *left, const void *right)
{
    const gwi_owned *a = left, *b = right;
    int order = gwi_sockets_compare(a->socket, b->socket);
    return order != 0 ? order : (a->process > b->process) - (a->process < b->process);
}

static void free_owners(gwi_owners *owners)
{
    gwi_sockets_free(&owners->sockets);
    free(owners->item);
    *owners = (gwi_owners){0};
}

/* List the sockets of all processes of the run. A socket that is opened later is not in the list, and so not known to
 * be of the run. */
static void see_sockets(gwi_still_job *job)
{
    gwi_owners *all = &job->owners;
    visit it = {.owners = all};
    bool any = false;
    free_owners(all);
    for (size_t i = 0; i < job->process_count; i++)
        any = any || job->process[i].has_rank;
    all->is_known = any && gwi_sockets_read(&all->sockets);
    for (size_t i = 0; i < job->process_count && all->is_known; i++) {
        const gwi_still_process *process = &job->process[i];
        it.next.process = process;
        it.next.rank = is_of_rank(job, process) ? process->rank : UINT32_MAX;
        all->is_known = gw_process_files((int)process->pid, add_owner, &it) && !it.failed;
    }
    if (all->count > 1)
        qsort(all->item, all->count, sizeof *all->item, by_socket);
}

/* Return the first item that is not before the socket, or NULL. */
static const gwi_owned *owner_from(const gwi_owners *all, const gwi_socket *socket)
{
    size_t low = 0, high = all->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (gwi_sockets_compare(all->item[middle].socket, socket) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < all->count ? &all->item[low] : NULL;
}

const gwi_owned *gwi_owner_of_peer(const gwi_owners *owners, const gwi_socket *socket)
{
    const gwi_socket peer = {.local = socket->remote, .remote = socket->local};
    const gwi_owned *found = socket->is_listening ? NULL : owner_from(owners, &peer);
    return found != NULL && gwi_sockets_compare(found->socket, &peer) == 0 ? found : NULL;
}

const gwi_owned *gwi_owner_of_port(const gwi_owners *owners, uint16_t port, bool is_listening)
{
    const gwi_socket least = {.is_listening = is_listening, .local.port = port};
    const gwi_owned *found = owner_from(owners, &least);
    return found != NULL && found->socket->is_listening == is_listening && found->socket->local.port == port ? found
                                                                                                             : NULL;
}

/* ---- activity ---- */

/* Add what a process has read and written so far. Everything that a program prints is part of it. */
static bool add_io(pid_t pid, uint64_t *sum)
{
    uint64_t in, out;
    if (!gw_process_io((int)pid, &in, &out))
        return false;
    *sum += in + out;
    return true;
}

typedef struct activity {
    bool is_known, has_mpi;
    uint64_t cpu_ms, io_bytes, socket_bytes, shared_hash, processes;
} activity;

static activity measure(gwi_still_job *job)
{
    activity now = {.is_known = job->owners.is_known && job->pages != NULL};
    if (now.is_known && job->pages->count > 0)
        memset(job->pages, 0, sizeof *job->pages);
    for (size_t i = 0; i < job->owners.count; i++)
        now.socket_bytes += job->owners.item[i].rank == UINT32_MAX ? 0 : job->owners.item[i].socket->bytes;
    for (size_t i = 0; i < job->process_count && now.is_known; i++) {
        gwi_still_process *process = &job->process[i];
        uint64_t cpu_ms = 0;
        if (!is_of_rank(job, process))
            continue;
        gwi_shared_read(process->pid, job->pages, &process->shared);
        now.has_mpi = now.has_mpi || process->shared.has_mpi;
        now.shared_hash = gw_hash_mix(now.shared_hash, process->shared.hash);
        now.is_known = process->shared.is_known && gw_stacks_cpu_ms((uint32_t)process->pid, &cpu_ms) &&
                       add_io(process->pid, &now.io_bytes);
        now.cpu_ms += cpu_ms;
        now.processes++;
    }
    return now;
}

static size_t count_ranks(const gwi_still_job *job)
{
    size_t count = 0;
    for (size_t i = 0; i < job->process_count; i++)
        count += job->process[i].has_rank && process_of_rank(job, job->process[i].rank) == &job->process[i];
    return count;
}

/* True if the processes did something between two measurements. At most 2 % of a processor for each process is noise:
 * threads that only look at the time. Processor time is counted in steps of 10 ms, so allow two steps. Ranks of MPI use
 * a whole processor while they wait: gwi_still_ranks() finds out whether they do something else. */
static bool has_moved(const gwi_still_job *job, const activity *now, uint64_t elapsed_ms)
{
    enum { STEPS_MS = 20, NOISE_PER = 50 };
    uint64_t noise_ms = now->processes * (STEPS_MS + elapsed_ms / NOISE_PER);
    return !job->is_known || !now->is_known || now->io_bytes != job->io_bytes ||
           now->socket_bytes != job->socket_bytes || now->shared_hash != job->shared_hash ||
           (!now->has_mpi && now->cpu_ms > job->cpu_ms + noise_ms);
}

static void begin_again(gwi_still_job *job, const activity *now, uint64_t now_ns)
{
    job->since_ns = now_ns;
    job->next_ns = 0;
    job->stood = false;
    job->has_mpi = now->has_mpi;
    job->shared_hash = now->shared_hash;
    job->is_known = now->is_known;
    job->cpu_ms = now->cpu_ms;
    job->io_bytes = now->io_bytes;
    job->socket_bytes = now->socket_bytes;
    for (size_t i = 0; i < job->process_count; i++)
        (void)!gw_stacks_cpu_ms((uint32_t)job->process[i].pid, &job->process[i].cpu_ms);
}

bool gwi_still_look(gwi_still_job *job, pid_t command, uint64_t now_ns, uint64_t driver_ns)
{
    if (job->process == NULL && (job->process = calloc(GWI_FAMILY_MAX, sizeof *job->process)) == NULL)
        return false;
    if (job->pages == NULL)
        job->pages = calloc(1, sizeof *job->pages);
    job->looked_at_ns = now_ns;
    bool changed = see_family(job, command), was_told = job->told;
    see_sockets(job);
    if (count_ranks(job) < 2) {
        job->since_ns = 0;
        job->told = false;
        return was_told;
    }
    const activity now = measure(job);
    if (!changed && job->since_ns != 0 && driver_ns <= job->since_ns &&
        !has_moved(job, &now, (now_ns - job->since_ns) / 1000000u))
        return false;
    begin_again(job, &now, now_ns);
    job->told = false;
    return was_told;
}

bool gwi_still_is_there(const gwi_still_process *process)
{
    uint64_t ticks;
    return gw_process_started(process->pid, &ticks) && ticks == process->start_ticks;
}

void gwi_still_free(gwi_still_job *job)
{
    free_owners(&job->owners);
    free(job->pages);
    free(job->process);
    *job = (gwi_still_job){0};
}

/* ---- whom the ranks wait for ---- */

/* True if only the job's own processes are connected to the listening socket, and some are. Everybody else could
 * connect to it, too, but a server that only waits for others has no connection to its own processes. */
static bool is_for_own_use(const gwi_owners *all, const gwi_socket *listening)
{
    return gwi_owner_of_port(all, listening->local.port, false) != NULL; /* is_apart() finds connections with others */
}

/* True if the ranks have no connection with others and nobody else waits to be served. *ret_linked: two ranks are
 * connected with each other. MPI listens on a port of each rank and rarely uses it, so a port of a rank of MPI counts
 * only if a thread waits for it (is_own) or if the main thread wakes up now and then (position_of). */
static bool is_apart(const gwi_owners *all, bool *ret_linked)
{
    *ret_linked = false;
    for (size_t i = 0; i < all->count; i++) {
        const gwi_owned *it = &all->item[i];
        if (it->rank == UINT32_MAX)
            continue;
        if (it->socket->is_listening) {
            if (!it->process->shared.has_mpi && !is_for_own_use(all, it->socket))
                return false;
            continue;
        }
        const gwi_owned *peer = gwi_owner_of_peer(all, it->socket);
        if (peer == NULL)
            return false;
        *ret_linked = *ret_linked || (peer->rank != UINT32_MAX && peer->rank != it->rank);
    }
    return true;
}

/* True if only the job itself can make this descriptor readable: a connection within the job, or a file for messages
 * inside the run. *is_peer is set if it is such a connection. */
static bool is_own(const gwi_owners *all, pid_t pid, int fd, bool *is_peer)
{
    char path[64], target[64];
    struct stat theirs, outside;
    const gwi_socket *socket = gwi_socket_of(&all->sockets, pid, fd);
    if (socket != NULL) {
        *is_peer = *is_peer || gwi_owner_of_peer(all, socket) != NULL;
        return !socket->is_listening || is_for_own_use(all, socket); /* is_apart() has checked the connections */
    }
    if (fd == STDIN_FILENO)
        return false; /* a launcher may pass on what a user types */
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
    ssize_t bytes = readlink(path, target, sizeof target - 1);
    target[bytes > 0 ? bytes : 0] = '\0';
    if (strcmp(target, "anon_inode:[eventfd]") == 0 || strcmp(target, "anon_inode:[eventpoll]") == 0)
        return true;
    /* A pipe without a name was made by the run, or was our own standard input. */
    bool is_pipe = gw_begins(target, "pipe:[") && stat(path, &theirs) == 0;
    return is_pipe && (fstat(STDIN_FILENO, &outside) != 0 || outside.st_ino != theirs.st_ino);
}

static bool are_all_own(const gwi_owners *all, pid_t pid, const int *fd, size_t count, bool *is_peer)
{
    for (size_t i = 0; i < count; i++)
        if (!is_own(all, pid, fd[i], is_peer))
            return false;
    return count > 0;
}

enum { WAITED_MAX = 256 };

/* List the descriptors that an epoll set has. */
static size_t fds_of_epoll(pid_t pid, int epoll_fd, int fd[WAITED_MAX])
{
    char path[64], line[256];
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", (int)pid, epoll_fd);
    FILE *file = fopen(path, "re");
    while (file != NULL && count < WAITED_MAX && fgets(line, sizeof line, file) != NULL)
        count += sscanf(line, "tfd: %d", &fd[count]) == 1;
    if (file != NULL)
        fclose(file);
    return count == WAITED_MAX ? 0 : count;
}

static size_t fds_of_poll(pid_t pid, uint64_t address, uint64_t wanted, int fd[WAITED_MAX])
{
    struct pollfd polled[WAITED_MAX];
    if (wanted == 0 || wanted >= WAITED_MAX)
        return 0;
    struct iovec here = {polled, (size_t)wanted * sizeof polled[0]}, there = {(void *)(uintptr_t)address, here.iov_len};
    if (process_vm_readv(pid, &here, 1, &there, 1, 0) != (ssize_t)here.iov_len)
        return 0;
    for (size_t i = 0; i < wanted; i++)
        fd[i] = polled[i].fd;
    return (size_t)wanted;
}

/* List the descriptors that a thread waits for in its system call. Returns 0 if it waits for anything else, or if this
 * is unknown. */
static size_t waited_fds(pid_t pid, const gw_stack_thread *thread, int fd[WAITED_MAX])
{
    char text[256];
    uint64_t argument[2];
    if (gw_read_small(text, sizeof text, NULL, "/proc/%d/task/%u/syscall", (int)pid, thread->tid) <= 0 ||
        sscanf(text, "%*d %" SCNx64 " %" SCNx64, &argument[0], &argument[1]) != 2)
        return 0;
    switch (thread->syscall) {
    case SYS_read:
    case SYS_readv:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_accept:
    case SYS_accept4:
        fd[0] = (int)argument[0];
        return 1;
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
        return fds_of_epoll(pid, (int)argument[0], fd);
#ifdef SYS_poll
    case SYS_poll:
#endif
    case SYS_ppoll:
        return fds_of_poll(pid, argument[0], argument[1], fd);
    default:
        return 0;
    }
}

/* True if a process of the job holds a lock on the file that the thread waits to lock. */
static bool is_locked_by_job(const gwi_still_job *job, pid_t pid, const gw_stack_thread *thread)
{
    char path[64], line[256];
    struct stat wanted;
    bool is_held = false;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, thread->fd);
    FILE *locks = stat(path, &wanted) == 0 ? fopen("/proc/locks", "re") : NULL;
    while (locks != NULL && !is_held && fgets(line, sizeof line, locks) != NULL) {
        unsigned major_number, minor_number;
        unsigned long long inode;
        int holder; /* a line of a process that waits has "->" before the kind, and does not match */
        is_held =
            sscanf(line, "%*d: %*[A-Z] %*s %*s %d %x:%x:%llu", &holder, &major_number, &minor_number, &inode) == 4 &&
            inode == wanted.st_ino && wanted.st_dev == makedev(major_number, minor_number);
        bool is_of_job = false;
        for (size_t i = 0; i < job->process_count; i++)
            is_of_job = is_of_job || job->process[i].pid == holder;
        is_held = is_held && is_of_job;
    }
    if (locks != NULL)
        fclose(locks);
    return is_held;
}

typedef enum stand { MOVING, OUTSIDE, ELSEWHERE, WAITING } stand;

static stand stand_of_thread(const gwi_still_job *job, const gwi_still_process *process, const gw_stack_thread *thread,
                             uint64_t *position)
{
    bool is_main = thread->tid == (uint32_t)process->pid, is_peer = false;
    int fd[WAITED_MAX];
    switch (thread->wait) {
    case GW_WAIT_LOCK:
    case GW_WAIT_TIMED_LOCK:
    case GW_WAIT_SHARED_LOCK:
        return is_main ? WAITING : ELSEWHERE;
    case GW_WAIT_JOIN:
    case GW_WAIT_SLEEP:
        return ELSEWHERE;
    case GW_WAIT_INPUT:
        if (gw_begins(thread->name, "cuda"))
            return ELSEWHERE; /* the driver's helpers wait for events of the kernel driver */
        if (thread->syscall == SYS_flock || thread->syscall == SYS_fcntl)
            is_peer = is_locked_by_job(job, process->pid, thread);
        else if (!are_all_own(&job->owners, process->pid, fd, waited_fds(process->pid, thread, fd), &is_peer))
            /* a thread of MPI itself; is_apart() has checked its connections */
            return !is_main && process->shared.has_mpi && gwi_call_of_mpi(process->pid, thread->tid) != 0 ? ELSEWHERE
                                                                                                          : OUTSIDE;
        else if (!is_peer)
            return ELSEWHERE;
        return !is_peer ? OUTSIDE : is_main ? WAITING : ELSEWHERE;
    case GW_WAIT_RUNNING:
        if (is_main && process->shared.has_mpi)
            *position = gwi_call_of_mpi(process->pid, thread->tid);
        return *position != 0 ? WAITING : is_main && process->shared.has_mpi ? OUTSIDE : MOVING;
    default:
        return OUTSIDE;
    }
}

/* Find out how the threads of a rank stand. OUTSIDE: one waits for something that may come from outside of the job, or
 * its state is unknown. MOVING: one runs. WAITING: the main thread waits for a lock or for another process of the job.
 */
static stand stand_of(const gwi_still_job *job, const gwi_still_process *process, uint64_t *ret_position)
{
    gw_stack_process *threads = NULL;
    stand found = ELSEWHERE;
    *ret_position = 0;
    if (gw_stacks_look((uint32_t)process->pid, false, &threads, NULL) != GW_OK)
        return OUTSIDE;
    for (size_t i = 0; i < threads->thread_count && found > OUTSIDE; i++) {
        uint64_t position = 0;
        stand one = stand_of_thread(job, process, &threads->thread[i], &position);
        found = one <= OUTSIDE || one > found ? one : found;
        *ret_position += position;
    }
    if (threads->threads_left_out > 0 || threads->no_waits[0] != '\0')
        found = OUTSIDE;
    gw_stack_process_free(threads);
    return found;
}

/* Threads of gloo wake up now and then to look at the time, and a busy machine lets them wait for a processor. So look
 * again shortly after. */
static stand stand_at_last(const gwi_still_job *job, const gwi_still_process *process, uint64_t *ret_position)
{
    enum { LOOKS_MAX = 4 };
    const struct timespec pause_time = {.tv_nsec = 5000000};
    stand found = MOVING;
    for (int i = 0; i < LOOKS_MAX && found == MOVING; i++) {
        if (i > 0)
            ppoll(NULL, 0, &pause_time, NULL);
        found = stand_of(job, process, ret_position);
    }
    return found;
}

/* A number that changes when the main thread of a rank of MPI runs, although it is not inside MPI. */
static uint64_t wakeups_of(pid_t pid)
{
    char status[8192];
    gw_read_small(status, sizeof status, NULL, "/proc/%d/status", (int)pid);
    const char *line = strstr(status, "\nvoluntary_ctxt_switches:");
    return line == NULL ? 0 : strtoull(line + strlen("\nvoluntary_ctxt_switches:"), NULL, 10);
}

/* ---- the decision ---- */

size_t gwi_still_list(const gwi_still_job *job, gwi_still_rank ret_rank[GWI_STILL_RANKS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < job->process_count; i++) {
        const gwi_still_process *process = &job->process[i];
        if (!process->has_rank || process_of_rank(job, process->rank) != process)
            continue;
        if (count == GWI_STILL_RANKS_MAX || (count > 0 && ret_rank[0].of != process->of))
            return 0;
        ret_rank[count++] = (gwi_still_rank){process->pid, process->rank, process->of, process->cpu_ms};
    }
    return count;
}

/* Store all ranks of the job. Returns 0 if some do not run here, or if there are several jobs. */
static size_t list_ranks(const gwi_still_job *job, gwi_still_rank ret_rank[GWI_STILL_RANKS_MAX])
{
    size_t count = gwi_still_list(job, ret_rank);
    return count > 1 && count == ret_rank[0].of ? count : 0;
}

static gwi_still_process *process_at(gwi_still_job *job, pid_t pid)
{
    size_t at = 0;
    while (job->process[at].pid != pid) /* it is one of them */
        at++;
    return &job->process[at];
}

static bool share_memory(gwi_still_job *job, const gwi_still_rank *rank, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (gwi_shared_is_linked(&process_at(job, rank[i].pid)->shared, &process_at(job, rank[k].pid)->shared))
                return true;
    return false;
}

/* Look at the ranks once. *ret_same: the main threads are where they were in the look before. */
static bool stand_still(gwi_still_job *job, const gwi_still_rank *rank, size_t count, bool *ret_same)
{
    bool is_linked = false, waits = false;
    bool good =
        job->owners.is_known && is_apart(&job->owners, &is_linked) && (is_linked || share_memory(job, rank, count));
    *ret_same = true;
    for (size_t i = 0; i < count && good; i++) {
        gwi_still_process *process = process_at(job, rank[i].pid);
        uint64_t position;
        stand one = stand_at_last(job, process, &position);
        if (process->shared.has_mpi && position == 0)
            position = wakeups_of(process->pid);
        *ret_same = *ret_same && position == process->position;
        process->position = position;
        good = one > OUTSIDE;
        waits = waits || one == WAITING;
    }
    return good && waits;
}

size_t gwi_still_ranks(gwi_still_job *job, uint64_t now_ns, uint64_t after_ns,
                       gwi_still_rank ret_rank[GWI_STILL_RANKS_MAX])
{
    enum { LOOKS_PER = 16 }; /* a rank that computes is stopped rarely, and the more rarely the longer it computes */
    if (job->since_ns == 0 || now_ns - job->since_ns < after_ns || now_ns < job->next_ns)
        return 0;
    /* One look may meet a rank between two waits. */
    bool is_again = job->stood, is_same = false;
    size_t count = list_ranks(job, ret_rank);
    job->stood = count > 0 && stand_still(job, ret_rank, count, &is_same);
    if (!job->stood && job->has_mpi)
        job->next_ns = now_ns + (now_ns - job->since_ns) / LOOKS_PER;
    return job->stood && is_again && is_same ? count : 0;
}
