/* For programs that measure driver calls in bursts: checks, the clock, and the median. */
#ifndef GW_BENCH_CALLS_H
#define GW_BENCH_CALLS_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline void check(int result, const char *what)
{
    if (result == 0)
        return;
    fprintf(stderr, "%s: %d\n", what, result);
    exit(1);
}
#define CHECK(call) check((int)(call), #call)

static inline double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#endif
