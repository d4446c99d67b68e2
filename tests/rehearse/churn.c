/* Several processes and threads allocate and free at random on one card. Each block holds a number of its own, so that
 * an overlap shows. At the end the card holds nothing. Prints `CALLS calls, REFUSED refused, BAD bad, HELD held`. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gw_cuda_calls.h"

enum { PROCESSES = 3, THREADS = 3, SLOTS = 150, CALLS = 8000 };

static CUcontext context;
static struct {
    _Atomic unsigned long ready, calls, refused, bad;
} * sums; /* shared by the processes */

typedef struct slot {
    CUdeviceptr address; /* 0: free */
    int is_pool;
} slot;

static void up(void)
{
    CUdevice device = 0;
    if (cuInit(0) == 0 && cuDeviceGet(&device, 0) == 0 && cuDevicePrimaryCtxRetain(&context, device) == 0 &&
        cuCtxSetCurrent(context) == 0)
        return;
    sums->ready += PROCESSES; /* the others must not wait */
    exit(1);
}

static size_t free_bytes(void)
{
    size_t free_now = 0, total = 0;
    cuMemGetInfo(&free_now, &total);
    return free_now;
}

static void take(slot *s, uint32_t random)
{
    size_t bytes = 8 + (random % 5 == 0 ? random % (48 << 20) : random % 40000);
    unsigned long long number = (uintptr_t)s;
    s->is_pool = random >> 28 & 1;
    CUresult result = s->is_pool ? cuMemAllocAsync(&s->address, bytes, NULL) : cuMemAlloc(&s->address, bytes);
    sums->refused += result == CUDA_ERROR_OUT_OF_MEMORY;
    sums->bad += result != 0 && result != CUDA_ERROR_OUT_OF_MEMORY;
    if (result != 0)
        s->address = 0;
    else
        sums->bad += cuMemcpyHtoD(s->address, &number, sizeof number) != 0;
}

static void give(slot *s)
{
    unsigned long long number = 0, wanted = getenv("CALLS_REHEARSED") != NULL ? 0 : (uintptr_t)s;
    sums->bad += cuMemcpyDtoH(&number, s->address, sizeof number) != 0 || number != wanted;
    sums->bad += (s->is_pool ? cuMemFreeAsync(s->address, NULL) : cuMemFree(s->address)) != 0;
    s->address = 0;
}

static void *calls(void *seed)
{
    static _Thread_local slot slots[SLOTS];
    uint32_t random = (uint32_t)(uintptr_t)seed;
    sums->bad += cuCtxSetCurrent(context) != 0;
    for (int i = 0; i < CALLS; i++) {
        random = random * 1664525u + 1013904223u;
        slot *s = &slots[(random >> 8) % SLOTS];
        if (s->address != 0)
            give(s);
        else
            take(s, random * 2654435761u);
        sums->calls++;
    }
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].address != 0)
            give(&slots[i]);
    return NULL;
}

static void process(int number)
{
    pthread_t threads[THREADS];
    up();
    sums->ready++; /* every process has its context before the card is full */
    while (sums->ready < PROCESSES)
        usleep(1000);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, calls, (void *)(i * 77 + (uintptr_t)number * 1000 + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    exit(cuCtxSynchronize() != 0);
}

int main(void)
{
    int status = 0, failed = 0;
    sums = mmap(NULL, sizeof *sums, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0)
            process(i);
    while (wait(&status) > 0)
        failed += status != 0;
    up();
    size_t first = free_bytes(), total = 0;
    cuDeviceTotalMem(&total, 0);
    printf("%lu calls, %lu refused, %lu bad, %zu held, %d failed\n", sums->calls, sums->refused, sums->bad,
           total - first, failed);
    return failed != 0 || sums->bad != 0;
}
