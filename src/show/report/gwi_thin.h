/* Thins rows of values over time, so that a long run becomes a small table.
 *
 * The run is divided into equal buckets of time. In each bucket and for each column, the rows with the lowest and the
 * highest value are kept, and the first and the last row. Every row that is kept is a state that really existed: no
 * value is averaged. A bucket with few rows keeps all of them. */
#ifndef GWI_THIN_H
#define GWI_THIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GWI_COLUMNS_MAX = 12 };

/* A value that is not known. */
#define GWI_UNKNOWN UINT64_MAX

typedef struct gwi_row {
    uint64_t t_ns;
    uint64_t value[GWI_COLUMNS_MAX];
} gwi_row;

typedef struct gwi_thin {
    unsigned columns;
    uint64_t bucket_ns;     /* not 0 */
    uint64_t bucket_last;   /* number of the last bucket, which all later times share */
    size_t bucket_rows_max; /* a finished bucket has at most so many rows */
    gwi_row *row;           /* owned; sorted by time, no time twice */
    size_t count, capacity;
    size_t bucket_first; /* index of the first row of the bucket that is being filled */
    uint64_t dropped;    /* rows that were not kept */
    bool failed;         /* out of memory: rows are missing */
} gwi_thin;

/* Prepare `thin` for `columns` columns (at most GWI_COLUMNS_MAX) of a run of `span_ns`, with about `buckets` buckets.
 */
void gwi_thin_start(gwi_thin *thin, unsigned columns, uint64_t span_ns, unsigned buckets);
void gwi_thin_free(gwi_thin *thin);
/* Add the state at t_ns. A time before that of the last row is set to the time of the last row. At one time, only the
 * last state is kept; but if the state before it has a value above or below both its neighbours, the new one is stored
 * a nanosecond later. */
void gwi_thin_add(gwi_thin *thin, uint64_t t_ns, const uint64_t *value);
/* Finish the last bucket. Then `row` can be read. */
void gwi_thin_finish(gwi_thin *thin);

/* Chooses which of many marks and spans of time a chart shows. */

typedef struct gwi_choice {
    uint64_t t_ns;
    uint64_t weight; /* of two that are equally important in the same part of the run, the heavier one is kept */
    size_t index;    /* of the caller */
    uint8_t importance;
    uint32_t part, rank; /* used while choosing */
} gwi_choice;

/* Keep at most `max` elements of the list: the most important ones and, among equally important ones, about the same
 * number from each part of a run that lasted `span_ns`. They are moved to the front, in the order of `index`. Returns
 * how many were kept. */
size_t gwi_pick(gwi_choice *list, size_t count, size_t max, uint64_t span_ns);

#endif
