/* Search for the largest batch that fits into a memory budget. */
#include "gwi_scope.h"

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
        if (fit->divides != 0 && fit->divides % n != 0)
            continue;
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
