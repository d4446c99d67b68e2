/* Reaches NCCL, and uses it, in unusual ways: odd WAY [LIBRARY...]. Each way checks that NCCL does what it does without
 * gpuwhy. NCCL itself is opened with dlopen(), or comes in with plugin.c. */
#define _GNU_SOURCE
#include "gpu.h"
#include "gw_nccl_abi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FLOAT32 = 7, OWN_RESULT = 77, CALLS = 3, REMOTE_ERROR = 6 };

static struct {
    int (*unique)(ncclUniqueId *);
    int (*init)(ncclComm_t *, int, ncclUniqueId, int);
    int (*init_all)(ncclComm_t *, int, const int *);
    int (*reduce)(const void *, void *, size_t, int, int, ncclComm_t, CUstream);
    int (*destroy)(ncclComm_t), (*abort)(ncclComm_t);
} nccl;

#define EXPECT(what)                                                                                                   \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "odd.c:%d: %s: %s\n", __LINE__, #what, dlerror());                                         \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static void find_all(void *library)
{
    *(void **)&nccl.unique = dlsym(library, "ncclGetUniqueId");
    *(void **)&nccl.init = dlsym(library, "ncclCommInitRank");
    *(void **)&nccl.init_all = dlsym(library, "ncclCommInitAll");
    *(void **)&nccl.reduce = dlsym(library, "ncclAllReduce");
    *(void **)&nccl.destroy = dlsym(library, "ncclCommDestroy");
    *(void **)&nccl.abort = dlsym(library, "ncclCommAbort");
    EXPECT(nccl.unique && nccl.init && nccl.init_all && nccl.reduce && nccl.destroy && nccl.abort);
}

static void *open_all(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    EXPECT(library != NULL);
    find_all(library);
    return library;
}

static ncclComm_t make(void)
{
    ncclUniqueId id;
    ncclComm_t comm;
    EXPECT(nccl.unique(&id) == 0 && nccl.init(&comm, 1, id, 0) == 0);
    return comm;
}

static void reduce(ncclComm_t comm)
{
    EXPECT(nccl.reduce(NULL, NULL, 100, FLOAT32, 0, comm, NULL) == 0);
}

static void train(void)
{
    ncclComm_t comm = make();
    for (int i = 0; i < CALLS; i++)
        reduce(comm);
    EXPECT(nccl.destroy(comm) == 0);
}

/* Open a library that uses NCCL, with these flags of dlopen(), and call it. */
static void use_plugin(const char *path, int flags)
{
    void *library = dlopen(path, flags);
    EXPECT(library != NULL);
    int (*plugin_train)(int);
    *(void **)&plugin_train = dlsym(library, "plugin_train");
    EXPECT(plugin_train != NULL && plugin_train(CALLS) == 0);
}

static void use_namespace(char **paths)
{
    void *library = dlmopen(LM_ID_NEWLM, paths[0], RTLD_NOW | RTLD_LOCAL);
    EXPECT(library != NULL && dlsym(library, "ncclAllReduce") != NULL);
}

#ifdef HAS_OWN
/* The program's own function, which is none of NCCL. */
int ncclAllReduce(const void *from, void *to, size_t elements, int type, int op, ncclComm_t comm, CUstream stream)
    __attribute__((visibility("default")));

int ncclAllReduce(const void *from, void *to, size_t elements, int type, int op, ncclComm_t comm, CUstream stream)
{
    (void)from, (void)to, (void)elements, (void)type, (void)op, (void)comm, (void)stream;
    return OWN_RESULT;
}

/* It is found first, so NCCL must not be called, although it is there. */
static void use_own(char **paths)
{
    (void)open_all(paths[0]);
    void *library = dlopen(paths[1], RTLD_LAZY | RTLD_LOCAL);
    EXPECT(library != NULL);
    int (*plugin_reduce)(void);
    *(void **)&plugin_reduce = dlsym(library, "plugin_reduce");
    EXPECT(plugin_reduce() == OWN_RESULT && ncclAllReduce(NULL, NULL, 0, 0, 0, NULL, NULL) == OWN_RESULT);
    EXPECT(dlsym(RTLD_DEFAULT, "ncclAllReduce") == (void *)ncclAllReduce);
}
#endif

static void find_by_pseudo_handle(const char *path, void *handle)
{
    EXPECT(dlopen(path, RTLD_NOW | RTLD_GLOBAL) != NULL);
    find_all(handle);
    train();
}

/* Each round loads other libraries, so the addresses of one are used by another one later. */
static void reload(char **paths)
{
    for (int round = 0; round < 6; round++) {
        void *library = open_all(paths[round % 2]);
        train();
        CHECK(cuCtxSynchronize());
        EXPECT(dlclose(library) == 0);
    }
}

static void *look_up(void *library)
{
    for (;;)
        EXPECT(dlsym(library, "ncclAllReduce") != NULL);
    return NULL;
}

/* A child must be able to load files, whatever other threads did at the time of the fork. */
static void fork_while_looking(char **paths)
{
    void *library = open_all(paths[0]);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, look_up, library) == 0);
    for (int i = 0; i < 200; i++) {
        int status = 0, pid = fork();
        if (pid == 0)
            _exit(dlopen(paths[1], RTLD_LAZY) == NULL || dlsym(library, "ncclBroadcast") == NULL);
        EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    }
}

static ncclComm_t waiting;

static void *wait_for_other(void *unused)
{
    (void)unused;
    EXPECT(nccl.reduce(NULL, NULL, 100, FLOAT32, 0, waiting, NULL) == REMOTE_ERROR);
    return NULL;
}

/* A rank waits in a call, and another thread forks, and then aborts the communicator. */
static void abort_while_waiting(char **paths)
{
    (void)open_all(paths[0]);
    ncclComm_t comm[2];
    pthread_t thread;
    int status;
    EXPECT(nccl.init_all(comm, 2, NULL) == 0);
    waiting = comm[0];
    EXPECT(pthread_create(&thread, NULL, wait_for_other, NULL) == 0);
    (void)usleep(50000);
    int pid = fork();
    if (pid == 0) {
        train();
        _exit(nccl.destroy(comm[1]));
    }
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    EXPECT(nccl.abort(comm[0]) == 0 && pthread_join(thread, NULL) == 0);
    train();
}

static void handler(int number)
{
    (void)number;
    (void)nccl.reduce(NULL, NULL, 1, 99, 0, waiting, NULL); /* refused: the type does not exist */
}

static void call_from_handler(char **paths)
{
    const struct itimerval each = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    (void)open_all(paths[0]);
    waiting = make();
    EXPECT(signal(SIGALRM, handler) != SIG_ERR && setitimer(ITIMER_REAL, &each, NULL) == 0);
    for (int i = 0; i < 20000; i++)
        EXPECT(nccl.reduce(NULL, NULL, 1, 99, 0, waiting, NULL) == GW_NCCL_INVALID_ARGUMENT);
    EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

static void *train_often(void *unused)
{
    (void)unused;
    for (int i = 0; i < 40; i++)
        train();
    return NULL;
}

static void train_in_threads(char **paths)
{
    pthread_t thread[4];
    (void)open_all(paths[0]);
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_create(&thread[i], NULL, train_often, NULL) == 0);
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_join(thread[i], NULL) == 0);
}

/* More communicators at once than the hook has places for. */
static void make_a_crowd(char **paths)
{
    enum { CROWD = 70 };
    ncclComm_t comm[CROWD];
    (void)open_all(paths[0]);
    for (int i = 0; i < CROWD; i++)
        comm[i] = make();
    for (int i = 0; i < 2 * CROWD; i++)
        reduce(comm[i % CROWD]);
}

static void use_wrong_handles(char **paths)
{
    (void)open_all(paths[0]);
    EXPECT(nccl.reduce(NULL, NULL, 100, FLOAT32, 0, NULL, NULL) == GW_NCCL_INVALID_ARGUMENT);
    EXPECT(nccl.destroy(NULL) == 0);
    EXPECT(nccl.init(NULL, 1, (ncclUniqueId){{0}}, 0) == GW_NCCL_INVALID_ARGUMENT);
    train();
}

static void use_local(char **paths)
{
    use_plugin(paths[0], RTLD_LAZY | RTLD_LOCAL);
}

static void use_deepbind(char **paths)
{
    use_plugin(paths[0], RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
}

static void find_by_default(char **paths)
{
    find_by_pseudo_handle(paths[0], RTLD_DEFAULT);
}

static void find_by_next(char **paths)
{
    find_by_pseudo_handle(paths[0], RTLD_NEXT);
}

static const struct {
    const char *name;
    void (*run)(char **paths);
} ways[] = {{"local", use_local},
            {"deepbind", use_deepbind},
            {"namespace", use_namespace},

#ifdef HAS_OWN
            {"own", use_own},
#endif

            {"default", find_by_default},
            {"next", find_by_next},
            {"reload", reload},
            {"fork", fork_while_looking},
            {"abort", abort_while_waiting},
            {"signal", call_from_handler},
            {"threads", train_in_threads},
            {"crowd", make_a_crowd},
            {"wrong", use_wrong_handles}};

int main(int argc, char **argv)
{
    struct gpu gpu;
    EXPECT(argc > 2);
    gpu_open(&gpu, 0);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (strcmp(ways[i].name, argv[1]) == 0)
            ways[i].run(argv + 2);
    CHECK(cuCtxSynchronize());
    gpu_close(&gpu);
    return 0;
}
