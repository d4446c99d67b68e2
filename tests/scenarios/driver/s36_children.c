/* S36: a parent does not check how its children ended, and exits 0. One child dies because of the GPU: it uses a bad
 * address, or needs too much memory. The parent forks before any process initialises CUDA, as CUDA requires.
 *
 * - Repaired: no child fails.
 * - --replace: the parent checks, and another child does the work of the failed one.
 * - --handle: the child requests less memory after the failure.
 * - --late: for a while, the parent does not wait for its children. */
#include "scenario.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CHILDREN = 2 };

struct order {
    const char *of; /* why the child fails: address or memory */
    int fails, handles;
};

static void use_memory(const struct order *order)
{
    CUdeviceptr block;
    size_t bytes_free, bytes_total;
    scenario_memory(&bytes_free, &bytes_total);
    size_t bytes = order->fails ? bytes_total + (1 << 20) : bytes_total / 8;
    CUresult result = cuMemAlloc(&block, bytes);
    if (result != CUDA_SUCCESS && order->handles)
        result = cuMemAlloc(&block, bytes_total / 8);
    gpu_check(result, "cuMemAlloc");
    CHECK(cuMemsetD8(block, 0, bytes_total / 8));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree(block));
}

static void use_kernel(const struct order *order)
{
    CUdeviceptr block;
    CUfunction store = gpu_kernel(gpu_load(scenario_ptx), "store");
    CHECK(cuMemAlloc(&block, 1 << 20));
    CHECK(scenario_store(store, block, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(scenario_store(store, order->fails ? 0x1000 : block, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree(block));
}

static int start_child(const struct order *order)
{
    int pid = fork();
    if (pid != 0)
        return pid;
    struct gpu gpu;
    truth(order->fails ? "failing_pid" : "working_pid", "%d", (int)getpid());
    gpu_open(&gpu, 0);
    usleep(300000); /* so that monitors outside have time to see the child */
    if (strcmp(order->of, "memory") == 0)
        use_memory(order);
    else
        use_kernel(order);
    gpu_close(&gpu);
    _exit(0);
}

int main(int argc, char **argv)
{
    const char *of = "address";
    int replace = 0, handle = 0, late = 0, pid[CHILDREN];
    const struct option_row rows[] = {{"of", OPTION_TEXT, &of, "what the child dies of: address or memory"},
                                      {"replace", OPTION_FLAG, &replace, "another child takes its place"},
                                      {"handle", OPTION_FLAG, &handle, "the child makes do with less memory"},
                                      {"late", OPTION_FLAG, &late, "do not wait until all are done"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired = scenario_begin(argc, argv, rows, "Does not look at how its children end.");
    for (int index = 0; index < CHILDREN; index++)
        pid[index] = start_child(&(struct order){of, index == 1 && !repaired, handle});
    if (late)
        sleep(1); /* the children end while the parent does not wait for them */
    for (int index = 0; index < CHILDREN; index++) {
        int status = scenario_wait(pid[index]);
        if (replace && status != 0)
            scenario_wait(start_child(&(struct order){of, 0, 0}));
    }
    printf("all children are done\n");
    return 0;
}
