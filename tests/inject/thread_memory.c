/* Eight threads allocate and free at random under a limit; afterwards exactly as much memory is free as before. For
 * tests/e2e/memory.py. */
#include "gpu.h"

#include <pthread.h>
#include <stdio.h>

enum { THREADS = 8, CALLS = 20000, BLOCKS = 64, BYTES_MAX = 3 << 20 };
static CUcontext context;

static void *work(void *number)
{
    CUdeviceptr block[BLOCKS] = {0};
    unsigned state = *(const unsigned *)number;
    CHECK(cuCtxSetCurrent(context));
    for (int i = 0; i < CALLS; i++) {
        state = state * 1103515245u + 12345u;
        CUdeviceptr *one = &block[state >> 16 & (BLOCKS - 1)];
        if (*one != 0) {
            CHECK(cuMemFree(*one));
            *one = 0;
        } else if (cuMemAlloc(one, 1 + (state >> 8) % BYTES_MAX) != CUDA_SUCCESS) {
            *one = 0; /* the limit is reached */
        }
    }
    for (int i = 0; i < BLOCKS; i++)
        if (block[i] != 0)
            CHECK(cuMemFree(block[i]));
    return NULL;
}

int main(void)
{
    struct gpu gpu;
    pthread_t thread[THREADS];
    unsigned number[THREADS];
    size_t before = 0, after = 0, total = 0;
    gpu_open(&gpu, 0);
    context = gpu.context;
    CHECK(cuMemGetInfo(&before, &total));
    for (unsigned i = 0; i < THREADS; i++) {
        number[i] = i + 1;
        pthread_create(&thread[i], NULL, work, &number[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    CHECK(cuMemGetInfo(&after, &total));
    printf("free %zu before, %zu after\n", before, after);
    gpu_close(&gpu);
    return before == after ? 0 : 1;
}
