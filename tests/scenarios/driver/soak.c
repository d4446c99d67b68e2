/* Four threads allocate, free, launch and wait for a long time. Finally a request exceeds the GPU's memory, so that the
 * expected verdict is known. */
#include "scenario.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { THREADS = 4, LIVE = 256 };

static CUcontext context;
static CUfunction store;
static _Atomic int over;
static struct work {
    /* written by its own thread, read by the main thread */
    _Atomic unsigned long long allocations, frees, launches, waits;
} done[THREADS];

static void *work(void *argument)
{
    struct work *count = argument;
    CUdeviceptr block[LIVE] = {0}, own;
    uint64_t random = 88172645463325252u + (uint64_t)(count - done);
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&own, 4096));
    count->allocations++;
    while (!over) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        CUdeviceptr *it = &block[random % LIVE];
        if (*it != 0) {
            CHECK(cuMemFree(*it));
            *it = 0;
            count->frees++;
        } else {
            CHECK(cuMemAlloc(it, 512u << (random >> 32) % 12));
            count->allocations++;
        }
        if (random % 16 == 0) {
            CHECK(scenario_store(store, own, NULL));
            count->launches++;
        }
        if (random % 1024 == 0) {
            CHECK(cuCtxSynchronize());
            count->waits++;
        }
    }
    for (int i = 0; i < LIVE; i++) {
        if (block[i] != 0) {
            CHECK(cuMemFree(block[i]));
            count->frees++;
        }
    }
    CHECK(cuMemFree(own));
    count->frees++;
    return NULL;
}

/* Wait for `seconds`, or until the threads have made `events` allocations and frees (0: no such limit). */
static void wait_for(long long seconds, unsigned long long events)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    for (long long i = 0; i < seconds * 10; i++) {
        unsigned long long sum = 0;
        nanosleep(&pause, NULL);
        for (int k = 0; k < THREADS; k++)
            sum += done[k].allocations + done[k].frees;
        if (events > 0 && sum >= events)
            return;
    }
}

int main(int argc, char **argv)
{
    const char *truth_path = NULL;
    long long seconds = 10, events = 0;
    struct gpu gpu;
    pthread_t thread[THREADS];
    CUdeviceptr more;
    const struct option_row rows[] = {{"seconds", OPTION_NUMBER, &seconds, "how long (10)"},
                                      {"events", OPTION_NUMBER, &events, "end after that many allocations and frees"},
                                      {"truth", OPTION_TEXT, &truth_path, "file for what the program knows"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    options_parse(argc, argv, rows, "Makes driver calls for a long time.");
    truth_open(truth_path);
    gpu_open(&gpu, 0);
    CHECK(cuCtxGetCurrent(&context));
    store = gpu_kernel(gpu_load(scenario_ptx), "store");
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, work, &done[i]) != 0)
            scenario_fail("no thread");
    wait_for(seconds, (unsigned long long)events);
    over = 1;
    struct work sum = {0};
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        sum.allocations += done[i].allocations;
        sum.frees += done[i].frees;
        sum.launches += done[i].launches;
        sum.waits += done[i].waits;
    }
    truth("allocations", "%llu", sum.allocations);
    truth("frees", "%llu", sum.frees);
    truth("launches", "%llu", sum.launches);
    printf("%llu allocations, %llu launches\n", sum.allocations, sum.launches);
    CUresult result = cuMemAlloc(&more, (size_t)1 << 40);
    if (result == CUDA_SUCCESS)
        scenario_fail("the card has a tebibyte");
    fprintf(stderr, "out of memory: 1 TiB refused (%d)\n", (int)result);
    return 1;
}
