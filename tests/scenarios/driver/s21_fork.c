/* S21: the parent initialises CUDA and then calls fork(), and the child tries to use the GPU. Repaired: the parent
 * forks before it initialises CUDA. */
#include "scenario.h"

#include <stdio.h>
#include <unistd.h>

static int child_work(void)
{
    CUresult result = cuInit(0);
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "the child cannot use the GPU: %d\n", (int)result);
        return 1;
    }
    struct gpu gpu;
    CUdeviceptr block;
    gpu_open(&gpu, 0);
    CHECK(cuMemAlloc(&block, 1 << 20));
    CHECK(cuMemFree(block));
    gpu_close(&gpu);
    return 0;
}

static int child_start(void)
{
    int pid = fork();
    if (pid == 0) {
        truth("child_pid", "%d", (int)getpid());
        _exit(child_work());
    }
    return pid;
}

int main(int argc, char **argv)
{
    int pid = -1;
    bool repaired = scenario_begin(argc, argv, NULL, "Uses the GPU in a child made by fork().");
    truth("parent_pid", "%d", (int)getpid());
    struct gpu gpu;
    if (repaired)
        pid = child_start();
    gpu_open(&gpu, 0);
    if (!repaired)
        pid = child_start();
    int status = scenario_wait(pid);
    gpu_close(&gpu);
    if (status != 0)
        scenario_fail("the worker failed");
    printf("the worker is done\n");
    return 0;
}
