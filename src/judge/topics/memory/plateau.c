/* Detects that memory use was level for most of a run: see gwi_plateau.h. */
#include "gwi_plateau.h"

#include <stdlib.h>
#include <string.h>

static int by_bytes(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

/* Set ret_bytes[i] to the highest peak in a window that ends with span i. A single span can be shorter than a step,
 * and then misses the step's peak. */
static void smooth(const gw_allocator_report *report, uint64_t *ret_bytes)
{
    enum { WINDOW_PART = 32, WINDOW_MIN = 3 };
    size_t window = report->peak_count / WINDOW_PART > WINDOW_MIN ? report->peak_count / WINDOW_PART : WINDOW_MIN;
    for (size_t i = 0; i < report->peak_count; i++) {
        ret_bytes[i] = 0;
        for (size_t k = i < window ? 0 : i - window + 1; k <= i; k++)
            ret_bytes[i] = report->peak[k].bytes > ret_bytes[i] ? report->peak[k].bytes : ret_bytes[i];
    }
}

bool gwi_find_plateau(const gw_allocator_report *report, gwi_plateau *ret_plateau)
{
    enum { SPANS_MIN = 16 };
    uint64_t most[GW_PEAKS_MAX], sorted[GW_PEAKS_MAX];
    size_t count = report == NULL ? 0 : report->peak_count;
    if (count < SPANS_MIN)
        return false;
    smooth(report, most);
    memcpy(sorted, most, count * sizeof sorted[0]);
    qsort(sorted, count, sizeof sorted[0], by_bytes);
    uint64_t flat = sorted[count / 2];
    size_t end = count;
    while (end > 0 && most[end - 1] > flat + flat / 4)
        end--;
    size_t within = 0; /* number of spans near the level; at least three quarters of them up to `end` must be */
    for (size_t i = 0; i < end; i++)
        within += most[i] + flat / 4 >= flat && most[i] <= flat + flat / 4;
    if (flat == 0 || end == 0 || end == count || end * 2 < count || within * 4 < end * 3)
        return false;
    size_t last = end - 1; /* last span whose own peak, without smoothing, reached the level */
    while (last > 0 && report->peak[last].bytes + flat / 4 < flat)
        last--;
    *ret_plateau = (gwi_plateau){
        .bytes = flat, .end_ns = report->peak[end - 1].t_ns, .rising_ns = last == 0 ? 0 : report->peak[last - 1].t_ns};
    return true;
}
