/* The hook's entry point for facades, its state, its lock, and the slow path into a wrapper for a new thread or
 * process. */
#include "gw_cuda_results.h"
#include "gwi_course.h"
#include "gwi_hook.h"
#include "gwi_modules.h"
#include "gwi_site.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

gwi_state gwi;
gwi_wipe_page gwi_wipe;
__thread gw_slot *gwi_slot __attribute__((tls_model("initial-exec")));
void *gwi_real[GW_FN_COUNT];
void *gwi_stub[GW_FN_COUNT];

/* ---- the lock ---- */

static _Atomic uint32_t lock_tid; /* thread that holds the lock; 0: none */
static int lock_cancel_state;     /* the holder's own cancel state, restored at unlock */

/* A fork copies a lock that another thread holds. That thread does not exist in the child, so the child takes the lock
 * over. Cancellation is disabled while a thread waits for the lock or holds it, because files are opened under the
 * lock, and open() is a cancellation point. */
bool gwi_lock(void)
{
    int cancel_state;
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    for (unsigned round = 0;; round++) {
        uint32_t holder = 0;
        if (atomic_compare_exchange_strong(&lock_tid, &holder, tid)) {
            lock_cancel_state = cancel_state;
            return true;
        }
        if (holder == tid) {
            pthread_setcancelstate(cancel_state, NULL);
            return false;
        }
        if (round > 1000) /* a holder of lower priority may need our core */
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        else if (round > 100)
            sched_yield();
        if (round % 1000 == 999 && syscall(SYS_tgkill, getpid(), holder, 0) != 0 && errno == ESRCH)
            atomic_compare_exchange_strong(&lock_tid, &holder, 0);
    }
}

void gwi_unlock(void)
{
    int cancel_state = lock_cancel_state;
    atomic_store(&lock_tid, 0);
    pthread_setcancelstate(cancel_state, NULL);
}

/* ---- a new process, a new thread ---- */

static void forked(void)
{
    memset(&gwi_wipe, 0, sizeof gwi_wipe);
}

static _Atomic bool children_are_told; /* written under the lock */

/* Wiping works only for memory without a file behind it, which our zeroed data is. If pages are larger than
 * GWI_PAGE_BYTES_MAX, neighbouring data would be wiped too. */
static bool kernel_wipes(void)
{
    return sysconf(_SC_PAGESIZE) <= GWI_PAGE_BYTES_MAX && madvise(&gwi_wipe, sizeof gwi_wipe, MADV_WIPEONFORK) == 0;
}

/* Kernels before 4.14 do not wipe. An atfork handler then does it in children made by fork(), but not by a raw
 * clone. */
static bool tell_children(void)
{
    if (!children_are_told)
        children_are_told = kernel_wipes() || pthread_atfork(NULL, NULL, forked) == 0;
    return children_are_told;
}

static void write_fork_fact(const gw_buffer_head *parent, uint32_t site)
{
    gwi_fact(GW_EV_FORK, parent->pid, atomic_load(&parent->initialised), site, 0, NULL);
}

/* True if the buffer belongs to another living process whose memory we share (vfork, clone with CLONE_VM). Nothing is
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
    if (!children_are_told || !gwi_lock())
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
        if (gwi_buffer_create(mark))
            gwi_site_begin();
        gwi_launch_forget();
        atomic_store(&gwi_wipe.mark, mark);
    }
    gw_slot *slot = gwi_slot; /* a signal handler may have created it already */
    if (slot == NULL || slot->mark != mark)
        gwi_slot = gwi_slot_take(mark);
    if (is_new)
        fork_site = gwi_fork_take(gwi_slot);
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

/* ---- events ---- */

enum { RESULT_NOT_FOUND = 500 };

bool gwi_may_ask(int result)
{
    return result != 3 && result != 4 && result != 800;
}

/* Ticks per millisecond, measured since the buffer was created; 0: not known yet. */
static uint64_t pace(void)
{
    static _Atomic uint64_t ticks_per_ms;
    const gw_buffer_head *head = gwi.head;
    uint64_t known = atomic_load_explicit(&ticks_per_ms, memory_order_relaxed);
    if (gwi_likely(known != 0))
        return known;
    uint64_t passed_ns = gw_monotonic_ns() - head->start_monotonic_ns;
    uint64_t passed_ticks = gwi_ticks() - head->start_ticks;
    if (passed_ns < 1000)
        return 0;
    known = (uint64_t)((double)passed_ticks * 1e6 / (double)passed_ns);
    if (passed_ns > 20000000)
        atomic_store_explicit(&ticks_per_ms, known, memory_order_relaxed);
    return known;
}

uint64_t gwi_ticks_ns(uint64_t ticks)
{
    if (!gwi.clock_is_tsc)
        return ticks;
    uint64_t ticks_per_ms = pace();
    return ticks_per_ms == 0 ? 0 : (uint64_t)((double)ticks * 1e6 / (double)ticks_per_ms);
}

/* Convert ticks to microseconds. Less than 300 ticks is less than a microsecond on any machine. */
static uint16_t took_us(uint64_t ticks)
{
    if (!gwi.clock_is_tsc)
        return ticks / 1000 < UINT16_MAX ? (uint16_t)(ticks / 1000) : UINT16_MAX;
    if (ticks < 300)
        return 0;
    uint64_t ticks_per_ms = pace();
    if (ticks_per_ms == 0)
        return 0;
    uint64_t us = ticks > UINT64_MAX / 1000 ? UINT16_MAX : ticks * 1000 / ticks_per_ms;
    return us < UINT16_MAX ? (uint16_t)us : UINT16_MAX;
}

/* After one of these calls the driver may reuse the address or handle in another thread before we have recorded the
 * end. So these events are recorded with the time at which the call began: the creation of an object then never appears
 * before the end of its predecessor. */
#define GIVES_BACK(name, price, effect, ...) GW_KIND_BIT(name, GW_EFFECT_##effect == GW_EFFECT_ENDS)

static void write_call(gwi_slot_ref *th, gw_raw_event *event, const char *text)
{
    gw_buffer_head *head = gwi.head;
    bool is_failure = event->result != 0;
    uint64_t now = gwi_ticks();
    event->ticks =
        !is_failure && th->is_timed && gw_kind_is_in(GW_KINDS(GIVES_BACK), event->kind) ? th->entered_ticks : now;
    event->took_us = th->is_timed ? took_us(now - th->entered_ticks) : 0;
    atomic_store_explicit(&th->slot->inside_since, now, memory_order_relaxed); /* for the calls that follow */
    event->context = gwi_may_ask(event->result) ? gwi_current_context() : 0;
    if (atomic_load_explicit(&head->captures_open, memory_order_relaxed) != 0)
        event->flags |= GW_EVF_CAPTURING;
    if (is_failure && gw_cuda_is_sticky(event->result)) {
        uint32_t none = 0;
        atomic_compare_exchange_strong(&head->sticky, &none, event->result);
    }
    event->site = gwi_site(th->slot, event->fn, event->ticks, gwi_is_precious(event));
    if (gwi_write(th->slot, event, text) && is_failure && event->result != RESULT_NOT_FOUND)
        atomic_fetch_add(&head->failures, 1);
}

/* Contexts, modules and libraries hold kernels. */
#define HOLDS_KERNELS(thing)                                                                                           \
    (GW_THING_##thing == GW_THING_CONTEXT || GW_THING_##thing == GW_THING_MODULE ||                                    \
     GW_THING_##thing == GW_THING_LIBRARY)
#define MAKES_KERNELS(name, price, effect, thing, ...)                                                                 \
    GW_KIND_BIT(name, HOLDS_KERNELS(thing) && GW_EFFECT_##effect == GW_EFFECT_MAKES)
#define ENDS_KERNELS(name, price, effect, thing, ...)                                                                  \
    GW_KIND_BIT(name, HOLDS_KERNELS(thing) && GW_EFFECT_##effect != GW_EFFECT_MAKES)

void gwi_event(gwi_slot_ref *th, unsigned fn, unsigned kind, int result, unsigned flags, uint32_t extra, uint64_t a0,
               uint64_t a1, uint64_t a2, uint64_t a3, const char *text)
{
    int saved_errno = errno;
    gw_raw_event event = {.fn = (uint16_t)fn,
                          .kind = (uint8_t)kind,
                          .flags = (uint8_t)flags,
                          .result = (uint16_t)result,
                          .extra = extra,
                          .arg = {a0, a1, a2, a3}};
    if (kind == GW_EV_INIT && result == 0)
        gwi_initialised();
    if (gwi_unlikely(gwi_guard_on)) {
        gwi_guard_after(th->slot, kind, result, event.arg, gwi_may_ask(result) ? gwi_current_context() : 0);
        if (result != 0 && gwi_slot_take_refused(th->slot))
            event.flags |= GW_EVF_GUARD;
    }
    if (gw_kind_is_in(GW_KINDS(MAKES_KERNELS), kind))
        gwi_handles_made();
    if (gw_kind_is_in(GW_KINDS(ENDS_KERNELS), kind))
        gwi_launch_forget();
    if (gw_is_request(event.kind) && gwi_slot_is_shared(th->slot))
        event.extra = gwi_slot_work(th->slot);
    if (result == 0)
        gwi_order_event(th, &event);
    write_call(th, &event, text);
    gwi_facts_after(kind, result, event.arg);
    if (gwi_unlikely(gwi_observer_poke != NULL && gwi.attach_observer))
        gwi_observer_poke(th, kind, result, event.arg);
    errno = saved_errno;
}

/* The counter for results that are normal answers, not failures. -1: a failure. */
static int counter_of_answer(unsigned kind, int result)
{
    if (result == 600)
        return GW_COUNT_NOT_READY;
    if (result == 704 || result == 705)
        return GW_COUNT_PEER_ALREADY;
    if (result == RESULT_NOT_FOUND && kind == GW_EV_FUNCTION)
        return GW_COUNT_NOT_FOUND;
    return -1;
}

/* Results that a driver returns only after it has read the name or path argument. With other results, the argument may
 * be any pointer. */
static bool has_read_text(int result)
{
    return (result == 2 || (result >= 200 && result <= 304 && result != 201) || result == RESULT_NOT_FOUND) &&
           !gw_cuda_is_sticky((unsigned)result);
}

/* Libraries look up functions that may not exist, some of them many. The first failed lookups are recorded, then ten a
 * second. */
static bool is_worth_a_name(void)
{
    enum { MISSES_MAX = 64 };
    static _Atomic uint32_t misses;
    static _Atomic uint64_t last_ns;
    if (atomic_load_explicit(&misses, memory_order_relaxed) < MISSES_MAX && atomic_fetch_add(&misses, 1) < MISSES_MAX)
        return true;
    return gwi_turn(&last_ns);
}

void gwi_failed(gwi_slot_ref *th, unsigned fn, unsigned kind, int result, unsigned flags, uint32_t extra, uint64_t a0,
                uint64_t a1, uint64_t a2, uint64_t a3, const char *text)
{
    int saved_errno = errno;
    int counter = counter_of_answer(kind, result);
    if (counter >= 0)
        gwi_bump(&th->slot->counter[counter], 1);
    if (counter < 0 || (result == RESULT_NOT_FOUND && text != NULL && is_worth_a_name()))
        gwi_event(th, fn, kind, result, flags, extra, a0, a1, a2, a3, has_read_text(result) ? text : NULL);
    errno = saved_errno;
}

void gwi_get_failed(unsigned fn, int result, unsigned flags, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
    gwi_slot_ref th;
    if (!gwi_enter_quick(&th, fn)) /* our own call, the driver's, or there is no recording */
        return;
    gwi_failed(&th, fn, GW_EV_CALL, result, flags, 0, a0, a1, a2, a3, NULL);
    gwi_leave(&th);
}

static bool write_fact(gw_slot *slot, unsigned kind, uint32_t site, const uint64_t arg[4], const char *text)
{
    uint64_t ticks = gwi_slot_facts_ticks(slot);
    gw_raw_event event = {.ticks = ticks != 0 ? ticks : gwi_ticks(),
                          .kind = (uint8_t)kind,
                          .site = site,
                          .arg = {arg[0], arg[1], arg[2], arg[3]}};
    return gwi_write(slot, &event, text);
}

static bool put_fact(unsigned kind, uint32_t site, const uint64_t arg[4], const char *text)
{
    bool written = false;
    int saved_errno = errno;
    gw_slot *slot = gwi_slot_usable();
    if (slot != NULL && gwi_slot_is_shared(slot)) {
        /* Inside a wrapper the thread is already guarded. Outside, set the guard so that our own calls are not
         * recorded. */
        uint32_t inside = atomic_load_explicit(&slot->inside_fn, memory_order_relaxed);
        if (inside == 0)
            atomic_store_explicit(&slot->inside_fn, UINT32_MAX, memory_order_relaxed);
        written = write_fact(slot, kind, site, arg, text);
        atomic_store_explicit(&slot->inside_fn, inside, memory_order_release);
    }
    errno = saved_errno;
    return written;
}

bool gwi_fact(unsigned kind, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, const char *text)
{
    return put_fact(kind, 0, (const uint64_t[4]){a0, a1, a2, a3}, text);
}

bool gwi_fact_at(unsigned kind, uint32_t site, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
    return put_fact(kind, site, (const uint64_t[4]){a0, a1, a2, a3}, NULL);
}

bool gwi_note(gw_note reason, uint64_t a, uint64_t b, uint64_t c, const char *text)
{
    return gwi_fact(GW_EV_NOTE, reason, a, b, c, text);
}

/* ---- attach ---- */

static bool is_on(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && strcmp(value, "1") == 0;
}

static void read_settings(void)
{
    const char *dir = getenv("GPUWHY_RUN_DIR");
    const char *attach = getenv("GPUWHY_ATTACH");
    const char *sites = getenv("GPUWHY_SITES");
    if (dir != NULL && dir[0] == '/' && strlen(dir) < sizeof gwi.run_dir)
        strcpy(gwi.run_dir, dir);
    gwi.attach_observer = attach == NULL || strcmp(attach, "0") != 0;
    gwi.records_sites = sites == NULL || strcmp(sites, "0") != 0;
    gwi_guard_begin();
    gwi.inert = is_on("GPUWHY_OFF") || (gwi.run_dir[0] == '\0' && !gwi_guard_on);
}

static int name_unreachable(void)
{
    return 34; /* CUDA_ERROR_STUB_LIBRARY: the driver file has the name, but no function for it */
}

/* Open the driver and look up all its names. Our lock must not be held: the loader holds its own lock while it runs
 * constructors of libraries, and these may call the driver and wait for our lock. NULL: the driver cannot be opened. */
static void *open_driver(const gw_facade_head *head, void **ret_found)
{
    void *driver = dlopen(head->driver_path, RTLD_NOW | RTLD_LOCAL);
    for (uint32_t i = 0; driver != NULL && i < head->name_count; i++)
        ret_found[i] = dlsym(driver, head->strings + head->names[i]);
    gwi_modules_begin(false);
    return driver;
}

/* Call with the lock held. False: there is no driver, or not the same one as at the first attach: one driver per
 * process. */
static bool adopt_driver(const gw_facade_head *head, void *driver, void *const *found)
{
    if (gwi.driver != NULL)
        return driver != NULL && strcmp(gwi.driver_path, head->driver_path) == 0;
    if (strlen(head->driver_path) >= sizeof gwi.driver_path)
        return false;
    if (gwi.driver_path[0] == '\0')
        read_settings();
    strcpy(gwi.driver_path, head->driver_path);
    if (driver == NULL)
        return false;
    strncpy(gwi.driver_build_id, head->driver_build_id, sizeof gwi.driver_build_id - 1);
    gwi.name_count = head->name_count;
    for (uint32_t i = 0; i < head->name_count; i++) {
        int fn = gw_api_find_symbol(head->strings + head->names[i]);
        if (fn >= 0)
            gwi_real[fn] = found[i];
    }
    gwi.driver = driver;
    return true;
}

static const uint8_t *stub_of(const gw_facade_head *head, uint32_t i)
{
    return i < head->read_count ? head->read_stubs + (size_t)i * head->read_stub_bytes
                                : head->stubs + (size_t)i * head->stub_bytes;
}

static void fill_table(gw_facade_head *head, void *const *found)
{
    for (uint32_t i = 0; i < head->name_count; i++) {
        int fn = gw_api_find_symbol(head->strings + head->names[i]);
        void *target = found[i];
        if (target == NULL)
            target = (void *)(uintptr_t)name_unreachable;
        else if (fn >= 0 && !gwi.inert && gwi_wrappers[fn] != NULL)
            target = gwi_wrappers[fn];
        __atomic_store_n(&head->table[i], target, __ATOMIC_RELEASE);
        if (fn >= 0 && !gwi.inert)
            gwi_stub[fn] = (void *)(uintptr_t)stub_of(head, i);
    }
    if (!gwi.inert)
        gwi_facade_attached(head);
    __atomic_store_n(&head->attached, 1, __ATOMIC_RELEASE);
}

/* Returns 0 if the table is filled. */
static int attach(gw_facade_head *head, void **found)
{
    int status = 1;
    void *driver = open_driver(head, found);
    if (!gwi_lock())
        return status;
    if (__atomic_load_n(&head->attached, __ATOMIC_ACQUIRE)) { /* another thread has attached it */
        status = 0;
    } else if (tell_children() && adopt_driver(head, driver, found)) {
        fill_table(head, found);
        status = 0;
    }
    gwi_unlock();
    if (status == 0) {
        gwi_forks_watch();
        gwi_crash_watch();
        gwi_course_attach();
    }
    return status;
}

int gw_hook_attach(gw_facade_head *head) __attribute__((visibility("default")));

/* Called by a facade at the first call into any of its stubs, on any thread, perhaps on several at once. */
int gw_hook_attach(gw_facade_head *head)
{
    static bool said;
    int saved_errno = errno, status = 1;
    if (memcmp(head->magic, GW_FACADE_MAGIC, sizeof head->magic) != 0 || head->version != GW_FACADE_VERSION)
        return 1;
    size_t bytes = (size_t)head->name_count * sizeof(void *) + 1;
    void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found != MAP_FAILED) {
        status = __atomic_load_n(&head->attached, __ATOMIC_ACQUIRE) ? 0 : attach(head, found);
        munmap(found, bytes);
    }
    if (status != 0 && gwi.driver == NULL && !gwi.inert && gwi.driver_path[0] != '\0' && !said) {
        said = true;
        gwi_note(GW_NOTE_DRIVER_MISSING, 0, 0, 0, gwi.driver_path);
    }
    errno = saved_errno;
    return status;
}
