/* Finds the ranks of a job below the command, and measures whether any of them does something. */
#include "gwi_still.h"

#include "gw_array.h"
#include "gw_fact.h"
#include "gw_hash.h"
#include "gw_process.h"
#include "gw_stacks.h"
#include "gw_text.h"
#include "gwi_rank.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
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
    static char environment[64 << 10];
    gw_text text = {0};
    gw_fact_rank rank;
    ssize_t bytes = gw_read_small(environment, sizeof environment, NULL, "/proc/%d/environ", (int)process->pid);
    process->has_rank = bytes > 0 && gwi_rank_find(environment, (size_t)bytes, &text);
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
    if (!is_known) {
        *process = (gwi_still_process){.pid = pid, .parent = parent, .start_ticks = ticks, .exe_hash = exe_hash};
        read_rank(process);
    }
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

typedef struct byte_sum {
    const gwi_sockets *sockets;
    uint64_t bytes;
} byte_sum;

static bool add_socket(void *user, int fd, const char *target)
{
    byte_sum *sum = user;
    const gwi_socket *found = gwi_socket_at(sum->sockets, target);
    (void)fd;
    sum->bytes += found == NULL ? 0 : found->bytes;
    return true;
}

typedef struct activity {
    bool is_known;
    uint64_t cpu_ms, io_bytes, socket_bytes, processes;
} activity;

static activity measure(const gwi_still_job *job)
{
    gwi_sockets sockets;
    activity now = {.is_known = gwi_sockets_read(&sockets)};
    byte_sum sum = {.sockets = &sockets};
    for (size_t i = 0; i < job->process_count && now.is_known; i++) {
        const gwi_still_process *process = &job->process[i];
        uint64_t cpu_ms = 0;
        if (!is_of_rank(job, process))
            continue;
        now.is_known = gw_stacks_cpu_ms((uint32_t)process->pid, &cpu_ms) && add_io(process->pid, &now.io_bytes) &&
                       gw_process_files((int)process->pid, add_socket, &sum);
        now.cpu_ms += cpu_ms;
        now.processes++;
    }
    now.socket_bytes = sum.bytes;
    gwi_sockets_free(&sockets);
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
 * threads that only look at the time. Processor time is counted in steps of 10 ms, so allow two steps. */
static bool has_moved(const gwi_still_job *job, const activity *now, uint64_t elapsed_ms)
{
    enum { STEPS_MS = 20, NOISE_PER = 50 };
    uint64_t noise_ms = now->processes * (STEPS_MS + elapsed_ms / NOISE_PER);
    return !job->is_known || !now->is_known || now->io_bytes != job->io_bytes ||
           now->socket_bytes != job->socket_bytes || now->cpu_ms > job->cpu_ms + noise_ms;
}

static void begin_again(gwi_still_job *job, const activity *now, uint64_t now_ns)
{
    job->since_ns = now_ns;
    job->stood = false;
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
    job->looked_at_ns = now_ns;
    bool changed = see_family(job, command), was_told = job->told;
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
    free(job->process);
    *job = (gwi_still_job){0};
}

/* ---- whom the ranks wait for ---- */

typedef struct owned {
    const gwi_socket *socket;
    pid_t pid;
    uint32_t rank; /* UINT32_MAX: the process has none */
} owned;

typedef struct owners {
    const gwi_sockets *sockets;
    owned *item; /* owned */
    size_t count, capacity;
    pid_t pid; /* the process whose files are visited */
    uint32_t rank;
    bool failed;
} owners;

static bool add_owner(void *user, int fd, const char *target)
{
    owners *all = user;
    const gwi_socket *found = gwi_socket_at(all->sockets, target);
    (void)fd;
    if (found == NULL)
        return true;
    all->failed = !gw_array_room(&all->item, all->count, &all->capacity, sizeof *all->item);
    if (!all->failed)
        all->item[all->count++] = (owned){found, all->pid, all->rank};
    return !all->failed;
}

/* List the sockets of all processes of the run. */
static bool find_owners(const gwi_still_job *job, owners *all)
{
    for (size_t i = 0; i < job->process_count; i++) {
        const gwi_still_process *process = &job->process[i];
        all->pid = process->pid;
        all->rank = is_of_rank(job, process) ? process->rank : UINT32_MAX;
        if (!gw_process_files((int)process->pid, add_owner, all) || all->failed)
            return false;
    }
    return true;
}

static const owned *peer_of(const owners *all, const gwi_socket *socket)
{
    for (size_t i = 0; i < all->count; i++)
        if (gwi_sockets_are_pair(socket, all->item[i].socket))
            return &all->item[i];
    return NULL;
}

/* True if only the job's own processes are connected to the listening socket, and some are. Everybody else could
 * connect to it, too, but a server that only waits for others has no connection to its own processes. */
static bool is_for_own_use(const owners *all, const gwi_socket *listening)
{
    bool any = false;
    for (size_t i = 0; i < all->count; i++)
        any = any || (!all->item[i].socket->is_listening && all->item[i].socket->local.port == listening->local.port);
    return any; /* connections with others are found by is_apart() */
}

/* True if the ranks have no connection with others and nobody else waits to be served. *ret_linked: two ranks are
 * connected with each other. */
static bool is_apart(const owners *all, bool *ret_linked)
{
    *ret_linked = false;
    for (size_t i = 0; i < all->count; i++) {
        const owned *it = &all->item[i];
        if (it->rank == UINT32_MAX)
            continue;
        if (it->socket->is_listening) {
            if (!is_for_own_use(all, it->socket))
                return false;
            continue;
        }
        const owned *peer = peer_of(all, it->socket);
        if (peer == NULL)
            return false;
        *ret_linked = *ret_linked || (peer->rank != UINT32_MAX && peer->rank != it->rank);
    }
    return true;
}

/* True if only the job itself can make this descriptor readable: a connection within the job, or a file for messages
 * inside the run. *is_peer is set if it is such a connection. */
static bool is_own(const owners *all, pid_t pid, int fd, bool *is_peer)
{
    char path[64], target[64];
    struct stat theirs, outside;
    const gwi_socket *socket = gwi_socket_of(all->sockets, pid, fd);
    if (socket != NULL) {
        *is_peer = *is_peer || peer_of(all, socket) != NULL;
        return true; /* is_apart() has checked it */
    }
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
    ssize_t bytes = readlink(path, target, sizeof target - 1);
    target[bytes > 0 ? bytes : 0] = '\0';
    if (strcmp(target, "anon_inode:[eventfd]") == 0 || strcmp(target, "anon_inode:[eventpoll]") == 0)
        return true;
    /* A pipe without a name was made by the run, or was our own standard input. */
    bool is_pipe = gw_begins(target, "pipe:[") && stat(path, &theirs) == 0;
    return is_pipe && (fstat(STDIN_FILENO, &outside) != 0 || outside.st_ino != theirs.st_ino);
}

static bool are_all_own(const owners *all, pid_t pid, const int *fd, size_t count, bool *is_peer)
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
static size_t waited_fds(pid_t pid, uint32_t tid, int fd[WAITED_MAX])
{
    char text[256];
    long number;
    uint64_t argument[2];
    if (gw_read_small(text, sizeof text, NULL, "/proc/%d/task/%u/syscall", (int)pid, tid) <= 0 ||
        sscanf(text, "%ld %" SCNx64 " %" SCNx64, &number, &argument[0], &argument[1]) != 3)
        return 0;
    switch (number) {
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

typedef enum stand { OUTSIDE, ELSEWHERE, WAITING } stand;

/* Find out how the threads of a rank stand. OUTSIDE: one waits for something that may come from outside of the job, or
 * runs, or its state is unknown. WAITING: the main thread waits for a lock or for another process of the job. */
static stand stand_of(const owners *all, pid_t pid)
{
    gw_stack_process *process = NULL;
    stand found = ELSEWHERE;
    if (gw_stacks_look((uint32_t)pid, false, &process, NULL) != GW_OK)
        return OUTSIDE;
    for (size_t i = 0; i < process->thread_count && found != OUTSIDE; i++) {
        const gw_stack_thread *thread = &process->thread[i];
        bool is_main = thread->tid == (uint32_t)pid, is_peer = false;
        int fd[WAITED_MAX];
        switch (thread->wait) {
        case GW_WAIT_LOCK:
        case GW_WAIT_TIMED_LOCK:
        case GW_WAIT_SHARED_LOCK:
            found = is_main ? WAITING : found;
            break;
        case GW_WAIT_JOIN:
        case GW_WAIT_SLEEP:
            break;
        case GW_WAIT_INPUT:
            if (gw_begins(thread->name, "cuda"))
                break; /* the driver's helpers wait for events of the kernel driver */
            if (!are_all_own(all, pid, fd, waited_fds(pid, thread->tid, fd), &is_peer))
                found = OUTSIDE;
            else if (is_main && is_peer)
                found = WAITING;
            break;
        default:
            found = OUTSIDE;
        }
    }
    if (process->threads_left_out > 0 || process->no_waits[0] != '\0')
        found = OUTSIDE;
    gw_stack_process_free(process);
    return found;
}

/* Store all ranks of the job, in the order of the processes. Returns 0 if some do not run here, or if there are several
 * jobs. */
static size_t list_ranks(const gwi_still_job *job, gwi_still_rank ret_rank[GWI_STILL_RANKS_MAX])
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
    return count > 1 && count == ret_rank[0].of ? count : 0;
}

size_t gwi_still_ranks(gwi_still_job *job, uint64_t now_ns, uint64_t after_ns,
                       gwi_still_rank ret_rank[GWI_STILL_RANKS_MAX])
{
    if (job->since_ns == 0 || now_ns - job->since_ns < after_ns)
        return 0;
    gwi_sockets sockets;
    size_t count = list_ranks(job, ret_rank);
    bool is_linked = false, waits = false, good = count > 0 && gwi_sockets_read(&sockets);
    if (!good) {
        job->stood = false;
        return 0;
    }
    owners all = {.sockets = &sockets};
    good = find_owners(job, &all) && is_apart(&all, &is_linked) && is_linked;
    for (size_t i = 0; i < count && good; i++) {
        stand one = stand_of(&all, ret_rank[i].pid);
        good = one != OUTSIDE;
        waits = waits || one == WAITING;
    }
    free(all.item);
    gwi_sockets_free(&sockets);
    /* One look may meet a rank between two waits. */
    bool is_again = job->stood;
    job->stood = good && waits;
    return job->stood && is_again ? count : 0;
}
