/* Where the process forks. A child's first driver call comes back from fork() by another line than the one that forked,
 * so the parent looks at its stack before: by a handler, for which only fork() asks (vfork, posix_spawn and a plain
 * clone run none), and which costs as much as a call site, at a fork alone.
 *
 * It must not be in anybody's way. It allocates nothing, records nothing but a site that is new, and takes no lock but
 * the hook's own, for a moment, where a file or the thread's stack is new to it: who holds that waits for no fork. And
 * where the thread has no slot yet, or is inside a driver call (a signal's handler forks), it does nothing. What it
 * found lies in memory that a fork copies, by slot: several threads may fork at once.
 *
 * Registering is what may wait: glibc 2.28 to 2.35 hold the lock of the handlers while they run, and one of them may
 * wait for what our caller holds (Python's lock, say), or be our caller. There the handler is registered only while the
 * process has one thread, for which they take no lock; else a fork's place is what the child's own stack shows. */
#include "gwi_hook.h"
#include "gwi_site.h"
#include "gwi_unwind.h"

#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A place, and the stack of the thread: to look for it costs milliseconds where much is mapped. */
typedef struct fork_note {
    uint32_t site; /* 0: not known */
    gwi_stack_known stack;
} fork_note;

static fork_note note_of_slot[GW_SLOT_COUNT]; /* of the thread's fork under way */
static fork_note note_of_this;                /* of the one that made this process */

static void before_fork(void)
{
    int saved_errno = errno;
    gw_slot *slot = gwi_slot;
    if (slot != NULL && gwi_slot_is_ours(slot) && gwi_slot_is_shared(slot)) {
        fork_note *note = &note_of_slot[gwi_slot_index(slot)];
        *note = (fork_note){0};
        if (atomic_load_explicit(&slot->inside_fn, memory_order_relaxed) == 0) {
            atomic_store_explicit(&slot->inside_fn, UINT32_MAX, memory_order_relaxed);
            note->site = gwi_site(slot, GW_FN_COUNT, gwi_ticks(), false);
            note->stack = *gwi_slot_stack(slot);
            atomic_store_explicit(&slot->inside_fn, 0, memory_order_release);
        }
    }
    errno = saved_errno;
}

/* The thread's slot is its parent's still, or that of the last process that had one: a child that makes no driver call
 * and forks again hands on what it has. */
static void in_child(void)
{
    const gw_slot *slot = gwi_slot;
    if (slot != NULL && gwi_slot_is_shared(slot))
        note_of_this = note_of_slot[gwi_slot_index(slot)];
}

uint32_t gwi_fork_take(gw_slot *slot)
{
    fork_note note = note_of_this;
    note_of_this = (fork_note){0};
    uintptr_t here = (uintptr_t)&note;
    bool is_its_stack = here >= note.stack.low && here < note.stack.high; /* a thread made since then has another one */
    if (slot != NULL && gwi_slot_is_shared(slot) && is_its_stack)
        *gwi_slot_stack(slot) = note.stack;
    return note.site;
}

/* "2.31": 31. 0: no such version. */
static unsigned long minor_version(void)
{
    const char *version = gnu_get_libc_version();
    return strncmp(version, "2.", 2) == 0 ? strtoul(version + 2, NULL, 10) : 0;
}

/* A directory of threads has two links and one for each of them. */
static bool has_one_thread(void)
{
    struct stat info;
    return syscall(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &info, 0) == 0 && info.st_nlink == 3;
}

void gwi_forks_watch(void)
{
    enum { LOCKED_FIRST = 28, LOCKED_LAST = 35 };
    static _Atomic bool asked;
    unsigned long minor = minor_version();
    bool waits = minor == 0 || (minor >= LOCKED_FIRST && minor <= LOCKED_LAST);
    if (!gwi.inert && gwi.records_sites && (!waits || has_one_thread()) && !atomic_exchange(&asked, true))
        (void)pthread_atfork(before_fork, NULL, in_child);
}
