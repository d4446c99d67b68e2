/* Measure the cost of the memory guard (--memory) for each allocation: the median time of allocations, and of frees, in
 * bursts. Run it without and with --memory, alternately, and compare; the times depend on the machine.
 *
 *   for i in 1 2 3 4 5; do
 *       gpuwhy run --quiet --gpu virtual:h200 -- bench-guard-cost
 *       gpuwhy run --quiet --gpu virtual:h200 --memory 8GiB -- bench-guard-cost
 *   done */
#include "gw_cuda_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BURSTS = 2000, CALLS = 100 };

static CUdeviceptr block[CALLS];

static void check(int result, const char *what)
{
    if (result == 0)
        return;
    fprintf(stderr, "guard_cost: %s: %d\n", what, result);
    exit(1);
}
#define CHECK(call) check((int)(call), #call)

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times)
{
    qsort(times, BURSTS, sizeof *times, compare);
    return times[BURSTS / 2] / CALLS;
}

/* Measure one kind of memory. The first bursts warm up. */
static void measure(const char *name, size_t bytes, int is_async)
{
    static double taken[BURSTS], given[BURSTS];
    for (int burst = -BURSTS / 10; burst < BURSTS; burst++) {
        double begin = now_ns();
        for (int i = 0; i < CALLS; i++)
            CHECK(is_async ? cuMemAllocAsync(&block[i], bytes, NULL) : cuMemAlloc(&block[i], bytes));
        double between = now_ns();
        for (int i = 0; i < CALLS; i++)
            CHECK(is_async ? cuMemFreeAsync(block[i], NULL) : cuMemFree(block[i]));
        double end = now_ns();
        if (burst < 0)
            continue;
        taken[burst] = between - begin;
        given[burst] = end - between;
    }
    printf("%-24s allocation %6.0f ns  free %6.0f ns\n", name, median(taken), median(given));
}

int main(void)
{
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    measure("4 KiB", 4096, 0);
    measure("4 MiB", 4 << 20, 0);
    measure("4 KiB, stream-ordered", 4096, 1);
    return 0;
}
