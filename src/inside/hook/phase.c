/* Functions that a program calls to mark the start of its phases. include/gpuwhy.h and python/gpuwhy.py look them up by
 * the hook's soname. dlsym(RTLD_DEFAULT) does not see the hook, which is opened with local scope. */
#include "gwi_hook.h"

#include <errno.h>
#include <string.h>

enum { PHASES_MAX = 4096, NAME_BYTES_MAX = 200 };

int gpuwhy_phase_mark(const char *name) __attribute__((visibility("default")));
/* Mark a phase that began `age_ns` nanoseconds ago, perhaps before the hook was loaded. For example, a notebook kernel
 * loads the hook in the middle of a cell (python/gpuwhy_ipython.py). Returns 1 if the phase was recorded, otherwise
 * 0. */
int gpuwhy_phase_mark_since(const char *name, uint64_t age_ns) __attribute__((visibility("default")));

/* Return how many bytes of the name to keep: at most NAME_BYTES_MAX, without cutting a UTF-8 character in two. */
static size_t kept_bytes(const char *name)
{
    size_t bytes = strnlen(name, NAME_BYTES_MAX + 1);
    if (bytes <= NAME_BYTES_MAX)
        return bytes;
    for (bytes = NAME_BYTES_MAX; bytes > 0 && ((unsigned char)name[bytes] & 0xC0) == 0x80;)
        bytes--;
    return bytes;
}

int gpuwhy_phase_mark_since(const char *name, uint64_t age_ns)
{
    static _Atomic uint32_t count, pid; /* `count`: phases of process `pid` */
    char text[NAME_BYTES_MAX + 1];
    int saved_errno = errno;
    if (gwi.head == NULL)
        return 0;
    if (atomic_exchange_explicit(&pid, gwi.head->pid, memory_order_relaxed) != gwi.head->pid)
        atomic_store_explicit(&count, 0, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&count, 1, memory_order_relaxed) >= PHASES_MAX) {
        atomic_store_explicit(&count, PHASES_MAX, memory_order_relaxed);
        return 0;
    }
    size_t bytes = name == NULL ? 0 : kept_bytes(name);
    if (bytes > 0)
        memcpy(text, name, bytes);
    text[bytes] = '\0';
    bool written = gwi_fact(GW_EV_PHASE, age_ns, 0, 0, 0, bytes == 0 ? NULL : text);
    errno = saved_errno;
    return written;
}

int gpuwhy_phase_mark(const char *name)
{
    return gpuwhy_phase_mark_since(name, 0);
}

/* A function that a notebook kernel calls from Python after each cell: see python/gpuwhy_ipython.py.
 *
 * The kernel that `gpuwhy jupyter install` sets up runs under `gpuwhy run`. Before a cell, it marks a phase
 * (gpuwhy_phase_mark_since()); the hook is loaded at the first driver call, so the cell with that call is marked when
 * it has ended, with its age. After a cell, it reads the number of failures, and runs `gpuwhy explain --cell` if the
 * cell raised an exception or lost the context. The model finds what each cell kept (phases.c). */

__attribute__((visibility("default"))) int64_t gpuwhy_failure_count(void);

/* Return how many driver calls of this process have failed, or -1 if nothing is recorded. Results such as "not ready"
 * are no failures. Any thread may call this. */
int64_t gpuwhy_failure_count(void)
{
    const gw_slot *slot = gwi_slot_usable();
    if (slot == NULL || !gwi_slot_is_shared(slot))
        return -1;
    return atomic_load_explicit(&gwi.head->failures, memory_order_relaxed);
}
