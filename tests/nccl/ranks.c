/* Ranks that train together with NCCL: each step is a kernel, an AllReduce and a wait. At one step, one rank does
 * something else (--script). Repaired, or with "ok": all ranks do the same.
 *
 * Without --rank, the program starts all ranks and waits for them, as torchrun does. With --rank and --key it is one of
 * them: ranks with the same key belong together, so each can be started by a command of its own.
 *
 * It is built three times: linked to NCCL as PyTorch is; with NCCL inside, as some frameworks are; and, with
 * LOADS_NCCL, opening libnccl.so.2 with dlopen(), as JAX and vLLM do. */
#include "gw_nccl_abi.h"
#include "scenario.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef LOADS_NCCL
#include <dlfcn.h>
#define DECLARE_WORK(name, call, parameters, arguments, op, root) static int(*name) parameters;
#define DECLARE(name, parameters)                                 static int(*name) parameters;
#else
#define DECLARE_WORK(name, call, parameters, arguments, op, root) int name parameters;
#define DECLARE(name, parameters)                                 int name parameters;
#endif
#define DECLARE_OTHER(name, call, parameters, ...) DECLARE(name, parameters)
GW_NCCL_WORK(DECLARE_WORK)
GW_NCCL_OTHER_WORK(DECLARE_OTHER)
GW_NCCL_CONTROL(DECLARE)

enum { FLOAT32 = 7, BFLOAT16 = 9, SUM = 0, ELEMENTS = 1 << 16 };

static long long rank_count = 2, rank = -1, steps = 10, at = 5, culprit = 1;
static const char *script = "ok", *key = NULL;

static ncclComm_t world, other;
static CUstream stream, other_stream;
static CUfunction store;
static CUdeviceptr block;

static void nccl_check(int result, const char *call)
{
    if (result != 0)
        scenario_fail("%s: result %d", call, result);
}
#define NCCL(call) nccl_check((call), #call)

static void load_nccl(void)
{
#ifdef LOADS_NCCL
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        scenario_fail("%s", dlerror());
#define LOAD_WORK(name, call, parameters, arguments, op, root) LOAD(name, parameters)
#define LOAD(name, parameters)                                                                                         \
    name = (int(*) parameters)(uintptr_t)dlsym(library, #name);                                                        \
    if (name == NULL || dlerror() != NULL)                                                                             \
        scenario_fail("no function %s", #name);
#define LOAD_OTHER(name, call, parameters, ...) LOAD(name, parameters)
    GW_NCCL_WORK(LOAD_WORK)
    GW_NCCL_OTHER_WORK(LOAD_OTHER)
    GW_NCCL_CONTROL(LOAD)
#endif
}

/* Make an id out of the key, so that ranks find each other without a launcher. */
static ncclUniqueId id_of(const char *text)
{
    ncclUniqueId id = {{0}};
    snprintf(id.internal, sizeof id.internal, "%s", text);
    return id;
}

static int is_script(const char *name)
{
    return strcmp(script, name) == 0;
}

/* ---- what a rank does ---- */

static void reduce(size_t elements, int type)
{
    NCCL(ncclAllReduce((void *)block, (void *)block, elements, type, SUM, world, stream)); /* mark: reduce */
}

static void two_orders(int swapped)
{
    ncclComm_t first = swapped ? other : world, second = swapped ? world : other;
    NCCL(ncclAllReduce((void *)block, (void *)block, ELEMENTS, FLOAT32, SUM, first, stream));
    NCCL(ncclAllReduce((void *)block, (void *)block, ELEMENTS, FLOAT32, SUM, second, stream));
}

/* Send to the next rank and receive from the previous one, in one group. */
static void ring(int forgets)
{
    int next = (int)((rank + 1) % rank_count), previous = (int)((rank + rank_count - 1) % rank_count);
    NCCL(ncclGroupStart());
    if (!forgets)
        NCCL(ncclSend((void *)block, ELEMENTS, FLOAT32, next, world, stream)); /* mark: send */
    NCCL(ncclRecv((void *)block, ELEMENTS, FLOAT32, previous, world, stream)); /* mark: receive */
    NCCL(ncclGroupEnd());
}

/* One call of every function, as a check of what is recorded. */
static void every_call(void)
{
    void *b = (void *)block;
    ncclComm_t half;
    NCCL(ncclReduceScatter(b, b, 100, FLOAT32, SUM, world, stream));
    NCCL(ncclReduce(b, b, 101, FLOAT32, SUM, 1, world, stream));
    NCCL(ncclBroadcast(b, b, 102, BFLOAT16, 0, world, stream));
    NCCL(ncclBcast(b, 103, BFLOAT16, 1, world, stream));
    NCCL(ncclAllGather(b, b, 104, FLOAT32, world, stream));
    NCCL(ncclAlltoAll(b, b, 105, FLOAT32, world, stream));
    NCCL(ncclGather(b, b, 106, FLOAT32, 0, world, stream));
    NCCL(ncclScatter(b, b, 107, FLOAT32, 0, world, stream));
    ring(0);
    if (ncclAllReduce(b, b, 1, 99, SUM, world, stream) == 0)
        scenario_fail("a type that does not exist was accepted");
    if (ncclCommSplit(world, (int)(rank % 2), (int)rank, &half, &half) != GW_NCCL_IN_PROGRESS)
        scenario_fail("the communicator is not a non-blocking one");
    NCCL(ncclAllReduce(b, b, 108, FLOAT32, SUM, half, stream));
    CHECK(cuStreamSynchronize(stream));
    NCCL(ncclCommFinalize(half));
    NCCL(ncclCommDestroy(half));
}

/* The functions of NCCL 2.27 to 2.29. Leave out the last rank, and let it join again: a communicator that has grown. */
static void later_calls(void)
{
    void *b = (void *)block, *window;
    ncclComm_t small = NULL, grown;
    ncclUniqueId id = {{0}};
    int last = (int)rank_count - 1, next = (int)((rank + 1) % rank_count), previous = (int)((rank + last) % rank_count);
    gw_nccl_wait two_signals = {.count = 2, .peer = previous};
    snprintf(id.internal, sizeof id.internal, "grown %s", key);
    NCCL(ncclCommWindowRegister(world, b, 200, &window, 1));
    NCCL(ncclPutSignal(b, 201, FLOAT32, next, window, 0, 0, 0, 0, world, stream));
    NCCL(ncclSignal(next, 0, 0, 0, world, stream));
    NCCL(ncclWaitSignal(1, &two_signals, world, stream));
    if (rank != last) {
        NCCL(ncclCommShrink(world, &last, 1, &small, NULL, 0));
        NCCL(ncclAllReduce(b, b, 202, FLOAT32, SUM, small, stream));
    }
    NCCL(ncclCommGrow(small, (int)rank_count, rank == 0 || rank == last ? &id : NULL, rank == last ? last : -1, &grown,
                      NULL));
    NCCL(ncclAllReduce(b, b, 203, FLOAT32, SUM, grown, stream));
    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(b, b, 204, FLOAT32, SUM, grown, stream));
    NCCL(ncclGroupSimulateEnd(NULL));
    NCCL(ncclAllReduce(b, b, 205, FLOAT32, SUM, grown, stream));
}

/* Capture a step, replay it, and end with a step that is not captured. */
static void captured(void)
{
    CUgraph graph;
    CUgraphExec exec;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    reduce(ELEMENTS, FLOAT32);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    reduce(2 * ELEMENTS, FLOAT32);
}

/* Many communicators, one after the other and at once. */
static void many(void)
{
    enum { AT_ONCE = 10, ROUNDS = 8 };
    for (int round = 0; round < ROUNDS; round++) {
        ncclComm_t comm[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++)
            NCCL(ncclCommSplit(world, 0, (int)rank, &comm[i], NULL));
        for (int i = 0; i < AT_ONCE; i++)
            NCCL(ncclAllReduce((void *)block, (void *)block, (size_t)i + 1, FLOAT32, SUM, comm[i], stream));
        CHECK(cuStreamSynchronize(stream));
        for (int i = 0; i < AT_ONCE; i++)
            NCCL(ncclCommDestroy(comm[i]));
    }
}

/* One process with two ranks: both are made by one call, then by two calls in a group. */
static void make_all(void)
{
    void *b = (void *)block;
    ncclComm_t comm[2];
    const int devices[2] = {0, 0};
    char own_key[80];
    snprintf(own_key, sizeof own_key, "two in one of %s", key);
    for (int way = 0; way < 2; way++) {
        if (way == 0)
            NCCL(ncclCommInitAll(comm, 2, devices));
        NCCL(ncclGroupStart());
        for (int i = 0; way == 1 && i < 2; i++)
            NCCL(ncclCommInitRank(&comm[i], 2, id_of(own_key), i));
        NCCL(ncclGroupEnd());
        NCCL(ncclGroupStart());
        NCCL(ncclAllReduce(b, b, ELEMENTS, FLOAT32, SUM, comm[0], stream));
        NCCL(ncclAllReduce(b, b, ELEMENTS, FLOAT32, SUM, comm[1], other_stream));
        NCCL(ncclGroupEnd());
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuStreamSynchronize(other_stream));
    }
    NCCL(ncclCommAbort(comm[0]));
}

/* One process drives two ranks. Not in a group, it waits for the first one before it calls the second one. */
static void drive_two(int is_repaired)
{
    void *b = (void *)block;
    ncclComm_t comm[2];
    const int devices[2] = {0, 0};
    NCCL(ncclCommInitAll(comm, 2, devices));
    if (is_repaired)
        NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(b, b, ELEMENTS, FLOAT32, SUM, comm[0], stream)); /* mark: first of two */
    if (!is_repaired)
        CHECK(cuStreamSynchronize(stream));
    NCCL(ncclAllReduce(b, b, ELEMENTS, FLOAT32, SUM, comm[1], other_stream));
    if (is_repaired)
        NCCL(ncclGroupEnd());
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamSynchronize(other_stream));
}

/* Fork, and call NCCL in the child, which has no driver any more. */
static void fork_and_call(void)
{
    int status, pid = fork();
    if (pid == 0) {
        NCCL(ncclGroupStart());
        NCCL(ncclGroupEnd());
        if (ncclCommDestroy(NULL) != 0)
            _exit(1);
        _exit(0);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0)
        scenario_fail("the child failed");
    reduce(2 * ELEMENTS, FLOAT32);
}

/* The last rank ends. The others notice it, revoke the communicator and go on with a smaller one. */
static void lose_last(void)
{
    int last = (int)rank_count - 1;
    ncclComm_t small;
    if (rank == last)
        exit(0);
    reduce(ELEMENTS, FLOAT32);
    (void)usleep(100000);
    if (rank == 0)
        NCCL(ncclCommRevoke(world, 0));
    NCCL(ncclCommShrink(world, &last, 1, &small, NULL, rank == 0 ? 0 : GW_NCCL_SHRINK_ABORT));
    CHECK(cuStreamSynchronize(stream));
    world = small;
}

/* What the culprit does at step `at`, before or instead of its AllReduce. Returns 1 if it was instead. */
static int deviate(void)
{
    if (is_script("missing")) /* it goes on without the others */
        return 1;
    if (is_script("sleep") || is_script("shrunk"))
        for (;;)
            pause(); /* mark: sleep */
    if (is_script("exit"))
        _exit(3);
    if (is_script("crash"))
        raise(SIGSEGV);
    if (is_script("kill"))
        raise(SIGKILL);
    if (is_script("fault"))
        CHECK(scenario_store(store, 0x1000, stream));
    if (is_script("stop"))
        raise(SIGSTOP);
    if (is_script("other-op"))
        NCCL(ncclAllGather((void *)block, (void *)block, ELEMENTS, FLOAT32, world, stream)); /* mark: other-op */
    else if (is_script("other-size"))
        reduce(ELEMENTS / 2, FLOAT32);
    else if (is_script("other-type"))
        reduce(ELEMENTS, BFLOAT16);
    else
        return 0;
    return 1;
}

static void step(int deviates)
{
    CHECK(scenario_store(store, block, stream));
    if (is_script("lock"))
        two_orders(deviates);
    else if (is_script("send"))
        ring(deviates);
    else if (!deviates || !deviate())
        reduce(ELEMENTS, FLOAT32);
    CHECK(cuStreamSynchronize(stream)); /* mark: wait */
}

/* ---- start and end ---- */

static void open_all(struct gpu *gpu)
{
    gpu_open(gpu, 0);
    load_nccl();
    store = gpu_kernel(gpu_load(scenario_ptx), "store");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other_stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&block, ELEMENTS * sizeof(float) * 2));
    NCCL(ncclCommInitRank(&world, (int)rank_count, id_of(key), (int)rank)); /* mark: init */
    if (is_script("lock"))
        NCCL(ncclCommSplit(world, 0, (int)rank, &other, NULL));
}

static void be_rank(int deviates)
{
    struct gpu gpu;
    if (getenv("RANK") != NULL) /* the launcher started it: do not stay behind, waiting for ever */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (is_script("late") && deviates && rank == culprit)
        for (;;)
            pause(); /* never joins the communicator */
    open_all(&gpu);
    if (is_script("shrunk"))
        lose_last();
    for (long long i = 0; i < steps; i++)
        step(deviates && rank == culprit && i == at);
    if (is_script("every"))
        every_call();
    if (is_script("later"))
        later_calls();
    if (is_script("captured"))
        captured();
    if (is_script("many"))
        many();
    if (is_script("all"))
        make_all();
    if (is_script("two-in-one"))
        drive_two(!deviates);
    if (is_script("fork"))
        fork_and_call();
    CHECK(cuStreamSynchronize(stream));
    NCCL(ncclCommDestroy(world));
    gpu_close(&gpu);
}

static int start_rank(const char *program, int number, int repaired)
{
    char text[5][24], steps_text[24];
    const long long numbers[] = {number, rank_count, culprit, at};
    for (int i = 0; i < 4; i++)
        snprintf(text[i], sizeof text[i], "%lld", numbers[i]);
    snprintf(steps_text, sizeof steps_text, "%lld", steps);
    setenv("RANK", text[0], 1);
    setenv("LOCAL_RANK", text[0], 1);
    setenv("WORLD_SIZE", text[1], 1);
    const char *arguments[] = {"--script", script,    "--key",   key,         "--rank",
                               text[0],    "--ranks", text[1],   "--culprit", text[2],
                               "--at",     text[3],   "--steps", steps_text,  repaired ? "--repaired" : NULL,
                               NULL};
    return scenario_start(program, arguments);
}

static void launch(const char *program, int repaired)
{
    int pid[64], failed = 0;
    char own_key[64];
    snprintf(own_key, sizeof own_key, "launcher-%d-%lld", getpid(), (long long)time(NULL));
    if (key == NULL)
        key = own_key;
    if (rank_count < 1 || rank_count > 64)
        scenario_fail("--ranks must be from 1 to 64");
    for (int i = 0; i < rank_count; i++) {
        pid[i] = start_rank(program, i, repaired);
        if (i == culprit)
            truth("culprit_pid", "%d", pid[i]);
    }
    for (int i = 0; i < rank_count; i++)
        failed += scenario_wait(pid[i]) != 0;
    if (failed > 0)
        scenario_fail("%d of %lld ranks failed", failed, rank_count);
    printf("%lld ranks are done\n", rank_count);
}

int main(int argc, char **argv)
{
    const struct option_row rows[] = {{"script", OPTION_TEXT, &script,
                                       "what the culprit does: missing, sleep, shrunk, exit, crash, fault, stop, "
                                       "late, other-op, other-size, other-type, lock "
                                       "or send; or what all ranks do at the end: every, later, captured, many "
                                       "or two-in-one"},
                                      {"ranks", OPTION_NUMBER, &rank_count, "number of ranks"},
                                      {"culprit", OPTION_NUMBER, &culprit, "the rank that deviates"},
                                      {"steps", OPTION_NUMBER, &steps, "number of steps"},
                                      {"at", OPTION_NUMBER, &at, "the step at which it deviates, from 0"},
                                      {"rank", OPTION_NUMBER, &rank, "be this rank"},
                                      {"key", OPTION_TEXT, &key, "ranks with the same key belong together"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired = scenario_begin(argc, argv, rows, "Ranks that train together; one of them deviates.");
    if (rank < 0) {
        launch(argv[0], repaired);
        return 0;
    }
    if (key == NULL)
        scenario_fail("--rank needs --key");
    be_rank(!repaired);
    return 0;
}
