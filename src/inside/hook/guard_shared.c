/* A limit that the processes of a run share: see gwi_guard_parts.h and gw_run_shared.h.
 *
 * Each process publishes its own bytes in its place of the shared file and adds up those of the others. A request is
 * published before the others are read. So of two processes that request the last memory at the same time, both may be
 * refused, but never both granted. A process that ends leaves its place; whoever would exceed the limit, shows the free
 * memory to its program, or finds no free place, first clears the places of processes that have ended. */
#include "gw_run_shared.h"
#include "gwi_guard_parts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Maps the file that all processes of a run share (gw_run_shared.h). */

gw_run_shared *gwi_run_shared(void)
{
    static gw_run_shared *_Atomic shared;
    gw_run_shared *none = NULL;
    if (shared != NULL || gwi.run_dir[0] == '\0')
        return shared;
    int cancel_state; /* open() is a cancellation point, and the guard's lock may be held */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    int fd = gwi_run_file_open(GW_RUN_SHARED_NAME, 0);
    if (fd >= 0) {
        void *map = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (map != MAP_FAILED && !atomic_compare_exchange_strong(&shared, &none, map))
            munmap(map, sizeof *none); /* another thread has mapped it */
    }
    pthread_setcancelstate(cancel_state, NULL);
    return shared;
}

static gw_run_shared *shared;
static gw_run_member *own;
static uint32_t own_mark; /* of the process that took `own`; a forked child needs a place of its own */

/* Return the start time of a process from /proc, 0 if there is no such process or it is a zombie. Only open, read and
 * close are used, which a filter of system calls allows. */
static uint64_t started_at(uint32_t pid)
{
    enum { START_FIELD = 20 }; /* after the name, counted from the state as 1 */
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int cancel_state; /* open() is a cancellation point, and the guard's lock may be held */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    bool is_there = gwi_read_small_file(path, text, sizeof text);
    pthread_setcancelstate(cancel_state, NULL);
    if (!is_there)
        return 0;
    const char *at = strrchr(text, ')');
    if (at != NULL && at[1] == ' ' && (at[2] == 'Z' || at[2] == 'X'))
        return 0;
    for (int field = 0; at != NULL && field < START_FIELD; field++)
        at = strchr(at + 1, ' ');
    return at == NULL ? 0 : strtoull(at + 1, NULL, 10);
}

/* Return a number for the namespace in which this process's pid is valid; 0: not known. */
static uint64_t pid_namespace(void)
{
    char text[64] = "";
    ssize_t bytes = gwi_calls_are_filtered() ? -1 : readlink("/proc/self/ns/pid", text, sizeof text - 1);
    const char *digits = bytes > 0 ? strchr(text, '[') : NULL; /* "pid:[4026531836]" */
    return digits == NULL ? 0 : strtoull(digits + 1, NULL, 10);
}

static bool take(gw_run_member *member, uint32_t pid, uint64_t namespace, uint64_t started)
{
    uint32_t none = 0;
    if (!atomic_compare_exchange_strong(&member->pid, &none, pid))
        return false;
    atomic_store(&member->pid_namespace, namespace);
    for (int i = 0; i < GW_RUN_SHARED_DEVICES; i++)
        atomic_store(&member->used_bytes[i], 0);
    atomic_store(&member->started, started);
    return true;
}

/* Clear the place of a process that has ended. `started` is 0 while a place is being taken or cleared. The caller's own
 * namespace and start time are 0 if /proc cannot be read: then nothing is known about others either. */
static void sweep(gw_run_member *member, uint64_t own_namespace, uint64_t own_started)
{
    uint32_t pid = atomic_load(&member->pid);
    uint64_t started = atomic_load(&member->started);
    bool can_tell = own_started != 0 && own_namespace != 0 && member->pid_namespace == own_namespace;
    if (pid != 0 && started != 0 && can_tell && started_at(pid) != started &&
        atomic_compare_exchange_strong(&member->started, &started, 0))
        atomic_store(&member->pid, 0);
}

static void member_begin(gw_run_member *member, uint32_t index)
{
    uint32_t count = atomic_load(&shared->member_count);
    while (count < index + 1 && !atomic_compare_exchange_weak(&shared->member_count, &count, index + 1))
        ;
    own = member;
}

/* Clear the place that this process had before an exec(). */
static void forget_earlier(uint32_t pid, uint64_t namespace)
{
    for (uint32_t i = 0; namespace != 0 && i < GW_RUN_MEMBERS_MAX; i++)
        if (atomic_load(&shared->member[i].pid) == pid && shared->member[i].pid_namespace == namespace) {
            atomic_store(&shared->member[i].started, 0);
            atomic_store(&shared->member[i].pid, 0);
        }
}

void gwi_share_begin(void)
{
    uint32_t mark = atomic_load_explicit(&gwi_wipe.mark, memory_order_relaxed);
    if (!gwi_guard.is_shared || own_mark == mark)
        return;
    if (own_mark != 0) /* a forked child: its memory is none of the parent's, whose contexts it cannot use */
        memset(gwi_guard.device, 0, sizeof gwi_guard.device);
    shared = gwi_run_shared();
    own = NULL;
    own_mark = mark;
    if (shared == NULL)
        return;
    uint32_t pid = (uint32_t)getpid();
    uint64_t namespace = pid_namespace(), started = started_at(pid);
    forget_earlier(pid, namespace);
    /* If all places are taken, a second round clears those of ended processes. */
    for (int is_swept = 0; own == NULL && is_swept < 2; is_swept++)
        for (uint32_t i = 0; own == NULL && i < GW_RUN_MEMBERS_MAX; i++) {
            if (is_swept)
                sweep(&shared->member[i], namespace, started);
            if (take(&shared->member[i], pid, namespace, started))
                member_begin(&shared->member[i], i);
        }
}

void gwi_share_tell(int device, uint64_t more)
{
    gwi_share_begin();
    if (own != NULL && device < GW_RUN_SHARED_DEVICES)
        atomic_store(&own->used_bytes[device], gwi_guard_own_bytes(device) + more);
}

uint64_t gwi_share_others(int device, bool is_swept)
{
    uint64_t sum = 0;
    if (!gwi_guard.is_shared || shared == NULL || device >= GW_RUN_SHARED_DEVICES)
        return 0;
    uint32_t count = atomic_load(&shared->member_count);
    for (uint32_t i = 0; i < count && i < GW_RUN_MEMBERS_MAX; i++) {
        gw_run_member *member = &shared->member[i];
        if (member == own || atomic_load(&member->pid) == 0)
            continue;
        if (is_swept && own != NULL)
            sweep(member, own->pid_namespace, own->started);
        if (atomic_load(&member->pid) != 0)
            sum += atomic_load(&member->used_bytes[device]);
    }
    return sum;
}
