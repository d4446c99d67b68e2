/* The slow path into a wrapper, for the first call of a thread or of a forked child. Any thread may call the functions
 * here that record facts. */
#include "gw_quiet_door.h"
#include "gwi_hook.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

gwi_start gwi_at_start;

/* ---- a new process, a new thread ---- */

static void forked(void)
{
    memset(&gwi_wipe, 0, sizeof gwi_wipe);
}

static _Atomic bool children_are_told; /* gwi_tell_children() has succeeded; written only with the lock held */

/* Ask the kernel to clear gwi_wipe in forked children. Returns false for pages larger than GWI_PAGE_BYTES_MAX, because
 * data beside gwi_wipe would be cleared, too. */
static bool kernel_wipes(void)
{
    return sysconf(_SC_PAGESIZE) <= GWI_PAGE_BYTES_MAX && madvise(&gwi_wipe, sizeof gwi_wipe, MADV_WIPEONFORK) == 0;
}

/* Make sure that gwi_wipe is cleared in a forked child. Kernels before 4.14 need an atfork handler, which does not run
 * after a raw clone. Returns false if neither way works. */
bool gwi_tell_children(void)
{
    if (!children_are_told)
        children_are_told = kernel_wipes() || pthread_atfork(NULL, NULL, forked) == 0;
    return children_are_told;
}

static void write_fork_fact(const gw_buffer_head *parent, uint32_t site)
{
    gwi_fact(GW_EV_FORK, parent->pid, atomic_load(&parent->initialised), site, 0, NULL);
}

/* True if the buffer belongs to another live process whose memory we share (vfork, clone with CLONE_VM). Nothing is
 * recorded then. */
static bool in_foreign_memory(void)
{
    pid_t owner = (pid_t)gwi.head->pid;
    return gwi.slots != NULL && owner != getpid() && (kill(owner, 0) == 0 || errno != ESRCH);
}

static gw_slot *enter_slow(void)
{
    const gw_buffer_head *inherited = NULL;
    uint32_t fork_site = 0;
    if (gwi.is_quiet || !children_are_told || !gwi_lock())
        return NULL;
    uint32_t mark = atomic_load(&gwi_wipe.mark);
    bool is_new = mark == 0;
    if (!is_new && in_foreign_memory()) {
        gwi_unlock();
        return NULL;
    }
    if (is_new) {
        inherited = gwi.slots != NULL ? gwi.head : NULL;
        mark = (uint32_t)gw_monotonic_ns() | 1;
        gwi_at_start.begin(gwi_buffer_create(mark));
        atomic_store(&gwi_wipe.mark, mark);
    }
    gw_slot *slot = gwi_slot; /* a driver call in a signal handler may have taken a slot already */
    if (slot == NULL || slot->mark != mark)
        gwi_slot = gwi_slot_take(mark);
    if (is_new)
        fork_site = gwi_at_start.take_fork(gwi_slot);
    gwi_unlock();
    if (is_new && inherited != NULL)
        write_fork_fact(inherited, fork_site);
    return gwi_slot;
}

gw_slot *gwi_enter_slow(void)
{
    gw_slot *slot;
    GWI_KEEP_ERRNO(slot = enter_slow());
    return slot;
}

/* ---- facts ---- */

static bool write_fact(gw_slot *slot, unsigned fn, unsigned kind, uint32_t site, const uint64_t arg[4],
                       const char *text)
{
    uint64_t ticks = gwi_slot_facts_ticks(slot);
    gw_raw_event event = {.ticks = ticks != 0 ? ticks : gwi_ticks(),
                          .fn = (uint16_t)fn,
                          .kind = (uint8_t)kind,
                          .site = site,
                          .arg = {arg[0], arg[1], arg[2], arg[3]}};
    return gwi_write(slot, &event, text);
}

static bool put_fact(unsigned fn, unsigned kind, uint32_t site, const uint64_t arg[4], const char *text)
{
    bool written = false;
    int saved_errno = errno;
    gw_slot *slot = gwi_slot_usable();
    if (slot != NULL && gwi_slot_is_shared(slot)) {
        /* Inside a wrapper, the thread is already marked as inside a call. Otherwise mark it now, so that our own
         * calls are not recorded. */
        uint32_t inside = atomic_load_explicit(&slot->inside_fn, memory_order_relaxed);
        if (inside == 0)
            atomic_store_explicit(&slot->inside_fn, UINT32_MAX, memory_order_relaxed);
        written = write_fact(slot, fn, kind, site, arg, text);
        atomic_store_explicit(&slot->inside_fn, inside, memory_order_release);
    }
    errno = saved_errno;
    return written;
}

bool gwi_fact(unsigned kind, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, const char *text)
{
    return put_fact(0, kind, 0, (const uint64_t[4]){a0, a1, a2, a3}, text);
}

bool gwi_fact_at(unsigned kind, uint32_t site, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
    return put_fact(0, kind, site, (const uint64_t[4]){a0, a1, a2, a3}, NULL);
}

bool gwi_fact_of(unsigned fn, unsigned kind, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, const char *text)
{
    return put_fact(fn, kind, 0, (const uint64_t[4]){a0, a1, a2, a3}, text);
}

bool gwi_note(gw_note reason, uint64_t a, uint64_t b, uint64_t c, const char *text)
{
    return gwi_fact(GW_EV_NOTE, reason, a, b, c, text);
}

/* ---- a program that forbids to read the clock, or system calls ---- */

/* The children of this process inherit both flags, and what the program forbids. The buffer stays mapped, because other
 * threads may be writing to it. */
static void be_quiet(const char *what)
{
    if (gwi.is_quiet || (atomic_load(&gwi_wipe.mark) != 0 && in_foreign_memory()))
        return;
    /* a process that has recorded something, or whose parent has, writes a note, also if this thread is new */
    gw_slot *slot = gwi.slots != NULL ? gwi_slot_usable() : NULL;
    if (slot != NULL && gwi_slot_is_shared(slot)) {
        gwi_slot_facts_begin(slot, 0, true);
        gwi_note(GW_NOTE_QUIET, 0, 0, 0, what);
        gwi_slot_facts_end(slot);
    }
    gwi.is_quiet = true;
    gwi_slot = NULL;
    atomic_store(&gwi_wipe.mark, 0);
}

/* True if the kernel already kills this thread for reading the time stamp counter. While a filter is active, prctl()
 * might kill it, too. */
static bool is_clock_forbidden(void)
{
    int mode = 0;
    gwi_filters_begin();
    return !gwi_calls_are_filtered() && syscall(SYS_prctl, PR_GET_TSC, &mode, 0, 0, 0) == 0 && mode == PR_TSC_SIGSEGV;
}

void gwi_quiet_watch(void)
{
    bool has_door = &gw_the_quiet_door != NULL;
    gwi.is_quiet = (has_door && gw_the_quiet_door.is_quiet) || is_clock_forbidden();
    if (has_door)
        gw_the_quiet_door.begin = be_quiet;
}
