/* Search for the largest batch that fits into a memory budget. */
#include "gwi_scope.h"

/* Return the largest divisor of `of` that is at most `most`, which is not 0. All divisors together take about as many
 * divisions as the square root of `of`. */
static size_t divisor_at_most(size_t of, size_t most)
{
    size_t n = most;
    if (most >= of)
        return of;
    for (size_t d = of / most + (of % most != 0); d <= of / d; d++) { /* n above the square root */
        if (of % d == 0)
            return of / d;
        n = of / d;
    }
    while (of % n != 0)
        n--;
    return n;
}

/* Try every size, from the largest down, because a larger batch may need less memory. A plan takes microseconds to
 * milliseconds, but a missed size slows down the whole training run. */
gs_status gs_fit_batch(const gs_fit *fit, gs_bytes_for *bytes_for, void *user, size_t *ret_n, uint64_t *ret_bytes)
{
    if (fit == NULL || bytes_for == NULL || fit->n_max == 0 || fit->n_min > fit->n_max)
        return GS_MISUSE;
    size_t n_min = fit->n_min == 0 ? 1 : fit->n_min;
    uint64_t smallest_bytes = UINT64_MAX;
    for (size_t n = fit->n_max; n >= n_min; n--) {
        uint64_t bytes = UINT64_MAX;
        if (fit->divides != 0)
            n = divisor_at_most(fit->divides, n);
        if (n < n_min)
            break;
        gs_status status = bytes_for(user, n, &bytes);
        if (status == GS_UNSUPPORTED)
            continue;
        if (status != GS_OK && status != GS_NO_MEMORY)
            return status;
        smallest_bytes = status == GS_OK ? bytes : UINT64_MAX;
        if (status == GS_OK && bytes <= fit->budget_bytes) {
            *ret_n = n;
            *ret_bytes = bytes;
            return GS_OK;
        }
    }
    *ret_bytes = smallest_bytes;
    return GS_NO_MEMORY;
}
