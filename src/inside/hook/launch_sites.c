/* Records the call sites that launch kernels, a few for each function.
 *
 * Most launches only check whether their function is settled: it needs no more call sites. Otherwise, the call site is
 * looked up at the 1st, 2nd, 4th, 8th and 16th launch. After the 16th launch, or after four different sites, the
 * function is settled.
 *
 * A settled function may later be launched from another place. So functions with fewer than four sites are watched
 * again each time the process's age has doubled.
 *
 * When a module, library or context is unloaded, all data is cleared, because the driver may reuse handles. Threads do
 * not wait for each other here. A site may be lost, or recorded twice. */

#include "gwi_hook.h"
#include "gwi_site.h"

#include <errno.h>

enum { WATCHED_MAX = 4096, PROBES_MAX = 16, SITES_MAX = 4, WINDOW = 16 };
_Static_assert((WATCHED_MAX & (WATCHED_MAX - 1)) == 0, "a power of two");

/* A watched or settled function, its recorded sites, and its number of launches since the watch began. The struct has
 * 32 bytes. */
typedef struct watched {
    _Atomic uint64_t function; /* 0: free */
    _Atomic uint32_t count;
    _Atomic uint32_t site_count;
    _Atomic uint32_t site[SITES_MAX];
} watched;

static watched table[WATCHED_MAX];
static _Atomic bool any_watched;

static watched *place_of(uint64_t function)
{
    uint64_t at = gwi_launch_hash(function) >> 32;
    for (unsigned n = 0; n < PROBES_MAX; n++) {
        watched *w = &table[(at + n) % WATCHED_MAX];
        uint64_t found = atomic_load_explicit(&w->function, memory_order_relaxed);
        if (found == function)
            return w;
        if (found == 0 && (atomic_compare_exchange_strong(&w->function, &found, function) || found == function))
            return w;
    }
    return NULL;
}

static void settle(uint64_t function)
{
    uint64_t hash = gwi_launch_hash(function);
    atomic_fetch_or_explicit(&gwi_wipe.launches_settled[gwi_launch_word(hash)], gwi_launch_bits(hash),
                             memory_order_relaxed);
}

/* Add a site to a function. Returns true if the site is new and there was room for it. */
static bool take_site(watched *w, uint32_t site)
{
    uint32_t count = atomic_load_explicit(&w->site_count, memory_order_relaxed);
    for (uint32_t i = 0; i < count && i < SITES_MAX; i++)
        if (atomic_load_explicit(&w->site[i], memory_order_relaxed) == site)
            return false;
    count = atomic_fetch_add(&w->site_count, 1);
    if (count >= SITES_MAX)
        return false;
    atomic_store_explicit(&w->site[count], site, memory_order_relaxed);
    return true;
}

static void look(gwi_slot_ref *th, watched *w, unsigned fn, uint64_t function, uint64_t stream)
{
    uint64_t now = gwi_ticks();
    /* the thread's next calls reuse this clock reading */
    atomic_store_explicit(&th->slot->inside_since, now, memory_order_relaxed);
    uint32_t site = gwi_site(th->slot, fn, now, false);
    if (site == 0 || !take_site(w, site))
        return;
    gw_raw_event event = {
        .ticks = now, .fn = (uint16_t)fn, .kind = GW_EV_LAUNCH_SITE, .site = site, .arg = {function, 0, 0, stream}};
    gwi_write(th->slot, &event, NULL);
}

void gwi_launch_look(gwi_slot_ref *th, unsigned fn, uint64_t function, uint64_t stream)
{
    int saved_errno = errno;
    if (!gwi_slot_is_ours(th->slot)) /* a signal handler has forked during this launch, and this is the child */
        return;
    atomic_store_explicit(&any_watched, true, memory_order_relaxed);
    watched *w = place_of(function);
    uint32_t count = w == NULL ? WINDOW : atomic_fetch_add(&w->count, 1) + 1;
    if (w != NULL && count <= WINDOW && (count & (count - 1)) == 0)
        look(th, w, fn, function, stream);
    if (count >= WINDOW || atomic_load_explicit(&w->site_count, memory_order_relaxed) >= SITES_MAX) {
        if (w != NULL)
            atomic_store_explicit(&w->count, WINDOW, memory_order_relaxed);
        settle(function);
    }
    errno = saved_errno;
}

static void unsettle(void)
{
    for (size_t i = 0; i < GWI_LAUNCH_WORDS; i++)
        atomic_store_explicit(&gwi_wipe.launches_settled[i], 0, memory_order_relaxed);
}

void gwi_launch_forget(void)
{
    if (!atomic_exchange(&any_watched, false))
        return;
    for (size_t i = 0; i < WATCHED_MAX; i++) {
        watched *w = &table[i];
        if (atomic_load_explicit(&w->function, memory_order_relaxed) == 0)
            continue;
        atomic_store_explicit(&w->count, 0, memory_order_relaxed);
        atomic_store_explicit(&w->site_count, 0, memory_order_relaxed);
        atomic_store_explicit(&w->function, 0, memory_order_relaxed);
    }
    unsettle();
}

void gwi_launch_watch_again(uint64_t now)
{
    enum { SOONEST_TICKS = 1 << 30 }; /* 0.3 to 1 s, depending on the tick rate */
    uint64_t age = now - gwi.head->start_ticks;
    bool is_first = atomic_load_explicit(&gwi_wipe.launches_due, memory_order_relaxed) == 0;
    atomic_store_explicit(&gwi_wipe.launches_due, now + (age < SOONEST_TICKS ? SOONEST_TICKS : age),
                          memory_order_relaxed);
    if (is_first)
        return;
    for (size_t i = 0; i < WATCHED_MAX; i++)
        if (atomic_load_explicit(&table[i].site_count, memory_order_relaxed) < SITES_MAX)
            atomic_store_explicit(&table[i].count, 0, memory_order_relaxed);
    unsettle();
}
