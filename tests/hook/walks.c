/* Allocate memory from call stacks of every kind and print how the C library sees each stack. tests/e2e/walks.py
 * compares them with the recorded stacks.
 *
 *   walks PLUGIN_A PLUGIN_B
 *
 * Prints a line "alloc NAME PID ADDRESS PC..." for each allocation. The PCs are the return addresses above the function
 * that made the call. */
#include "gw_cuda_calls.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

enum { THREADS = 64, ROUNDS = 8, CHILDREN = 200, STORM = 5000, FRAMES_MAX = 80, DEPTH = 12, ALLOC_BYTES = 4096 };

typedef void through_function(void (*)(void *), void *);

static __typeof__(cuMemAlloc_v2) *alloc;
static __typeof__(cuCtxSetCurrent) *set_current;
static CUcontext context;
static _Thread_local volatile unsigned kept; /* changed after a call, so that the compiler cannot make it a tail call */

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "walks: %s\n", what);
    exit(1);
}

static void function_of(void *library, const char *name, void *ret)
{
    void *found = dlsym(library, name);
    if (found == NULL)
        give_up(name);
    memcpy(ret, &found, sizeof found);
}

static NOINLINE void alloc_here(void *name)
{
    char line[FRAMES_MAX * 20 + 200];
    void *pc[FRAMES_MAX];
    CUdeviceptr address = 0;
    int count = backtrace(pc, FRAMES_MAX);
    (void)alloc(&address, ALLOC_BYTES);
    int used =
        snprintf(line, sizeof line, "alloc %s %d %llu", (const char *)name, (int)getpid(), (unsigned long long)address);
    for (int i = 1; i < count; i++)
        used += snprintf(line + used, sizeof line - (size_t)used, " %llu", (unsigned long long)(size_t)pc[i]);
    line[used++] = '\n';
    if (write(1, line, (size_t)used) != used)
        give_up("stdout");
    kept++;
}

static NOINLINE void deep(unsigned depth, void (*end)(void *), void *user)
{
    if (depth == 0) {
        end(user);
    } else if (depth % 3 == 0) {
        deep(depth - 1, end, user);
        kept += 2;
    } else {
        deep(depth - 1, end, user);
    }
    kept++;
}

/* ---- kinds of stacks ---- */

static NOINLINE void two_lines(void)
{
    alloc_here((void *)(size_t) "line");
    alloc_here((void *)(size_t) "line");
    kept++;
}

/* Allocate from a stack of `depth` frames. Bit n of `path` selects which of two lines in the n-th frame makes the next
 * call. */
static NOINLINE void by_path(unsigned depth, unsigned path)
{
    CUdeviceptr address;
    if (depth == 0) {
        (void)alloc(&address, ALLOC_BYTES);
    } else if ((path & 1) != 0) {
        by_path(depth - 1, path >> 1);
        kept += 1;
    } else {
        by_path(depth - 1, path >> 1);
        kept += 2;
    }
    kept++;
}

/* Allocate from more new stacks, in quick succession, than the buffer can hold. */
static void storm(void)
{
    for (unsigned path = 0; path < STORM; path++)
        by_path(40, path);
}

static void on_signal(int number)
{
    (void)number;
    alloc_here((void *)(size_t) "signal");
    kept++;
}

static void raise_here(void *user)
{
    (void)user;
    raise(SIGUSR1);
    kept++;
}

static void in_signals(void)
{
    enum { STACK_BYTES = 256 << 10 };
    stack_t stack = {.ss_sp = malloc(STACK_BYTES), .ss_size = STACK_BYTES};
    if (stack.ss_sp == NULL || sigaltstack(&stack, NULL) != 0)
        give_up("sigaltstack");
    for (int other = 0; other < 2; other++) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = other ? SA_ONSTACK : 0};
        sigaction(SIGUSR1, &action, NULL);
        deep(DEPTH, raise_here, NULL);
    }
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    free(stack.ss_sp);
}

static ucontext_t outside, inside;

static void coroutine(void)
{
    for (int i = 0; i < 2; i++) {
        deep(DEPTH, alloc_here, (void *)(size_t) "coroutine");
        swapcontext(&inside, &outside);
    }
}

/* Run the same coroutine on two stacks. The second one is the lower half of the first, whose upper half is unmapped
 * before the second run. */
static void in_coroutines(void)
{
    static const size_t bytes = 512 << 10;
    char *space = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static size_t used;
    for (used = 2 * bytes; used >= bytes; used /= 2) {
        if (space == MAP_FAILED || getcontext(&inside) != 0)
            give_up("coroutine");
        inside.uc_stack.ss_sp = space;
        inside.uc_stack.ss_size = used;
        inside.uc_link = NULL;
        makecontext(&inside, coroutine, 0);
        swapcontext(&outside, &inside);
        swapcontext(&outside, &inside);
        munmap(space + used / 2, used - used / 2);
    }
    munmap(space, bytes / 2);
}

static void through_plugin(const char *path)
{
    through_function *through;
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL)
        give_up(dlerror());
    function_of(plugin, "plugin_through", &through);
    for (int i = 0; i < 3; i++)
        through(alloc_here, (void *)(size_t)path);
    dlclose(plugin);
}

/* ---- many at once ---- */

static pthread_barrier_t all_there;

static void *in_thread(void *user)
{
    (void)user;
    set_current(context);
    for (unsigned i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&all_there); /* all threads reach the same new stack at the same time */
        deep(DEPTH + i, alloc_here, (void *)(size_t) "thread");
    }
    return NULL;
}

static void in_threads(void)
{
    pthread_t thread[THREADS];
    pthread_barrier_init(&all_there, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, in_thread, NULL) != 0)
            give_up("threads");
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

/* A child cannot use the stacks that its parent recorded. Its allocation fails, because the driver cannot be used after
 * a fork, but failures have call sites, too. */
static void in_children(void)
{
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0) {
            deep(DEPTH, alloc_here, (void *)(size_t) "child");
            _exit(0);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            give_up("a child");
    }
}

int main(int argc, char **argv)
{
    __typeof__(cuInit) *init;
    __typeof__(cuDevicePrimaryCtxRetain) *retain;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (argc != 3 || driver == NULL)
        give_up("usage, or no driver");
    function_of(driver, "cuInit", &init);
    function_of(driver, "cuDevicePrimaryCtxRetain", &retain);
    function_of(driver, "cuCtxSetCurrent", &set_current);
    function_of(driver, "cuMemAlloc_v2", &alloc);
    if (init(0) != CUDA_SUCCESS || retain(&context, 0) != CUDA_SUCCESS || set_current(context) != CUDA_SUCCESS)
        give_up("no card");
    two_lines();
    for (int i = 0; i < 20; i++)
        deep((unsigned)i, alloc_here, (void *)(size_t) "deep");
    in_signals();
    in_coroutines();
    for (int i = 0; i < 4; i++)
        through_plugin(argv[1 + i / 2]);
    in_children();
    in_threads();
    storm();
    return 0;
}
