/* Test what the hook must not do: call a driver that must not be called, wait for the program's locks, read invalid
 * memory, or count wrongly. Each part runs in its own process, with one fake driver. Usage: harm_test [PART] */
#include "gw_api.h"
#include "gw_cuda_calls.h"
#include "gw_facade.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "check.h"
#include "walk.h"

static char base_dir[200];
static walk seen;

/* ---- the driver ---- */

typedef void set_result_fn(const char *, int);
typedef void set_visitor_fn(void (*)(const char *));
typedef long count_fn(void);

static void *facade, *driver;
static char run_dir[256];

/* OURS: a function of the facade. FAKE: one that only the fake driver has. */
#define OURS(name)       ((__typeof__(name) *)sym(facade, #name))
#define FAKE(type, name) ((type *)sym(driver, name))

static void *sym(void *library, const char *name)
{
    void *function = dlsym(library, name);
    if (function == NULL) {
        printf("FAILED no %s\n", name);
        exit(1);
    }
    return function;
}

static void open_both(void)
{
    static const char driver_path[] = FAKES "/fake_same/libcuda.so.1";
    char dir[256], path[300];
    gw_error err;
    snprintf(dir, sizeof dir, "%s/facade", base_dir);
    if (gw_facade_write(driver_path, HOOK, dir, &err) != GW_OK) {
        printf("FAILED %s\n", err.text);
        exit(1);
    }
    snprintf(run_dir, sizeof run_dir, "%s/run-%ld", base_dir, (long)getpid());
    mkdir(run_dir, 0700);
    setenv("GPUWHY_RUN_DIR", run_dir, 1);
    setenv("GPUWHY_ATTACH", "0", 1);
    snprintf(path, sizeof path, "%s/libcuda.so.1", dir);
    facade = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    driver = dlopen(driver_path, RTLD_NOW | RTLD_LOCAL);
    if (facade == NULL || driver == NULL) {
        printf("FAILED dlopen: %s\n", dlerror());
        exit(1);
    }
}

static void begin(void)
{
    CUcontext context = NULL;
    open_both();
    CHECK(OURS(cuInit)(0) == 0, "cuInit");
    CHECK(OURS(cuDevicePrimaryCtxRetain)(&context, 0) == 0, "retain");
    CHECK(OURS(cuCtxSetCurrent)(context) == 0, "set");
}

static void look(void)
{
    char path[512];
    CHECK(walk_find(run_dir, 0, path, sizeof path) && walk_map(&seen, walk_open(path)), "buffer: %s", seen.fault);
}

static uint64_t free_mib(void)
{
    size_t free_bytes = 0, total = 0;
    CHECK(OURS(cuMemGetInfo_v2)(&free_bytes, &total) == 0, "cuMemGetInfo_v2");
    return free_bytes >> 20;
}

/* ---- parts ---- */

/* Make one allocation that returns `result`. Returns how many calls the driver received: more than one if the hook
 * called it. */
static long calls_for(int result)
{
    CUdeviceptr address = 0;
    count_fn *count = FAKE(count_fn, "fake_call_count");
    FAKE(set_result_fn, "fake_set_result")("cuMemAlloc_v2", result);
    long before = count();
    int answer = OURS(cuMemAlloc_v2)(&address, 4096);
    CHECK(answer == result, "%d", answer);
    return count() - before;
}

/* After a failed call, the hook must not call a driver that is not initialised, is being unloaded, or is running a host
 * function. */
static void part_quiet(void)
{
    begin();
    CHECK(calls_for(4) == 1, "after DEINITIALIZED");
    CHECK(calls_for(3) == 1, "after NOT_INITIALIZED");
    CHECK(calls_for(800) == 1, "after NOT_PERMITTED");
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    /* in a child, the hook must not call the driver, whose locks may be held by threads of the parent */
    if (child == 0) {
        failed_checks = 0;
        CHECK(calls_for(3) == 1, "in a child");
        CHECK(calls_for(1) == 1, "in a child");
        fflush(stdout);
        _exit(failed_checks != 0);
    }
    waitpid(child, &status, 0);
    CHECK(status == 0, "%x", status);
    CHECK(calls_for(2) > 1, "the memory and the log were not asked for");
}

static void part_names(void)
{
    enum { TIMES = 500 };
    CUfunction function;
    int named = 0;
    begin();
    __typeof__(cuModuleGetFunction) *get = OURS(cuModuleGetFunction);
    for (int i = 0; i < TIMES; i++)
        CHECK(get(&function, NULL, "missing") == 500, "missing");
    FAKE(set_result_fn, "fake_set_result")("cuModuleGetFunction", 400);
    CHECK(get(&function, NULL, (const char *)0x10) == 400, "a name that the driver has not read");
    look();
    for (int i = 0; i < seen.event_count; i++)
        named += seen.event[i].raw.kind == GW_EV_FUNCTION && seen.event[i].raw.result == 500 &&
                 strcmp(seen.event[i].text, "missing") == 0;
    CHECK(named >= 64 && named < TIMES, "%d", named);
    CHECK(seen.counter[GW_COUNT_NOT_FOUND] == TIMES, "%llu", (unsigned long long)seen.counter[GW_COUNT_NOT_FOUND]);
    CHECK(atomic_load(&seen.head->failures) == 1, "%u", atomic_load(&seen.head->failures));
}

/* The first context alone needs more than the memory limit. Calls that use no GPU memory still work. */
static void part_guard_zero(void)
{
    const CUmemAllocationProp host = {.type = 1, .location = {.type = CU_MEM_LOCATION_TYPE_HOST, .id = 0}};
    CUcontext again = NULL;
    CUdeviceptr handle = 0, address = 0;
    setenv("GPUWHY_MEMORY", "33554432", 1);
    begin();
    CHECK(free_mib() == 0, "%llu MiB", (unsigned long long)free_mib());
    CHECK(OURS(cuMemAlloc_v2)(&address, 1 << 20) == 2, "more than there is");
    CHECK(address == 0, "an output was written");
    CHECK(OURS(cuDevicePrimaryCtxRetain)(&again, 0) == 0, "the context is there already");
    CHECK(OURS(cuMemCreate)(&handle, 2 << 20, &host, 0) == 0, "host memory");
    CHECK(OURS(cuMemAlloc_v2)(&address, 0) == 1, "the driver says what is wrong");
}

/* The program allocates at far more addresses than the guard has rows, but only a few blocks exist at a time. */
static void part_guard_churn(void)
{
    enum { TIMES = 400000, KEPT = 10 };
    setenv("GPUWHY_MEMORY", "536870912", 1);
    begin();
    __typeof__(cuMemAllocPitch_v2) *alloc = OURS(cuMemAllocPitch_v2);
    __typeof__(cuMemFreeAsync) *give_back = OURS(cuMemFreeAsync);
    uint64_t before_mib = free_mib();
    CUdeviceptr address = 0;
    size_t pitch = 2 << 20;
    for (uint64_t i = 1; i <= TIMES; i++) {
        address = i << 21; /* the fake driver returns this address and this pitch */
        if (alloc(&address, &pitch, 2 << 20, 1, 4) != 0 || give_back(address, NULL) != 0)
            CHECK(false, "%llu", (unsigned long long)i);
    }
    CHECK(free_mib() == before_mib, "%llu MiB", (unsigned long long)free_mib());
    for (uint64_t i = 1; i <= KEPT; i++) {
        address = (TIMES + i) << 21;
        CHECK(alloc(&address, &pitch, 2 << 20, 1, 4) == 0, "%llu", (unsigned long long)i);
    }
    CHECK(free_mib() == before_mib - 2 * KEPT, "%llu of %llu MiB", (unsigned long long)free_mib(),
          (unsigned long long)before_mib);
}

/* More small blocks live at once than the guard's first table has rows. They share pages, and a page counts until its
 * last block is freed. */
static void part_guard_many(void)
{
    enum { BLOCKS = 40000, BLOCK_BYTES = 512, BEGIN = 64 << 21 };
    const uint64_t pages_mib = (((uint64_t)BLOCKS * BLOCK_BYTES + (2 << 20) - 1) >> 21) * 2;
    setenv("GPUWHY_MEMORY", "536870912", 1);
    begin();
    __typeof__(cuMemAllocPitch_v2) *alloc = OURS(cuMemAllocPitch_v2);
    __typeof__(cuMemFreeAsync) *give_back = OURS(cuMemFreeAsync);
    uint64_t before_mib = free_mib();
    size_t pitch = BLOCK_BYTES;
    for (uint64_t i = 0; i < BLOCKS; i++) {
        CUdeviceptr address = BEGIN + i * BLOCK_BYTES;
        CHECK(alloc(&address, &pitch, BLOCK_BYTES, 1, 4) == 0, "%llu", (unsigned long long)i);
    }
    CHECK(free_mib() == before_mib - pages_mib, "%llu of %llu MiB", (unsigned long long)free_mib(),
          (unsigned long long)before_mib);
    for (uint64_t i = 0; i < BLOCKS; i += 2)
        CHECK(give_back(BEGIN + i * BLOCK_BYTES, NULL) == 0, "%llu", (unsigned long long)i);
    CHECK(free_mib() == before_mib - pages_mib, "%llu MiB with half of the blocks", (unsigned long long)free_mib());
    for (uint64_t i = 1; i < BLOCKS; i += 2)
        CHECK(give_back(BEGIN + i * BLOCK_BYTES, NULL) == 0, "%llu", (unsigned long long)i);
    CHECK(free_mib() == before_mib, "%llu MiB at the end", (unsigned long long)free_mib());
}

/* Allocate blocks until one is refused, and free them. Returns the MiB that there were. */
static uint64_t fill(uint64_t block_mib)
{
    enum { BLOCKS_MAX = 400 };
    static uint64_t next = 1;
    uint64_t count = 0;
    CUdeviceptr block[BLOCKS_MAX];
    __typeof__(cuMemAllocPitch_v2) *alloc = OURS(cuMemAllocPitch_v2);
    __typeof__(cuMemFreeAsync) *give_back = OURS(cuMemFreeAsync);
    size_t pitch = block_mib << 20;
    for (; count < BLOCKS_MAX; count++) {
        block[count] = next++ << 30; /* the fake driver returns this address and this pitch */
        if (alloc(&block[count], &pitch, block_mib << 20, 1, 4) != 0)
            break;
    }
    uint64_t left_mib = free_mib(), granted_mib = count * block_mib;
    CHECK(count < BLOCKS_MAX && left_mib < block_mib, "%llu blocks, %llu MiB left", (unsigned long long)count,
          (unsigned long long)left_mib);
    while (count-- > 0)
        CHECK(give_back(block[count], NULL) == 0, "%llu", (unsigned long long)count);
    return granted_mib + left_mib;
}

/* Small requests far from the limit are not counted before the call, but they never pass the limit. */
static void part_guard_small(void)
{
    setenv("GPUWHY_MEMORY", "3221225472", 1);
    begin();
    uint64_t by_large = fill(62), by_small = fill(14), again = fill(62);
    CHECK(by_small == by_large && again == by_large, "%llu, %llu and %llu MiB", (unsigned long long)by_large,
          (unsigned long long)by_small, (unsigned long long)again);
}

/* One call may unmap several mappings. Its range may also contain an address where the guard has recorded no
 * mapping. */
static void part_guard_unmap(void)
{
    enum { BLOCK = 2 << 20 };
    const CUmemAllocationProp prop = {.type = 1, .location = {.type = 1, .id = 0}};
    const uint64_t base = 0x20000000;
    setenv("GPUWHY_MEMORY", "536870912", 1);
    begin();
    uint64_t before_mib = free_mib();
    for (uint64_t i = 0; i < 8; i++) {
        CUmemGenericAllocationHandle handle = 0;
        CHECK(OURS(cuMemCreate)(&handle, BLOCK, &prop, 0) == 0, "create");
        /* skip the fifth address, as if other memory were mapped there */
        CHECK(OURS(cuMemMap)(base + (i < 4 ? i : i + 1) * BLOCK, BLOCK, 0, handle, 0) == 0, "map");
        CHECK(OURS(cuMemRelease)(handle) == 0, "release");
    }
    CHECK(free_mib() == before_mib - 16, "%llu MiB", (unsigned long long)free_mib());
    CHECK(OURS(cuMemUnmap)(base, 2 * BLOCK) == 0, "unmap");
    CHECK(free_mib() == before_mib - 12, "%llu MiB", (unsigned long long)free_mib());
    CHECK(OURS(cuMemUnmap)(base + 2 * BLOCK, 6 * BLOCK) == 0, "unmap");
    CHECK(free_mib() == before_mib - 2, "%llu MiB", (unsigned long long)free_mib());
}

static CUcontext plain_context(CUresult result)
{
    CUcontext context = NULL;
    CHECK(OURS(cuCtxCreate_v2)(&context, 0, 0) == result, "cuCtxCreate_v2");
    return context;
}

static void retain(CUresult result)
{
    CUcontext context = NULL;
    CHECK(OURS(cuDevicePrimaryCtxRetain)(&context, 0) == result, "cuDevicePrimaryCtxRetain");
}

static void release(void)
{
    CHECK(OURS(cuDevicePrimaryCtxRelease_v2)(0) == 0, "cuDevicePrimaryCtxRelease_v2");
}

static void green_context(CUgreenCtx context) /* the fake driver returns this handle */
{
    CHECK(OURS(cuGreenCtxCreate)(&context, NULL, 0, 1) == 0, "cuGreenCtxCreate");
}

static void expect_free_mib(uint64_t mib, const char *when)
{
    uint64_t left = free_mib();
    CHECK(left == mib, "%s: %llu MiB", when, (unsigned long long)left);
}

/* Each context uses memory until it is destroyed, here 64 MiB. A green context uses the primary context. A reset does
 * not change the primary context's reference count. Real cards behave in the same way. */
static void part_guard_contexts(void)
{
    const CUgreenCtx green[] = {(CUgreenCtx)(uintptr_t)0x66, (CUgreenCtx)(uintptr_t)0x67};
    setenv("GPUWHY_MEMORY", "536870912", 1);
    open_both();
    CHECK(OURS(cuInit)(0) == 0, "cuInit");
    CUcontext context = plain_context(0);
    CHECK(OURS(cuCtxSetCurrent)(context) == 0, "set");
    expect_free_mib(448, "plain");
    retain(0);
    expect_free_mib(384, "plain and primary");
    retain(0);
    expect_free_mib(384, "retained twice");
    release();
    expect_free_mib(384, "released once");
    release();
    expect_free_mib(448, "released twice");
    retain(0);
    expect_free_mib(384, "retained again");
    CHECK(OURS(cuDevicePrimaryCtxReset_v2)(0) == 0, "reset");
    expect_free_mib(448, "reset");
    retain(0);
    release();
    expect_free_mib(384, "retained before and after the reset, released once");
    release();
    expect_free_mib(448, "released twice");
    CHECK(OURS(cuCtxDestroy_v2)(context) == 0, "destroy");
    expect_free_mib(512, "no context");
    green_context(green[0]);
    green_context(green[1]);
    expect_free_mib(448, "two green contexts");
    retain(0);
    release();
    expect_free_mib(448, "the green contexts still use the primary context");
    CHECK(OURS(cuGreenCtxDestroy)(green[0]) == 0, "destroy");
    expect_free_mib(448, "one green context");
    CHECK(OURS(cuGreenCtxDestroy)(green[1]) == 0, "destroy");
    expect_free_mib(512, "no context");
}

/* The limit is 160 MiB, and each context uses 64 MiB, so two contexts fit, and a third one is refused. */
static void part_guard_third_context(void)
{
    setenv("GPUWHY_MEMORY", "167772160", 1);
    open_both();
    CHECK(OURS(cuInit)(0) == 0, "cuInit");
    (void)plain_context(0);
    CUcontext second = plain_context(0);
    CHECK(OURS(cuCtxSetCurrent)(second) == 0, "set");
    expect_free_mib(32, "two contexts");
    retain(2);
    expect_free_mib(32, "refused");
    CHECK(OURS(cuCtxDestroy_v2)(second) == 0, "destroy");
    retain(0);
    retain(0);
    green_context((CUgreenCtx)(uintptr_t)0x66);
    expect_free_mib(32, "plain and primary");
    (void)plain_context(2);
}

/* A context made from a green context has no device, so nothing is reported for device 0. */
static void part_green(void)
{
    CUcontext context = (CUcontext)(uintptr_t)0x77;
    open_both();
    CHECK(OURS(cuInit)(0) == 0, "cuInit");
    CHECK(OURS(cuCtxFromGreenCtx)(&context, (CUgreenCtx)0x66) == 0, "from green");
    look();
    CHECK(walk_event_count(&seen, GW_EV_CTX_CREATE) == 1, "%d contexts", walk_event_count(&seen, GW_EV_CTX_CREATE));
    CHECK(walk_event_count(&seen, GW_EV_DEVICE) == 0, "%d devices", walk_event_count(&seen, GW_EV_DEVICE));
}

static void *take_the_address(void *unused)
{
    CUdeviceptr address = 0;
    (void)unused;
    CHECK(OURS(cuMemAlloc_v2)(&address, 54321) == 0, "alloc");
    return NULL;
}

/* Called inside each call of the driver. Another thread may get the address that cuMemFree_v2 frees before that call
 * returns. Its allocation must be recorded after the free. */
static void during_free(const char *name)
{
    pthread_t thread;
    if (strcmp(name, "cuMemFree_v2") == 0 && pthread_create(&thread, NULL, take_the_address, NULL) == 0)
        pthread_join(thread, NULL);
}

static void part_order(void)
{
    CUdeviceptr address = 0;
    uint64_t freed = 0, taken = 0;
    begin();
    CHECK(OURS(cuMemAlloc_v2)(&address, 4096) == 0, "alloc");
    FAKE(set_visitor_fn, "fake_set_visitor")(during_free);
    CHECK(OURS(cuMemFree_v2)(address) == 0, "free");
    FAKE(set_visitor_fn, "fake_set_visitor")(NULL);
    look();
    for (int i = 0; i < seen.event_count; i++) {
        const gw_raw_event *raw = &seen.event[i].raw;
        if (raw->kind == GW_EV_FREE)
            freed = raw->ticks;
        else if (raw->kind == GW_EV_ALLOC && raw->arg[1] == 54321)
            taken = raw->ticks;
    }
    CHECK(freed != 0 && taken != 0 && freed < taken, "freed at %llu, taken at %llu", (unsigned long long)freed,
          (unsigned long long)taken);
}

/* ---- the loader's lock ---- */

#ifndef SANITIZED
static _Atomic int watch, asking, constructing;
/* cuDriverGetVersion() of the facade, which does not yet know the function of the driver */
static __typeof__(cuDriverGetVersion) *get_version;

/* Replaces dlsym() for the hook. The lookup of cuMemFree_v2 waits until another thread holds the loader's lock, which
 * the lookup needs, too. */
void *dlsym(void *restrict handle, const char *restrict name)
{
    static void *(*real)(void *, const char *);
    if (real == NULL) {
        *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
        if (real == NULL)
            *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    }
    int expected = 1;
    if (strcmp(name, "cuMemFree_v2") == 0 && atomic_compare_exchange_strong(&watch, &expected, 0)) {
        atomic_store(&asking, 1);
        while (!atomic_load(&constructing))
            usleep(1000);
    }
    return real(handle, name);
}

void harm_constructed(void);
void harm_constructed(void)
{
    int version = 0;
    atomic_store(&constructing, 1);
    CHECK(get_version(&version) == 0 && version == 13000, "%d", version);
}

static void *first_call(void *unused)
{
    int version = 0;
    (void)unused;
    CHECK(get_version(&version) == 0 && version == 13000, "%d", version);
    return NULL;
}

static void part_loader(void)
{
    pthread_t thread;
    open_both();
    get_version = OURS(cuDriverGetVersion);
    atomic_store(&watch, 1);
    alarm(240); /* kill this process if it deadlocks */
    CHECK(pthread_create(&thread, NULL, first_call, NULL) == 0, "thread");
    while (!atomic_load(&asking))
        usleep(1000);
    CHECK(dlopen(PLUGIN, RTLD_NOW) != NULL, "%s", dlerror());
    pthread_join(thread, NULL);
    CHECK(atomic_load(&constructing) == 1, "the constructor did not run");
}
#else
static void part_loader(void)
{
    printf("SKIPPED loader: sanitizers have a dlsym() of their own\n");
}
#endif

/* A thread is cancelled before its first driver calls. Both calls must return: the hook must not add a cancellation
 * point. */
static _Atomic int came_back;

static void *call_while_cancelled(void *unused)
{
    int version = 0;
    (void)unused;
    pthread_cancel(pthread_self());
    came_back += OURS(cuInit)(0) == 0;
    came_back += OURS(cuDriverGetVersion)(&version) == 0;
    pthread_testcancel();
    came_back = -1;
    return NULL;
}

static void part_cancel(void)
{
    pthread_t thread;
    void *result = NULL;
    open_both();
    CHECK(pthread_create(&thread, NULL, call_while_cancelled, NULL) == 0, "thread");
    pthread_join(thread, &result);
    CHECK(came_back == 2, "%d", came_back);
    CHECK(result == PTHREAD_CANCELED, "it is cancelled when the calls are over");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"quiet", part_quiet},
                 {"names", part_names},
                 {"guard_zero", part_guard_zero},
                 {"guard_churn", part_guard_churn},
                 {"guard_many", part_guard_many},
                 {"guard_small", part_guard_small},
                 {"guard_unmap", part_guard_unmap},
                 {"guard_contexts", part_guard_contexts},
                 {"guard_third_context", part_guard_third_context},
                 {"green", part_green},
                 {"order", part_order},
                 {"loader", part_loader},
                 {"cancel", part_cancel}};
    const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    int failed = 0;
    snprintf(base_dir, sizeof base_dir, "%s/gpuwhy-harm-test-XXXXXX", tmp);
    if (mkdtemp(base_dir) == NULL)
        return 2;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        int status = -1;
        if (argc > 1 && strcmp(argv[1], parts[i].name) != 0)
            continue;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            parts[i].run();
            printf("%s: %d checks, %d failed\n", parts[i].name, checks, failed_checks);
            fflush(stdout);
            _exit(failed_checks != 0);
        }
        waitpid(child, &status, 0);
        if (status != 0)
            printf("FAILED %s: status %x\n", parts[i].name, status);
        failed += status != 0;
    }
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", base_dir);
    if (system(command) != 0)
        printf("%s was left behind\n", base_dir);
    return failed != 0;
}
