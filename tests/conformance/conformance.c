/* Checks that a virtual GPU returns the same results as a real one. The expected results were recorded on an H200 with
 * driver 580.159.04. A run on a real GPU verifies them.
 *
 *     conformance [--card-memory-light] [GROUP...]
 *
 * Every group runs in its own process, because some faults make a process unusable. Prints "ok GROUP.NAME" or "not ok
 * GROUP.NAME got X want Y" for each check, and a summary. Exit status 0: all checks are ok. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "card.h"

static unsigned failed_count;
static bool light;
enum { TOO_SLOW = 3, SLOWNESS_MAX = 64 };
static unsigned slowness = 1; /* factor for the run time of kernels that a check observes while they run */
static double runs_until_ms;  /* the most recently launched kernel runs at least until this time */

static void check(bool ok, const char *name, long long got, const char *relation, long long want)
{
    if (ok) {
        printf("ok %s.%s\n", group_name, name);
        return;
    }
    failed_count++;
    printf("not ok %s.%s got %lld want %s%lld\n", group_name, name, got, relation, want);
}

static void is(const char *name, long long got, long long want)
{
    check(got == want, name, got, "", want);
}

static void at_least(const char *name, long long got, long long want)
{
    check(got >= want, name, got, ">= ", want);
}

static void at_most(const char *name, long long got, long long want)
{
    check(got <= want, name, got, "<= ", want);
}

/* Check that a query for the kernel of the last spin_ms() returned NOT_READY. On a slow machine, the kernel may already
 * have ended, and the check proves nothing. The group is then run again with longer kernels. */
#define still_runs(name, result)                                                                                       \
    do {                                                                                                               \
        long long got_ = (long long)(result);                                                                          \
        if (got_ == 0 && now_ms() >= runs_until_ms)                                                                    \
            _exit(TOO_SLOW);                                                                                           \
        check(got_ == 600, name, got_, "", 600);                                                                       \
    } while (0)

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static CUstream stream_make(unsigned flags)
{
    CUstream stream = NULL;
    need(cuStreamCreate(&stream, flags), "cuStreamCreate");
    return stream;
}

static CUresult launch(const char *name, CUstream stream, void **params)
{
    return cuLaunchKernel(function(name), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static CUresult spin_ms(unsigned long long ms, CUstream stream)
{
    unsigned long long ns = ms * 1000000 * slowness;
    void *params[] = {&ns};
    runs_until_ms = now_ms() + (double)(ms * slowness);
    return launch("spin", stream, params);
}

static CUresult store(CUdeviceptr address, CUstream stream)
{
    unsigned value = 1;
    void *params[] = {&address, &value};
    return launch("store", stream, params);
}

/* --- groups --------------------------------------------------------------------------------------------- */

static void before_init(void)
{
    int number = 0;
    CUdeviceptr address = 0;
    CUcontext current = NULL;
    const char *name = NULL;
    void *fn = NULL;
    is("device-count", cuDeviceGetCount(&number), 3);
    is("alloc", cuMemAlloc(&address, 1), 3);
    is("current", cuCtxGetCurrent(&current), 3);
    is("version", cuDriverGetVersion(&number), 0);
    is("error-name", cuGetErrorName((CUresult)3, &name), 0);
    is("error-name-text", name != NULL && strcmp(name, "CUDA_ERROR_NOT_INITIALIZED") == 0, 1);
    is("error-name-unknown", cuGetErrorName((CUresult)12345, &name), 1);
    is("resolver", cuGetProcAddress("cuInit", &fn, 12000, 0, NULL), 0);
    is("init", cuInit(0), 0);
    is("init-again", cuInit(0), 0);
}

static void no_context(void)
{
    CUdeviceptr address = 0;
    CUevent event = NULL;
    CUstream stream = NULL;
    CUcontext current = NULL;
    size_t a = 0, b = 0;
    int number = 0;
    void *host = NULL;
    need(cuInit(0), "cuInit");
    is("alloc", cuMemAlloc(&address, 1), 201);
    is("info", cuMemGetInfo(&a, &b), 201);
    is("synchronise", cuCtxSynchronize(), 201);
    is("stream-create", cuStreamCreate(&stream, 0), 201);
    is("stream-query", cuStreamQuery(NULL), 201);
    is("event-create", cuEventCreate(&event, 0), 201);
    is("event-query-null", cuEventQuery(NULL), 400);
    is("free-null", cuMemFree(0), 0);
    is("free-wild", cuMemFree(16), 1);
    is("free-host-null", cuMemFreeHost(NULL), 0);
    is("host-alloc", cuMemAllocHost(&host, 1), 201);
    is("launch", cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 201);
    is("module", cuModuleLoadData(&module, kernels_text()), 201);
    is("pop", cuCtxPopCurrent(&current), 201);
    is("current", cuCtxGetCurrent(&current), 0);
    is("current-null", current == NULL, 1);
    is("device", cuCtxGetDevice(&device), 201);
    is("pointer", cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 16), 1);
}

static void devices(void)
{
    char name[256] = "";
    int count = 0, number = 0, active = 1;
    unsigned flags = 1;
    size_t total = 0, free_now = 0, total_again = 0;
    need(cuInit(0), "cuInit");
    is("count", cuDeviceGetCount(&count), 0);
    at_least("count-value", count, 1);
    is("get", cuDeviceGet(&device, 0), 0);
    is("get-beyond", cuDeviceGet(&device, count), 101);
    is("get-negative", cuDeviceGet(&device, -1), 101);
    device = 0;
    is("name", cuDeviceGetName(name, sizeof name, device), 0);
    is("name-cut", cuDeviceGetName(name, 4, device), 0);
    is("name-cut-bytes", strlen(name), 3);
    is("total", cuDeviceTotalMem(&total, device), 0);
    is("warp", cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device), 0);
    is("warp-value", number, 32);
    is("threads", cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device), 0);
    is("threads-value", number, 1024);
    is("attribute-unknown", cuDeviceGetAttribute(&number, (CUdevice_attribute)9999, device), 1);
    is("state", cuDevicePrimaryCtxGetState(device, &flags, &active), 0);
    is("state-active", active, 0);
    up();
    is("state-after", cuDevicePrimaryCtxGetState(device, &flags, &active), 0);
    is("state-active-after", active, 1);
    is("info", cuMemGetInfo(&free_now, &total_again), 0);
    is("total-same", total == total_again, 1);
    at_least("context-takes-memory", (total - free_now) / MIB, 64);
    at_most("context-takes-memory-at-most", (total - free_now) / MIB, 1024);
}

static void contexts(void)
{
    CUcontext second = NULL, current = NULL;
    CUdeviceptr address = 0;
    size_t value = 0;
    up();
    size_t before = free_bytes();
    is("create", cuCtxCreate(&second, 0, device), 0);
    at_least("second-takes-memory", (long long)(before - free_bytes()) / (long long)MIB, 64);
    is("limit-stack", cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE), 0);
    is("limit-stack-value", value, 1024);
    is("limit-bad", cuCtxGetLimit(&value, (CUlimit)19), 1);
    address = must_alloc(MIB);
    is("destroy", cuCtxDestroy(second), 0);
    is("destroyed-not-current", (cuCtxGetCurrent(&current), current == second), 0);
    is("free-of-destroyed", cuMemFree(address), 1);
    /* 201 or 709, because the driver may have reused the freed handle */
    at_least("destroy-twice-fails", cuCtxDestroy(second), 1);
    is("memory-back", free_bytes(), before);
    is("retain-again", cuDevicePrimaryCtxRetain(&current, device), 0);
    is("retain-same", current == context, 1);
    is("release", cuDevicePrimaryCtxRelease(device), 0);
    is("still-alive", cuMemAlloc(&address, 1), 0);
}

static int is_active(void)
{
    unsigned flags = 0;
    int active = 0;
    need(cuDevicePrimaryCtxGetState(device, &flags, &active), "cuDevicePrimaryCtxGetState");
    return active;
}

/* A reset of the primary context does not change its reference count: the program must release it as many times as
 * before. */
static void retains(void)
{
    up();
    is("reset", cuDevicePrimaryCtxReset(device), 0);
    is("reset-active", is_active(), 0);
    is("retain", cuDevicePrimaryCtxRetain(&context, device), 0);
    is("release", cuDevicePrimaryCtxRelease(device), 0);
    is("still-active", is_active(), 1);
    is("release-last", cuDevicePrimaryCtxRelease(device), 0);
    is("not-active", is_active(), 0);
    is("release-too-often", cuDevicePrimaryCtxRelease(device), 201);
    is("retain-2", cuDevicePrimaryCtxRetain(&context, device), 0);
    is("reset-2", cuDevicePrimaryCtxReset(device), 0);
    is("release-after-reset", cuDevicePrimaryCtxRelease(device), 0);
    is("release-too-often-2", cuDevicePrimaryCtxRelease(device), 201);
}

static void memory(void)
{
    static char bytes[8192];
    CUdeviceptr p = 0, q = 0, base = 0;
    size_t size = 0;
    up();
    is("zero", cuMemAlloc(&p, 0), 1);
    is("null-out", cuMemAlloc(NULL, 16), 1);
    is("free-null", cuMemFree(0), 0);
    is("huge", cuMemAlloc(&p, (size_t)1 << 50), 2);
    is("max", cuMemAlloc(&p, SIZE_MAX), 2);
    is("usable-after", cuMemAlloc(&p, 100), 0);
    is("free-inside", cuMemFree(p + 16), 1);
    is("aligned", p % 512, 0);
    is("second", cuMemAlloc(&q, 100), 0);
    is("step", q - p, 512);
    is("range", cuMemGetAddressRange(&base, &size, p + 50), 0);
    is("range-base", base == p, 1);
    is("range-bytes", size, 100);
    is("range-behind", cuMemGetAddressRange(&base, &size, p + 100), 500);
    memset(bytes, 7, sizeof bytes);
    is("to-device", cuMemcpyHtoD(p, bytes, 100), 0);
    is("to-device-over", cuMemcpyHtoD(p, bytes, 101), 1);
    is("to-device-over-async", cuMemcpyHtoDAsync(p, bytes, 101, NULL), 1);
    is("from-wild", cuMemcpyDtoH(bytes, 0x12345, 4), 1);
    is("zero-bytes", cuMemcpyDtoH(bytes, p, 0), 0);
    is("fill-over", cuMemsetD8(p, 0, 101), 1);
    is("fill-wild", cuMemsetD8(0x12345, 0, 4), 1);
    is("fill-unaligned", cuMemsetD32(p + 1, 0, 1), 1);
    is("fill-none", cuMemsetD8(p, 0, 0), 0);
    is("fill", cuMemsetD8(p + 10, 9, 20), 0);
    memset(bytes, 0, sizeof bytes);
    is("from-device", cuMemcpyDtoH(bytes, p, 100), 0);
    is("content", bytes[0] == 7 && bytes[9] == 7 && bytes[10] == 9 && bytes[29] == 9 && bytes[30] == 7, 1);
    is("inside", cuMemcpyDtoD(q, p, 100), 0);
    is("device-as-host", cuMemcpyDtoH((void *)(uintptr_t)q, p, 10), 0);
    is("unified", cuMemcpy(q, (CUdeviceptr)(uintptr_t)bytes, 10), 0);
    is("host-as-device", cuMemcpyDtoD(q, (CUdeviceptr)(uintptr_t)bytes, 10), 1);
    is("free", cuMemFree(p), 0);
    is("free-twice", cuMemFree(p), 1);
    is("copy-from-freed", cuMemcpyDtoH(bytes, p, 16), 1);
    is("fill-freed", cuMemsetD8(p, 0, 16), 1);
    is("not-sticky", cuCtxSynchronize(), 0);
    is("alloc-after-errors", cuMemAlloc(&p, 4096), 0);
}

static void pages(void)
{
    enum { COUNT = 2000 };
    static CUdeviceptr blocks[COUNT];
    up();
    CUdeviceptr first = must_alloc(1); /* puts the first page for small blocks into use */
    must_alloc(MIB + 1);               /* a real GPU may take this block from pages in reserve */
    size_t before = free_bytes();
    must_alloc(MIB + 1);
    is("above-1-mib", before - free_bytes(), 2 * MIB);
    before = free_bytes();
    must_alloc(2 * MIB + 1);
    is("above-2-mib", before - free_bytes(), 4 * MIB);
    before = free_bytes();
    must_alloc(512);
    is("small-shares", before - free_bytes(), 0);
    for (int i = 0; i < COUNT; i++)
        blocks[i] = must_alloc(512);
    at_most("small-take", before - free_bytes(), 2 * MIB);
    for (int i = 0; i < COUNT; i++)
        cuMemFree(blocks[i]);
    is("small-back", free_bytes(), before);
    for (int i = 0; i < COUNT; i++)
        blocks[i] = must_alloc(700 << 10);
    size_t taken = before - free_bytes();
    at_least("two-a-page", taken / MIB, COUNT - 4);
    at_most("two-a-page-at-most", taken / MIB, COUNT + 4);
    for (int i = 0; i < COUNT; i += 2)
        cuMemFree(blocks[i]);
    size_t returned = taken - (before - free_bytes());
    for (int i = 1; i < COUNT; i += 2)
        cuMemFree(blocks[i]);
    is("all-back", free_bytes(), before);
    at_most("shared-pages-stay", returned / MIB, 8);
    is("first", cuMemFree(first), 0);
}

/* A page stays in use until all small blocks in it are freed. The pages of freed large blocks can form a new block even
 * if they are scattered. */
static void fragmentation(void)
{
    up();
    size_t before = free_bytes();
    size_t wanted = light && before > (size_t)8 << 30 ? (size_t)4 << 30 : before - (before >> 3);
    size_t count = wanted / MIB;
    CUdeviceptr *blocks = calloc(count, sizeof *blocks);
    size_t made = 0;
    while (made < count && cuMemAlloc(&blocks[made], MIB) == 0)
        made++;
    is("fill", made, count);
    size_t full = free_bytes();
    for (size_t i = 0; i < made; i += 2)
        cuMemFree(blocks[i]);
    at_most("every-other-returns-nothing", (long long)(free_bytes() - full) / (long long)MIB, 4);
    for (size_t i = 1; i < made; i += 2)
        cuMemFree(blocks[i]);
    is("all-back", free_bytes(), before);
    free(blocks);
    CUdeviceptr large[4096];
    made = 0;
    size_t each = light ? before / 32 / (2 * MIB) * (2 * MIB) : 64 * MIB;
    while (made < 4096 && cuMemAlloc(&large[made], each) == 0)
        made++;
    for (size_t i = 0; i < made; i += 2)
        cuMemFree(large[i]);
    CUdeviceptr one = 0;
    size_t room = free_bytes() - 256 * MIB;
    is("scattered-pages-make-one-block", cuMemAlloc(&one, room), 0);
}

static void objects_cost(void)
{
    CUstream streams[64];
    CUevent event = NULL;
    up();
    size_t before = free_bytes();
    for (int i = 0; i < 64; i++)
        streams[i] = stream_make(CU_STREAM_NON_BLOCKING);
    size_t taken = before - free_bytes();
    at_least("64-streams", taken / MIB, 28);
    at_most("64-streams-at-most", taken / MIB, 40);
    for (int i = 0; i < 64; i++)
        need(cuStreamDestroy(streams[i]), "cuStreamDestroy");
    is("memory-stays-with-the-context", before - free_bytes(), taken);
    for (int i = 0; i < 64; i++)
        streams[i] = stream_make(0);
    is("and-is-used-again", before - free_bytes(), taken);
    before = free_bytes();
    for (int i = 0; i < 5000; i++)
        need(cuEventCreate(&event, 0), "cuEventCreate");
    is("events-cost-nothing", before - free_bytes(), 0);
    is("stream-flags", cuStreamCreate(&streams[0], 2), 1);
    is("event-flags", cuEventCreate(&event, 64), 1);
    is("event-ipc-needs-no-timing", cuEventCreate(&event, CU_EVENT_INTERPROCESS), 1);
}

static void host_memory(void)
{
    void *host = NULL;
    CUdeviceptr address = 0;
    char *own = aligned_alloc(4096, 16384);
    up();
    is("alloc", cuMemAllocHost(&host, 1000), 0);
    strcpy(host, "written by the host");
    is("device-pointer", cuMemHostGetDevicePointer(&address, host, 0), 0);
    is("free", cuMemFreeHost(host), 0);
    is("free-twice", cuMemFreeHost(host), 1);
    is("free-null", cuMemFreeHost(NULL), 0);
    is("free-own", cuMemFreeHost(own), 1);
    is("register", cuMemHostRegister(own, 8192, 0), 0);
    is("register-twice", cuMemHostRegister(own, 8192, 0), 712);
    is("register-overlapping", cuMemHostRegister(own + 4096, 8192, 0), 712);
    is("unregister", cuMemHostUnregister(own), 0);
    is("unregister-twice", cuMemHostUnregister(own), 713);
    is("register-nothing", cuMemHostRegister(own, 0, 0), 1);
    is("register-null", cuMemHostRegister(NULL, 100, 0), 1);
    is("device-pointer-of-unregistered", cuMemHostGetDevicePointer(&address, own, 0), 1);
    free(own);
}

static void managed(void)
{
    CUdeviceptr p = 0;
    char back[16] = "";
    int number = 0;
    up();
    is("zero", cuMemAllocManaged(&p, 0, CU_MEM_ATTACH_GLOBAL), 1);
    is("flags", cuMemAllocManaged(&p, 100, 0), 1);
    is("alloc", cuMemAllocManaged(&p, 4 * MIB, CU_MEM_ATTACH_GLOBAL), 0);
    strcpy((char *)(uintptr_t)p, "host");
    is("copy", cuMemcpyDtoH(back, p, 5), 0);
    is("content", strcmp(back, "host"), 0);
    is("fill", cuMemsetD8(p, 'x', 4), 0);
    is("synchronise", cuCtxSynchronize(), 0);
    is("host-sees", ((char *)(uintptr_t)p)[3], 'x');
    is("is-managed", cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_IS_MANAGED, p), 0);
    is("is-managed-value", number, 1);
    is("free", cuMemFree(p), 0);
}

static void pitched_and_arrays(void)
{
    CUdeviceptr p = 0;
    size_t pitch = 0;
    CUarray array = NULL;
    CUDA_ARRAY_DESCRIPTOR shape = {1000, 1000, CU_AD_FORMAT_FLOAT, 4};
    float row[4] = {1, 2, 3, 4};
    float back[4] = {0};
    up();
    is("pitch", cuMemAllocPitch(&p, &pitch, 1000, 10, 4), 0);
    is("pitch-value", pitch, 1024);
    is("width-zero", cuMemAllocPitch(&p, &pitch, 0, 10, 4), 1);
    is("element-bad", cuMemAllocPitch(&p, &pitch, 10, 10, 3), 1);
    size_t before = free_bytes();
    is("array", cuArrayCreate(&array, &shape), 0);
    is("array-takes", before - free_bytes(), 16 * MIB);
    is("array-to", cuMemcpyHtoA(array, 0, row, sizeof row), 0);
    is("array-from", cuMemcpyAtoH(back, array, 0, sizeof back), 0);
    is("array-content", memcmp(row, back, sizeof row), 0);
    is("array-destroy", cuArrayDestroy(array), 0);
    shape.NumChannels = 3;
    is("channels-bad", cuArrayCreate(&array, &shape), 1);
    shape.NumChannels = 4;
    shape.Width = 0;
    is("array-width-zero", cuArrayCreate(&array, &shape), 1);
}

static void order(void)
{
    CUevent begin = NULL, end = NULL, untimed = NULL;
    float ms = 0;
    up_with_module();
    CUstream a = stream_make(CU_STREAM_NON_BLOCKING);
    CUstream b = stream_make(0);
    function("nothing");
    function("spin");
    need(cuLaunchKernel(function("nothing"), 1, 1, 1, 1, 1, 1, 0, a, NULL, NULL), "warm up");
    need(cuCtxSynchronize(), "cuCtxSynchronize");
    need(cuEventCreate(&begin, 0), "cuEventCreate");
    need(cuEventCreate(&end, 0), "cuEventCreate");
    need(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    is("never-recorded-query", cuEventQuery(begin), 0);
    is("never-recorded-synchronise", cuEventSynchronize(begin), 0);
    is("never-recorded-elapsed", cuEventElapsedTime(&ms, begin, end), 400);
    is("spin", spin_ms(50, a), 0);
    still_runs("busy", cuStreamQuery(a));
    is("other-idle", cuStreamQuery(b), 0);
    is("default-does-not-wait-for-non-blocking", cuStreamQuery(NULL), 0);
    is("synchronise", cuStreamSynchronize(a), 0);
    is("idle", cuStreamQuery(a), 0);
    is("record-begin", cuEventRecord(begin, a), 0);
    is("spin-between", spin_ms(20, a), 0);
    is("record-end", cuEventRecord(end, a), 0);
    still_runs("not-yet", cuEventQuery(end));
    still_runs("elapsed-not-yet", cuEventElapsedTime(&ms, begin, end));
    is("event-synchronise", cuEventSynchronize(end), 0);
    is("elapsed", cuEventElapsedTime(&ms, begin, end), 0);
    at_least("elapsed-us", (double)ms * 1000, 20000);
    is("untimed-record", cuEventRecord(untimed, a), 0);
    is("all", cuCtxSynchronize(), 0);
    is("untimed-elapsed", cuEventElapsedTime(&ms, begin, untimed), 400);
    is("spin-first", spin_ms(50, a), 0);
    is("record", cuEventRecord(end, a), 0);
    is("wait-event", cuStreamWaitEvent(b, end, 0), 0);
    still_runs("waits", cuStreamQuery(b));
    is("wait-event-null", cuStreamWaitEvent(b, NULL, 0), 400);
    is("waited", cuStreamSynchronize(b), 0);
    is("so-the-other-is-done", cuStreamQuery(a), 0);
    double before = now_ms();
    is("spin-blocking", spin_ms(50, b), 0);
    is("default-launch", cuLaunchKernel(function("nothing"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 0);
    is("default-waits-for-blocking", cuStreamSynchronize(NULL), 0);
    at_least("default-waited-ms", now_ms() - before, 45);
    is("spin-default", spin_ms(50, NULL), 0);
    is("launch-behind-default", cuLaunchKernel(function("nothing"), 1, 1, 1, 1, 1, 1, 0, b, NULL, NULL), 0);
    still_runs("blocking-waits-for-default", cuStreamQuery(b));
    is("non-blocking-does-not", cuStreamQuery(a), 0);
    is("end", cuCtxSynchronize(), 0);
    is("destroy-null-stream", cuStreamDestroy(NULL), 400);
    is("destroy-default-stream", cuStreamDestroy(CU_STREAM_LEGACY), 400);
    is("destroy-null-event", cuEventDestroy(NULL), 400);
}

static void waiting(void)
{
    static char bytes[1 << 20];
    up_with_module();
    CUstream a = stream_make(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = must_alloc(sizeof bytes);
    function("spin");
    need(cuMemcpyHtoD(p, bytes, sizeof bytes), "warm up");
    is("spin", spin_ms(100, a), 0);
    CUdeviceptr q = must_alloc(100);
    still_runs("alloc-does-not-wait", cuStreamQuery(a));
    is("copy-on-default", cuMemcpyHtoD(p, bytes, sizeof bytes), 0);
    still_runs("copy-does-not-wait-for-non-blocking", cuStreamQuery(a));
    is("pageable-to-device-later", cuMemcpyHtoDAsync(p, bytes, 4096, a), 0);
    still_runs("returns-at-once", cuStreamQuery(a));
    is("free", cuMemFree(q), 0);
    is("free-waits", cuStreamQuery(a), 0);
    is("spin-again", spin_ms(50, a), 0);
    is("pageable-to-host-later", cuMemcpyDtoHAsync(bytes, p, sizeof bytes, a), 0);
    is("waits", cuStreamQuery(a), 0);
    is("spin-once-more", spin_ms(50, a), 0);
    is("unload", cuModuleUnload(module), 0);
    is("unload-waits", cuStreamQuery(a), 0);
    need(cuModuleLoadData(&module, kernels_text()), "cuModuleLoadData");
    CUstream b = stream_make(0);
    is("spin-for-destroy", spin_ms(60, b), 0);
    CUevent event = NULL;
    need(cuEventCreate(&event, 0), "cuEventCreate");
    is("record", cuEventRecord(event, b), 0);
    is("destroy-stream", cuStreamDestroy(b), 0);
    still_runs("destroy-does-not-wait", cuEventQuery(event));
    is("work-goes-on", cuEventSynchronize(event), 0);
}

static _Atomic int host_calls;
static _Atomic int host_order;

static void host_function(void *argument)
{
    host_order = host_order * 10 + *(int *)argument;
    host_calls++;
}

static void host_functions(void)
{
    static int one = 1, two = 2;
    up_with_module();
    CUstream a = stream_make(CU_STREAM_NON_BLOCKING);
    is("launch", cuLaunchHostFunc(a, host_function, &one), 0);
    is("spin", spin_ms(20, a), 0);
    is("launch-second", cuLaunchHostFunc(a, host_function, &two), 0);
    is("synchronise", cuStreamSynchronize(a), 0);
    is("calls", host_calls, 2);
    is("order", host_order, 12);
    is("null", cuLaunchHostFunc(a, NULL, &one), 1);
    is("spin-then-poll", spin_ms(20, a), 0);
    is("launch-third", cuLaunchHostFunc(a, host_function, &one), 0);
    for (int i = 0; i < 60000 && host_calls < 3; i++)
        usleep(1000);
    is("runs-though-nobody-asks", host_calls, 3);
}

static void launches(void)
{
    CUfunction found = NULL;
    up_with_module();
    CUfunction nothing = function("nothing");
    is("threads", cuLaunchKernel(nothing, 1, 1, 1, 4096, 1, 1, 0, NULL, NULL, NULL), 1);
    is("threads-product", cuLaunchKernel(nothing, 1, 1, 1, 64, 64, 1, 0, NULL, NULL, NULL), 1);
    is("block-z", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 65, 0, NULL, NULL, NULL), 1);
    is("shared", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 400000, NULL, NULL, NULL), 1);
    is("shared-not-opted-in", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 49153, NULL, NULL, NULL), 1);
    is("grid-zero", cuLaunchKernel(nothing, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 1);
    is("block-zero", cuLaunchKernel(nothing, 1, 1, 1, 0, 1, 1, 0, NULL, NULL, NULL), 1);
    is("grid-y", cuLaunchKernel(nothing, 1, 70000, 1, 1, 1, 1, 0, NULL, NULL, NULL), 1);
    is("null", cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 400);
    is("no-parameters", cuLaunchKernel(function("store"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 1);
    is("not-sticky", cuCtxSynchronize(), 0);
    is("good", cuLaunchKernel(nothing, 1, 1, 1, 1024, 1, 1, 49152, NULL, NULL, NULL), 0);
    is("missing", cuModuleGetFunction(&found, module, "nope"), 500);
    CUdeviceptr p = must_alloc(64);
    CUstream a = stream_make(0);
    is("store", store(p, a), 0);
    struct {
        CUdeviceptr address;
        unsigned value;
    } packed = {p, 5};
    size_t bytes = 12;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    is("packed", cuLaunchKernel(function("store"), 1, 1, 1, 1, 1, 1, 0, a, NULL, extra), 0);
    bytes = 16;
    is("packed-too-long", cuLaunchKernel(function("store"), 1, 1, 1, 1, 1, 1, 0, a, NULL, extra), 701);
    bytes = 8;
    is("packed-too-short", cuLaunchKernel(function("store"), 1, 1, 1, 1, 1, 1, 0, a, NULL, extra), 0);
    is("end", cuCtxSynchronize(), 0);
    is("unload", cuModuleUnload(module), 0);
    is("function-of-unloaded", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 400);
    is("unload-twice", cuModuleUnload(module), 400);
}

static void modules(void)
{
    CUdeviceptr address = 0;
    size_t bytes = 0, offset = 0;
    unsigned count = 0, table[4] = {0};
    int number = 0;
    CUmodule other = NULL;
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    CUfunction found = NULL;
    up_with_module();
    CUfunction many = function("many_parameters");
    is("constant", cuModuleGetGlobal(&address, &bytes, module, "table"), 0);
    is("constant-bytes", bytes, 16);
    is("constant-read", cuMemcpyDtoH(table, address, 16), 0);
    is("constant-content", table[3], 4);
    is("global-missing", cuModuleGetGlobal(&address, &bytes, module, "nope"), 500);
    is("global", cuModuleGetGlobal(&address, &bytes, module, "counter"), 0);
    is("global-bytes", bytes, 8);
    is("parameter-2", cuFuncGetParamInfo(many, 2, &offset, &bytes), 0);
    is("parameter-2-offset", offset, 16);
    is("parameter-2-bytes", bytes, 24);
    is("parameter-4", cuFuncGetParamInfo(many, 4, &offset, &bytes), 1);
    is("count", cuModuleGetFunctionCount(&count, module), 0);
    is("count-value", count, 7);
    is("threads", cuFuncGetAttribute(&number, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, many), 0);
    is("threads-value", number, 1024);
    is("attribute-bad", cuFuncGetAttribute(&number, (CUfunction_attribute)16, many), 1);
    is("shared-too-much", cuFuncSetAttribute(many, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 400000), 1);
    is("shared-opt-in", cuFuncSetAttribute(function("nothing"), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000),
       0);
    is("shared-opted-in", cuLaunchKernel(function("nothing"), 1, 1, 1, 1, 1, 1, 60000, NULL, NULL, NULL), 0);
    is("not-an-image", cuModuleLoadData(&other, "hello"), 200);
    is("empty-image", cuModuleLoadData(&other, ""), 200);
    is("newer-ptx", cuModuleLoadData(&other, ".version 99.0\n.target sm_75\n.address_size 64\n"), 222);
    is("no-such-target", cuModuleLoadData(&other, ".version 6.3\n.target sm_999\n.address_size 64\n"), 218);
    is("null-image", cuModuleLoadData(&other, NULL), 1);
    is("no-file", cuModuleLoad(&other, "/nonexistent/file"), 301);
    is("library", cuLibraryLoadData(&library, kernels_text(), NULL, NULL, 0, NULL, NULL, 0), 0);
    is("library-kernel", cuLibraryGetKernel(&kernel, library, "nothing"), 0);
    is("library-kernel-missing", cuLibraryGetKernel(&kernel, library, "nope"), 500);
    is("library-count", cuLibraryGetKernelCount(&count, library), 0);
    is("library-count-value", count, 7);
    is("kernel-function", cuKernelGetFunction(&found, kernel), 0);
    is("kernel-launch", cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 0);
    is("function-launch", cuLaunchKernel(found, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 0);
    is("library-unload", cuLibraryUnload(library), 0);
}

static unsigned long long pool_number(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    unsigned long long value = 0;
    cuMemPoolGetAttribute(pool, attribute, &value);
    return value;
}

static void pools(void)
{
    CUmemoryPool pool = NULL;
    CUdeviceptr a = 0, b = 0, c = 0;
    up();
    CUstream s = stream_make(CU_STREAM_NON_BLOCKING);
    is("default", cuDeviceGetDefaultMemPool(&pool, device), 0);
    is("reserved-none", pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    is("alloc", cuMemAllocAsync(&a, 100, s), 0);
    is("reserved-first", pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 32 * MIB);
    is("used-first", pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 100);
    is("alloc-32", cuMemAllocAsync(&b, 32 * MIB, s), 0);
    is("reserved-second", pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 64 * MIB);
    is("alloc-100", cuMemAllocAsync(&c, 100 * MIB, s), 0);
    is("reserved-third", pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 160 * MIB);
    is("free", cuMemFreeAsync(c, s), 0);
    is("synchronise", cuStreamSynchronize(s), 0);
    at_most("given-back", pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 96 * MIB);
    is("free-b", cuMemFreeAsync(b, s), 0);
    is("free-a", cuMemFreeAsync(a, s), 0);
    is("used-none", pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    is("free-twice", cuMemFreeAsync(a, s), 1);
    is("plain-free-of-freed", cuMemFree(a), 1);
    is("all", cuCtxSynchronize(), 0);
    is("all-given-back", pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    is("used-high", pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 100 + 132 * MIB);
    is("zero", cuMemAllocAsync(&a, 0, s), 0);
    is("huge", cuMemAllocAsync(&a, (size_t)1 << 45, s), 2);
    is("free-null", cuMemFreeAsync(0, s), 0);
    is("free-wild", cuMemFreeAsync(0x1234, s), 1);
    unsigned long long all = ~0ull;
    is("threshold", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all), 0);
    is("alloc-kept", cuMemAllocAsync(&a, 100 * MIB, s), 0);
    is("free-kept", cuMemFreeAsync(a, s), 0);
    is("all-again", cuCtxSynchronize(), 0);
    is("kept", pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 128 * MIB);
    is("trim", cuMemPoolTrimTo(pool, 0), 0);
    is("trimmed", pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    is("alloc-for-plain-free", cuMemAllocAsync(&a, MIB, s), 0);
    is("plain-free", cuMemFree(a), 0);
    a = must_alloc(MIB);
    is("async-free-of-plain", cuMemFreeAsync(a, s), 0);
    is("default-stays", cuMemPoolDestroy(pool), 1);
}

static void vmm(void)
{
    CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = wanted.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr p = 0;
    size_t granularity = 0;
    up();
    is("granularity", cuMemGetAllocationGranularity(&granularity, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM), 0);
    is("granularity-value", granularity, 2 * MIB);
    size_t before = free_bytes();
    is("create-odd", cuMemCreate(&handle, MIB, &wanted, 0), 1);
    is("create-zero", cuMemCreate(&handle, 0, &wanted, 0), 1);
    is("create", cuMemCreate(&handle, 4 * MIB, &wanted, 0), 0);
    is("takes", before - free_bytes(), 4 * MIB);
    is("reserve-odd", cuMemAddressReserve(&p, 1000, 0, 0, 0), 1);
    is("reserve", cuMemAddressReserve(&p, 8 * MIB, 0, 0, 0), 0);
    is("map", cuMemMap(p, 4 * MIB, 0, handle, 0), 0);
    is("map-twice", cuMemMap(p, 4 * MIB, 0, handle, 0), 1);
    is("no-access-yet", cuMemsetD8(p, 1, 100), 1);
    is("access", cuMemSetAccess(p, 4 * MIB, &access, 1), 0);
    is("fill", cuMemsetD8(p, 1, 100), 0);
    is("access-too-far", cuMemSetAccess(p, 8 * MIB, &access, 1), 1);
    is("release", cuMemRelease(handle), 0);
    is("held-while-mapped", before - free_bytes(), 4 * MIB);
    is("release-twice", cuMemRelease(handle), 1);
    is("unmap-part", cuMemUnmap(p, 2 * MIB), 1);
    is("plain-free", cuMemFree(p), 1);
    is("address-free-mapped", cuMemAddressFree(p, 8 * MIB), 1);
    is("unmap", cuMemUnmap(p, 4 * MIB), 0);
    is("given-back", free_bytes(), before);
    is("fill-unmapped", cuMemsetD8(p, 1, 100), 1);
    is("address-free", cuMemAddressFree(p, 8 * MIB), 0);
    is("huge", cuMemCreate(&handle, (size_t)1 << 45, &wanted, 0), 2);
}

static void capture(void)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUdeviceptr p = 0;
    size_t count = 0;
    unsigned char back[10] = {0};
    up_with_module();
    CUstream s = stream_make(CU_STREAM_NON_BLOCKING);
    CUfunction nothing = function("nothing");
    p = must_alloc(10);
    is("end-without-begin", cuStreamEndCapture(s, &graph), 401);
    is("default-stream", cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL), 900);
    is("begin", cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    is("launch", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL), 0);
    is("is-capturing", cuStreamIsCapturing(s, &status), 0);
    is("is-capturing-value", status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    is("query-breaks", cuStreamQuery(s), 900);
    is("broken", (cuStreamIsCapturing(s, &status), status), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    is("end-broken", cuStreamEndCapture(s, &graph), 901);
    is("begin-2", cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    CUdeviceptr q = 0;
    is("alloc-breaks", cuMemAlloc(&q, 10), 900);
    is("end-2", cuStreamEndCapture(s, &graph), 901);
    is("begin-3", cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
    is("launch-3", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL), 0);
    is("alloc-relaxed", cuMemAlloc(&q, 10), 0);
    is("fill-3", cuMemsetD8Async(p, 6, 10, s), 0);
    is("end-3", cuStreamEndCapture(s, &graph), 0);
    is("nodes", cuGraphGetNodes(graph, NULL, &count), 0);
    is("nodes-value", count, 2);
    is("instantiate", cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    is("has-not-run", (cuMemcpyDtoH(back, p, 10), back[9]) == 6, 0);
    is("graph-launch", cuGraphLaunch(exec, s), 0);
    is("synchronise", cuStreamSynchronize(s), 0);
    is("has-run", (cuMemcpyDtoH(back, p, 10), back[9]), 6);
    is("exec-destroy", cuGraphExecDestroy(exec), 0);
    is("graph-destroy", cuGraphDestroy(graph), 0);
    is("begin-4", cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    is("synchronise-breaks", cuCtxSynchronize(), 900);
    is("end-4", cuStreamEndCapture(s, &graph), 901);
}

/* Add a node that sets the byte at `p`. */
static CUgraphNode fill_node(CUgraph graph, CUdeviceptr p, unsigned char value)
{
    CUDA_MEMSET_NODE_PARAMS params = {.dst = p, .value = value, .elementSize = 1, .width = 1, .height = 1};
    CUgraphNode node = NULL;
    need(cuGraphAddMemsetNode(&node, graph, NULL, 0, &params, context), "cuGraphAddMemsetNode");
    return node;
}

/* Run a graph and return the byte at `p`. */
static unsigned char byte_after(CUgraph graph, CUdeviceptr p)
{
    CUgraphExec exec = NULL;
    unsigned char back = 0;
    need(cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiateWithFlags");
    need(cuGraphLaunch(exec, NULL), "cuGraphLaunch");
    need(cuMemcpyDtoH(&back, p, 1), "cuMemcpyDtoH");
    need(cuGraphExecDestroy(exec), "cuGraphExecDestroy");
    return back;
}

/* A node may depend on a node that was added after it. Copies of the graph must keep this dependency. */
static void graph_order(void)
{
    CUgraph graph = NULL, clone = NULL, parent = NULL;
    CUgraphNode child = NULL;
    up();
    CUdeviceptr p = must_alloc(1);
    is("create", cuGraphCreate(&graph, 0), 0);
    CUgraphNode last = fill_node(graph, p, 1);
    CUgraphNode middle = fill_node(graph, p, 2);
    CUgraphNode first = fill_node(graph, p, 3);
    const CUgraphNode from[] = {first, middle}, to[] = {middle, last};
    is("add-dependencies", cuGraphAddDependencies(graph, from, to, 2), 0);
    is("clone", cuGraphClone(&clone, graph), 0);
    is("create-parent", cuGraphCreate(&parent, 0), 0);
    is("add-child", cuGraphAddChildGraphNode(&child, parent, NULL, 0, graph), 0);
    is("original", byte_after(graph, p), 1);
    is("clone-value", byte_after(clone, p), 1);
    is("child-value", byte_after(parent, p), 1);
}

static void resolver(void)
{
    void *fn = NULL;
    void *fn_old = NULL;
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)9;
    int version = 0;
    need(cuInit(0), "cuInit");
    need(cuDriverGetVersion(&version), "cuDriverGetVersion");
    is("found", cuGetProcAddress("cuMemAlloc", &fn, 12000, 0, &status), 0);
    is("found-status", status, 0);
    is("found-newest", fn == (void *)cuMemAlloc, 1);
    is("old", cuGetProcAddress("cuMemAlloc", &fn_old, 3010, 0, &status), 0);
    is("old-differs", fn_old != fn, 1);
    fn = &fn;
    is("unknown", cuGetProcAddress("cuNoSuchThing", &fn, 12000, 0, &status), 0);
    is("unknown-null", fn == NULL, 1);
    is("unknown-status", status, 1);
    is("too-old", cuGetProcAddress("cuMemAllocAsync", &fn, 10000, 0, &status), 0);
    is("too-old-null", fn == NULL, 1);
    is("too-old-status", status, 2);
    is("newer-than-driver", cuGetProcAddress("cuMemAlloc", &fn, version + 1000, 0, &status), 1);
    is("flags-bad", cuGetProcAddress("cuMemAlloc", &fn, 12000, 7, &status), 1);
    is("per-thread", cuGetProcAddress("cuLaunchKernel", &fn, 12000, 2, &status), 0);
    is("legacy", cuGetProcAddress("cuLaunchKernel", &fn_old, 12000, 1, &status), 0);
    is("per-thread-differs", fn != fn_old, 1);
}

/* Run the checks that apply to every sticky fault. `launched` is the result of launching the faulty kernel, which is
 * queued behind a slow kernel. `code` is the error that it causes. */
static void after_fault(CUresult launched, int code)
{
    CUdeviceptr p = 0;
    CUcontext other = NULL;
    CUstream stream = NULL;
    CUevent event = NULL;
    size_t a = 0, b = 0;
    int number = 0;
    is("launch", launched, 0);
    CUresult behind = cuMemAlloc(&p, MIB);
    if (behind != 0 && now_ms() >= runs_until_ms)
        _exit(TOO_SLOW);
    is("alloc-behind-it", behind, 0);
    is("synchronise", cuCtxSynchronize(), code);
    is("synchronise-again", cuCtxSynchronize(), code);
    is("alloc", cuMemAlloc(&p, 10), code);
    is("free", cuMemFree(p), code);
    is("info", cuMemGetInfo(&a, &b), code);
    is("stream-create", cuStreamCreate(&stream, 0), code);
    is("stream-query", cuStreamQuery(NULL), code);
    is("event-create", cuEventCreate(&event, 0), code);
    is("copy", cuMemcpyDtoH(&number, p, 4), code);
    is("unload", cuModuleUnload(module), code);
    is("device-count", cuDeviceGetCount(&number), 0);
    is("current", cuCtxGetCurrent(&other), 0);
    is("init", cuInit(0), 0);
    is("new-context", cuCtxCreate(&other, 0, device), code);
    is("reset", cuDevicePrimaryCtxReset(device), 0);
    is("alloc-after-reset", cuMemAlloc(&p, 10), 709);
    is("retain-after-reset", cuDevicePrimaryCtxRetain(&other, device), code);
    is("alloc-still", cuMemAlloc(&p, 10), 709);
    is("synchronise-after-reset", cuCtxSynchronize(), 709);
}

static void illegal_address(void)
{
    up_with_module();
    CUstream stream = stream_make(CU_STREAM_NON_BLOCKING);
    need(spin_ms(20, stream), "spin");
    after_fault(store(0xdead0000, stream), 700);
}

static void misaligned(void)
{
    up_with_module();
    CUdeviceptr p = must_alloc(64);
    void *params[] = {&p};
    need(spin_ms(20, NULL), "spin");
    after_fault(launch("misaligned", NULL, params), 716);
}

static void trap(void)
{
    up_with_module();
    need(spin_ms(20, NULL), "spin");
    after_fault(launch("trapping", NULL, NULL), 719);
}

static void assertion(void)
{
    up_with_module();
    char text[4096] = "";
    int saved = dup(STDERR_FILENO);
    int file = memfd_create("stderr", 0);
    dup2(file, STDERR_FILENO);
    need(spin_ms(20, NULL), "spin");
    after_fault(launch("asserting", NULL, NULL), 710);
    dup2(saved, STDERR_FILENO);
    if (pread(file, text, sizeof text - 1, 0) < 0)
        text[0] = '\0';
    is("text",
       strstr(text, "kernel.cu:42: asserting: block: [0,0,0], thread: [0,0,0] Assertion `i < n` failed.") != NULL, 1);
}

static void null_in_kernel(void)
{
    up_with_module();
    is("launch", store(0, NULL), 0);
    is("synchronise", cuCtxSynchronize(), 700);
}

static void freed_in_kernel(void)
{
    up_with_module();
    CUdeviceptr small = must_alloc(512);
    must_alloc(512);
    CUdeviceptr large = must_alloc(4 * MIB);
    is("free-small", cuMemFree(small), 0);
    is("store-small", store(small, NULL), 0);
    is("shared-page-is-still-there", cuCtxSynchronize(), 0);
    is("free-large", cuMemFree(large), 0);
    is("store-large", store(large, NULL), 0);
    is("own-pages-are-not", cuCtxSynchronize(), 700);
}

/* Synchronise repeatedly until an error is reported, for at most `seconds`. A GPU may report a fault only a moment
 * after the kernel has ended and the first synchronisation has returned. */
static CUresult synchronise_for(double seconds)
{
    CUresult result = cuCtxSynchronize();
    for (int i = 0; result == 0 && i < seconds * 1000; i++) {
        usleep(1000);
        result = cuCtxSynchronize();
    }
    return result;
}

static void reset(void)
{
    CUcontext again = NULL;
    CUdeviceptr q = 0;
    char bytes[16];
    up_with_module();
    CUfunction nothing = function("nothing");
    CUdeviceptr p = must_alloc(4 * MIB);
    is("reset", cuDevicePrimaryCtxReset(device), 0);
    is("alloc", cuMemAlloc(&q, 10), 709);
    is("synchronise", cuCtxSynchronize(), 709);
    is("retain", cuDevicePrimaryCtxRetain(&again, device), 0);
    is("same-handle", again == context, 1);
    is("alive-again", cuMemAlloc(&q, 10), 0);
    is("old-pointer-freed", cuMemFree(p), 1);
    is("old-pointer-copied", cuMemcpyDtoH(bytes, p, 16), 1);
    is("old-function", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 400);
    need(cuModuleLoadData(&module, kernels_text()), "cuModuleLoadData");
    is("old-pointer-in-kernel", store(p, NULL), 0);
    is("synchronise-after", synchronise_for(2), 700);
    is("for-ever", cuMemAlloc(&q, 10), 700);
}

/* In a forked child, nearly all calls must be refused. The exit status of the child is the result of its checks. */
static void after_fork(void)
{
    int status = 0, number = 0;
    CUcontext current = NULL;
    void *fn = NULL;
    up();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        bool ok = cuInit(0) == 3 && cuDeviceGetCount(&number) == 3 && cuCtxGetCurrent(&current) == 3 &&
                  cuDriverGetVersion(&number) == 0 && cuGetProcAddress("cuInit", &fn, 12000, 0, NULL) == 0;
        _exit(ok ? 0 : 1);
    }
    waitpid(child, &status, 0);
    is("child-is-refused", status, 0);
    is("parent-goes-on", cuCtxSynchronize(), 0);
}

static void host_reads_device_memory(void)
{
    int status = 0;
    up();
    CUdeviceptr p = must_alloc(100);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*(volatile unsigned char *)(uintptr_t)p & 0);
    }
    waitpid(child, &status, 0);
    is("signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0, SIGSEGV);
}

static char log_text[4096];

static void log_line(void *data, CUlogLevel level, char *message, size_t length)
{
    (void)data;
    (void)level;
    size_t used = strlen(log_text);
    if (used + length + 2 < sizeof log_text) {
        memcpy(log_text + used, message, length);
        log_text[used + length] = '\n';
        log_text[used + length + 1] = '\0';
    }
}

enum { CALLBACKS = 20 };
static char log_order[CALLBACKS + 1];

static void log_letter(void *letter, CUlogLevel level, char *message, size_t length)
{
    (void)level;
    (void)length;
    if (strncmp(message, "Returning 2 ", 12) == 0)
        strncat(log_order, letter, 1);
}

/* Every callback that is registered is called, in the order in which they were registered. */
static void many_log_callbacks(void)
{
    static char letters[] = "abcdefghijklmnopqrst";
    CUlogsCallbackHandle handles[CALLBACKS];
    CUdeviceptr p = 0;
    bool registered = true;
    for (int i = 0; i < CALLBACKS; i++)
        registered = cuLogsRegisterCallback(log_letter, &letters[i], &handles[i]) == 0 && registered;
    is("register-many", registered, 1);
    is("unregister-one", cuLogsUnregisterCallback(handles[4]), 0);
    is("alloc-many", cuMemAlloc(&p, (size_t)1 << 50), 2);
    is("all-called", strcmp(log_order, "abcdfghijklmnopqrst"), 0);
}

static void logs(void)
{
    CUlogsCallbackHandle handle = NULL;
    CUdeviceptr p = 0;
    char dumped[4096] = "";
    size_t bytes = sizeof dumped;
    up();
    is("register", cuLogsRegisterCallback(log_line, NULL, &handle), 0);
    is("alloc", cuMemAlloc(&p, (size_t)1 << 50), 2);
    is("line", strstr(log_text, "Returning 2 (CUDA_ERROR_OUT_OF_MEMORY) from cuMemAlloc_v2\n") != NULL, 1);
    is("unregister", cuLogsUnregisterCallback(handle), 0);
    is("dump", cuLogsDumpToMemory(NULL, dumped, &bytes, 0), 0);
    is("dumped", strstr(dumped, "CUDA_ERROR_OUT_OF_MEMORY") != NULL, 1);
    many_log_callbacks();
}

/* About a thousand launches fit in the queue behind a running kernel. One more launch waits until the kernel has
 * ended. */
static void queue_depth(void)
{
    up_with_module();
    CUstream s = stream_make(CU_STREAM_NON_BLOCKING);
    function("nothing");
    double before = now_ms();
    is("spin", spin_ms(400, s), 0);
    for (int i = 0; i < 900; i++)
        cuLaunchKernel(function("nothing"), 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL);
    still_runs("900-fit", cuStreamQuery(s));
    for (int i = 0; i < 200; i++)
        cuLaunchKernel(function("nothing"), 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL);
    at_least("1100-wait-ms", now_ms() - before, 380);
    is("end", cuStreamSynchronize(s), 0);
}

/* --- running them --------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(void);
} groups[] = {
    {"before-init", before_init},
    {"no-context", no_context},
    {"devices", devices},
    {"contexts", contexts},
    {"retains", retains},
    {"memory", memory},
    {"pages", pages},
    {"fragmentation", fragmentation},
    {"objects-cost", objects_cost},
    {"host-memory", host_memory},
    {"managed", managed},
    {"pitched-and-arrays", pitched_and_arrays},
    {"order", order},
    {"waiting", waiting},
    {"host-functions", host_functions},
    {"launches", launches},
    {"modules", modules},
    {"pools", pools},
    {"vmm", vmm},
    {"capture", capture},
    {"graph-order", graph_order},
    {"resolver", resolver},
    {"illegal-address", illegal_address},
    {"misaligned", misaligned},
    {"trap", trap},
    {"assertion", assertion},
    {"null-in-kernel", null_in_kernel},
    {"freed-in-kernel", freed_in_kernel},
    {"reset", reset},
    {"after-fork", after_fork},
    {"host-reads-device-memory", host_reads_device_memory},
    {"logs", logs},
    {"queue-depth", queue_depth},
};
enum { GROUP_COUNT = sizeof groups / sizeof *groups };

static int run_group(const char *name)
{
    for (int i = 0; i < GROUP_COUNT; i++)
        if (strcmp(groups[i].name, name) == 0) {
            group_name = groups[i].name;
            setvbuf(stdout, NULL, _IOLBF, 0);
            groups[i].run();
            fflush(stdout);
            _exit(failed_count > 0);
        }
    fprintf(stderr, "conformance: no group \"%s\"\n", name);
    return 2;
}

/* Run a group in a new process. Returns its output, which the caller frees. */
static char *output_of(const char *name, int *ret_status)
{
    int pipe_fds[2];
    char part[512], slow[16], *text = NULL;
    size_t bytes;
    snprintf(slow, sizeof slow, "%u", slowness);
    fflush(stdout);
    if (pipe(pipe_fds) != 0)
        exit(2);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipe_fds[1], STDOUT_FILENO);
        close(pipe_fds[0]);
        close(pipe_fds[1]);
        alarm(240);
        execl("/proc/self/exe", "conformance", "--group", name, "--slowness", slow,
              light ? "--card-memory-light" : (char *)NULL, (char *)NULL);
        _exit(127);
    }
    close(pipe_fds[1]);
    FILE *lines = open_memstream(&text, &bytes);
    if (lines == NULL)
        exit(2);
    for (ssize_t got; (got = read(pipe_fds[0], part, sizeof part)) > 0;)
        fwrite(part, 1, (size_t)got, lines);
    close(pipe_fds[0]);
    if (fclose(lines) != 0)
        exit(2);
    waitpid(child, ret_status, 0);
    return text;
}

/* Run a group in a new process, print its output and count the results. If kernels ended before the test could query
 * them, repeat the group with longer kernels. */
static void run_fresh(const char *name, unsigned *ok_count, unsigned *bad_count)
{
    int status = 0;
    slowness = 1;
    char *text = output_of(name, &status);
    while (WIFEXITED(status) && WEXITSTATUS(status) == TOO_SLOW && slowness < SLOWNESS_MAX) {
        free(text);
        slowness *= 2;
        text = output_of(name, &status);
    }
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        puts(line);
        *ok_count += strncmp(line, "ok ", 3) == 0;
        *bad_count += strncmp(line, "not ok ", 7) == 0;
    }
    free(text);
    if (WIFSIGNALED(status) || WEXITSTATUS(status) > 1) {
        printf("not ok %s.end got %s %d want an exit\n", name, WIFSIGNALED(status) ? "signal" : "status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        (*bad_count)++;
    }
}

int main(int argc, char **argv)
{
    unsigned ok_count = 0, bad_count = 0;
    const char *group = NULL;
    const char *only[GROUP_COUNT];
    int only_count = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--card-memory-light") == 0)
            light = true;
        else if (strcmp(argv[i], "--group") == 0 && i + 1 < argc)
            group = argv[++i];
        else if (strcmp(argv[i], "--slowness") == 0 && i + 1 < argc)
            slowness = (unsigned)atoi(argv[++i]);
        else if (only_count < GROUP_COUNT)
            only[only_count++] = argv[i];
    }
    if (group != NULL)
        return run_group(group);
    for (int i = 0; i < GROUP_COUNT; i++) {
        bool wanted = only_count == 0;
        for (int k = 0; k < only_count; k++)
            wanted |= strcmp(only[k], groups[i].name) == 0;
        if (wanted)
            run_fresh(groups[i].name, &ok_count, &bad_count);
    }
    printf("%u ok, %u not ok\n", ok_count, bad_count);
    return bad_count > 0 || ok_count == 0;
}
