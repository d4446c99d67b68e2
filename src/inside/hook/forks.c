/* Records where the process forks. A child has already left the line of the fork() when it makes its first driver call.
 * So the parent reads its own stack before the fork, in a pthread_atfork handler. This costs as much as recording one
 * call site. vfork, posix_spawn and a plain clone do not run the handler.
 *
 * The handler must not disturb the program:
 * - It allocates nothing, and records nothing except a new site.
 * - It takes only the hook's own lock, briefly, for a new file or a new stack. No thread waits for a fork while it
 *   holds this lock.
 * - It does nothing if the thread has no slot yet, or is inside a driver call (fork in a signal handler).
 * Several threads may fork at once, so each slot has its own result. The child gets a copy of it.
 *
 * Registering the handler may block. glibc 2.28 to 2.35 hold the handler lock while handlers run. A handler may
 * wait for a lock that our caller holds, such as Python's lock, or may itself call us. So on these versions we
 * register only while the process has one thread: glibc then takes no lock. Without the handler, the place of the
 * fork must be found in the child's own stack. */
#include "gw_text.h"
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

/* A fork's call site, and the limits of the thread's stack. The child reuses the limits: with many mappings,
 * finding them takes milliseconds. */
typedef struct fork_note {
    uint32_t site; /* 0: unknown */
    gwi_stack_known stack;
} fork_note;

static fork_note note_of_slot[GW_SLOT_COUNT]; /* by slot: the current fork of the slot's thread */
static fork_note note_of_this;                /* the fork that created this process */

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

/* Keep the note of this fork for the child's first driver call. gwi_slot belongs to the last ancestor with a driver
 * call. So a child that forks again without one passes on this note. */
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
    bool is_its_stack =
        here >= note.stack.low && here < note.stack.high; /* false if this thread was created after the fork */
    if (slot != NULL && gwi_slot_is_shared(slot) && is_its_stack)
        *gwi_slot_stack(slot) = note.stack;
    return note.site;
}

/* Return 31 for glibc 2.31, and 0 for a version that is not 2.x. */
static unsigned long minor_version(void)
{
    const char *version = gnu_get_libc_version();
    return gw_begins(version, "2.") ? strtoul(version + 2, NULL, 10) : 0;
}

/* True if the process has exactly one thread. The link count of /proc/self/task is 2 plus one for each thread. */
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
