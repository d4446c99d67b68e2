/* The search for the largest number that fits: see gw_fit_search.h. */
#include "gw_fit_search.h"

#include <inttypes.h>

/* While the upper end is unknown, a number at most LEAD times the largest that fits is tried: a program may take host
 * memory in proportion to the number. BEYOND: programs and libraries like multiples of this many steps. */
enum { LEAD = 8, BEYOND = 8 };

gw_status gw_fit_search_begin(gw_fit_search *search, uint64_t from, uint64_t max, uint64_t step, gw_error *err)
{
    if (from == 0 || max == 0 || step == 0)
        return gw_fail(err, GW_USAGE, "the first number, the largest number and the step must be at least 1");
    if (max > UINT64_MAX / (2 * LEAD))
        return gw_fail(err, GW_USAGE, "%" PRIu64 " is too large", max);
    uint64_t first = from > max ? max + 1 : (from + step - 1) / step * step;
    if (first > max)
        return gw_fail(err, GW_USAGE, "there is no multiple of %" PRIu64 " from %" PRIu64 " to %" PRIu64, step, from,
                       max);
    *search = (gw_fit_search){.from = first, .max = max / step * step, .step = step};
    return GW_OK;
}

static const gw_fit_trial *find(const gw_fit_search *search, uint64_t number)
{
    for (size_t i = 0; i < search->count; i++)
        if (search->trial[i].number == number)
            return &search->trial[i];
    return NULL;
}

void gw_fit_search_result(gw_fit_search *search, uint64_t number, gw_fit fit)
{
    for (size_t i = 0; i < search->count; i++)
        if (search->trial[i].number == number)
            search->trial[i].fit = fit;
}

/* The largest number that fits; 0: none. */
static uint64_t lower_end(const gw_fit_search *search)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < search->count; i++)
        if (search->trial[i].fit == GW_FIT_YES && search->trial[i].number > largest)
            largest = search->trial[i].number;
    return largest;
}

/* The smallest number above `low` that does not fit; 0: none. */
static uint64_t upper_end(const gw_fit_search *search, uint64_t low)
{
    uint64_t smallest = 0;
    for (size_t i = 0; i < search->count; i++) {
        const gw_fit_trial *trial = &search->trial[i];
        bool fails = trial->fit == GW_FIT_NO || trial->fit == GW_FIT_UNKNOWN;
        if (fails && trial->number > low && (smallest == 0 || trial->number < smallest))
            smallest = trial->number;
    }
    return smallest;
}

/* ---- which number is tried next; 0: none ---- */

static uint64_t doubled(const gw_fit_search *search, uint64_t low)
{
    uint64_t most = (low == 0 ? search->from : low) * LEAD;
    for (uint64_t number = search->from;; number *= 2) {
        uint64_t wanted = number < search->max ? number : search->max;
        if (wanted > low && find(search, wanted) == NULL)
            return wanted <= most ? wanted : 0;
        if (number >= search->max)
            return 0;
    }
}

/* The smallest number above `at` and below `high` that was tried, or `high`. */
static uint64_t next_tried(const gw_fit_search *search, uint64_t at, uint64_t high)
{
    for (size_t i = 0; i < search->count; i++)
        if (search->trial[i].number > at && search->trial[i].number < high)
            high = search->trial[i].number;
    return high;
}

/* The middle of the widest gap that no trial has divided. */
static uint64_t divided(const gw_fit_search *search, uint64_t low, uint64_t high)
{
    uint64_t widest = 0, middle = 0;
    for (uint64_t at = low; at < high;) {
        uint64_t to = next_tried(search, at, high), steps = (to - at) / search->step;
        if (steps > 1 && steps > widest) {
            widest = steps;
            middle = at + steps / 2 * search->step;
        }
        at = to;
    }
    return middle;
}

static uint64_t beyond(const gw_fit_search *search, uint64_t high)
{
    uint64_t round = search->step * BEYOND;
    const uint64_t wanted[] = {high + search->step, (high / round + 1) * round};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (wanted[i] <= search->max && find(search, wanted[i]) == NULL)
            return wanted[i];
    return 0;
}

static uint64_t choose(const gw_fit_search *search)
{
    uint64_t low = lower_end(search), high = upper_end(search, low);
    if (low == 0 && high != 0)
        return 0;
    if (high == 0)
        return doubled(search, low);
    return high - low > search->step ? divided(search, low, high) : beyond(search, high);
}

bool gw_fit_search_next(gw_fit_search *search, uint64_t *ret_number)
{
    uint64_t number = search->count == GW_FIT_TRIALS_MAX ? 0 : choose(search);
    if (number == 0)
        return false;
    search->trial[search->count++] = (gw_fit_trial){.number = number};
    *ret_number = number;
    return true;
}

/* ---- the answer ---- */

static bool is_running(const gw_fit_search *search)
{
    for (size_t i = 0; i < search->count; i++)
        if (search->trial[i].fit == GW_FIT_RUNNING)
            return true;
    return false;
}

static gw_fit_end end_of(const gw_fit_search *search, uint64_t low, uint64_t high)
{
    if (is_running(search))
        return GW_FIT_END_OPEN;
    if (choose(search) != 0)
        return search->count == GW_FIT_TRIALS_MAX ? GW_FIT_END_FULL : GW_FIT_END_OPEN;
    if (high == 0)
        return low == search->max ? GW_FIT_END_MAX : GW_FIT_END_OPEN;
    if (find(search, high)->fit == GW_FIT_UNKNOWN)
        return GW_FIT_END_UNKNOWN;
    return low == 0 ? GW_FIT_END_NONE : GW_FIT_END_FOUND;
}

gw_fit_answer gw_fit_search_answer(const gw_fit_search *search)
{
    uint64_t low = lower_end(search), high = upper_end(search, low), hole = upper_end(search, 0);
    return (gw_fit_answer){
        .end = end_of(search, low, high), .largest = low, .next = high, .hole = hole < low ? hole : 0};
}
