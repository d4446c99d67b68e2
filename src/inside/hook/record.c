/* Switch recording off and on from within the process, so that a benchmark can time the same training run with and
 * without recording (bench/gpu/training.py finds the function by the hook's soname). Switching changes the entries
 * of the facade's jump table. So wrappers, except those of resolvers, need not check whether recording is on. While
 * recording is off, a call costs one extra jump. */
#include "gwi_gate.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { FACADES_MAX = 16 };

static gw_facade_head *facades[FACADES_MAX]; /* accessed with the lock held; facades are never unmapped */
static bool wipes_reads[FACADES_MAX];
static uint32_t facade_count;
static _Atomic bool is_off;

bool gwi_recording_is_off(void)
{
    return atomic_load_explicit(&is_off, memory_order_relaxed);
}

/* Resolvers are not redirected, because the program may use their results later, when recording is on again. */
static bool is_resolver(int fn)
{
    return fn == GW_FN_cuGetProcAddress || fn == GW_FN_cuGetProcAddress_v2;
}

static void redirect(gw_facade_head *head, bool on)
{
    for (uint32_t i = 0; i < head->name_count; i++) {
        int fn = gw_api_find_symbol(head->strings + head->names[i]);
        if (fn < 0 || gwi_wrappers[fn] == NULL || gwi_real[fn] == NULL || is_resolver(fn))
            continue;
        void *now = __atomic_load_n(&head->table[i], __ATOMIC_RELAXED);
        /* change only entries that jump to one of these two functions */
        if (now == (on ? gwi_real[fn] : gwi_wrappers[fn]))
            __atomic_store_n(&head->table[i], on ? gwi_wrappers[fn] : gwi_real[fn], __ATOMIC_RELEASE);
    }
}

/* Let functions of READ rows in driver.api jump straight to the driver, past their wrappers. In a forked child,
 * even the first such call may fail, and must use its wrapper. So the kernel wipes this page with the pointers at a
 * fork. In the child it stays wiped, because cuInit fails there. Kernels before 4.14 cannot wipe it: there, the
 * wrappers are always used. */
static void lead_reads_straight(gw_facade_head *head)
{
    for (uint32_t i = 0; i < head->read_count; i++) {
        int fn = gw_api_find_symbol(head->strings + head->names[i]);
        if (fn >= 0 && (gw_api_fns[fn].flags & GW_API_READ) != 0)
            __atomic_store_n(&head->reads[i], gwi_real[fn], __ATOMIC_RELEASE);
    }
}

static bool kernel_wipes_reads(const gw_facade_head *head)
{
    return sysconf(_SC_PAGESIZE) <= GWI_PAGE_BYTES_MAX &&
           madvise(head->reads, GWI_PAGE_BYTES_MAX, MADV_WIPEONFORK) == 0;
}

void gwi_initialised(void)
{
    atomic_store(&gwi.head->initialised, 1);
    if (!gwi_lock())
        return;
    for (uint32_t i = 0; i < facade_count; i++)
        if (wipes_reads[i])
            lead_reads_straight(facades[i]);
    gwi_unlock();
}

void gwi_facade_attached(gw_facade_head *head)
{
    if (facade_count < FACADES_MAX) {
        bool is_initialised = atomic_load(&gwi_wipe.mark) != 0 && atomic_load(&gwi.head->initialised) != 0;
        wipes_reads[facade_count] = kernel_wipes_reads(head);
        if (is_initialised && wipes_reads[facade_count])
            lead_reads_straight(head);
        facades[facade_count++] = head;
    }
    if (gwi_recording_is_off())
        redirect(head, false);
}

int gpuwhy_record(int on) __attribute__((visibility("default")));

/* Switch recording off (0: calls go straight to the driver) or on again (any other value). Returns 1 on success.
 * Returns 0 and changes nothing if this process records nothing, or if the guard or a gate is on, because the guard
 * must see every allocation, and what a gate does must be recorded.
 *
 * Any thread may call this at any time. While recording is off:
 * - A call is still recorded if its wrapper was entered before.
 * - Resolvers stay wrapped and return the same results, but are not counted.
 * - Facts that are not calls, such as phases, are still written.
 * - Functions that the driver does not export are still recorded. A program gets them from a resolver, not from the
 *   facade's table.
 * - Allocations and frees are missing from the recording. Use this for measurements, not for a verdict. */
int gpuwhy_record(int on)
{
    int saved_errno = errno, done = 0;
    if (gwi_lock()) {
        if (!gwi.inert && !gwi_guard_on && !gwi_gates_are_on() && facade_count > 0) {
            atomic_store_explicit(&is_off, on == 0, memory_order_relaxed);
            for (uint32_t i = 0; i < facade_count; i++)
                redirect(facades[i], on != 0);
            done = 1;
        }
        gwi_unlock();
    }
    errno = saved_errno;
    return done;
}
