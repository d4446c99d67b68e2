/* The program under test. It loads the driver by a route, performs an action, and prints every result. Its output must
 * be the same with and without the hook.
 *
 *   probe ROUTE ACTION [driver path]
 *
 * ROUTE: soname, name, absolute, namespace, resolver; link, if built with PROBE_LINKED. ACTION: a name in `actions`. */
#include "gw_cuda_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int resolve_fn(const char *, void **, int, cuuint64_t);

static void *driver; /* NULL: the program is linked to the driver */
static resolve_fn *resolver;

static void *sym(const char *name)
{
    if (resolver != NULL) {
        char base[64];
        void *function = NULL;
        snprintf(base, sizeof base, "%s", name);
        if (strlen(base) > 3 && strcmp(base + strlen(base) - 3, "_v2") == 0)
            base[strlen(base) - 3] = '\0';
        if (resolver(base, &function, 12000, 0) != 0 || function == NULL) {
            printf("resolver lacks %s\n", name);
            exit(3);
        }
        return function;
    }
    void *function = dlsym(driver != NULL ? driver : RTLD_DEFAULT, name);
    if (function == NULL) {
        printf("no %s\n", name);
        exit(3);
    }
    return function;
}

/* The driver's function, and a call of it whose result is printed. */
#define FN(name)        ((__typeof__(name) *)sym(#name))
#define CALL(name, ...) answer(#name, ((__typeof__(name) *)sym(#name))(__VA_ARGS__))

static int answer(const char *name, int result)
{
    int left = errno;
    printf("%s %d errno %d\n", name, result, left);
    fflush(stdout);
    return result;
}

static void begin(void)
{
    CUcontext context = NULL;
    CALL(cuInit, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, 0);
    CALL(cuCtxSetCurrent, context);
}

static CUdeviceptr alloc(size_t bytes)
{
    CUdeviceptr address = 0;
    CALL(cuMemAlloc_v2, &address, bytes);
    return address;
}

static void launch(int times)
{
    __typeof__(cuLaunchKernel) *go = FN(cuLaunchKernel);
    for (int i = 0; i < times; i++)
        answer("cuLaunchKernel", go((void *)0x1234, 1, 2, 3, 4, 5, 6, 7, (void *)2, NULL, NULL));
}

static void basic(void)
{
    CUfunction function;
    CUgraph graph;
    begin();
    CUdeviceptr block = alloc(1 << 20);
    alloc((size_t)4 << 30);
    launch(5);
    for (int i = 0; i < 3; i++)
        CALL(cuStreamQuery, NULL);
    CALL(cuModuleGetFunction, &function, (void *)0x77, "a_kernel_with_a_name_longer_than_one_record_holds");
    CALL(cuModuleGetFunction, &function, (void *)0x77, "missing");
    CALL(cuStreamBeginCapture_v2, (void *)0x55, 0);
    CALL(cuStreamEndCapture, (void *)0x55, &graph);
    CALL(cuMemFree_v2, block);
    CALL(cuMemFree_v2, block);
}

/* Get the functions of two CUkernels repeatedly, as a runtime library does before each launch. After another library is
 * loaded, the same handles may denote other functions. */
static void kernel_functions(void)
{
    begin();
    for (uintptr_t round = 0; round < 6; round++) {
        CUfunction function = (CUfunction)(0x500 + round % 2);
        CUlibrary library = NULL;
        if (round == 4)
            CALL(cuLibraryLoadData, &library, "", NULL, NULL, 0, NULL, NULL, 0);
        CALL(cuKernelGetFunction, &function, (CUkernel)(0x100 + round % 2));
    }
}

static void *thread_main(void *unused)
{
    (void)unused;
    alloc(4096);
    launch(2);
    return NULL;
}

static void threads(void)
{
    begin();
    alloc(4096);
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, thread_main, NULL);
        pthread_join(thread, NULL);
    }
}

static void await(pid_t child)
{
    int status;
    while (waitpid(child, &status, __WALL) < 0 && errno == EINTR)
        ;
    printf("child %d %d\n", WIFEXITED(status), WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    fflush(stdout);
}

static void fork_after(void)
{
    begin();
    alloc(4096);
    pid_t child = fork();
    if (child == 0) {
        alloc(8192);
        alloc(8192);
        _exit(0);
    }
    await(child);
    alloc(4096);
}

/* Make three queries that fail: one before cuInit, one after it, and one as the only call of a child. */
static void reads(void)
{
    CALL(cuDeviceGetAttribute, NULL, 1, 0);
    begin();
    CALL(cuDeviceGetAttribute, NULL, 2, 0);
    pid_t child = fork();
    if (child == 0) {
        CALL(cuDeviceGetAttribute, NULL, 3, 0);
        _exit(0);
    }
    await(child);
}

/* The child makes no driver call. It forks a grandchild, which allocates memory. */
static void fork_nested(void)
{
    begin();
    alloc(4096);
    pid_t child = fork();
    if (child == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) {
            alloc(8192);
            _exit(0);
        }
        await(grandchild);
        _exit(0);
    }
    await(child);
}

static void alloc_silently(size_t bytes)
{
    CUdeviceptr address;
    FN(cuMemAlloc_v2)(&address, bytes);
}

/* fork_here() and fork_there() have different code, so that the compiler cannot merge them. */
static __attribute__((noinline)) pid_t fork_here(volatile int *count)
{
    pid_t child = fork();
    *count += 1;
    return child;
}

static __attribute__((noinline)) pid_t fork_there(volatile int *count)
{
    pid_t child = fork();
    *count += 2;
    return child;
}

/* Run by two threads, which fork at the same time from different places. The size of a child's allocation shows which
 * thread forked the child. */
static void *fork_often(void *who)
{
    enum { FORKS = 5 };
    volatile int count = 0;
    bool first = who == NULL;
    alloc_silently(100);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = first ? fork_here(&count) : fork_there(&count);
        int status;
        if (child == 0) {
            alloc_silently(first ? 1001 : 1002);
            _exit(0);
        }
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    }
    return NULL;
}

static void fork_in_threads(void)
{
    pthread_t thread[2];
    begin();
    for (int i = 0; i < 2; i++)
        if (pthread_create(&thread[i], NULL, fork_often, i == 0 ? NULL : (void *)thread) != 0)
            exit(4);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    printf("done\n");
}

static volatile sig_atomic_t forks_done, bad_children, is_child;

static void fork_now(int sig)
{
    int status = 0;
    (void)sig;
    pid_t child = fork();
    is_child = child == 0;
    if (child > 0) {
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
        bad_children += status != 0;
    }
    forks_done++;
}

/* A signal handler forks, usually during a launch. The child finishes the interrupted call and makes more calls. A
 * repeating timer may leave no time between two signals, so each signal is requested separately. */
static void fork_in_calls(void)
{
    enum { FORKS = 40 };
    __typeof__(cuLaunchKernel) *go = FN(cuLaunchKernel);
    begin();
    signal(SIGALRM, fork_now);
    for (int n = 0; n < FORKS; n++) {
        const struct itimerval soon = {{0, 0}, {0, 200 + 3 * n}};
        setitimer(ITIMER_REAL, &soon, NULL);
        while (forks_done == n)
            bad_children += go((void *)0x1234, 1, 2, 3, 4, 5, 6, 7, (void *)2, NULL, NULL) != 0;
        for (int i = 0; is_child && i < 3; i++)
            bad_children += go((void *)0x1234, 1, 2, 3, 4, 5, 6, 7, (void *)2, NULL, NULL) != 0;
        if (is_child)
            _exit(bad_children != 0);
    }
    printf("%d forks, %d bad\n", (int)forks_done, (int)bad_children);
}

static void fork_before(void)
{
    pid_t child = fork();
    if (child == 0) {
        begin();
        alloc(8192);
        _exit(0);
    }
    await(child);
    begin();
}

static void vfork_child(void)
{
    begin();
    alloc(4096);
    pid_t child = vfork();
    if (child == 0)
        _exit(7); /* a correct child of vfork() makes no driver call */
    await(child);
    child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(9);
    }
    await(child);
    alloc(4096);
}

static void raw_clone(void)
{
    begin();
    alloc(4096);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL); /* a raw clone() runs no fork handlers */
    if (child == 0) {
        alloc(8192);
        _exit(0);
    }
    await(child);
    alloc(4096);
}

static int shared_child(void *unused)
{
    CUdeviceptr address;
    (void)unused;
    FN(cuMemAlloc_v2)(&address, 12345);
    return 5;
}

static void *new_thread_shares(void *unused)
{
    static char stack[256 << 10];
    (void)unused;
    /* This thread has no slot in the buffer yet. The child shares all memory with this thread, including thread-local
     * storage. */
    pid_t child = clone(shared_child, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
    await(child);
    alloc(4096);
    return NULL;
}

static void clone_vm(void)
{
    pthread_t thread;
    begin();
    pthread_create(&thread, NULL, new_thread_shares, NULL);
    pthread_join(thread, NULL);
}

static void close_driver(void)
{
    begin();
    __typeof__(cuMemAlloc_v2) *kept = FN(cuMemAlloc_v2);
    CUdeviceptr address = 0;
    printf("close %d\n", driver != NULL ? dlclose(driver) : 0);
    answer("kept", kept(&address, 4096));
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    printf("again %d\n", driver != NULL);
    alloc(4096);
}

static void stress(void)
{
    begin();
    for (int i = 0; i < 60000; i++) {
        CUdeviceptr address = 0;
        int result = FN(cuMemAlloc_v2)(&address, i % 100 == 99 ? (size_t)4 << 30 : 4096);
        if (result == 0)
            FN(cuMemFree_v2)(address);
    }
    printf("done\n");
}

static void guarded(void)
{
    size_t total = 0, free_bytes = 0;
    begin();
    CALL(cuDeviceTotalMem_v2, &total, 0);
    CALL(cuMemGetInfo_v2, &free_bytes, &total);
    printf("total %zu free %zu\n", total, free_bytes);
    CUdeviceptr block = alloc(100u << 20);
    CALL(cuMemGetInfo_v2, &free_bytes, &total);
    printf("total %zu free %zu\n", total, free_bytes);
    alloc(100u << 20);
    CALL(cuMemFree_v2, block);
    CALL(cuMemGetInfo_v2, &free_bytes, &total);
    printf("total %zu free %zu\n", total, free_bytes);
}

static void show_free(void)
{
    size_t total = 0, free_bytes = 0;
    CALL(cuMemGetInfo_v2, &free_bytes, &total);
    printf("free %zu MiB\n", free_bytes >> 20);
}

/* Allocate and free memory of every kind under a limit, and print the free memory after each step. Memory uses up the
 * limit until the driver frees it. */
static void guarded_kinds(void)
{
    const CUmemAllocationProp prop = {.type = 1, .location = {.type = 1, .id = 0}};
    CUdeviceptr managed = 0, handle = 0, pooled = 0;
    CUcontext second = NULL;
    begin();
    show_free();
    CALL(cuMemAllocManaged, &managed, (size_t)40 << 20, 1);
    show_free();
    CALL(cuMemCreate, &handle, (size_t)40 << 20, &prop, 0);
    show_free();
    CALL(cuMemMap, 0x10000000, (size_t)40 << 20, 0, handle, 0);
    CALL(cuMemRelease, handle);
    show_free(); /* still counted, because the memory is still mapped */
    CALL(cuMemUnmap, 0x10000000, (size_t)40 << 20);
    show_free();
    CALL(cuCtxCreate_v2, &second, 0, 0);
    show_free();
    CALL(cuCtxCreate_v2, &second, 0, 0);
    CALL(cuCtxCreate_v2, &second, 0, 0);
    CALL(cuMemCreate, &pooled, (size_t)400 << 20, &prop, 0);
    CALL(cuMemFree_v2, managed);
    show_free();
}

/* Calls of several kinds, so that a test can let some of them fail. Prints how many calls reached the driver, without
 * those that the hook makes and that need no context. */
static _Atomic int reached;

static void count_reached(const char *name)
{
    static const char *const harmless[] = {"cuCtxGetCurrent", "cuCtxGetDevice", "cuDeviceGetAttribute",
                                           "cuDriverGetVersion", "cuGetErrorString"};
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        if (strcmp(name, harmless[i]) == 0)
            return;
    reached++;
}

typedef void visitor_fn(void (*)(const char *));
typedef void result_fn(const char *, int);

static void gated(void)
{
    begin();
    ((visitor_fn *)sym("fake_set_visitor"))(count_reached);
    CUdeviceptr block = alloc(1 << 20);
    CALL(cuMemFree_v2, block);
    block = alloc(2 << 20);
    launch(2);
    reached = 0;
    for (int i = 0; i < 3; i++) {
        alloc(3 << 20);
        show_free();
        launch(1);
        CALL(cuStreamQuery, NULL);
    }
    CALL(cuMemFree_v2, block);
    int version = 0;
    CALL(cuDeviceGetAttribute, &version, 75, 0);
    printf("reached %d\n", reached);
}

/* The driver's own sticky error, and what follows. */
static void lost(void)
{
    begin();
    CUdeviceptr block = alloc(1 << 20);
    ((result_fn *)sym("fake_set_result"))("cuMemAlloc_v2", 700);
    alloc(2 << 20);
    ((result_fn *)sym("fake_set_result"))("", 0);
    ((visitor_fn *)sym("fake_set_visitor"))(count_reached);
    show_free();
    launch(3);
    alloc(1 << 20);
    CALL(cuMemFree_v2, block);
    printf("reached %d\n", reached);
}

typedef int record_fn(int);

/* Switch recording off and on again, which has no effect without the hook. A function resolved while recording was off
 * is called after recording is on again. */
static void switched(void)
{
    void *hook = dlopen("libgpuwhy-hook.so", RTLD_LAZY | RTLD_NOLOAD);
    record_fn *record = NULL;
    begin();
    if (hook == NULL) /* the first driver call loads the hook */
        hook = dlopen("libgpuwhy-hook.so", RTLD_LAZY | RTLD_NOLOAD);
    if (hook != NULL)
        record = (record_fn *)dlsym(hook, "gpuwhy_record");
    launch(3);
    int off = record != NULL ? record(0) : 1;
    launch(100);
    CUdeviceptr block = alloc(1 << 20);
    CALL(cuMemFree_v2, block);
    CALL(cuMemFree_v2, block);
    void *resolved = NULL;
    answer("cuGetProcAddress", ((resolve_fn *)sym("cuGetProcAddress"))("cuLaunchKernel", &resolved, 12000, 0));
    int on = record != NULL ? record(1) : 1;
    launch(4);
    alloc(1 << 20);
    answer("resolved",
           ((__typeof__(cuLaunchKernel) *)resolved)((void *)0x1234, 1, 2, 3, 4, 5, 6, 7, (void *)2, NULL, NULL));
    printf("switched %d %d\n", off, on);
}

static atomic_bool launched_enough;

static void *launch_on_and_on(void *bad)
{
    __typeof__(cuLaunchKernel) *go = FN(cuLaunchKernel);
    while (!atomic_load(&launched_enough))
        if (go((void *)0x1234, 1, 2, 3, 4, 5, 6, 7, (void *)2, NULL, NULL) != 0)
            atomic_fetch_add((atomic_int *)bad, 1);
    return NULL;
}

/* Switch recording off and on while other threads make calls. */
static void switched_under_load(void)
{
    enum { THREADS = 3, TIMES = 200 };
    pthread_t thread[THREADS];
    atomic_int bad = 0;
    int good = 0;
    begin();
    void *hook = dlopen("libgpuwhy-hook.so", RTLD_LAZY | RTLD_NOLOAD);
    record_fn *record = hook != NULL ? (record_fn *)dlsym(hook, "gpuwhy_record") : NULL;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, launch_on_and_on, &bad) != 0)
            exit(4);
    for (int i = 0; i < TIMES; i++) {
        good += record != NULL ? record(i & 1) : 1;
        usleep(100);
    }
    atomic_store(&launched_enough, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    printf("switched %d times, %d bad\n", good, atomic_load(&bad));
}

static void exit_at_once(void)
{
    begin();
    alloc(4096);
    exit(42); /* exit without freeing anything */
}

enum { MANY = 200 };
static pthread_barrier_t all_there;

static void *one_of_many(void *unused)
{
    (void)unused;
    CUdeviceptr address = 0;
    int result = FN(cuMemAlloc_v2)(&address, 4096);
    pthread_barrier_wait(&all_there);
    return (void *)(uintptr_t)result;
}

static void many_threads(void)
{
    pthread_t thread[MANY];
    int good = 0;
    begin();
    pthread_barrier_init(&all_there, NULL, MANY);
    for (int i = 0; i < MANY; i++)
        if (pthread_create(&thread[i], NULL, one_of_many, NULL) != 0)
            exit(4);
    for (int i = 0; i < MANY; i++) {
        void *result;
        pthread_join(thread[i], &result);
        good += result == NULL;
    }
    printf("%d of %d\n", good, MANY);
}

/* Launch one function from one place, and another function from six places in turn. Then launch the first one again
 * after a module was unloaded, and in a child. */
static void launch_places(void)
{
    CUfunction one = (CUfunction)0x10000, six = (CUfunction)0x20000;
    __typeof__(cuLaunchKernel) *go = FN(cuLaunchKernel);
    int good = 0;
    begin();
    for (int i = 0; i < 100; i++)
        good += go(one, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == 0;
    for (int i = 0; i < 3; i++) {
        good += go(six, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == 0;
        good += go(six, 2, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == 0;
        good += go(six, 3, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == 0;
        good += go(six, 4, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == 0;
        good += go(six, 5, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == 0;
        good += go(six, 6, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == 0;
    }
    answer("unload", FN(cuModuleUnload)((void *)0x77));
    for (int i = 0; i < 100; i++)
        good += go(one, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 100; i++)
            good += go(one, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == 0;
        _exit(good == 318 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    printf("%d launches, child %d\n", good, status);
}

static const struct {
    const char *name;
    void (*run)(void);
} actions[] = {{"launch-places", launch_places},
               {"many", many_threads},
               {"basic", basic},
               {"threads", threads},
               {"fork", fork_after},
               {"reads", reads},
               {"fork-before", fork_before},
               {"fork-nested", fork_nested},
               {"fork-threads", fork_in_threads},
               {"fork-in-calls", fork_in_calls},
               {"vfork", vfork_child},
               {"clone", raw_clone},
               {"clone-vm", clone_vm},
               {"close", close_driver},
               {"stress", stress},
               {"guarded", guarded},
               {"exit", exit_at_once},
               {"guarded-kinds", guarded_kinds},
               {"gated", gated},
               {"lost", lost},
               {"kernels", kernel_functions},
               {"switched", switched},
               {"switched-load", switched_under_load}};

static bool reach(const char *route, const char *path)
{
    if (strcmp(route, "link") == 0)
        return true;
    if (strcmp(route, "soname") == 0 || strcmp(route, "resolver") == 0)
        driver = dlopen("libcuda.so.1", RTLD_NOW);
    else if (strcmp(route, "name") == 0)
        driver = dlopen("libcuda.so", RTLD_NOW);
    else if (strcmp(route, "absolute") == 0)
        driver = dlopen(path, RTLD_NOW);
    else if (strcmp(route, "namespace") == 0)
        driver = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
    if (driver == NULL) {
        printf("no driver: %s\n", dlerror());
        return false;
    }
    if (strcmp(route, "resolver") == 0)
        resolver = (resolve_fn *)dlsym(driver, "cuGetProcAddress");
    return true;
}

#ifdef PROBE_LINKED
__typeof__(cuInit) *keep_the_link = cuInit;
#endif

int main(int argc, char **argv)
{
    if (argc < 3 || !reach(argv[1], argc > 3 ? argv[3] : ""))
        return 2;
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        if (strcmp(actions[i].name, argv[2]) == 0) {
            actions[i].run();
            return 0;
        }
    }
    return 2;
}
