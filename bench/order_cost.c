/* Measures two costs of the hook's order tracking (src/inside/hook/order.c). The hook stores calls that order GPU work
 * in a ring, and writes them to the recording before a free.
 * - Storing: bursts of such calls, before and after the hook starts to store them.
 * - Writing: bursts of frees, without and with a copy on another stream before them.
 *
 * Prints the median time per call in ns. Compare only times of the same run.
 *
 *   gpuwhy run --quiet --gpu virtual:h200 -- bench-order-cost */
#include "calls.h"
#include "gw_cuda_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BURSTS = 300, CALLS = 100 };

static CUstream computing, copying;
static CUevent event;
static CUdeviceptr from, to, block[CALLS];

static void record(int i)
{
    (void)i;
    CHECK(cuEventRecord(event, copying));
}

static void wait(int i)
{
    (void)i;
    CHECK(cuStreamWaitEvent(computing, event, 0));
}

static void copy(int i)
{
    (void)i;
    CHECK(cuMemcpyDtoDAsync(to, from, 64, copying));
}

static void free_one(int i)
{
    CHECK(cuMemFreeAsync(block[i], computing));
}

static void nothing(void)
{
}

static void allocate(void)
{
    for (int i = 0; i < CALLS; i++)
        CHECK(cuMemAllocAsync(&block[i], 4096, computing));
}

/* Allocate the blocks and make a copy on another stream. The copy forces the hook to check the order of work at each
 * free. At the first free, the hook also writes the stored calls. */
static void allocate_and_copy(void)
{
    allocate();
    copy(0);
    record(0);
    wait(0);
}

static double measure(void (*before)(void), void (*call)(int))
{
    static double burst_ns[BURSTS];
    for (int b = 0; b < BURSTS; b++) {
        before();
        double begin = now_ns();
        for (int i = 0; i < CALLS; i++)
            call(i);
        burst_ns[b] = (now_ns() - begin) / CALLS;
        CHECK(cuCtxSynchronize());
        usleep(2000); /* let the supervisor empty gpuwhy's buffer: calls take longer when the buffer is full */
    }
    qsort(burst_ns, BURSTS, sizeof burst_ns[0], compare);
    return burst_ns[BURSTS / 2];
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    enum { NON_BLOCKING = 1, DISABLE_TIMING = 2 };
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&computing, NON_BLOCKING));
    CHECK(cuStreamCreate(&copying, NON_BLOCKING));
    CHECK(cuEventCreate(&event, DISABLE_TIMING));
    CHECK(cuMemAlloc(&from, 4096));
    CHECK(cuMemAlloc(&to, 4096));
    static const struct {
        const char *name;
        void (*call)(int);
    } steps[] = {{"cuEventRecord", record}, {"cuStreamWaitEvent", wait}, {"cuMemcpyDtoDAsync", copy}};
    enum { STEPS = sizeof steps / sizeof steps[0] };
    double off[STEPS];
    for (int i = 0; i < STEPS; i++)
        off[i] = measure(nothing, steps[i].call);
    void *locked;
    /* when page-locked memory exists, the hook keeps the calls that order work */
    CHECK(cuMemHostAlloc(&locked, 4096, 0));
    for (int i = 0; i < STEPS; i++) {
        double on = measure(nothing, steps[i].call);
        printf("%-22s %7.1f ns, noted %7.1f ns: %+.1f ns\n", steps[i].name, off[i], on, on - off[i]);
    }
    for (int i = 0; i < 2000; i++) /* fill the hook's ring with other calls, so that it no longer contains copies */
        record(i), wait(i);
    double without = measure(allocate, free_one);
    double with = measure(allocate_and_copy, free_one);
    printf("%-22s %7.1f ns, after a copy on another stream %7.1f ns: %+.1f ns\n", "cuMemFreeAsync", without, with,
           with - without);
    return 0;
}
