/* S16: a block of stream-ordered memory is freed on one stream while a copy on another stream still uses it. Nothing
 * orders the two streams. --repaired: the program orders them, in one of many ways (--by).
 *
 * S16b (--what host): the program frees host memory, or exits (--keep), before a copy to it has ended.
 *
 * --what pipeline: one stream loads data, one computes, and one copies results back, as in a framework. CUDA events,
 * reused from a cache, order the streams. The fault is one missing wait (--forget).
 *
 * A kernel delays the copying stream, so that the copy has not ended when the memory is freed. */
#include "scenario.h"

#include "kernel_ptx.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Kernel hold(ns): runs for `ns` nanoseconds, on a real and on a virtual GPU. */
static const char hold_ptx[] =
    PTX_HEAD ".visible .global .align 8 .u64 gpuwhy_model_hold[8] = {0x4D4B594857555047, 1, 0, 0, 0, 0, 0, 1};\n"
             ".visible .entry hold(.param .u64 ns)\n{\n.reg .b64 %d<5>;\n.reg .pred %p0;\n"
             "ld.param.u64 %d1, [ns];\nmov.u64 %d2, %globaltimer;\n"
             "again:\nmov.u64 %d3, %globaltimer;\nsub.u64 %d4, %d3, %d2;\nsetp.lt.u64 %p0, %d4, %d1;\n@%p0 bra again;\n"
             "ret;\n}\n";

static const size_t block_bytes = 8 << 20;
static CUcontext context;
static CUfunction hold;
static CUstream computing, copying;
static CUdeviceptr weights;
static unsigned char *page_locked;

static void launch_hold(CUstream stream, double lasts_ms)
{
    unsigned long long ns = (unsigned long long)(lasts_ms * 1e6);
    void *arguments[] = {&ns};
    CHECK(cuLaunchKernel(hold, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

static void open_all(struct gpu *gpu, int blocking)
{
    unsigned flags = blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
    gpu_open(gpu, 0);
    context = gpu->context;
    hold = gpu_kernel(gpu_load(hold_ptx), "hold");
    CHECK(cuStreamCreate(&computing, flags));
    CHECK(cuStreamCreate(&copying, flags));
    CHECK(cuMemAlloc(&weights, block_bytes));
    CHECK(cuMemHostAlloc((void **)&page_locked, block_bytes, 0));
    memset(page_locked, 1, block_bytes);
}

static void close_all(struct gpu *gpu)
{
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamDestroy(copying));
    CHECK(cuStreamDestroy(computing));
    if (page_locked != NULL)
        CHECK(cuMemFreeHost(page_locked));
    CHECK(cuMemFree(weights));
    gpu_close(gpu);
}

/* Make the stream `second` wait for the work that was submitted to the stream `first` so far. */
static void let_wait(CUstream second, CUstream first, CUevent event)
{
    CHECK(cuEventRecord(event, first));
    CHECK(cuStreamWaitEvent(second, event, 0));
}

/* ---- the ways to put a copy and a free in order ---- */

static _Atomic int called_back;

static void call_back(void *user)
{
    (void)user;
    called_back = 1;
}

static void by_event(void)
{
    CUevent done;
    CHECK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    let_wait(computing, copying, done);
    CHECK(cuEventDestroy(done));
}

static void by_event_of_third(void)
{
    CUevent done;
    CUstream third;
    CHECK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    CHECK(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
    let_wait(third, copying, done);
    let_wait(computing, third, done);
    CHECK(cuStreamDestroy(third));
    CHECK(cuEventDestroy(done));
}

static void by_waited_event(void)
{
    CUevent done;
    CHECK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(done, copying));
    CHECK(cuEventSynchronize(done));
    CHECK(cuEventDestroy(done));
}

static void by_asked_event(void)
{
    CUevent done;
    CHECK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(done, copying));
    while (cuEventQuery(done) == CUDA_ERROR_NOT_READY)
        usleep(200);
    CHECK(cuEventDestroy(done));
}

static void by_asked_stream(void)
{
    while (cuStreamQuery(copying) == CUDA_ERROR_NOT_READY)
        usleep(200);
}

static void by_callback(void)
{
    CHECK(cuLaunchHostFunc(copying, call_back, NULL));
    while (!called_back)
        usleep(200);
}

static void by_stream(void)
{
    CHECK(cuStreamSynchronize(copying));
}

static void by_context(void)
{
    CHECK(cuCtxSynchronize());
}

/* The host waits for a copy by polling the memory that the copy writes. This wait makes no driver call. */
static void by_memory(void)
{
    volatile unsigned char *flag = page_locked;
    *flag = 1;
    CHECK(cuMemsetD8Async(weights, 0, 1, copying));
    CHECK(cuMemcpyDtoHAsync(page_locked, weights, 1, copying));
    while (*flag != 0)
        usleep(200);
}

static void by_freeing(void)
{
    CUdeviceptr other;
    CHECK(cuMemAlloc(&other, block_bytes));
    CHECK(cuMemFree(other));
}

static const struct {
    const char *name;
    void (*act)(void);
} ways[] = {{"event", by_event},
            {"third", by_event_of_third},
            {"waited-event", by_waited_event},
            {"asked-event", by_asked_event},
            {"asked-stream", by_asked_stream},
            {"callback", by_callback},
            {"stream", by_stream},
            {"context", by_context},
            {"memory", by_memory},
            {"freeing", by_freeing}};

static void put_in_order(const char *by)
{
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(ways[i].name, by) == 0) {
            ways[i].act();
            return;
        }
    }
    scenario_fail("--by %s: no such way", by);
}

/* ---- a block freed too early ---- */

static void *block_use(void *address)
{
    CHECK(cuCtxSetCurrent(context));
    launch_hold(copying, 60);
    CHECK(cuMemcpyDtoDAsync(weights, *(CUdeviceptr *)address, block_bytes, copying));
    return NULL;
}

static void block_release(CUdeviceptr block, CUstream stream, int at_once)
{
    if (at_once)
        CHECK(cuMemFree(block)); /* a real driver does not wait here if the memory is stream-ordered */
    else
        CHECK(cuMemFreeAsync(block, stream));
}

static void free_block(const char *by, int repaired, int in_thread, int at_once)
{
    CUdeviceptr block;
    CUevent made;
    CHECK(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAllocAsync(&block, block_bytes, computing));
    let_wait(copying, computing, made);
    if (in_thread) {
        pthread_t thread;
        pthread_create(&thread, NULL, block_use, &block);
        pthread_join(thread, NULL);
    } else {
        block_use(&block);
    }
    bool same = repaired && strcmp(by, "same") == 0;
    if (repaired && !same)
        put_in_order(by);
    block_release(block, same ? copying : computing, at_once);
    CHECK(cuEventDestroy(made));
}

/* ---- a framework's pipeline ---- */

enum { CACHED = 6 };
static CUevent cached[CACHED];

static CUevent event_next(void)
{
    static unsigned next;
    return cached[next++ % CACHED];
}

static void pipeline(int iterations, int forget)
{
    CUstream returning;
    CUevent brought;
    CHECK(cuStreamCreate(&returning, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&brought, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < CACHED; i++)
        CHECK(cuEventCreate(&cached[i], CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < iterations; i++) {
        CUdeviceptr batch, result;
        CHECK(cuMemAllocAsync(&batch, 1 << 20, computing));
        let_wait(copying, computing, event_next());
        CHECK(cuMemcpyHtoDAsync(batch, page_locked, 1 << 20, copying));
        if (!forget || i != iterations / 2)
            let_wait(computing, copying, event_next());
        launch_hold(computing, 0.02);
        CHECK(cuMemAllocAsync(&result, 1 << 20, computing));
        CHECK(cuMemcpyDtoDAsync(result, batch, 1 << 20, computing));
        block_release(batch, computing, 0);
        let_wait(returning, computing, event_next());
        CHECK(cuMemcpyDtoHAsync(page_locked + (4 << 20), result, 1 << 20, returning));
        let_wait(computing, returning, event_next());
        CHECK(cuMemFreeAsync(result, computing));
        CHECK(cuEventRecord(brought, returning));
        while (i % 10 == 9 && cuEventQuery(brought) == CUDA_ERROR_NOT_READY)
            usleep(100);
    }
    CHECK(cuCtxSynchronize());
    for (int i = 0; i < CACHED; i++)
        CHECK(cuEventDestroy(cached[i]));
    CHECK(cuEventDestroy(brought));
    CHECK(cuStreamDestroy(returning));
}

/* Runs in many threads. Each thread creates its own streams and orders them correctly. */
static void *work(void *user)
{
    const int *iterations = user;
    CUstream mine, side;
    CUevent done;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&mine, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < *iterations; i++) {
        CUdeviceptr batch;
        CHECK(cuMemAllocAsync(&batch, 1 << 16, mine));
        let_wait(side, mine, done);
        CHECK(cuMemcpyDtoDAsync(batch, weights, 1 << 16, side));
        if (i % 3 == 0)
            CHECK(cuStreamSynchronize(side));
        else
            let_wait(mine, side, done);
        CHECK(cuMemFreeAsync(batch, mine));
    }
    CHECK(cuStreamSynchronize(mine));
    CHECK(cuEventDestroy(done));
    CHECK(cuStreamDestroy(side));
    CHECK(cuStreamDestroy(mine));
    return NULL;
}

static void work_in_threads(int iterations)
{
    enum { THREADS = 8 };
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, work, &iterations) != 0)
            scenario_fail("no thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

/* ---- a result read too early ---- */

static void read_result(const char *by, int repaired, int keep)
{
    launch_hold(copying, 20);
    CHECK(cuMemcpyDtoHAsync(page_locked, weights, block_bytes, copying));
    if (repaired)
        put_in_order(by);
    unsigned sum = 0;
    for (size_t i = 0; i < block_bytes; i += 4096)
        sum += page_locked[i];
    truth("sum", "%u", sum);
    if (keep)
        _exit(0);
    CHECK(cuMemFreeHost(page_locked));
    page_locked = NULL;
}

int main(int argc, char **argv)
{
    const char *what = "block", *by = "event";
    int in_thread = 0, at_once = 0, blocking = 0, keep = 0, forget = 0;
    long long iterations = 200;
    const struct option_row rows[] = {
        {"what", OPTION_TEXT, &what, "block, pipeline, threads (never a fault) or host"},
        {"by", OPTION_TEXT, &by, "what puts things in order when repaired"},
        {"thread", OPTION_FLAG, &in_thread, "another thread makes the copy"},
        {"at-once", OPTION_FLAG, &at_once, "free with cuMemFree"},
        {"blocking", OPTION_FLAG, &blocking, "streams that are ordered with the default stream"},
        {"keep", OPTION_FLAG, &keep, "host: end with the memory still there"},
        {"forget", OPTION_FLAG, &forget, "pipeline: one wait is missing"},
        {"iterations", OPTION_NUMBER, &iterations, "pipeline, threads: so many"},
        {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired = scenario_begin(argc, argv, rows, "Frees memory that another stream still uses.");
    struct gpu gpu;
    open_all(&gpu, blocking);
    if (strcmp(what, "pipeline") == 0)
        pipeline((int)iterations, forget);
    else if (strcmp(what, "threads") == 0)
        work_in_threads((int)iterations);
    else if (strcmp(what, "host") == 0)
        read_result(by, repaired, keep);
    else
        free_block(by, repaired, in_thread, at_once);
    truth("block_bytes", "%zu", block_bytes);
    close_all(&gpu);
    printf("done\n");
    return 0;
}
