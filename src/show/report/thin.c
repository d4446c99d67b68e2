/* Thins rows of values over time. The rows of the current bucket are collected up to twice the number that it may keep,
 * then reduced. So the cost of a row is about constant. */
#include "gwi_thin.h"

#include "gw_array.h"

#include <stdlib.h>
#include <string.h>

enum { ROW_STEP_NS = 1 };

void gwi_thin_start(gwi_thin *thin, unsigned columns, uint64_t span_ns, unsigned buckets)
{
    uint64_t count = buckets == 0 ? 1 : buckets;
    *thin = (gwi_thin){.columns = columns < GWI_COLUMNS_MAX ? columns : GWI_COLUMNS_MAX,
                       .bucket_ns = span_ns / count + 1,
                       .bucket_last = count,
                       .bucket_rows_max = 2 * (size_t)columns + 2};
}

void gwi_thin_free(gwi_thin *thin)
{
    free(thin->row);
    *thin = (gwi_thin){0};
}

/* Mark the rows from `first` on that have the lowest or the highest value of a column. */
static void mark_extremes(const gwi_thin *thin, size_t first, unsigned column, bool *keep)
{
    size_t low = SIZE_MAX, high = SIZE_MAX;
    for (size_t i = first; i < thin->count; i++) {
        uint64_t value = thin->row[i].value[column];
        if (value == GWI_UNKNOWN)
            continue;
        if (low == SIZE_MAX || value < thin->row[low].value[column])
            low = i;
        if (high == SIZE_MAX || value > thin->row[high].value[column])
            high = i;
    }
    if (low != SIZE_MAX)
        keep[low - first] = keep[high - first] = true;
}

/* Reduce the rows of the current bucket. */
static void reduce(gwi_thin *thin)
{
    bool keep[4 * GWI_COLUMNS_MAX + 8] = {false};
    size_t first = thin->bucket_first, rows = thin->count - first, kept = first;
    if (rows <= thin->bucket_rows_max || rows > sizeof keep / sizeof keep[0])
        return;
    keep[0] = keep[rows - 1] = true;
    for (unsigned column = 0; column < thin->columns; column++)
        mark_extremes(thin, first, column, keep);
    for (size_t i = 0; i < rows; i++) {
        if (keep[i])
            thin->row[kept++] = thin->row[first + i];
    }
    thin->dropped += thin->count - kept;
    thin->count = kept;
}

/* Events may be later than the end of the run, as when another process still runs. They share one bucket, so their
 * number is limited, too. */
static uint64_t bucket_of(const gwi_thin *thin, uint64_t t_ns)
{
    uint64_t bucket = t_ns / thin->bucket_ns;
    return bucket < thin->bucket_last ? bucket : thin->bucket_last;
}

static bool is_same_bucket(const gwi_thin *thin, uint64_t t_ns)
{
    return thin->count > thin->bucket_first &&
           bucket_of(thin, t_ns) == bucket_of(thin, thin->row[thin->count - 1].t_ns);
}

/* True if the values of the last row may be overwritten: no value is higher or lower than both its neighbours. */
static bool is_between(const gwi_thin *thin, const uint64_t *value)
{
    const uint64_t *last = thin->row[thin->count - 1].value;
    if (thin->count < 2)
        return false;
    const uint64_t *before = thin->row[thin->count - 2].value;
    for (unsigned i = 0; i < thin->columns; i++) {
        if ((last[i] > before[i] && last[i] > value[i]) || (last[i] < before[i] && last[i] < value[i]))
            return false;
    }
    return true;
}

/* Return the time for a new row: not before the last row, and at least a step after it unless the last row is to be
 * overwritten. */
static uint64_t settle_time(gwi_thin *thin, uint64_t t_ns, const uint64_t *value, bool *ret_overwrite)
{
    uint64_t last = thin->count == 0 ? 0 : thin->row[thin->count - 1].t_ns;
    *ret_overwrite = false;
    if (thin->count == 0 || (t_ns > last && t_ns - last >= ROW_STEP_NS))
        return t_ns;
    if (is_between(thin, value) || last > UINT64_MAX - ROW_STEP_NS) {
        *ret_overwrite = true;
        return last;
    }
    return last + ROW_STEP_NS;
}

void gwi_thin_add(gwi_thin *thin, uint64_t t_ns, const uint64_t *value)
{
    bool overwrite;
    t_ns = settle_time(thin, t_ns, value, &overwrite);
    if (!overwrite) {
        if (!is_same_bucket(thin, t_ns)) {
            reduce(thin);
            thin->bucket_first = thin->count;
        } else if (thin->count - thin->bucket_first >= 2 * thin->bucket_rows_max) {
            reduce(thin);
        }
        if (!gw_array_room(&thin->row, thin->count, &thin->capacity, sizeof *thin->row)) {
            thin->failed = true;
            return;
        }
        thin->row[thin->count++] = (gwi_row){.t_ns = t_ns};
    } else {
        thin->dropped++;
    }
    memcpy(thin->row[thin->count - 1].value, value, thin->columns * sizeof *value);
}

void gwi_thin_finish(gwi_thin *thin)
{
    reduce(thin);
}

/* The run is divided into as many equal parts as elements may be kept. Within its part, each element has a rank among
 * those of the same importance, the heaviest first. The elements with the lowest ranks are kept. */

static int compare(uint64_t left, uint64_t right)
{
    return (left > right) - (left < right);
}

/* Sort by importance, group and weight. */
static int compare_groups(const gwi_choice *left, const gwi_choice *right, uint64_t left_group, uint64_t right_group)
{
    if (left->importance != right->importance)
        return compare(right->importance, left->importance);
    if (left_group != right_group)
        return compare(left_group, right_group);
    if (left->weight != right->weight)
        return compare(right->weight, left->weight);
    return compare(left->index, right->index);
}

static int compare_in_part(const void *a, const void *b)
{
    const gwi_choice *left = a, *right = b;
    return compare_groups(left, right, left->part, right->part);
}

static int compare_ranks(const void *a, const void *b)
{
    const gwi_choice *left = a, *right = b;
    return compare_groups(left, right, left->rank, right->rank);
}

static int compare_indexes(const void *a, const void *b)
{
    const gwi_choice *left = a, *right = b;
    return compare(left->index, right->index);
}

static void set_ranks(gwi_choice *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool is_first = i == 0 || list[i].importance != list[i - 1].importance || list[i].part != list[i - 1].part;
        list[i].rank = is_first ? 0 : list[i - 1].rank + 1;
    }
}

size_t gwi_pick(gwi_choice *list, size_t count, size_t max, uint64_t span_ns)
{
    if (count <= max || max == 0)
        return count <= max ? count : 0;
    uint64_t part_ns = span_ns / max;
    part_ns += part_ns < UINT64_MAX; /* so the last part is not longer than the others, and it is not 0 */
    for (size_t i = 0; i < count; i++) {
        uint64_t part = list[i].t_ns / part_ns;
        list[i].part = part < max ? (uint32_t)part : (uint32_t)max;
    }
    qsort(list, count, sizeof *list, compare_in_part);
    set_ranks(list, count);
    qsort(list, count, sizeof *list, compare_ranks);
    qsort(list, max, sizeof *list, compare_indexes);
    return max;
}
