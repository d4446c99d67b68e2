/* The hook's state, its lock for set-up, and its clock. Uses no other file of the hook. */
#include "gwi_hook.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

gwi_state gwi;
gwi_wipe_page gwi_wipe;
__thread gw_slot *gwi_slot __attribute__((tls_model("initial-exec")));
void *gwi_real[GW_FN_COUNT];
void *gwi_stub[GW_FN_COUNT];
bool gwi_guard_on;

/* ---- the lock ---- */

static _Atomic uint32_t lock_tid; /* thread that holds the lock; 0: none */
static int lock_cancel_state;     /* the holder's own cancel state, restored at unlock */

/* Take the lock. Returns false if this thread already holds it. After a fork, the child takes it over from a thread
 * that does not exist there. Cancellation is disabled meanwhile, because files are opened under the lock, and open() is
 * a cancellation point. */
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
        if (round > 1000) /* the lock's holder may have lower priority and need our core */
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

/* ---- the clock ---- */

/* Return the number of ticks per millisecond, measured since the buffer was created; 0: not known yet. */
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

/* Fewer than 300 TSC ticks take less than a microsecond on any machine, so return 0 without a division. */
uint16_t gwi_took_us(uint64_t ticks)
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
