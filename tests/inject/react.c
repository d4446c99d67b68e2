/* A program that takes a failed allocation in the way that its option names, for tests/e2e/inject.py.
 *
 * It allocates, frees and copies in a loop. `--notice`: print the error and exit 1. `--retry`: call again, up to five
 * times. `--ignore`: go on with the NULL pointer. `--crash`: use a wild pointer on the host. `--hang`: wait for ever.
 * `--list`: print the number of each failed allocation and go on. Without an option, the program does not look at
 * results of allocations. */
#include "gpu.h"
#include "options.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int notice, retry, ignore, crash, hang, list;
static long long rounds = 20, threads = 1;
enum { BYTES = 1 << 20 };
static char host[BYTES];

static CUresult allocate(CUdeviceptr *address)
{
    CUresult result = CUDA_ERROR_UNKNOWN;
    for (int i = 0; i < (retry ? 6 : 1) && result != CUDA_SUCCESS; i++)
        result = cuMemAlloc(address, BYTES);
    return result;
}

static void copy_to(CUdeviceptr address)
{
    CUresult result = cuMemcpyHtoD(address, host, sizeof host);
    if (result != CUDA_SUCCESS && !ignore)
        fprintf(stderr, "react: copy: %d\n", (int)result);
}

static void give_up(CUresult result)
{
    const char *name = "?";
    cuGetErrorName(result, &name);
    fprintf(stderr, "react: cuMemAlloc: %s\n", name);
    exit(1);
}

static void wait_for_ever(void)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&lock);
}

static void take(CUresult result, long long round)
{
    if (notice || retry)
        give_up(result);
    if (crash) {
        char *volatile wild = (char *)8; /* undefined-behaviour sanitizers report NULL themselves */
        *wild = 1;
    }
    if (hang)
        wait_for_ever();
    if (list)
        printf("%lld\n", round);
}

static void *work(void *context)
{
    CHECK(cuCtxSetCurrent(context));
    for (long long round = 1; round <= rounds; round++) {
        CUdeviceptr address = 0;
        CUresult result = allocate(&address);
        if (result != CUDA_SUCCESS)
            take(result, round);
        if (address != 0 || ignore)
            copy_to(address);
        if (address != 0)
            CHECK(cuMemFree(address));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct gpu gpu;
    pthread_t thread[16];
    const struct option_row rows[] = {{"notice", OPTION_FLAG, &notice, "print the error and exit 1"},
                                      {"retry", OPTION_FLAG, &retry, "call again, up to five times"},
                                      {"ignore", OPTION_FLAG, &ignore, "go on with the NULL pointer"},
                                      {"crash", OPTION_FLAG, &crash, "use a wild pointer on the host"},
                                      {"hang", OPTION_FLAG, &hang, "wait for ever"},
                                      {"list", OPTION_FLAG, &list, "print the numbers of failed allocations"},
                                      {"rounds", OPTION_NUMBER, &rounds, "number of allocations"},
                                      {"threads", OPTION_NUMBER, &threads, "number of threads, at most 16"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    options_parse(argc, argv, rows, "react: takes failed allocations in several ways");
    gpu_open(&gpu, 0);
    for (long long i = 1; i < threads && i < 16; i++)
        pthread_create(&thread[i], NULL, work, gpu.context);
    work(gpu.context);
    for (long long i = 1; i < threads && i < 16; i++)
        pthread_join(thread[i], NULL);
    gpu_close(&gpu);
    return 0;
}
