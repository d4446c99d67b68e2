/* S27: the program hangs. --kind selects how:
 *
 *  kernel, ask   A kernel does not end, and the program waits for it, or queries it in a loop.
 *  other, again  The kernel that does not end is on a second stream. The program waits for the whole context, or
 *                queries the second stream and waits for the first one in turn.
 *  locks         Two threads take two locks in opposite order before the next launch.
 *  late-locks    The same, but the first thread rests for four seconds before it takes its second lock.
 *  rest-locks    The first thread rests for fourteen seconds with a lock, and another one waits for it. Then, after a
 *                launch, locks.
 *
 * Repaired: the kernel is only slow, and the locks are taken in one order.
 *
 * Programs that only seem to hang, after their work on the GPU:
 *
 *  join   One stream waits for the other by an event.
 *  input  The program reads input that never arrives.
 *  sleep  The program sleeps.
 *  load   The host works without any driver call.
 *  pool   Threads wait for work while one waits for input.
 *
 * Programs that continue on one stream without waiting for a kernel on the other one. The hook keeps a thread's last
 * 2,048 calls:
 *
 *  alone, alone-fast   The program never waits for the kernel. With alone, its launch stays among these calls for about
 *                      50 s. With alone-fast, later calls soon overwrite it.
 *                      Repaired: the kernel runs on purpose, until the program ends it.
 *  left, left-asked    The program waits for the kernel, or queries it, when its launch is no longer among these calls.
 *                      Repaired: the kernel is short.
 *
 * No program hangs forever: everything ends after --seconds at the latest. */
#include "scenario.h"

#include "kernel_ptx.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Kernel spin(flag, ns): ends when the flag in pinned memory is set, or after `ns` nanoseconds. The virtual GPU only
 * uses ns. */
static const char spin_ptx[] = PTX_HEAD
    ".visible .global .align 8 .u64 gpuwhy_model_spin[8] = {0x4D4B594857555047, 1, 0, 0, 0, 0, 0, 2};\n"
    ".visible .entry spin(.param .u64 flag, .param .u64 ns)\n{\n.reg .b64 %d<6>;\n.reg .b32 %r0;\n.reg .pred %p<2>;\n"
    "ld.param.u64 %d0, [flag];\nld.param.u64 %d1, [ns];\nmov.u64 %d2, %globaltimer;\n"
    "again:\nld.volatile.global.u32 %r0, [%d0];\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra done;\n"
    "mov.u64 %d3, %globaltimer;\nsub.u64 %d4, %d3, %d2;\nsetp.lt.u64 %p1, %d4, %d1;\n@%p1 bra again;\n"
    "done:\nret;\n}\n";

static CUfunction spin;
static CUdeviceptr flag_address;
static volatile unsigned *flag;
static CUstream stream, other;
static long long seconds = 60;

static void launch_spin_on(CUstream on, double lasts_s)
{
    unsigned long long ns = (unsigned long long)(lasts_s * 1e9);
    void *arguments[] = {&flag_address, &ns};
    CHECK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, on, arguments, NULL));
}

static void launch_spin(double lasts_s)
{
    launch_spin_on(stream, lasts_s);
}

static void open_all(struct gpu *gpu)
{
    void *memory;
    gpu_open(gpu, 0);
    spin = gpu_kernel(gpu_load(spin_ptx), "spin");
    CHECK(cuMemHostAlloc(&memory, 4, CU_MEMHOSTALLOC_DEVICEMAP));
    flag = memory;
    *flag = 0;
    CHECK(cuMemHostGetDevicePointer(&flag_address, memory, 0));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    launch_spin(0.001);
    CHECK(cuStreamSynchronize(stream));
}

/* ---- the kinds of hangs (--kind) ---- */

/* The functions are noinline: otherwise compilers merge two equal calls, and the merged call has only one of the two
 * source lines. */
__attribute__((noinline)) static void wait_for_kernel(int repaired)
{
    for (int i = 0; repaired && i < 12; i++) { /* slow, but all kernels end */
        launch_spin(0.3);
        CHECK(cuStreamSynchronize(stream));
    }
    if (repaired)
        return;
    launch_spin((double)seconds);
    CHECK(cuStreamSynchronize(stream)); /* mark: kernel */
}

static void ask_kernel(int repaired)
{
    launch_spin(repaired ? 0.5 : (double)seconds);
    while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) /* mark: ask */
        usleep(1000);                                     /* mark: between */
}

/* The wait for `stream` returns, because the kernel that hangs is on the other stream. The wait for the whole context
 * hangs. */
__attribute__((noinline)) static void wait_for_both(int repaired)
{
    launch_spin_on(other, repaired ? 0.5 : (double)seconds);
    launch_spin(0.001);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuCtxSynchronize()); /* mark: other */
}

/* Query the kernel on the other stream, and between the queries wait for a stream that has nothing to do. */
static void wait_again(int repaired)
{
    launch_spin(0.001);
    launch_spin_on(other, repaired ? 0.5 : (double)seconds);
    while (cuStreamQuery(other) == CUDA_ERROR_NOT_READY) { /* mark: again_asks */
        CHECK(cuStreamSynchronize(stream));                /* mark: again */
        usleep(1000);                                      /* mark: again_rests */
    }
}

/* Use two streams as wait_again() does, but without a fault: the stream waits for an event after the other stream's
 * kernel. Then the program is idle for a while. */
static void join_by_event(void)
{
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    launch_spin_on(other, 0.01);
    CHECK(cuEventRecord(event, other));
    CHECK(cuStreamWaitEvent(stream, event, 0));
    launch_spin(0.01);
    CHECK(cuStreamSynchronize(stream));
    for (int i = 0; i < 4 * (int)seconds; i++) {
        CHECK(cuStreamSynchronize(stream));
        usleep(250000);
    }
    CHECK(cuEventDestroy(event));
}

/* A step makes two calls, so these steps overwrite the whole record of the thread's last 2,048 calls. */
enum { FAST_STEPS = 3000 };

static void step(void)
{
    launch_spin(0);
    CHECK(cuStreamSynchronize(stream));
}

/* Continue for --seconds, but never wait for the kernel on the other stream. */
__attribute__((noinline)) static void leave_alone(int fast, int repaired)
{
    launch_spin_on(other, repaired ? 8 : (double)seconds);
    /* The virtual GPU ignores the flag: there, the kernel of 8 s ends by itself, shortly after the loop of 7 s. */
    if (repaired)
        seconds = 7;
    for (int i = 0; fast && i < FAST_STEPS; i++)
        step();
    truth("steps", "1");
    /* After about 50 s, the launch is no longer among the thread's last 2,048 calls. */
    for (int i = 0; i < 20 * (int)seconds; i++) {
        step();
        usleep(50000);
    }
    *flag = 1;
    CHECK(cuCtxSynchronize());
}

/* The program waits for the kernel so late that its launch is no longer among the thread's last 2,048 calls. The hook
 * keeps only these calls. */
__attribute__((noinline)) static void wait_too_late(int asks, int repaired)
{
    launch_spin_on(other, repaired ? 0.5 : (double)seconds);
    for (int i = 0; i < FAST_STEPS; i++)
        step();
    while (asks && cuStreamQuery(other) == CUDA_ERROR_NOT_READY)
        usleep(1000);
    CHECK(cuStreamSynchronize(other)); /* mark: left */
    if (asks)
        sleep(4); /* be idle after everything has ended */
}

static pthread_mutex_t weights = PTHREAD_MUTEX_INITIALIZER, gradients = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int holding;
static unsigned rests_s; /* how long the trainer rests between its two locks */

static void meet_holding(int of)
{
    holding++;
    while (of > 1 && holding < of)
        usleep(1000);
}

static void apply_gradients(int in_order)
{
    pthread_mutex_lock(&weights);
    meet_holding(in_order ? 0 : 2);
    sleep(rests_s);
    pthread_mutex_lock(&gradients); /* mark: trainer */
    pthread_mutex_unlock(&gradients);
    pthread_mutex_unlock(&weights);
}

static void collect_gradients(int in_order)
{
    pthread_mutex_lock(in_order ? &weights : &gradients);
    meet_holding(in_order ? 0 : 2);
    pthread_mutex_lock(in_order ? &gradients : &weights); /* mark: collector */
    pthread_mutex_unlock(&weights);
    pthread_mutex_unlock(&gradients);
}

static void *trainer(void *in_order)
{
    apply_gradients(*(int *)in_order);
    return NULL;
}

static void *collector(void *in_order)
{
    collect_gradients(*(int *)in_order);
    return NULL;
}

static void use_locks(int repaired)
{
    pthread_t first, second;
    pthread_create(&first, NULL, trainer, &repaired);
    pthread_create(&second, NULL, collector, &repaired);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    launch_spin(0.001);
    CHECK(cuStreamSynchronize(stream));
}

static void use_locks_late(unsigned seconds_late, int repaired)
{
    rests_s = seconds_late;
    holding = 0;
    use_locks(repaired);
}

static void wait_for_input(void)
{
    int fds[2];
    char byte;
    struct timespec time = {.tv_sec = seconds};
    if (pipe(fds) != 0)
        scenario_fail("no pipe");
    if (fork() == 0) { /* the child keeps the input open for --seconds */
        nanosleep(&time, NULL);
        _exit(0);
    }
    close(fds[1]);
    if (read(fds[0], &byte, 1) < 0)
        scenario_fail("the pipe broke");
}

static void *pool_worker(void *nothing)
{
    static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&weights);
    for (;;)
        pthread_cond_wait(&never, &weights);
    return nothing;
}

static void wait_with_pool(void)
{
    pthread_t worker;
    for (int i = 0; i < 3; i++)
        pthread_create(&worker, NULL, pool_worker, NULL);
    wait_for_input();
}

static void load_data(void)
{
    struct timespec begin, now;
    volatile unsigned sum = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        for (unsigned i = 0; i < 1000000; i++)
            sum += i;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begin.tv_sec < seconds);
}

int main(int argc, char **argv)
{
    const char *kind = "kernel";
    const struct option_row rows[] = {{"kind", OPTION_TEXT, &kind,
                                       "kernel, ask, other, again, join, alone, alone-fast, left, left-asked, locks, "
                                       "late-locks, input, sleep, load or pool"},
                                      {"seconds", OPTION_NUMBER, &seconds, "how long it stands still (60)"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired = scenario_begin(argc, argv, rows, "Stands still.");
    alarm((unsigned)seconds + 30);
    struct gpu gpu;
    open_all(&gpu);
    truth("pid", "%d", (int)getpid());
    truth("stream", "%llu", (unsigned long long)(size_t)stream);
    if (strcmp(kind, "kernel") == 0)
        wait_for_kernel(repaired);
    else if (strcmp(kind, "ask") == 0)
        ask_kernel(repaired);
    else if (strcmp(kind, "other") == 0)
        wait_for_both(repaired);
    else if (strcmp(kind, "again") == 0)
        wait_again(repaired);
    else if (strncmp(kind, "alone", 5) == 0)
        leave_alone(strcmp(kind, "alone-fast") == 0, repaired);
    else if (strncmp(kind, "left", 4) == 0)
        wait_too_late(strcmp(kind, "left-asked") == 0, repaired);
    else if (strcmp(kind, "join") == 0)
        join_by_event();
    else if (strcmp(kind, "locks") == 0)
        use_locks(repaired);
    else if (strcmp(kind, "late-locks") == 0)
        use_locks_late(4, repaired);
    else if (strcmp(kind, "rest-locks") == 0) {
        use_locks_late(14, 1);
        use_locks_late(0, repaired);
    } else if (strcmp(kind, "input") == 0)
        wait_for_input();
    else if (strcmp(kind, "pool") == 0)
        wait_with_pool();
    else if (strcmp(kind, "load") == 0)
        load_data();
    else
        sleep((unsigned)seconds);
    gpu_close(&gpu);
    printf("it went on\n");
    fflush(stdout);
    _exit(0);
}
