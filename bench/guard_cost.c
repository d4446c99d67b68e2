/* Measure the cost of the memory guard (--memory) for an allocation and for a free. Prints the median time of a call to
 * the driver alone, in bursts, and what gpuwhy adds: the median of the differences between bursts that take turns. Run
 * it without and with --memory; the guard costs what the second adds more. The times depend on the machine.
 *
 *   for i in 1 2 3 4 5; do
 *       gpuwhy run --quiet --gpu virtual:h200 -- bench-guard-cost
 *       gpuwhy run --quiet --gpu virtual:h200 --memory 8GiB -- bench-guard-cost
 *   done */
#include "calls.h"
#include "gw_cuda_calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BURSTS_MAX = 2000, CALLS = 100 };

static CUdeviceptr block[CALLS];

static double median(double *times, int bursts)
{
    qsort(times, (size_t)bursts, sizeof *times, compare);
    return times[bursts / 2] / CALLS;
}

/* The driver's own entry points, behind the facade; looked up so that bursts without gpuwhy and bursts through it can
 * take turns in one process. Times of the driver differ more between two processes than the guard costs. */
typedef struct {
    CUresult (*alloc)(CUdeviceptr *address, size_t bytes);
    CUresult (*free)(CUdeviceptr address);
    CUresult (*alloc_async)(CUdeviceptr *address, size_t bytes, CUstream stream);
    CUresult (*free_async)(CUdeviceptr address, CUstream stream);
} entry_points;

static void *open_driver(void)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "re");
    void *driver = NULL;
    while (maps != NULL && driver == NULL && fgets(line, sizeof line, maps) != NULL) {
        char *path = strchr(line, '/');
        if (path == NULL || strstr(path, "/libcuda.so") == NULL || strstr(path, "/facade-") != NULL)
            continue;
        path[strcspn(path, "\n")] = '\0';
        driver = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    }
    if (maps != NULL)
        fclose(maps);
    return driver;
}

static void find(void *driver, const char *name, void *ret_function)
{
    void *symbol = dlsym(driver, name);
    check(symbol == NULL, name);
    memcpy(ret_function, &symbol, sizeof symbol);
}

static void burst(const entry_points *entry, size_t bytes, int is_async, double *ret_taken, double *ret_given)
{
    double begin = now_ns();
    for (int i = 0; i < CALLS; i++)
        CHECK(is_async ? entry->alloc_async(&block[i], bytes, NULL) : entry->alloc(&block[i], bytes));
    double between = now_ns();
    for (int i = 0; i < CALLS; i++)
        CHECK(is_async ? entry->free_async(block[i], NULL) : entry->free(block[i]));
    *ret_taken = between - begin;
    *ret_given = now_ns() - between;
}

/* Measure one kind of memory: the driver alone, and what gpuwhy adds. The first bursts warm up. */
static void measure(const char *name, const entry_points *driver, size_t bytes, int is_async, int bursts)
{
    static double taken[BURSTS_MAX], given[BURSTS_MAX], more_taken[BURSTS_MAX], more_given[BURSTS_MAX];
    const entry_points recorded = {cuMemAlloc, cuMemFree, cuMemAllocAsync, cuMemFreeAsync};
    for (int i = -bursts / 10; i < bursts; i++) {
        double took, gave, took_recorded, gave_recorded;
        burst(driver, bytes, is_async, &took, &gave);
        burst(&recorded, bytes, is_async, &took_recorded, &gave_recorded);
        if (i < 0)
            continue;
        taken[i] = took;
        given[i] = gave;
        more_taken[i] = took_recorded - took;
        more_given[i] = gave_recorded - gave;
    }
    printf("%-24s allocation %6.0f ns %+6.0f  free %6.0f ns %+6.0f\n", name, median(taken, bursts),
           median(more_taken, bursts), median(given, bursts), median(more_given, bursts));
}

int main(void)
{
    CUcontext context;
    entry_points driver;
    CHECK(cuInit(0)); /* the facade opens the driver now */
    void *library = open_driver();
    check(library == NULL, "no driver behind gpuwhy");
    find(library, "cuMemAlloc_v2", &driver.alloc);
    find(library, "cuMemFree_v2", &driver.free);
    find(library, "cuMemAllocAsync", &driver.alloc_async);
    find(library, "cuMemFreeAsync", &driver.free_async);
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    measure("4 KiB", &driver, 4096, 0, BURSTS_MAX);
    measure("4 MiB", &driver, 4 << 20, 0, BURSTS_MAX / 20); /* a real driver takes 40 us */
    measure("4 KiB, stream-ordered", &driver, 4096, 1, BURSTS_MAX);
    return 0;
}
