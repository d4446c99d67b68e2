/* Tells when the iterations of a rehearsal have become equal, so that the rest of the program needs no rehearsing.
 *
 * The launches between two copies from or to the host are a segment. Iterations are equal if the same segments come
 * three times in a row, each with the same kernels in the same order, and the process does not hold more memory than
 * before. Equal parts of an iteration, such as the micro-steps of a gradient accumulation, look the same, but they have
 * no step of an optimizer. So the fact is written after 6 equal iterations with a kernel of such a step (a GAN may make
 * five steps of one network for each of the other), otherwise only after 16, or after 3 and a second of them. */
#include "gwi_course.h"
#include "gwi_rehearse.h"

enum {
    SEGMENTS = 1024,
    PERIOD_MAX = SEGMENTS / 4,
    LAUNCHES_LEAST = 4,
    EQUAL_LEAST = 3,
    EQUAL_STEPS = 6,
    EQUAL_ENOUGH = 16
};
static const uint64_t second_ns = 1000000000;

typedef struct segment {
    uint64_t digest;
    uint32_t launches;
    bool has_step; /* of an optimizer */
    uint64_t peak; /* the process's peak at its end */
} segment;

static struct {
    segment at[SEGMENTS]; /* a ring */
    uint64_t count;
    segment open;
    uint64_t period, equal; /* segments of an iteration, 0: not found; iterations that were equal */
    uint64_t found_at;      /* count of segments when the period was found */
    uint64_t found_ns;
    bool said;
} steady; /* with the lock */

static uint64_t wanted = UINT64_MAX; /* equal iterations; 0: never enough; UINT64_MAX: see is_enough() */

static const segment *back(uint64_t n)
{
    return &steady.at[(steady.count - n) % SEGMENTS];
}

/* True if the last three times `period` segments are equal. */
static bool is_period(uint64_t period)
{
    uint64_t launches = 0;
    for (uint64_t i = 1; i <= period; i++) {
        if (back(i)->digest != back(i + period)->digest || back(i)->digest != back(i + 2 * period)->digest)
            return false;
        launches += back(i)->launches;
    }
    return launches >= LAUNCHES_LEAST && back(1)->peak == back(2 * period)->peak;
}

static void find_period(void)
{
    uint64_t most = steady.count / 3 < PERIOD_MAX ? steady.count / 3 : PERIOD_MAX;
    for (uint64_t period = 1; period <= most; period++) {
        if (!is_period(period))
            continue;
        steady.period = period;
        steady.equal = EQUAL_LEAST;
        steady.found_at = steady.count;
        steady.found_ns = gw_monotonic_ns();
        return;
    }
}

static void follow_period(void)
{
    if (back(1)->digest != back(1 + steady.period)->digest || back(1)->peak != back(1 + steady.period)->peak)
        steady.period = steady.equal = 0;
    else if ((steady.count - steady.found_at) % steady.period == 0)
        steady.equal++;
}

static bool has_step(void)
{
    for (uint64_t i = 1; i <= steady.period; i++)
        if (back(i)->has_step)
            return true;
    return false;
}

static bool is_enough(void)
{
    if (steady.period == 0 || steady.said || wanted == 0)
        return false;
    if (wanted != UINT64_MAX)
        return steady.equal >= wanted;
    return steady.equal >= (has_step() ? EQUAL_STEPS : EQUAL_ENOUGH) ||
           gw_monotonic_ns() - steady.found_ns >= second_ns;
}

void gwi_steady_want(uint64_t iterations)
{
    wanted = iterations;
}

static uint64_t launches_each(void)
{
    uint64_t launches = 0;
    for (uint64_t i = 1; i <= steady.period; i++)
        launches += back(i)->launches;
    return launches;
}

static uint64_t mixed(uint64_t digest, uint64_t value)
{
    return (digest ^ value) * 0x9e3779b97f4a7c15u + (digest >> 29);
}

/* Tell what PyTorch's allocator holds, because the program may be ended before its own report. */
static void tell_torch(void)
{
    gwi_course_copy course;
    if (!gwi_course_copy_make(0, &course))
        return;
    gwi_fact(GW_EV_REHEARSAL, GW_REHEARSAL_TORCH, course.totals.peak_bytes, course.totals.reserved_bytes, 0, NULL);
    gwi_course_copy_free(&course);
}

void gwi_steady_launch(uint64_t function, bool is_step)
{
    if (gwi.is_quiet || !gwi_lock())
        return;
    steady.open.digest = mixed(steady.open.digest, function);
    steady.open.launches++;
    steady.open.has_step = steady.open.has_step || is_step;
    gwi_unlock();
}

void gwi_steady_copy(uint64_t bytes, bool to_host)
{
    uint64_t equal = 0, launches = 0;
    if (gwi.is_quiet || !gwi_lock())
        return;
    steady.open.digest = mixed(steady.open.digest, bytes << 1 | to_host);
    steady.open.peak = gwi_cards_peak();
    steady.at[steady.count++ % SEGMENTS] = steady.open;
    steady.open = (segment){0};
    if (steady.period != 0)
        follow_period();
    if (steady.period == 0)
        find_period();
    if (is_enough()) {
        steady.said = true;
        equal = steady.equal;
        launches = launches_each();
    }
    gwi_unlock();
    if (equal != 0) {
        gwi_cards_settle();
        tell_torch();
        gwi_fact(GW_EV_REHEARSAL, GW_REHEARSAL_STEADY, equal, launches, 0, NULL);
    }
}
